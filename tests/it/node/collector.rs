//! What goes from a node, and what stays.

use std::os::unix::net::UnixListener;

use serde_json::json;

use super::{Setup, name, on_each, references};
use crate::support::containerd::{self, Make, Node, SANDBOX_IMAGE};
use crate::support::invocation::{Sandbox, files_under};
use crate::support::python;
use crate::support::skip::or_skip;

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
        // containerd 2 pins the image of sandboxes itself.
        let sandbox = if setup.make == Make::Latest { "pinned" } else { "in_use" };
        assert!(kept(sandbox).contains(&SANDBOX_IMAGE.to_owned()), "{listed}");
        assert!(kept("in_use").contains(&name("used")), "{listed}");
        assert!(kept("pinned").contains(&name("pinned")), "{listed}");
        let run = setup.collect(&[]);
        assert_eq!(references(&run["removed"]), [name("free")], "{run}");
        let (in_use, pinned) = if setup.make == Make::Latest { (1, 2) } else { (2, 1) };
        assert_eq!(run["kept"], json!({"protected": 0, "in_use": in_use, "pinned": pinned, "young": 0}));
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
        let run = setup.run(&["gc", "--max-age", "5m", "--json"]).ok().says("nothing is removed for its age yet");
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

// `--pin`: what is protected is pinned, as an unmodified kubelet reads it.

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
        let require = [&pin[..], &["--require"]].concat();
        if setup.make == Make::Installed {
            let warned = setup.command(&pin).run().ok();
            assert!(warned.stderr.contains("containerd 1.6."), "the version is named\n{warned}");
            warned.says("does not tell the kubelet what is pinned");
            let refused = setup.command(&require).run().refused().says("refused: containerd 1.6.");
            assert_eq!(refused.stdout, "", "nothing was done");
        } else {
            let quiet = setup.command(&require).run().ok();
            assert!(!quiet.stderr.contains("does not tell"), "{quiet}");
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

// Whatever is in doubt stops it before the first removal.

#[test]
fn a_list_or_a_record_that_cannot_be_read_stops_it() {
    on_each(|setup| {
        setup.import(&name("app"), 10);
        let gc = ["gc", "--high", "0", "--low", "0", "--min-age", "0s"];
        setup.run(&[&gc[..], &["--protect-file", "/no/such/list"]].concat()).fails("input");
        setup.run(&[&gc[..], &["--protect", "regex:("]].concat()).fails("input");
        assert!(!setup.cache.exists());
        setup.run(&["gc", "--high", "100", "--low", "100"]).ok();
        let record = files_under(&setup.cache.join("nodes")).remove(0);
        let sound = std::fs::read(&record).unwrap();
        std::fs::write(&record, &sound[1..]).unwrap();
        setup.run(&gc).fails("integrity").says("cache verify");
        setup.run(&["ls"]).fails("integrity");
        assert_eq!(setup.listed(), [name("app")]);
        let verify = setup.sandbox.underpin(["cache", "verify", "--cache"]).arg(&setup.cache).run().refused();
        assert!(verify.stdout.contains(record.to_str().unwrap()) && !record.exists(), "{verify}");
        std::fs::create_dir(setup.cache.join("nodes/v2")).unwrap();
        setup.run(&gc).fails("input").says("another version");
        assert_eq!(setup.listed(), [name("app")]);
        std::fs::remove_dir(setup.cache.join("nodes/v2")).unwrap();
        setup.run(&gc).ok();
        assert_eq!(setup.listed(), Vec::<String>::new());
    });
}

#[test]
fn an_endpoint_without_a_runtime_is_named() {
    let sandbox = Sandbox::new();
    let gc = |endpoint: &str| sandbox.underpin(["cache", "gc", "--cri", endpoint]).run();
    let at = |file: &str| sandbox.path(file).display().to_string();
    gc(&at("none")).fails("network").says(&format!("unix://{}", at("none"))).says("name the socket");
    std::fs::write(at("file"), "").unwrap();
    gc(&at("file")).fails("network").says(&at("file")).says("no socket");
    // Somebody listens, and speaks something else.
    let listener = UnixListener::bind(at("other")).unwrap();
    let other = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut socket, b"220 mail.example ESMTP\r\n").unwrap();
    });
    gc(&at("other")).fails("network").says(&at("other"));
    other.join().unwrap();
    for endpoint in ["tcp://127.0.0.1:1", "run/containerd.sock", "unix://run/x", ""] {
        let run = gc(endpoint);
        assert_eq!(run.code(), Some(2), "{run}");
        run.says("unix:///");
    }
    for args in [&["gc", "--pin"][..], &["verify", "--cri", "/x"]] {
        assert_eq!(sandbox.underpin(["cache"]).args(args).run().code(), Some(2), "{args:?}");
    }
    let homeless = sandbox.underpin(["cache", "gc", "--cri", "/x"]).env("HOME", "").env("XDG_CACHE_HOME", "");
    homeless.run().fails("usage").says("--cache DIR");
    assert!(!sandbox.path("xdg-cache").exists(), "nothing was written");
}

#[test]
fn containerd_without_cri_is_named() {
    let node = or_skip!(Node::start());
    let sandbox = Sandbox::new();
    let endpoint = format!("unix://{}", node.socket().display());
    let run = sandbox.underpin(["cache", "ls", "--cri", &endpoint]).run().fails("network");
    run.says(&endpoint).says("no container runtime interface").says("plugin `cri`");
}
