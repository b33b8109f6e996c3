//! `cache verify`, and stores that are damaged, read-only or full.

use std::path::PathBuf;

use super::Setup;
use crate::support::faulty_disk::SmallDisk;
use crate::support::recipe::Dialect;
use crate::support::registries::Registries;
use crate::support::skip::or_skip;
use crate::support::{fixtures, published};

#[test]
fn verify_finds_and_removes_damage_and_the_next_run_mends_it() {
    let setup = or_skip!(Setup::new(50_000));
    let sound = setup.json(&["verify"]);
    assert_eq!((&sound["schema"], &sound["damaged"]), (&"underpin.cache-verify/v1".into(), &serde_json::json!([])));
    let layer = setup.registries.app_layer();
    let path = setup.cache.join("blobs/sha256").join(layer.strip_prefix("sha256:").unwrap());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[1000] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let run = setup.command(&["verify", "--json"]).run().refused();
    let damaged = &run.json()["damaged"];
    assert_eq!(damaged[0]["path"], path.display().to_string(), "{run}");
    assert_eq!(damaged[0]["images"], serde_json::json!([setup.name("in/app:v1")]), "{run}");
    assert!(!path.exists());
    setup.run(&["verify"]).ok();
    let to = format!("oci:{}:v1", setup.registries.sandbox.path("out").display());
    setup.registries.rebase(&to, "store").run().ok();
    assert!(path.exists() && published::lies_in_cache(&setup.cache) == Vec::<PathBuf>::new());
}

#[test]
fn a_damaged_record_stops_the_collector_until_somebody_looked() {
    let setup = or_skip!(Setup::new(1000));
    let record = crate::support::invocation::files_under(&setup.cache.join("images")).pop().unwrap();
    let mut bytes = std::fs::read(&record).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&record, &bytes).unwrap();
    let before = setup.files();
    setup.run(&["gc", "--max-size", "0"]).fails("integrity").says("verify").says(&record.display().to_string());
    assert_eq!(setup.files(), before);
    // A run neither trusts it nor takes it away.
    for name in ["in/app:v1", "base/old:v1", "base/new:v1"] {
        setup.registries.sandbox.underpin(["inspect", &setup.name(name), "--cache"]).arg(&setup.cache).run().ok();
    }
    assert_eq!(std::fs::read(&record).unwrap(), bytes);
    setup.run(&["verify"]).refused();
    setup.run(&["gc", "--max-size", "0"]).ok();
}

#[test]
fn a_disk_of_64_mib_that_fills() {
    let registries = or_skip!(Registries::two(500_000));
    let disk = or_skip!(SmallDisk::new("64m"));
    let expected = registries.expected().to_owned();
    // Somebody else's files leave 200 KiB.
    let others = disk.path("others");
    let fill = std::process::Command::new("sh")
        .arg("-c")
        .arg("free=$(df --output=avail -k \"$0\" | tail -n 1); head -c $(( (free - 200) * 1024 )) /dev/zero > \"$1\"")
        .args([disk.root(), &others])
        .status();
    assert!(fill.unwrap().success());
    let to = format!("oci:{}:v1", disk.path("out").display());
    let run = registries.rebase(&to, "cache-expected").run().fails("local-io").says(&disk.root().display().to_string());
    assert!(!disk.path("out/index.json").exists(), "{run}");
    // The cache on the full disk is done without, and says so.
    let trial = registries.trial();
    let run = trial.run_with_cache(&disk.path("cache"));
    trial.gives_the_expected_image(run).says("nothing more is written to the cache");
    let on_it =
        |args: &[&str]| registries.sandbox.underpin(["cache"]).args(args).arg("--cache").arg(disk.path("cache")).run();
    on_it(&["ls"]).ok();
    on_it(&["verify"]).ok();
    on_it(&["gc", "--max-size", "0"]).ok();
    std::fs::remove_file(&others).unwrap();
    let run = registries.rebase(&to, "cache-expected").run().ok();
    assert_eq!(
        (run.digest(), published::layout(&disk.path("out"), "v1").unwrap().digest),
        (expected.clone(), expected)
    );
    let trial = registries.trial();
    trial.gives_the_expected_image(trial.run_with_cache(&disk.path("cache")));
    assert_eq!(published::lies_in_cache(&disk.path("cache")), Vec::<PathBuf>::new());
}

