//! `--pin`: what is protected is pinned, as an unmodified kubelet reads it.

use serde_json::json;

use super::setup::{Setup, name, on_each};
use crate::support::containerd::{self, Make};

/// The labels of a reference, as `ctr` shows them.
fn labels(setup: &Setup, reference: &str) -> String {
    let all = setup.node.ctr(&["images", "ls"]);
    let line = all.lines().find(|line| line.split_whitespace().next() == Some(reference));
    line.unwrap_or_else(|| panic!("{reference}: {all}")).split_whitespace().last().unwrap().to_owned()
}

/// Whether a kubelet is told that the image is pinned.
fn is_pinned(setup: &Setup, tag: &str) -> bool {
    let images = containerd::images(&setup.node.socket());
    images.iter().find(|image| image.repo_tags.contains(&tag.to_owned())).unwrap().pinned
}

#[test]
fn protected_images_are_pinned_for_a_kubelet_and_nothing_else_is() {
    on_each(|setup| {
        setup.import(&name("kept"), 10);
        setup.import(&name("other"), 10);
        setup.node.ctr(&["images", "tag", &name("kept"), &name("alias")]);
        setup.wait("the alias is listed", || setup.listed().len() == 3);
        setup.node.ctr(&["images", "label", &name("kept"), "mine=own"]);
        let pin = ["gc", "--pin", "--protect", &name("kept"), "--high", "100", "--low", "100"];
        let told = setup.json(&[&pin[..], &["--dry-run"]].concat());
        assert!(!labels(setup, &name("kept")).contains("pinned"), "a dry run only says so");
        let done = setup.json(&pin);
        assert_eq!(told["pinned"], done["pinned"]);
        let id = containerd::images(&setup.node.socket())
            .into_iter()
            .find(|image| image.repo_tags.contains(&name("kept")))
            .unwrap()
            .id;
        assert_eq!(done["pinned"], json!([name("alias"), name("kept"), id]), "every reference of it");
        for reference in [&name("alias"), &name("kept"), &id] {
            let labels = labels(setup, reference);
            assert!(labels.contains("io.cri-containerd.pinned=pinned"), "{reference}: {labels}");
            assert!(labels.contains("io.cri-containerd.image=managed"), "{reference}: {labels}");
        }
        assert!(labels(setup, &name("kept")).contains("mine=own"), "other labels stay");
        assert!(!labels(setup, &name("other")).contains("pinned"));
        assert_eq!(setup.json(&pin)["pinned"], json!([]), "twice is once");
        // containerd 1.6.20 knows the label only as a label; newer ones tell the kubelet.
        if setup.make == Make::Newer {
            setup.wait("a kubelet is told", || is_pinned(setup, &name("kept")));
            assert!(!is_pinned(setup, &name("other")));
        }
        // Without the list it stays all the same.
        let run = setup.collect(&[]);
        assert_eq!(run["kept"], json!({"protected": 0, "in_use": 0, "pinned": 1, "young": 0}), "{run}");
        assert_eq!(setup.listed(), [name("alias"), name("kept")]);
        // As the manual says it is undone.
        for reference in [&name("alias"), &name("kept"), &id] {
            setup.node.ctr(&["images", "label", reference, "io.cri-containerd.pinned="]);
        }
        setup.wait("the pin is gone", || !is_pinned(setup, &name("kept")));
        setup.collect(&[]);
        assert_eq!(setup.listed(), Vec::<String>::new());
    });
}
