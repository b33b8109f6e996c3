//! What goes from a node, and what stays.

use serde_json::json;

use super::stage::{name, on_each, references};
use crate::support::cli::files_under;
use crate::support::node::SANDBOX_IMAGE;
use crate::support::schema;

#[test]
fn never_used_goes_first_then_the_least_recently_used() {
    on_each(|stage| {
        for image in ["hot", "warm", "cold"] {
            stage.import(&name(image), 100);
        }
        // Each run sees what is in use; what was used is remembered from run to run.
        for image in ["warm", "hot"] {
            stage.container(&name(image), image);
            let run = stage.json(&["gc", "--high", "100", "--low", "100"]);
            assert_eq!((&run["kept"]["in_use"], &run["removed"]), (&json!(1), &json!([])), "{run}");
            stage.node.ctr(&["containers", "delete", image]);
        }
        let listed = stage.json(&["ls"]);
        schema::holds("node-ls", &listed.to_string());
        let last_use = |at: usize| listed["images"][at]["last_use"].as_u64();
        assert_eq!(references(&listed["images"]), [name("cold"), name("hot"), name("warm")]);
        assert!(last_use(0).is_none() && last_use(1) >= last_use(2), "{listed}");
        for expected in ["cold", "warm", "hot"] {
            let most = (stage.used() - 1).to_string();
            let args = ["gc", "--min-age", "0s", "--max-size", &most];
            let run = stage.json(&args);
            assert_eq!(references(&run["removed"]), [name(expected)], "{run}");
            schema::holds("node-gc", &run.to_string());
            assert_eq!(run["removed"][0]["why"], "room");
            assert!(run["freed"].as_u64() > Some(100_000) && run["measured"].is_u64(), "{run}");
            assert!(!stage.listed().contains(&name(expected)));
            // At once again: what was measured before the removal does not count.
            assert_eq!(stage.json(&args)["removed"], json!([]), "twice is once");
        }
    });
}

