//! `cache ls` and `cache gc` through the binary.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::{Setup, references};
use crate::support::recipe::Dialect;
use crate::support::skip::or_skip;
use crate::support::{fixtures, published, python};

#[test]
fn ls_says_what_is_shared_what_is_own_and_what_is_protected() {
    let setup = or_skip!(Setup::new(50_000));
    let (app, old) = (setup.name("in/app:v1"), setup.name("base/old:v1"));
    let listing =
        setup.json(&["ls", "--protect", &old, "--protect", &format!("host:{}", old.split_once('/').unwrap().0)]);
    assert_eq!(listing["schema"], "underpin.cache-ls/v1");
    assert_eq!(listing["images"].as_array().unwrap().len(), 3);
    let find = |name: &str| {
        let images = listing["images"].as_array().unwrap();
        images.iter().find(|image| image["reference"] == name).unwrap_or_else(|| panic!("{name}: {listing}")).clone()
    };
    let (of_app, of_old) = (find(&app), find(&old));
    assert_eq!(of_app["digest"], setup.registries.app.digest());
    assert!(of_app["own"].as_u64() > Some(50_000), "{of_app}");
    // The application stands on the old base: both hold its layers.
    assert_eq!(of_app["shared"], of_old["shared"]);
    assert!(of_old["shared"].as_u64() > Some(0), "{of_old}");
    assert_eq!(of_app["protected_by"].as_array().unwrap().len(), 1, "by host");
    assert_eq!(of_old["protected_by"].as_array().unwrap().len(), 2);
    assert!(of_app["last_use"].as_u64() >= of_app["first_seen"].as_u64());
    let text = setup.run(&["ls", "--protect", &old]).ok().stdout;
    assert!(text.contains("own") && text.contains("shared") && text.contains(&format!("by {old}")), "{text}");
}

#[test]
fn what_is_printed_is_as_the_schema_says() {
    let setup = or_skip!(Setup::new(1000));
    let app = setup.name("in/app:v1");
    for (definition, args) in [
        ("cache-ls", &["ls", "--protect", &app][..]),
        ("cache-match", &["match", "--protect", &app]),
        ("cache-gc", &["gc", "--max-size", "0", "--dry-run"]),
        ("cache-verify", &["verify"]),
    ] {
        python::holds(definition, &setup.command(args).arg("--json").run().ok().stdout);
    }
}

#[test]
fn the_least_recently_used_goes_first_and_the_dry_run_says_so() {
    let setup = or_skip!(Setup::new(50_000));
    setup.fetch("in/app:v1");
    let total = setup.json(&["ls"])["total"].as_u64().unwrap();
    let args = ["gc", "--max-size", &(total - 1).to_string()];
    let before = setup.files();
    let mut dry = setup.json(&[&args[..], &["--dry-run"]].concat());
    assert_eq!(setup.files(), before, "a dry run changes nothing");
    let real = setup.json(&args);
    assert_eq!((dry["dry_run"].take(), &real["dry_run"]), (true.into(), &false.into()));
    dry["dry_run"] = false.into();
    assert_eq!(dry, real);
    assert_eq!(references(&real["removed"]), [setup.name("base/old:v1")]);
    let after = setup.json(&["ls"])["total"].as_u64().unwrap();
    assert_eq!(real["freed"].as_u64(), Some(total - after), "freed is what is really freed");
    // Its layers belong to the application too, and stay.
    assert!(setup.has("in/app:v1") && setup.has("base/new:v1") && !setup.has("base/old:v1"));
    let again = setup.json(&args);
    assert_eq!((references(&again["removed"]), again["freed"].as_u64()), (Vec::new(), Some(0)), "twice is once");
}

