//! What can go wrong while an image is published.
//!
//! Every test compares with what a run without faults gives, byte for byte, and then holds the
//! invariants of `Trial::settle`.

mod blobs;
mod locations;
mod tags;

use crate::support::invocation::Run;
use crate::support::proxy::{Action, Rule, Seen, on};
use crate::support::registries::Registries;
use crate::support::skip::Part;

const PAYLOAD: usize = 256 * 1024;

fn registries() -> Part<Registries> {
    Registries::two(PAYLOAD)
}

/// A rule for the upload of the application's layer.
fn on_upload(registries: &Registries) -> Rule {
    on("PUT", encoded_digest(registries))
}

/// The layer's digest in a query, whether the client encodes the colon or not.
fn encoded_digest(registries: &Registries) -> String {
    format!("/blobs/uploads/*digest=sha256*{}", &registries.app_layer()["sha256:".len()..])
}

fn on_manifest() -> Rule {
    on("PUT", "/manifests/")
}

fn uploads(registries: &Registries) -> Vec<Seen> {
    registries.target.proxy.matching("PUT", &encoded_digest(registries))
}

/// How often the client looked whether the layer is there.
fn looks(registries: &Registries) -> usize {
    registries.target.proxy.count("HEAD", &format!("/blobs/{}", registries.app_layer()))
}

/// The fault comes, and nobody can tell afterwards; `look` sees the run and the requests.
fn survives(registries: &Registries, rules: impl IntoIterator<Item = Rule>, look: impl FnOnce(&Run)) {
    let trial = registries.trial();
    registries.target.proxy.script(rules);
    let run = trial.gives_the_expected_image(trial.run());
    look(&run);
    trial.settle();
}

fn survives_at_upload(registries: &Registries, action: Action, look: impl FnOnce(&Run)) {
    survives(registries, [on_upload(registries).does(action)], look);
}
