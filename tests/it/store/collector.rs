//! `cache ls` and `cache gc` through the binary: rows C3 and C7 to C12.

use std::path::PathBuf;
use std::time::Duration;

use crate::support::check;
use crate::support::image::Dialect;
use crate::support::schema;
use crate::support::stock;

use super::stage::{Stage, references};

#[test]
fn ls_says_what_is_shared_what_is_own_and_what_is_protected() {
    let Some(stage) = Stage::new(50_000) else { return };
    let (app, old) = (stage.name("in/app:v1"), stage.name("base/old:v1"));
    let listing =
        stage.json(&["ls", "--protect", &old, "--protect", &format!("host:{}", old.split_once('/').unwrap().0)]);
    assert_eq!(listing["schema"], "underpin.cache-ls/v1");
    assert_eq!(listing["images"].as_array().unwrap().len(), 3);
    let find = |name: &str| {
        let images = listing["images"].as_array().unwrap();
        images.iter().find(|image| image["reference"] == name).unwrap_or_else(|| panic!("{name}: {listing}")).clone()
    };
    let (of_app, of_old) = (find(&app), find(&old));
    assert_eq!(of_app["digest"], stage.world.app.digest());
    assert!(of_app["own"].as_u64() > Some(50_000), "{of_app}");
    // The application stands on the old base: both hold its layers.
    assert_eq!(of_app["shared"], of_old["shared"]);
    assert!(of_old["shared"].as_u64() > Some(0), "{of_old}");
    assert_eq!(of_app["protected_by"].as_array().unwrap().len(), 1, "by host");
    assert_eq!(of_old["protected_by"].as_array().unwrap().len(), 2);
    assert!(of_app["last_use"].as_u64() >= of_app["first_seen"].as_u64());
    let text = stage.run(&["ls", "--protect", &old]).ok().stdout;
    assert!(text.contains("own") && text.contains("shared") && text.contains(&format!("by {old}")), "{text}");
}

#[test]
fn what_is_printed_is_as_the_schema_says() {
    let Some(stage) = Stage::new(1000) else { return };
    let app = stage.name("in/app:v1");
    for (definition, args) in [
        ("cache-ls", &["ls", "--protect", &app][..]),
        ("cache-match", &["match", "--protect", &app]),
        ("cache-gc", &["gc", "--max-size", "0", "--dry-run"]),
        ("cache-verify", &["verify"]),
    ] {
        schema::holds(definition, &stage.command(args).arg("--json").run().ok().stdout);
    }
}

#[test]
fn the_least_recently_used_goes_first_and_the_dry_run_says_so() {
    let Some(stage) = Stage::new(50_000) else { return };
    stage.fetch("in/app:v1");
    let total = stage.json(&["ls"])["total"].as_u64().unwrap();
    let args = ["gc", "--max-size", &(total - 1).to_string()];
    let before = stage.files();
    let mut dry = stage.json(&[&args[..], &["--dry-run"]].concat());
    assert_eq!(stage.files(), before, "a dry run changes nothing");
    let real = stage.json(&args);
    assert_eq!((dry["dry_run"].take(), &real["dry_run"]), (true.into(), &false.into()));
    dry["dry_run"] = false.into();
    assert_eq!(dry, real);
    assert_eq!(references(&real["removed"]), [stage.name("base/old:v1")]);
    let after = stage.json(&["ls"])["total"].as_u64().unwrap();
    assert_eq!(real["freed"].as_u64(), Some(total - after), "freed is what is really freed");
    // Its layers belong to the application too, and stay.
    assert!(stage.has("in/app:v1") && stage.has("base/new:v1") && !stage.has("base/old:v1"));
    let again = stage.json(&args);
    assert_eq!((references(&again["removed"]), again["freed"].as_u64()), (Vec::new(), Some(0)), "twice is once");
}

#[test]
fn c8_what_is_protected_stays_whatever_it_shares() {
    let Some(stage) = Stage::new(10_000) else { return };
    let digest = format!("{}@{}", stage.name("base/old").trim_end_matches(":latest"), stage.world.old_base.digest());
    let host = stage.name("").trim_end_matches('/').to_owned();
    for entry in
        [stage.name("base/old:v1"), digest, format!("prefix:{host}/base/o"), "regex:/base/old:v[0-9]$".to_owned()]
    {
        stage.fetch("in/app:v1");
        stage.fetch("base/old:v1");
        let gone = stage.json(&["gc", "--max-size", "0", "--protect", &entry]);
        assert!(references(&gone["removed"]).contains(&stage.name("in/app:v1")), "{entry}: {gone}");
        assert!(stage.has("base/old:v1") && !stage.has("in/app:v1"), "{entry}");
        assert_eq!(check::lies_in_cache(&stage.cache), Vec::<PathBuf>::new());
    }
}