#[test]
fn what_is_protected_stays_whatever_it_shares() {
    let setup = or_skip!(Setup::new(10_000));
    let digest =
        format!("{}@{}", setup.name("base/old").trim_end_matches(":latest"), setup.registries.old_base.digest());
    let host = setup.name("").trim_end_matches('/').to_owned();
    for entry in
        [setup.name("base/old:v1"), digest, format!("prefix:{host}/base/o"), "regex:/base/old:v[0-9]$".to_owned()]
    {
        setup.fetch("in/app:v1");
        setup.fetch("base/old:v1");
        let gone = setup.json(&["gc", "--max-size", "0", "--protect", &entry]);
        assert!(references(&gone["removed"]).contains(&setup.name("in/app:v1")), "{entry}: {gone}");
        assert!(setup.has("base/old:v1") && !setup.has("in/app:v1"), "{entry}");
        assert_eq!(published::lies_in_cache(&setup.cache), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_tag_that_moved_and_platforms_that_were_not_pulled() {
    let setup = or_skip!(Setup::new(1000));
    let host = setup.registries.source.registry.host();
    let three = fixtures::on_three(Dialect::Oci, |platform| fixtures::app(platform, 500));
    three.push(host, "in/three", "v1");
    let name = setup.name("in/three:v1");
    let one = ["inspect", &name, "--platform", "linux/arm64", "-q", "--cache"];
    setup.registries.sandbox.underpin(one).arg(&setup.cache).run().ok();
    // The tag moves in the registry, and nobody looks.
    fixtures::on_three(Dialect::Oci, |platform| fixtures::app(platform, 600)).push(host, "in/three", "v1");
    setup.json(&["gc", "--max-size", "0", "--protect", &name]);
    setup.registries.sandbox.underpin(one).arg(&setup.cache).arg("--offline").run().ok();
    // It is seen: now the tag protects the new image, and its digest the old one.
    setup.registries.sandbox.underpin(one).arg(&setup.cache).run().ok();
    let images = references(&setup.json(&["ls"])["images"]);
    let by_digest = format!("{}@{}", name.trim_end_matches(":v1"), three.digest());
    assert_eq!(images, [name.clone(), by_digest.clone()]);
    let matched = setup.json(&["match", "--protect", &name, "--protect", &by_digest]);
    assert_eq!(matched[0]["images"], serde_json::json!([name]));
    assert_eq!(matched[1]["images"], serde_json::json!([by_digest]));
}

#[test]
fn less_room_than_is_protected_is_a_warning_with_the_shortfall() {
    let setup = or_skip!(Setup::new(20_000));
    let run = setup.command(&["gc", "--max-size", "10", "--protect", "regex:."]).arg("--json").run().ok();
    let run = run.says("warning").says("protected");
    let said = run.json();
    assert!(said["shortfall"].as_u64() > Some(20_000) && said["freed"] == 0, "{run}");
    assert!(setup.has("in/app:v1"));
    // What may go goes, all the same.
    let run = setup.run(&["gc", "--max-size", "10", "--protect", &setup.name("base/new:v1")]).ok().says("warning");
    assert!(run.stdout.contains("removed") && !setup.has("in/app:v1") && setup.has("base/new:v1"), "{run}");
}

#[test]
fn ages_and_thresholds_are_kept_and_nonsense_is_refused() {
    let setup = or_skip!(Setup::new(1000));
    let before = setup.files();
    for args in [
        &["gc", "--max-size", "0", "--min-age", "1h"][..],
        &["gc", "--max-age", "1h"],
        &["gc", "--high", "100", "--low", "100"],
    ] {
        setup.run(args).ok();
        assert_eq!(setup.files(), before, "{args:?}");
    }
    for args in [
        &["gc", "--high", "80", "--low", "85"][..],
        &["gc", "--high", "80"],
        &["gc", "--high", "101", "--low", "5"],
        &["gc", "--max-size", "x"],
        &["gc", "--min-age", "5"],
        &["gc", "--max-age", "1m", "--min-age", "2m"],
        &["gc", "--max-size", "5", "--high", "9", "--low", "8"],
    ] {
        assert_eq!(setup.run(args).code(), Some(2), "{args:?}");
        assert_eq!(setup.files(), before, "{args:?}");
    }
    // The disk is always fuller than nothing.
    setup.run(&["gc", "--high", "0", "--low", "0"]).ok();
    assert!(!setup.has("in/app:v1"));
    setup.fetch("in/app:v1");
    std::thread::sleep(Duration::from_millis(1100));
    setup.run(&["gc", "--max-age", "1s"]).ok();
    assert!(!setup.has("in/app:v1"));
}

#[test]
fn a_run_that_stands_still_is_waited_for_and_not_broken() {
    let setup = or_skip!(Setup::new(1000));
    let before = setup.files();
    let mut holder = std::process::Command::new("flock")
        .args(["--no-fork", "--shared"])
        .arg(&setup.cache)
        .args(["sleep", "60"])
        .spawn()
        .unwrap();
    let held = || {
        let probe = std::process::Command::new("flock")
            .args(["--nonblock", "--no-fork"])
            .arg(&setup.cache)
            .arg("true")
            .status();
        !probe.unwrap().success()
    };
    while !held() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let run = setup.run(&["gc", "--max-size", "0", "--lock-timeout", "3s"]).fails("lock").says("waiting");
    assert!(run.elapsed >= Duration::from_secs(3), "{run}");
    assert_eq!(setup.files(), before);
    // Who only looks does not wait.
    setup.run(&["gc", "--max-size", "0", "--dry-run"]).ok();
    setup.run(&["ls"]).ok();
    // The lock of a dead process is free at once.
    holder.kill().unwrap();
    holder.wait().unwrap();
    setup.run(&["gc", "--max-size", "0", "--lock-timeout", "0s"]).ok();
    assert!(!setup.has("in/app:v1"));
}

#[test]
fn records_of_a_newer_underpin_are_left_alone() {
    let setup = or_skip!(Setup::new(1000));
    std::fs::create_dir(setup.cache.join("images/v2")).unwrap();
    std::fs::write(setup.cache.join("images/v2/x"), "of the future").unwrap();
    let before = setup.files();
    setup.run(&["gc", "--max-size", "0"]).fails("input").says("another version");
    assert_eq!(setup.files(), before);
    setup.fetch("in/app:v1");
    setup.run(&["ls"]).ok().says("another version");
    std::fs::write(setup.cache.join("version"), "2\n").unwrap();
    for command in ["ls", "match", "gc", "verify"] {
        setup.run(&[command]).fails("input").says("another version");
    }
}

#[test]
fn a_folder_that_is_no_store_is_said_and_left() {
    let setup = or_skip!(Setup::new(100));
    let home = setup.registries.sandbox.path("here");
    std::fs::write(home.join("mine"), "x").unwrap();
    for folder in [home.clone(), home.join("none")] {
        for command in ["ls", "match", "gc", "verify"] {
            let run = setup.registries.sandbox.underpin(["cache", command, "--cache"]).arg(&folder).run().ok();
            run.says("there is no cache");
        }
    }
    assert!(home.join("mine").exists() && !home.join("none").exists());
    std::fs::remove_file(home.join("mine")).unwrap();
}

// `cache match`, and lists that cannot be trusted.

#[test]
fn match_shows_what_each_entry_protects_and_warns_of_those_that_protect_none() {
    let setup = or_skip!(Setup::new(1000));
    let host = setup.name("").trim_end_matches('/').to_owned();
    let list = setup.file("list", &format!("# bases\nprefix:{host}/base/\n\nhost:registry.example\n"));
    let args = ["match", "--protect", &setup.name("in/app:v1"), "--protect-file", &list];
    let run = setup.command(&args).arg("--json").run().ok();
    assert_eq!(
        run.json(),
        json!([
            {"entry": setup.name("in/app:v1"), "images": [setup.name("in/app:v1")]},
            {"entry": format!("prefix:{host}/base/"), "images": [setup.name("base/new:v1"), setup.name("base/old:v1")]},
            {"entry": "host:registry.example", "images": []},
        ])
    );
    let run = run.says("warning: host:registry.example protects no image");
    assert_eq!(run.stderr.matches("warning").count(), 1, "{run}");
    let text = setup.run(&args).ok().stdout;
    assert!(text.contains(&format!("prefix:{host}/base/\n  {}\n", setup.name("base/new:v1"))), "{text}");
    setup.run(&["match"]).ok().says("nothing is protected");
}

#[test]
fn a_list_that_is_not_whole_stops_the_collector_before_the_first_deletion() {
    let setup = or_skip!(Setup::new(1000));
    let before = setup.files();
    let unreadable = setup.registries.sandbox.path("folder");
    std::fs::create_dir(&unreadable).unwrap();
    let lists = [
        "/no/such/list".to_owned(),
        unreadable.display().to_string(),
        setup.file("empty", ""),
        setup.file("comments", "# nothing else\n"),
        setup.file("cut", "host:registry.example\nhost:regis"),
        setup.file("bad", "host:registry.example\nregex:(\n"),
        setup.file("binary", "\u{0}\u{0}\u{0}"),
    ];
    for list in &lists {
        let run = setup.run(&["gc", "--max-size", "0", "--protect-file", list]).fails("input");
        assert_eq!(setup.files(), before, "{list}\n{run}");
    }
    for entry in ["regex:(", "host:", "prefix:x", "glob:*", "a b"] {
        let run = setup.run(&["gc", "--max-size", "0", "--protect", entry]).fails("input");
        assert_eq!(setup.files(), before, "{entry}\n{run}");
    }
    // The benign twin.
    let list = setup.file("good", "regex:/base/\n");
    setup.run(&["gc", "--max-size", "0", "--protect-file", &list]).ok();
    assert!(!setup.has("in/app:v1") && setup.has("base/old:v1") && setup.has("base/new:v1"));
}

#[test]
fn the_settings_file_protects_too() {
    let setup = or_skip!(Setup::new(1000));
    let settings =
        setup.file("settings.json", r#"{"cache": {"protect": ["regex:/old:"], "protect_files": ["beside"]}}"#);
    let collect = |settings: &str| {
        setup.command(&["gc", "--max-size", "0", "--protect", "regex:/new:"]).env("UNDERPIN_SETTINGS", settings).run()
    };
    let before = setup.files();
    collect(&settings).fails("input").says("beside");
    assert_eq!(setup.files(), before, "the list that it names is missing");
    collect("/no/such/settings").fails("input");
    for broken in [r#"{"cache": {"protects": []}}"#, "{", r#"{"cache": {"max_size": "much"}}"#] {
        assert_eq!(collect(&setup.file("broken.json", broken)).code(), Some(2), "{broken}");
        assert_eq!(setup.files(), before, "{broken}");
    }
    setup.file("beside", "regex:/nothing:\n");
    collect(&settings).ok();
    assert!(!setup.has("in/app:v1") && setup.has("base/old:v1") && setup.has("base/new:v1"));
}

// The collection after a run, where a size is configured.

#[test]
fn a_store_over_its_size_is_collected_after_a_run() {
    let setup = or_skip!(Setup::new(10_000));
    let inspect = |size: &str, settings: &str| {
        let name = setup.name("base/new:v1");
        let inspect = setup.registries.sandbox.underpin(["inspect", &name, "--cache"]).arg(&setup.cache);
        inspect.env("UNDERPIN_CACHE_MAX_SIZE", size).env("UNDERPIN_SETTINGS", settings).run().ok()
    };
    let before = setup.files();
    inspect("1GiB", "");
    assert_eq!(setup.files(), before, "there is room");
    inspect("much", "").says("not collected");
    inspect("0", &setup.file("broken.json", "{")).says("not collected");
    inspect("0", "/no/such/settings.json").says("not collected");
    assert_eq!(setup.files(), before, "what is not understood stops it");
    let protecting = setup.file("protecting.json", r#"{"cache":{"protect":["regex:/old:"]}}"#);
    inspect("0", &protecting).says("larger than configured");
    assert!(setup.has("base/old:v1") && !setup.has("in/app:v1"));
    let configured = setup.file("configured.json", r#"{"cache":{"max_size":"0"}}"#);
    setup.fetch("in/app:v1");
    inspect("", &configured);
    assert!(!setup.has("in/app:v1") && !setup.has("base/old:v1"));
}

#[test]
fn it_gives_way_to_whoever_holds_the_store() {
    let setup = or_skip!(Setup::new(10_000));
    let before = setup.files();
    let mut holder = std::process::Command::new("flock")
        .args(["--no-fork", "--shared"])
        .arg(&setup.cache)
        .args(["sleep", "60"])
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200));
    let name = setup.name("base/new:v1");
    let inspect = setup.registries.sandbox.underpin(["inspect", &name, "-v", "--cache"]).arg(&setup.cache);
    let run = inspect.env("UNDERPIN_CACHE_MAX_SIZE", "0").run().ok().says("in use and was not collected");
    assert_eq!(setup.files(), before, "{run}");
    holder.kill().unwrap();
    holder.wait().unwrap();
}
