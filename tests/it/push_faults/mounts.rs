//! Layers that the registry already has elsewhere.

use std::sync::Arc;

use crate::support::proxy::{Action, on};
use crate::support::registries::Registries;
use crate::support::skip::or_skip;

/// What the registry answers to a mount.
fn answers() -> Vec<(&'static str, Action)> {
    let unmounted = Action::Request(Arc::new(|target, _| target.truncate(target.find('?').unwrap_or(target.len()))));
    let mut all = vec![("201", Action::Pass), ("202", unmounted)];
    for (name, status) in [("400", 400), ("401", 401), ("403", 403), ("404", 404), ("405", 405), ("500", 500)] {
        all.push((name, Action::status(status)));
    }
    all
}

#[test]
fn whatever_a_mount_is_answered_the_layer_gets_there() {
    let registries = or_skip!(Registries::one(1000));
    for (name, action) in answers() {
        let trial = registries.trial();
        registries.target.proxy.script([on("POST", "?mount=").always().does(action)]);
        let run = trial.gives_the_expected_image(trial.run());
        for layer in registries.result_layers() {
            let hex = &layer["sha256:".len()..];
            let mounts = registries
                .target
                .proxy
                .count("POST", &format!("{}/blobs/uploads/?*mount=sha256*{hex}", trial.repository()));
            assert_eq!(mounts, 1, "{name}: mount tried once for {layer}\n{run}");
        }
        let sent = registries.target.proxy.count("PUT", &format!("{}/blobs/uploads/", trial.repository()));
        if name == "201" {
            assert_eq!(sent, 1, "only the config is sent\n{run}");
        } else {
            assert_eq!(sent, 4, "{name}: three layers and the config are sent\n{run}");
        }
        trial.settle();
    }
}

#[test]
fn a_session_that_a_refused_mount_opened_is_used() {
    let registries = or_skip!(Registries::one(1000));
    let trial = registries.trial();
    let unmounted = Action::Request(Arc::new(|target, _| target.truncate(target.find('?').unwrap_or(target.len()))));
    registries.target.proxy.script([on("POST", "?mount=").always().does(unmounted)]);
    trial.gives_the_expected_image(trial.run());
    let plain = |seen: &&crate::support::proxy::Seen| !seen.target.contains("mount=");
    let opened = registries.target.proxy.matching("POST", "/blobs/uploads/");
    assert_eq!(opened.iter().filter(plain).count(), 1, "only the config needs a session of its own");
    trial.settle();
}