#[test]
fn c8_a_tag_that_moved_and_platforms_that_were_not_pulled() {
    let Some(stage) = Stage::new(1000) else { return };
    let host = stage.world.source.registry.host();
    let three = stock::on_three(Dialect::Oci, |platform| stock::app(platform, 500));
    three.push(host, "in/three", "v1");
    let name = stage.name("in/three:v1");
    let one = ["inspect", &name, "--platform", "linux/arm64", "-q", "--cache"];
    stage.world.sandbox.underpin(one).arg(&stage.cache).run().ok();
    // The tag moves in the registry, and nobody looks.
    stock::on_three(Dialect::Oci, |platform| stock::app(platform, 600)).push(host, "in/three", "v1");
    stage.json(&["gc", "--max-size", "0", "--protect", &name]);
    stage.world.sandbox.underpin(one).arg(&stage.cache).arg("--offline").run().ok();
    // It is seen: now the tag protects the new image, and its digest the old one.
    stage.world.sandbox.underpin(one).arg(&stage.cache).run().ok();
    let images = references(&stage.json(&["ls"])["images"]);
    let by_digest = format!("{}@{}", name.trim_end_matches(":v1"), three.digest());
    assert_eq!(images, [name.clone(), by_digest.clone()]);
    let matched = stage.json(&["match", "--protect", &name, "--protect", &by_digest]);
    assert_eq!(matched[0]["images"], serde_json::json!([name]));
    assert_eq!(matched[1]["images"], serde_json::json!([by_digest]));
}

#[test]
fn c12_less_room_than_is_protected_is_a_warning_with_the_shortfall() {
    let Some(stage) = Stage::new(20_000) else { return };
    let run = stage.command(&["gc", "--max-size", "10", "--protect", "regex:."]).arg("--json").run().ok();
    let run = run.says("warning").says("protected");
    let said = run.json();
    assert!(said["shortfall"].as_u64() > Some(20_000) && said["freed"] == 0, "{run}");
    assert!(stage.has("in/app:v1"));
    // What may go goes, all the same.
    let run = stage.run(&["gc", "--max-size", "10", "--protect", &stage.name("base/new:v1")]).ok().says("warning");
    assert!(run.stdout.contains("removed") && !stage.has("in/app:v1") && stage.has("base/new:v1"), "{run}");
}

#[test]
fn ages_and_thresholds() {
    let Some(stage) = Stage::new(1000) else { return };
    let before = stage.files();
    for args in [
        &["gc", "--max-size", "0", "--min-age", "1h"][..],
        &["gc", "--max-age", "1h"],
        &["gc", "--high", "100", "--low", "100"],
    ] {
        stage.run(args).ok();
        assert_eq!(stage.files(), before, "{args:?}");
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
        assert_eq!(stage.run(args).code(), Some(2), "{args:?}");
        assert_eq!(stage.files(), before, "{args:?}");
    }
    // The disk is always fuller than nothing.
    stage.run(&["gc", "--high", "0", "--low", "0"]).ok();
    assert!(!stage.has("in/app:v1"));
    stage.fetch("in/app:v1");
    std::thread::sleep(Duration::from_millis(1100));
    stage.run(&["gc", "--max-age", "1s"]).ok();
    assert!(!stage.has("in/app:v1"));
}

#[test]
fn c7_a_run_that_stands_still_is_waited_for_and_not_broken() {
    let Some(stage) = Stage::new(1000) else { return };
    let before = stage.files();
    let mut holder = std::process::Command::new("flock")
        .args(["--no-fork", "--shared"])
        .arg(&stage.cache)
        .args(["sleep", "60"])
        .spawn()
        .unwrap();
    let held = || {
        let probe = std::process::Command::new("flock")
            .args(["--nonblock", "--no-fork"])
            .arg(&stage.cache)
            .arg("true")
            .status();
        !probe.unwrap().success()
    };
    while !held() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let run = stage.run(&["gc", "--max-size", "0", "--lock-timeout", "3s"]).fails("lock").says("waiting");
    assert!(run.elapsed >= Duration::from_secs(3), "{run}");
    assert_eq!(stage.files(), before);
    // Who only looks does not wait.
    stage.run(&["gc", "--max-size", "0", "--dry-run"]).ok();
    stage.run(&["ls"]).ok();
    // C6: the lock of a dead process is free at once.
    holder.kill().unwrap();
    holder.wait().unwrap();
    stage.run(&["gc", "--max-size", "0", "--lock-timeout", "0s"]).ok();
    assert!(!stage.has("in/app:v1"));
}

#[test]
fn c11_records_of_a_newer_underpin_are_left_alone() {
    let Some(stage) = Stage::new(1000) else { return };
    std::fs::create_dir(stage.cache.join("images/v2")).unwrap();
    std::fs::write(stage.cache.join("images/v2/x"), "of the future").unwrap();
    let before = stage.files();
    stage.run(&["gc", "--max-size", "0"]).fails("input").says("another version");
    assert_eq!(stage.files(), before);
    stage.fetch("in/app:v1");
    stage.run(&["ls"]).ok().says("another version");
    std::fs::write(stage.cache.join("version"), "2\n").unwrap();
    for command in ["ls", "match", "gc", "verify"] {
        stage.run(&[command]).fails("input").says("another version");
    }
}

#[test]
fn a_folder_that_is_no_store_is_said_and_left() {
    let Some(stage) = Stage::new(100) else { return };
    let home = stage.world.sandbox.path("here");
    std::fs::write(home.join("mine"), "x").unwrap();
    for folder in [home.clone(), home.join("none")] {
        for command in ["ls", "match", "gc", "verify"] {
            let run = stage.world.sandbox.underpin(["cache", command, "--cache"]).arg(&folder).run().ok();
            run.says("there is no store");
        }
    }
    assert!(home.join("mine").exists() && !home.join("none").exists());
    std::fs::remove_file(home.join("mine")).unwrap();
}
