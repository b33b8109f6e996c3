//! With `--offline` everything works from the store, by tag as last seen, or what is missing is named.

use crate::support::fixtures;
use crate::support::published;
use crate::support::recipe::Dialect;
use crate::support::registries::Registries;
use crate::support::skip::or_skip;

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
