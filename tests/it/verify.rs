//! `underpin verify`: does it all again from what the image records, and compares.

use crate::support::invocation::Run;
use crate::support::recipe::{Content, Document};
use crate::support::registries::Registries;
use crate::support::skip::or_skip;

fn verify(registries: &Registries, image: &str) -> Run {
    registries.sandbox.underpin(["verify", image]).run()
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