#[test]
fn protected_images_stay_by_reference_digest_host_prefix_and_pattern() {
    on_each(|stage| {
        let digest = stage.import(&name("a/app"), 10);
        stage.import("other.example/a/app:v1", 10);
        let by_digest = format!("registry.example/a/app@{digest}");
        let entries = [
            "registry.example/a/app:v1",
            &by_digest,
            "host:registry.example",
            "prefix:registry.example/a/",
            "regex:^registry\\.example/.*:v[0-9]$",
        ];
        for entry in entries {
            let told = stage.collect(&["--protect", entry, "--dry-run"]);
            assert_eq!(references(&told["removed"]), ["other.example/a/app:v1"], "{entry}: {told}");
            assert_eq!(told["kept"]["protected"], 1, "{entry}: {told}");
        }
        let args = ["match", "--protect", "host:registry.example", "--protect", "gcr.io/none", "--protect", &by_digest];
        let matched = stage.command(&args).arg("--json").run().ok().says("gcr.io/none protects no image on the node");
        assert_eq!(
            matched.json(),
            json!([
                {"entry": "host:registry.example", "images": [name("a/app")]},
                {"entry": "gcr.io/none", "images": []},
                {"entry": by_digest, "images": [name("a/app")]},
            ])
        );
        let settings = stage.file("settings.json", r#"{"cache": {"protect": ["host:other.example"]}}"#);
        let gc = stage.command(&["gc", "--high", "0", "--low", "0", "--min-age", "0s", "--protect", &by_digest]);
        gc.env("UNDERPIN_SETTINGS", settings).run().ok().says("warning");
        assert_eq!(stage.listed(), ["other.example/a/app:v1".to_owned(), name("a/app")]);
        assert_eq!(references(&stage.collect(&["--protect", &by_digest])["removed"]), ["other.example/a/app:v1"]);
        assert_eq!(stage.listed(), [name("a/app")]);
    });
}

#[test]
fn an_image_goes_only_when_all_its_names_may() {
    on_each(|stage| {
        stage.import(&name("app"), 10);
        stage.node.ctr(&["images", "tag", &name("app"), "other.example/app:v2"]);
        stage.wait("both names are listed", || stage.listed().len() == 2);
        let kept = stage.collect(&["--protect", "other.example/app:v2"]);
        assert_eq!((&kept["removed"], &kept["kept"]["protected"]), (&json!([]), &json!(1)), "{kept}");
        assert_eq!(stage.listed().len(), 2);
        let gone = stage.collect(&[]);
        assert_eq!(gone["removed"].as_array().unwrap().len(), 1, "{gone}");
        assert_eq!(stage.listed(), Vec::<String>::new());
        assert_eq!(stage.node.ctr(&["images", "ls", "-q"]), "", "no reference is left behind");
    });
}

#[test]
fn images_in_use_pinned_ones_and_the_sandbox_image_stay() {
    on_each(|stage| {
        for image in [&name("used"), &name("pinned"), &name("free"), SANDBOX_IMAGE] {
            stage.import(image, 10);
        }
        stage.container(&name("used"), "never-started");
        stage.node.ctr(&["images", "label", &name("pinned"), "io.cri-containerd.pinned=pinned"]);
        let listed = stage.json(&["ls"]);
        let kept = |word: &str| -> Vec<String> {
            let images = listed["images"].as_array().unwrap().iter().filter(|image| image[word] == true);
            images.map(|image| image["reference"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(kept("in_use"), [SANDBOX_IMAGE.to_owned(), name("used")], "{listed}");
        assert!(kept("pinned").contains(&name("pinned")), "{listed}");
        let run = stage.collect(&[]);
        assert_eq!(references(&run["removed"]), [name("free")], "{run}");
        assert_eq!(run["kept"], json!({"protected": 0, "in_use": 2, "pinned": 1, "young": 0}));
        assert_eq!(stage.listed(), [SANDBOX_IMAGE.to_owned(), name("pinned"), name("used")]);
        assert_eq!(stage.collect(&[])["removed"], json!([]), "twice is once");
    });
}

#[test]
fn a_dry_run_is_the_real_run_and_changes_nothing() {
    on_each(|stage| {
        for image in ["a", "b", "c"] {
            stage.import(&name(image), 20);
        }
        let before = stage.node.ctr(&["images", "ls"]);
        stage.used();
        let gc = ["gc", "--max-size", "0", "--min-age", "0s", "--protect", "registry.example/b:v1", "--pin"];
        let mut told = stage.json(&[&gc[..], &["--dry-run"]].concat());
        assert_eq!(stage.node.ctr(&["images", "ls"]), before);
        assert!(!stage.cache.exists(), "not even a store");
        let text = stage.run(&["gc", "--max-size", "0", "--min-age", "0s", "--dry-run"]).ok().stdout;
        assert!(text.contains(&format!("would remove  {}", name("a"))) && text.contains("would free about"), "{text}");
        let mut done = stage.json(&gc);
        assert_eq!((told["dry_run"].take(), done["dry_run"].take()), (json!(true), json!(false)));
        assert!(told["measured"].take().is_null() && done["measured"].take().is_u64());
        assert_eq!(told, done);
        assert_eq!(references(&done["removed"]), [name("a"), name("c")]);
        assert_eq!(stage.listed(), [name("b")]);
        let kept: Vec<_> = files_under(&stage.cache).into_iter().filter(|file| !file.ends_with("version")).collect();
        assert!(kept.len() == 1 && kept[0].starts_with(stage.cache.join("nodes/v1")), "{kept:?}");
    });
}

#[test]
fn what_was_just_pulled_is_left_as_the_kubelet_leaves_it() {
    on_each(|stage| {
        stage.import(&name("new"), 10);
        let run = stage.json(&["gc", "--high", "0", "--low", "0"]);
        assert_eq!((&run["removed"], &run["kept"]["young"]), (&json!([]), &json!(1)), "{run}");
        // Nor for its age: nobody knows how it was used before this node was looked at.
        let run = stage.run(&["gc", "--max-age", "5m", "--json"]).ok().says("nothing is taken for its age yet");
        assert_eq!(run.json()["removed"], json!([]));
        assert_eq!(stage.listed(), [name("new")]);
    });
}

#[test]
fn the_size_that_is_set_for_the_store_is_not_the_nodes() {
    on_each(|stage| {
        stage.import(&name("app"), 10);
        let settings = stage.file("settings.json", r#"{"cache": {"max_size": "1"}}"#);
        let gc = stage.command(&["gc", "--max-age", "1h", "--min-age", "0s", "--json"]);
        let run = gc.env("UNDERPIN_SETTINGS", settings).env("UNDERPIN_CACHE_MAX_SIZE", "1").run().ok();
        assert_eq!((&run.json()["wanted"], &run.json()["removed"]), (&json!(0), &json!([])), "{run}");
        assert_eq!(stage.listed(), [name("app")]);
    });
}
