//! `underpin verify`: does it all again from what the image records, and compares.

use crate::support::fixtures;
use crate::support::invocation::{Run, Sandbox};
use crate::support::recipe::{Content, Dialect, Document};
use crate::support::registries::Registries;
use crate::support::skip::or_skip;

/// The old base is recorded by digest alone, and this cache has not seen it.
fn verify(registries: &Registries, image: &str) -> Run {
    let old_base = registries.source.name("base/old:v1");
    registries.sandbox.underpin(["verify", image, "--old-base", &old_base]).run()
}

/// The published image as content that can be changed and pushed again.
fn republished(registries: &Registries, change: impl FnOnce(&mut serde_json::Value)) -> Content {
    let image = registries.published("out/app", "v1");
    let mut manifest = image.only().manifest.clone();
    change(&mut manifest);
    let top = Document::new(&image.media_type, &manifest);
    Content { top, children: Vec::new(), blobs: Vec::new() }
}

#[test]
fn an_image_that_underpin_made_is_verified() {
    let registries = or_skip!(Registries::one(1000));
    let digest = registries.rebase(&registries.target.name("out/app:v1"), "cache").run().ok().digest();
    verify(&registries, &registries.target.name("out/app:v1")).ok();
    verify(&registries, &registries.target.name(&format!("out/app@{digest}"))).ok();
}

#[test]
fn the_cache_of_the_run_has_all_that_is_recorded() {
    let registries = or_skip!(Registries::one(1000));
    let image = registries.target.name("out/app:v1");
    registries.rebase(&image, "cache").run().ok();
    let with = |cache: &str| registries.sandbox.underpin(["verify", &image, "--cache", cache]);
    let cache = registries.sandbox.path("cache").display().to_string();
    with(&cache).run().ok();
    with(&cache).arg("--offline").run().ok();
    let run = with("another").run().fails("not-found");
    assert!(run.stderr.contains(&registries.old_base.digest()) && run.stderr.contains("--old-base REF"), "{run}");
}

/// Layouts have no names: the inputs are found by digest, in the cache or where the user says they are.
#[test]
fn inputs_without_a_name_are_found_by_digest() {
    let sandbox = Sandbox::new();
    let here = sandbox.path("here");
    for (name, image) in [
        ("app", fixtures::attested_app(100)),
        ("old", fixtures::on_three(Dialect::Oci, fixtures::old_base)),
        ("new", fixtures::on_three(Dialect::Oci, fixtures::new_base)),
    ] {
        image.layout(&here.join(name), "v1");
    }
    let words = ["rebase", "oci:app:v1", "--base", "oci:new:v1", "--old-base", "oci:old:v1", "--cache", "cache"];
    for (out, more) in [("oci:all:x", [].as_slice()), ("oci:one:x", &["--platform", "linux/arm64"])] {
        sandbox.underpin(words.iter().chain(more).chain(&["--to", out])).run().ok();
        sandbox.underpin(["verify", out, "--cache", "cache"]).run().ok();
        std::fs::rename(here.join("app"), here.join("away")).unwrap();
        sandbox.underpin(["verify", out, "--cache", "cache"]).run().ok();
        std::fs::rename(here.join("away"), here.join("app")).unwrap();
        let places = ["--source", "oci:app:v1", "--base", "oci:new:v1", "--old-base", "oci:old:v1"];
        let verify = |places: &[&str]| sandbox.underpin(["verify", out, "--no-cache"].iter().chain(places)).run();
        verify(&places).ok();
        verify(&places[..4]).fails("not-found").says("--old-base REF");
        verify(&places[2..]).fails("not-found").says("--source REF");
        verify(&[]).fails("not-found");
        // What the user says must have the recorded digest.
        verify(&["--source", "oci:new:v1", "--base", "oci:new:v1", "--old-base", "oci:old:v1"]).fails("not-found");
    }
}

/// The bytes of a layer that is written come from the cache, too.
#[test]
fn the_cache_is_enough_for_what_is_written_again() {
    let sandbox = Sandbox::new();
    let here = sandbox.path("here");
    fixtures::app("linux/amd64", 100).build().layout(&here.join("app"), "v1");
    fixtures::new_base("linux/amd64").build().layout(&here.join("new"), "v1");
    let words = ["rebase", "oci:app:v1", "--base", "oci:new:v1", "--old-base", "layers:2", "--drop", "/srv/payload"];
    sandbox.underpin(words.iter().chain(&["--to", "oci:out:x"])).run().ok();
    std::fs::remove_dir_all(here.join("app")).unwrap();
    sandbox.underpin(["verify", "oci:out:x"]).run().ok();
    sandbox.underpin(["verify", "oci:out:x", "--no-cache"]).run().fails("not-found").says("--source REF");
}

#[test]
fn an_image_that_was_tampered_with_is_not() {
    let registries = or_skip!(Registries::one(1000));
    registries.rebase(&registries.target.name("out/app:v1"), "cache").run().ok();
    let changed = republished(&registries, |manifest| {
        // The layers of the base in the wrong order.
        let layers = manifest["layers"].as_array_mut().unwrap();
        layers.swap(0, 1);
    });
    changed.push(registries.target.registry.host(), "out/app", "swapped");
    let run = verify(&registries, &registries.target.name("out/app:swapped"));
    assert!(matches!(run.code(), Some(1 | 2)), "{run}");
    let changed = republished(&registries, |manifest| {
        manifest["annotations"]["org.example.added"] = "by somebody else".into();
    });
    changed.push(registries.target.registry.host(), "out/app", "annotated");
    let run = verify(&registries, &registries.target.name("out/app:annotated")).refused();
    assert!(
        run.stderr.contains(registries.expected()) || run.stdout.contains(registries.expected()),
        "names the right one\n{run}"
    );
}

#[test]
fn an_image_that_underpin_did_not_make_cannot_be_verified() {
    let registries = or_skip!(Registries::one(1000));
    verify(&registries, &registries.source.name("in/app:v1")).fails("input");
    verify(&registries, &registries.source.name("in/none:v1")).fails("not-found");
}
