//! The collection after a run, where a size is configured.

use super::setup::Setup;
use crate::support::skip::or_skip;

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
