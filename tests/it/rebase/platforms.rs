//! Images for several machines.

use serde_json::Value;

use crate::support::fixtures::{self, THREE};
use crate::support::invocation::{Invocation, Sandbox};
use crate::support::published;
use crate::support::recipe::{Content, Dialect, index};

/// A layout for each of source, old base and new base.
fn setup(app: &Content, new_base: &Content) -> Sandbox {
    let sandbox = Sandbox::new();
    app.layout(&sandbox.path("app"), "v1");
    fixtures::on_three(Dialect::Oci, fixtures::old_base).layout(&sandbox.path("old"), "v1");
    new_base.layout(&sandbox.path("new"), "v1");
    sandbox
}

fn rebase(sandbox: &Sandbox) -> Invocation {
    let at = |name: &str| format!("oci:{}:v1", sandbox.path(name).display());
    let args = ["rebase", &at("app"), "--base", &at("new"), "--old-base", &at("old"), "--to", &at("out"), "--no-cache"];
    sandbox.underpin(args)
}

#[test]
fn an_index_is_rebased_for_every_platform_without_its_attestations() {
    let sandbox = setup(&fixtures::attested_app(5000), &fixtures::on_three(Dialect::Oci, fixtures::new_base));
    let report = rebase(&sandbox).arg("--json").run().ok().json();
    let published = published::layout(&sandbox.path("out"), "v1").unwrap();
    assert_eq!(published.platforms(), THREE);
    assert_eq!(published.media_type, Dialect::Oci.index());
    assert_eq!(report["targets"][0]["digest"], published.digest);
    let told: Vec<&Value> = report["platforms"].as_array().unwrap().iter().map(|one| &one["platform"]).collect();
    assert_eq!(told, THREE);
    for image in &published.images {
        let own = fixtures::app_layer(&image.platform, 5000).digest();
        assert_eq!(image.layers.last(), Some(&own), "{}", image.platform);
        assert_eq!(image.layers.len(), 3, "{}", image.platform);
    }
}

#[test]
fn only_the_platforms_that_were_asked_for_are_rebased() {
    let new_base = fixtures::on_three(Dialect::Oci, fixtures::new_base);
    for asked in [&["linux/arm64"][..], &["linux/amd64", "linux/arm/v7"], &["linux/arm64/v8"]] {
        let sandbox = setup(&fixtures::attested_app(100), &new_base);
        rebase(&sandbox).args(asked.iter().flat_map(|platform| ["--platform", platform])).run().ok();
        let published = published::layout(&sandbox.path("out"), "v1").unwrap();
        let expected: Vec<&str> = asked.iter().map(|platform| platform.trim_end_matches("/v8")).collect();
        assert_eq!(published.platforms(), expected);
    }
}

#[test]
fn a_platform_that_the_source_does_not_have_is_an_error() {
    let sandbox = setup(&fixtures::attested_app(100), &fixtures::on_three(Dialect::Oci, fixtures::new_base));
    let run = rebase(&sandbox).args(["--platform", "linux/s390x"]).run();
    assert!(matches!(run.code(), Some(1 | 2)), "{run}");
    run.says("linux/s390x");
    assert!(!sandbox.path("out").join("index.json").exists());
}

#[test]
fn a_platform_that_the_new_base_lacks_is_refused_or_skipped_as_told() {
    let two = ["linux/amd64", "linux/arm64"].map(|platform| (platform, fixtures::new_base(platform).build()));
    let sandbox = setup(&fixtures::attested_app(100), &index(Dialect::Oci, &two));
    for told in [&[][..], &["--on-missing-platform", "refuse"]] {
        rebase(&sandbox).args(told).run().refused().says("linux/arm/v7");
        assert!(!sandbox.path("out").join("index.json").exists());
    }
    rebase(&sandbox).args(["--on-missing-platform", "skip"]).run().ok().says("linux/arm/v7");
    let published = published::layout(&sandbox.path("out"), "v1").unwrap();
    assert_eq!(published.platforms(), ["linux/amd64", "linux/arm64"]);
}

#[test]
fn docker_types_become_oci_types_everywhere() {
    let app = fixtures::on_three(Dialect::Docker, |platform| fixtures::app(platform, 100));
    let sandbox = setup(&app, &fixtures::on_three(Dialect::Docker, fixtures::new_base));
    rebase(&sandbox).run().ok();
    // The check refuses every type that is not OCI's.
    assert_eq!(published::layout(&sandbox.path("out"), "v1").unwrap().platforms(), THREE);
}
