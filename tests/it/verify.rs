//! `underpin verify`: does it all again from what the image records, and compares.

use crate::support::image::{Content, Document};
use crate::support::run::Run;
use crate::support::world::World;

fn verify(world: &World, image: &str) -> Run {
    world.sandbox.underpin(["verify", image]).run()
}

/// The published image as content that can be changed and pushed again.
fn republished(world: &World, change: impl FnOnce(&mut serde_json::Value)) -> Content {
    let image = world.published("out/app", "v1");
    let mut manifest = image.only().manifest.clone();
    change(&mut manifest);
    let top = Document::new(&image.media_type, &manifest);
    Content { top, children: Vec::new(), blobs: Vec::new() }
}

#[test]
fn an_image_that_underpin_made_is_verified() {
    let Some(world) = World::one(1000) else { return };
    let digest = world.rebase(&world.target.name("out/app:v1"), "cache").run().ok().digest();
    verify(&world, &world.target.name("out/app:v1")).ok();
    verify(&world, &world.target.name(&format!("out/app@{digest}"))).ok();
}

#[test]
fn an_image_that_was_tampered_with_is_not() {
    let Some(world) = World::one(1000) else { return };
    world.rebase(&world.target.name("out/app:v1"), "cache").run().ok();
    let changed = republished(&world, |manifest| {
        // The layers of the base in the wrong order.
        let layers = manifest["layers"].as_array_mut().unwrap();
        layers.swap(0, 1);
    });
    changed.push(world.target.registry.host(), "out/app", "swapped");
    let run = verify(&world, &world.target.name("out/app:swapped"));
    assert!(matches!(run.code(), Some(1 | 2)), "{run}");
    let changed = republished(&world, |manifest| {
        manifest["annotations"]["org.example.added"] = "by somebody else".into();
    });
    changed.push(world.target.registry.host(), "out/app", "annotated");
    let run = verify(&world, &world.target.name("out/app:annotated")).refused();
    assert!(
        run.stderr.contains(world.expected()) || run.stdout.contains(world.expected()),
        "names the right one\n{run}"
    );
}

#[test]
fn an_image_that_underpin_did_not_make_cannot_be_verified() {
    let Some(world) = World::one(1000) else { return };
    verify(&world, &world.source.name("in/app:v1")).fails("input");
    verify(&world, &world.source.name("in/none:v1")).fails("not-found");
}
