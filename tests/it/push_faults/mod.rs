//! What can go wrong while an image is published: the rows U1 to U20 of the score sheet.
//!
//! Every test compares with what a run without faults gives, byte for byte, and then holds the
//! invariants of `Trial::settle`.

mod blobs;
mod locations;
mod mounts;
mod tags;
mod tokens;

use crate::support::proxy::{Action, Rule, Seen, on};
use crate::support::run::Run;
use crate::support::world::World;

const PAYLOAD: usize = 256 * 1024;

fn world() -> Option<World> {
    World::two(PAYLOAD)
}

/// A rule for the upload of the application's layer.
fn on_upload(world: &World) -> Rule {
    on("PUT", encoded_digest(world))
}

/// The layer's digest in a query, whether the client encodes the colon or not.
fn encoded_digest(world: &World) -> String {
    format!("/blobs/uploads/*digest=sha256*{}", &world.app_layer()["sha256:".len()..])
}

fn on_manifest() -> Rule {
    on("PUT", "/manifests/")
}

fn uploads(world: &World) -> Vec<Seen> {
    world.target.proxy.matching("PUT", &encoded_digest(world))
}

/// How often the client looked whether the layer is there.
fn looks(world: &World) -> usize {
    world.target.proxy.count("HEAD", &format!("/blobs/{}", world.app_layer()))
}

/// The fault comes, and nobody can tell afterwards; `look` sees the run and the requests.
fn survives(world: &World, rules: impl IntoIterator<Item = Rule>, look: impl FnOnce(&Run)) {
    let trial = world.trial();
    world.target.proxy.script(rules);
    let run = trial.gives_the_expected_image(trial.run());
    look(&run);
    trial.settle();
}

fn survives_at_upload(world: &World, action: Action, look: impl FnOnce(&Run)) {
    survives(world, [on_upload(world).does(action)], look);
}
