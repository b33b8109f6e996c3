//! What goes from a node, and what stays.

use serde_json::json;

use super::setup::{name, on_each, references};
use crate::support::containerd::SANDBOX_IMAGE;
use crate::support::invocation::files_under;
use crate::support::python;

#[test]
fn never_used_goes_first_then_the_least_recently_used() {
    on_each(|setup| {
        for image in ["hot", "warm", "cold"] {
            setup.import(&name(image), 100);
        }
        // Each run sees what is in use; what was used is remembered from run to run.
        for image in ["warm", "hot"] {
            setup.container(&name(image), image);
            let run = setup.json(&["gc", "--high", "100", "--low", "100"]);
            assert_eq!((&run["kept"]["in_use"], &run["removed"]), (&json!(1), &json!([])), "{run}");
            setup.node.ctr(&["containers", "delete", image]);
        }
        let listed = setup.json(&["ls"]);
        python::holds("node-ls", &listed.to_string());
        let last_use = |at: usize| listed["images"][at]["last_use"].as_u64();
        assert_eq!(references(&listed["images"]), [name("cold"), name("hot"), name("warm")]);
        assert!(last_use(0).is_none() && last_use(1) >= last_use(2), "{listed}");
        for expected in ["cold", "warm", "hot"] {
            let most = (setup.used() - 1).to_string();
            let args = ["gc", "--min-age", "0s", "--max-size", &most];
            let run = setup.json(&args);
            assert_eq!(references(&run["removed"]), [name(expected)], "{run}");
            python::holds("node-gc", &run.to_string());
            assert_eq!(run["removed"][0]["why"], "room");
            assert!(run["freed"].as_u64() > Some(100_000) && run["measured"].is_u64(), "{run}");
            assert!(!setup.listed().contains(&name(expected)));
            // At once again: what was measured before the removal does not count.
            assert_eq!(setup.json(&args)["removed"], json!([]), "twice is once");
        }
    });
}

