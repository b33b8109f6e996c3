//! What can go wrong while an image is fetched.
//!
//! Every test compares with what a run without faults gives, byte for byte, and then holds the
//! invariants of `Trial::settle`. HTTP/2 is left out: the client speaks HTTP/1.1 only.
//! Of DNS only the lasting failure is tested; a resolver that fails once cannot be had without root.

mod answers;
mod bodies;

use crate::support::proxy::{Action, Rule, Seen, on};
use crate::support::registries::Registries;
use crate::support::skip::Part;

/// A layer that takes several reads and no time.
const PAYLOAD: usize = 256 * 1024;

fn registries() -> Part<Registries> {
    Registries::two(PAYLOAD)
}

/// A rule for the download of the application's layer.
fn on_layer(registries: &Registries) -> Rule {
    on("GET", format!("/blobs/{}", registries.app_layer()))
}

fn on_manifest() -> Rule {
    on("GET", "/in/app/manifests/")
}

/// The requests for the application's layer.
fn downloads(registries: &Registries) -> Vec<Seen> {
    registries.source.proxy.matching("GET", &format!("/blobs/{}", registries.app_layer()))
}

/// The fault comes, and nobody can tell afterwards. Gives the requests for the layer.
fn survives(registries: &Registries, rules: impl IntoIterator<Item = Rule>) -> Vec<Seen> {
    let trial = registries.trial();
    registries.source.proxy.script(rules);
    trial.gives_the_expected_image(trial.run());
    let seen = downloads(registries);
    trial.settle();
    seen
}

/// The fault once, at the download of the layer.
fn survives_once(registries: &Registries, action: Action) -> Vec<Seen> {
    survives(registries, [on_layer(registries).does(action)])
}
