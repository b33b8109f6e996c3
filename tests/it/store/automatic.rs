//! The collection after a run, where a size is configured.

use super::stage::Stage;

#[test]
fn a_store_over_its_size_is_collected_after_a_run() {
    let Some(stage) = Stage::new(10_000) else { return };
    let inspect = |size: &str, settings: &str| {
        let name = stage.name("base/new:v1");
        let inspect = stage.world.sandbox.underpin(["inspect", &name, "--cache"]).arg(&stage.cache);
        inspect.env("UNDERPIN_CACHE_MAX_SIZE", size).env("UNDERPIN_SETTINGS", settings).run().ok()
    };
    let before = stage.files();
    inspect("1GiB", "");
    assert_eq!(stage.files(), before, "there is room");
    inspect("much", "").says("not collected");
    inspect("0", &stage.file("broken.json", "{")).says("not collected");
    inspect("0", "/no/such/settings.json").says("not collected");
    assert_eq!(stage.files(), before, "what is not understood stops it");
    let protecting = stage.file("protecting.json", r#"{"cache":{"protect":["regex:/old:"]}}"#);
    inspect("0", &protecting).says("larger than configured");
    assert!(stage.has("base/old:v1") && !stage.has("in/app:v1"));
    let configured = stage.file("configured.json", r#"{"cache":{"max_size":"0"}}"#);
    stage.fetch("in/app:v1");
    inspect("", &configured);
    assert!(!stage.has("in/app:v1") && !stage.has("base/old:v1"));
}

#[test]
fn it_gives_way_to_whoever_holds_the_store() {
    let Some(stage) = Stage::new(10_000) else { return };
    let before = stage.files();
    let mut holder = std::process::Command::new("flock")
        .args(["--no-fork", "--shared"])
        .arg(&stage.cache)
        .args(["sleep", "60"])
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200));
    let name = stage.name("base/new:v1");
    let inspect = stage.world.sandbox.underpin(["inspect", &name, "-v", "--cache"]).arg(&stage.cache);
    let run = inspect.env("UNDERPIN_CACHE_MAX_SIZE", "0").run().ok().says("in use and was not collected");
    assert_eq!(stage.files(), before, "{run}");
    holder.kill().unwrap();
    holder.wait().unwrap();
}