#[test]
fn a_store_that_is_read_only_can_be_read() {
    let setup = or_skip!(Setup::new(1000));
    let disk = or_skip!(SmallDisk::new("8m"));
    let copied = std::process::Command::new("cp").arg("-a").arg(&setup.cache).arg(disk.path("store")).status();
    assert!(copied.unwrap().success());
    disk.remount("ro");
    let run = |args: &[&str]| setup.registries.sandbox.underpin(args).arg("--cache").arg(disk.path("store")).run();
    run(&["inspect", &setup.name("in/app:v1"), "--offline"]).ok();
    run(&["cache", "ls"]).ok();
    run(&["cache", "verify"]).ok();
    run(&["cache", "gc", "--max-size", "0", "--dry-run"]).ok();
    run(&["cache", "gc", "--max-size", "0"]).fails("local-io").says(&disk.root().display().to_string());
}

// With `--offline` everything works from the store, by tag as last seen, or what is missing is named.

#[test]
fn a_second_run_needs_no_network() {
    let registries = or_skip!(Registries::two(10_000));
    let expected = registries.expected().to_owned();
    let out = registries.sandbox.path("out");
    let to = format!("oci:{}:v1", out.display());
    registries.calm();
    let run = registries.rebase(&to, "cache-expected").arg("--offline").run().ok();
    assert_eq!(run.digest(), expected);
    published::layout(&out, "v1").unwrap();
    let inspect =
        registries.sandbox.underpin(["inspect", &registries.target.name("out/expected:e"), "--offline", "--cache"]);
    inspect.arg(registries.sandbox.path("cache-expected")).run().ok();
    let verify =
        registries.sandbox.underpin(["verify", &registries.target.name("out/expected:e"), "--offline", "--cache"]);
    verify.arg(registries.sandbox.path("cache-expected")).run().ok().says("verified");
    for proxy in [&registries.source.proxy, &registries.target.proxy] {
        assert_eq!(proxy.count("GET", "/") + proxy.count("HEAD", "/"), 0, "offline means offline");
    }
}

#[test]
fn a_tag_leads_where_it_was_last_seen() {
    let registries = or_skip!(Registries::two(1000));
    let inspect = |more: &[&str]| {
        let name = registries.source.name("in/app:v1");
        let invocation = registries.sandbox.underpin(["inspect", &name, "--json"]).args(more);
        invocation.arg("--cache").arg(registries.sandbox.path("cache")).run().ok().json()["image"]["digest"].clone()
    };
    let first = inspect(&[]);
    assert_eq!(first, registries.app.digest());
    let newer = fixtures::app("linux/amd64", 2000).build();
    newer.push(registries.source.registry.host(), "in/app", "v1");
    assert_eq!(inspect(&["--offline"]), first, "moved since, and not seen");
    assert_eq!(inspect(&[]), newer.digest());
    assert_eq!(inspect(&["--offline"]), newer.digest());
}

#[test]
fn what_is_missing_is_named() {
    let registries = or_skip!(Registries::two(1000));
    let cache = registries.sandbox.path("cache");
    let offline = |args: &[&str]| {
        let invocation = registries.sandbox.underpin(args).arg("--offline");
        invocation.arg("--cache").arg(&cache).run().fails("network")
    };
    let name = registries.source.name("in/app:v1");
    offline(&["inspect", &name]).says("offline").says("has not been seen").says(&name);

    let three = fixtures::on_three(Dialect::Oci, |platform| fixtures::app(platform, 500));
    three.push(registries.source.registry.host(), "in/three", "v1");
    let three_name = registries.source.name("in/three:v1");
    let one = ["inspect", &three_name, "--platform", "linux/arm64"];
    registries.sandbox.underpin(one).arg("--cache").arg(&cache).run().ok();
    let again = registries.sandbox.underpin(one).arg("--offline").arg("--cache").arg(&cache);
    again.run().ok();
    offline(&["inspect", &three_name]).says("manifest").says(&three.children[0].digest());

    let inspect = ["inspect", &name];
    registries.sandbox.underpin(inspect).arg("--cache").arg(&cache).run().ok();
    let layer = registries.app_layer();
    let hex = layer.strip_prefix("sha256:").unwrap();
    std::fs::remove_file(cache.join("blobs/sha256").join(hex)).unwrap();
    std::fs::remove_dir_all(cache.join("indexes")).unwrap();
    offline(&inspect).says("blob").says(&layer);
}

#[test]
fn without_a_cache_offline_has_nothing() {
    let registries = or_skip!(Registries::two(1000));
    let run = registries.sandbox.underpin(["inspect", &registries.source.name("in/app:v1"), "--offline", "--no-cache"]);
    run.run().fails("network").says("offline");
}