#[test]
fn protected_images_stay_by_reference_digest_host_prefix_and_pattern() {
    on_each(|setup| {
        let digest = setup.import(&name("a/app"), 10);
        setup.import("other.example/a/app:v1", 10);
        let by_digest = format!("registry.example/a/app@{digest}");
        let entries = [
            "registry.example/a/app:v1",
            &by_digest,
            "host:registry.example",
            "prefix:registry.example/a/",
            "regex:^registry\\.example/.*:v[0-9]$",
        ];
        for entry in entries {
            let told = setup.collect(&["--protect", entry, "--dry-run"]);
            assert_eq!(references(&told["removed"]), ["other.example/a/app:v1"], "{entry}: {told}");
            assert_eq!(told["kept"]["protected"], 1, "{entry}: {told}");
        }
        let args = ["match", "--protect", "host:registry.example", "--protect", "gcr.io/none", "--protect", &by_digest];
        let matched = setup.command(&args).arg("--json").run().ok().says("gcr.io/none protects no image on the node");
        assert_eq!(
            matched.json(),
            json!([
                {"entry": "host:registry.example", "images": [name("a/app")]},
                {"entry": "gcr.io/none", "images": []},
                {"entry": by_digest, "images": [name("a/app")]},
            ])
        );
        let settings = setup.file("settings.json", r#"{"cache": {"protect": ["host:other.example"]}}"#);
        let gc = setup.command(&["gc", "--high", "0", "--low", "0", "--min-age", "0s", "--protect", &by_digest]);
        gc.env("UNDERPIN_SETTINGS", settings).run().ok().says("warning");
        assert_eq!(setup.listed(), ["other.example/a/app:v1".to_owned(), name("a/app")]);
        assert_eq!(references(&setup.collect(&["--protect", &by_digest])["removed"]), ["other.example/a/app:v1"]);
        assert_eq!(setup.listed(), [name("a/app")]);
    });
}

#[test]
fn an_image_goes_only_when_all_its_names_may() {
    on_each(|setup| {
        setup.import(&name("app"), 10);
        setup.node.ctr(&["images", "tag", &name("app"), "other.example/app:v2"]);
        setup.wait("both names are listed", || setup.listed().len() == 2);
        let kept = setup.collect(&["--protect", "other.example/app:v2"]);
        assert_eq!((&kept["removed"], &kept["kept"]["protected"]), (&json!([]), &json!(1)), "{kept}");
        assert_eq!(setup.listed().len(), 2);
        let gone = setup.collect(&[]);
        assert_eq!(gone["removed"].as_array().unwrap().len(), 1, "{gone}");
        assert_eq!(setup.listed(), Vec::<String>::new());
        assert_eq!(setup.node.ctr(&["images", "ls", "-q"]), "", "no reference is left behind");
    });
}

#[test]
fn images_in_use_pinned_ones_and_the_sandbox_image_stay() {
    on_each(|setup| {
        for image in [&name("used"), &name("pinned"), &name("free"), SANDBOX_IMAGE] {
            setup.import(image, 10);
        }
        setup.container(&name("used"), "never-started");
        setup.node.ctr(&["images", "label", &name("pinned"), "io.cri-containerd.pinned=pinned"]);
        let listed = setup.json(&["ls"]);
        let kept = |word: &str| -> Vec<String> {
            let images = listed["images"].as_array().unwrap().iter().filter(|image| image[word] == true);
            images.map(|image| image["reference"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(kept("in_use"), [SANDBOX_IMAGE.to_owned(), name("used")], "{listed}");
        assert!(kept("pinned").contains(&name("pinned")), "{listed}");
        let run = setup.collect(&[]);
        assert_eq!(references(&run["removed"]), [name("free")], "{run}");
        assert_eq!(run["kept"], json!({"protected": 0, "in_use": 2, "pinned": 1, "young": 0}));
        assert_eq!(setup.listed(), [SANDBOX_IMAGE.to_owned(), name("pinned"), name("used")]);
        assert_eq!(setup.collect(&[])["removed"], json!([]), "twice is once");
    });
}

#[test]
fn a_dry_run_is_the_real_run_and_changes_nothing() {
    on_each(|setup| {
        for image in ["a", "b", "c"] {
            setup.import(&name(image), 20);
        }
        let before = setup.node.ctr(&["images", "ls"]);
        setup.used();
        let gc = ["gc", "--max-size", "0", "--min-age", "0s", "--protect", "registry.example/b:v1", "--pin"];
        let mut told = setup.json(&[&gc[..], &["--dry-run"]].concat());
        assert_eq!(setup.node.ctr(&["images", "ls"]), before);
        assert!(!setup.cache.exists(), "not even a store");
        let text = setup.run(&["gc", "--max-size", "0", "--min-age", "0s", "--dry-run"]).ok().stdout;
        assert!(text.contains(&format!("would remove  {}", name("a"))) && text.contains("would free about"), "{text}");
        let mut done = setup.json(&gc);
        assert_eq!((told["dry_run"].take(), done["dry_run"].take()), (json!(true), json!(false)));
        assert!(told["measured"].take().is_null() && done["measured"].take().is_u64());
        assert_eq!(told, done);
        assert_eq!(references(&done["removed"]), [name("a"), name("c")]);
        assert_eq!(setup.listed(), [name("b")]);
        let kept: Vec<_> = files_under(&setup.cache).into_iter().filter(|file| !file.ends_with("version")).collect();
        assert!(kept.len() == 1 && kept[0].starts_with(setup.cache.join("nodes/v1")), "{kept:?}");
    });
}

#[test]
fn what_was_just_pulled_is_left_as_the_kubelet_leaves_it() {
    on_each(|setup| {
        setup.import(&name("new"), 10);
        let run = setup.json(&["gc", "--high", "0", "--low", "0"]);
        assert_eq!((&run["removed"], &run["kept"]["young"]), (&json!([]), &json!(1)), "{run}");
        // Nor for its age: nobody knows how it was used before this node was looked at.
        let run = setup.run(&["gc", "--max-age", "5m", "--json"]).ok().says("nothing is taken for its age yet");
        assert_eq!(run.json()["removed"], json!([]));
        assert_eq!(setup.listed(), [name("new")]);
    });
}

#[test]
fn the_size_that_is_set_for_the_store_is_not_the_nodes() {
    on_each(|setup| {
        setup.import(&name("app"), 10);
        let settings = setup.file("settings.json", r#"{"cache": {"max_size": "1"}}"#);
        let gc = setup.command(&["gc", "--max-age", "1h", "--min-age", "0s", "--json"]);
        let run = gc.env("UNDERPIN_SETTINGS", settings).env("UNDERPIN_CACHE_MAX_SIZE", "1").run().ok();
        assert_eq!((&run.json()["wanted"], &run.json()["removed"]), (&json!(0), &json!([])), "{run}");
        assert_eq!(setup.listed(), [name("app")]);
    });
}
