//! `--pin`: what is protected is pinned, as a stock kubelet reads it.

use serde_json::json;

use super::stage::{Stage, name, on_each};
use crate::support::cri;
use crate::support::node::Make;

/// The labels of a reference, as `ctr` shows them.
fn labels(stage: &Stage, reference: &str) -> String {
    let all = stage.node.ctr(&["images", "ls"]);
    let line = all.lines().find(|line| line.split_whitespace().next() == Some(reference));
    line.unwrap_or_else(|| panic!("{reference}: {all}")).split_whitespace().last().unwrap().to_owned()
}

/// Whether a kubelet is told that the image is pinned.
fn is_pinned(stage: &Stage, tag: &str) -> bool {
    let images = cri::images(&stage.node.socket());
    images.iter().find(|image| image.repo_tags.contains(&tag.to_owned())).unwrap().pinned
}

#[test]
fn protected_images_are_pinned_for_a_kubelet_and_nothing_else_is() {
    on_each(|stage| {
        stage.import(&name("kept"), 10);
        stage.import(&name("other"), 10);
        stage.node.ctr(&["images", "tag", &name("kept"), &name("alias")]);
        stage.wait("the alias is listed", || stage.listed().len() == 3);
        stage.node.ctr(&["images", "label", &name("kept"), "mine=own"]);
        let pin = ["gc", "--pin", "--protect", &name("kept"), "--high", "100", "--low", "100"];
        let told = stage.json(&[&pin[..], &["--dry-run"]].concat());
        assert!(!labels(stage, &name("kept")).contains("pinned"), "a dry run only says so");
        let done = stage.json(&pin);
        assert_eq!(told["pinned"], done["pinned"]);
        let id = cri::images(&stage.node.socket())
            .into_iter()
            .find(|image| image.repo_tags.contains(&name("kept")))
            .unwrap()
            .id;
        assert_eq!(done["pinned"], json!([name("alias"), name("kept"), id]), "every reference of it");
        for reference in [&name("alias"), &name("kept"), &id] {
            let labels = labels(stage, reference);
            assert!(labels.contains("io.cri-containerd.pinned=pinned"), "{reference}: {labels}");
            assert!(labels.contains("io.cri-containerd.image=managed"), "{reference}: {labels}");
        }
        assert!(labels(stage, &name("kept")).contains("mine=own"), "other labels stay");
        assert!(!labels(stage, &name("other")).contains("pinned"));
        assert_eq!(stage.json(&pin)["pinned"], json!([]), "twice is once");
        // containerd 1.6.20 knows the label only as a label; newer ones tell the kubelet.
        if stage.make == Make::Newer {
            stage.wait("a kubelet is told", || is_pinned(stage, &name("kept")));
            assert!(!is_pinned(stage, &name("other")));
        }
        // Without the list it stays all the same.
        let run = stage.collect(&[]);
        assert_eq!(run["kept"], json!({"protected": 0, "in_use": 0, "pinned": 1, "young": 0}), "{run}");
        assert_eq!(stage.listed(), [name("alias"), name("kept")]);
        // As the manual says it is undone.
        for reference in [&name("alias"), &name("kept"), &id] {
            stage.node.ctr(&["images", "label", reference, "io.cri-containerd.pinned="]);
        }
        stage.wait("the pin is gone", || !is_pinned(stage, &name("kept")));
        stage.collect(&[]);
        assert_eq!(stage.listed(), Vec::<String>::new());
    });
}
