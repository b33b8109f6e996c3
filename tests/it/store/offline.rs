//! With `--offline` everything works from the store, by tag as last seen, or what is missing is named.

use crate::support::check;
use crate::support::image::Dialect;
use crate::support::stock;
use crate::support::world::World;

#[test]
fn a_second_run_needs_no_network() {
    let Some(world) = World::two(10_000) else { return };
    let expected = world.expected().to_owned();
    let out = world.sandbox.path("out");
    let to = format!("oci:{}:v1", out.display());
    world.calm();
    let run = world.rebase(&to, "cache-expected").arg("--offline").run().ok();
    assert_eq!(run.digest(), expected);
    check::layout(&out, "v1").unwrap();
    let inspect = world.sandbox.underpin(["inspect", &world.target.name("out/expected:e"), "--offline", "--cache"]);
    inspect.arg(world.sandbox.path("cache-expected")).run().ok();
    let verify = world.sandbox.underpin(["verify", &world.target.name("out/expected:e"), "--offline", "--cache"]);
    verify.arg(world.sandbox.path("cache-expected")).run().ok().says("verified");
    for proxy in [&world.source.proxy, &world.target.proxy] {
        assert_eq!(proxy.count("GET", "/") + proxy.count("HEAD", "/"), 0, "offline means offline");
    }
}

#[test]
fn a_tag_leads_where_it_was_last_seen() {
    let Some(world) = World::two(1000) else { return };
    let inspect = |more: &[&str]| {
        let name = world.source.name("in/app:v1");
        let invocation = world.sandbox.underpin(["inspect", &name, "--json"]).args(more);
        invocation.arg("--cache").arg(world.sandbox.path("cache")).run().ok().json()["image"]["digest"].clone()
    };
    let first = inspect(&[]);
    assert_eq!(first, world.app.digest());
    let newer = stock::app("linux/amd64", 2000).build();
    newer.push(world.source.registry.host(), "in/app", "v1");
    assert_eq!(inspect(&["--offline"]), first, "moved since, and not seen");
    assert_eq!(inspect(&[]), newer.digest());
    assert_eq!(inspect(&["--offline"]), newer.digest());
}

#[test]
fn what_is_missing_is_named() {
    let Some(world) = World::two(1000) else { return };
    let cache = world.sandbox.path("cache");
    let offline = |args: &[&str]| {
        let invocation = world.sandbox.underpin(args).arg("--offline");
        invocation.arg("--cache").arg(&cache).run().fails("network")
    };
    let name = world.source.name("in/app:v1");
    offline(&["inspect", &name]).says("offline").says("has not been seen").says(&name);

    let three = stock::on_three(Dialect::Oci, |platform| stock::app(platform, 500));
    three.push(world.source.registry.host(), "in/three", "v1");
    let three_name = world.source.name("in/three:v1");
    let one = ["inspect", &three_name, "--platform", "linux/arm64"];
    world.sandbox.underpin(one).arg("--cache").arg(&cache).run().ok();
    let again = world.sandbox.underpin(one).arg("--offline").arg("--cache").arg(&cache);
    again.run().ok();
    offline(&["inspect", &three_name]).says("manifest").says(&three.children[0].digest());

    let inspect = ["inspect", &name];
    world.sandbox.underpin(inspect).arg("--cache").arg(&cache).run().ok();
    let layer = world.app_layer();
    let hex = layer.strip_prefix("sha256:").unwrap();
    std::fs::remove_file(cache.join("blobs/sha256").join(hex)).unwrap();
    std::fs::remove_dir_all(cache.join("indexes")).unwrap();
    offline(&inspect).says("blob").says(&layer);
}

#[test]
fn without_a_cache_offline_has_nothing() {
    let Some(world) = World::two(1000) else { return };
    let run = world.sandbox.underpin(["inspect", &world.source.name("in/app:v1"), "--offline", "--no-cache"]);
    run.run().fails("network").says("offline");
}
