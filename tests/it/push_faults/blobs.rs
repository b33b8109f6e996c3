//! Uploads that break.

use std::sync::Arc;
use std::time::Duration;

use super::{PAYLOAD, looks, on_manifest, on_upload, registries, survives, survives_at_upload, uploads};
use crate::support::http::Answer;
use crate::support::proxy::{Action, Cut, on};
use crate::support::published;
use crate::support::registries::Registries;
use crate::support::skip::or_skip;
use crate::support::token_server::{Guarded, Manners};

#[test]
fn a_reset_in_the_upload_is_looked_into_and_sent_again() {
    let registries = or_skip!(registries());
    let size = registries.app_layer_size();
    for after in [1, size / 2, size] {
        survives_at_upload(&registries, Action::CutRequest(after, Cut::Rst), |run| {
            let seen = uploads(&registries);
            assert_eq!(seen.len(), 2, "reset after {after}\n{run}");
            assert!(looks(&registries) >= 1, "it may have arrived\n{run}");
            let session = |target: &str| target.split('?').next().unwrap().to_owned();
            assert_ne!(session(&seen[0].target), session(&seen[1].target), "a new session\n{run}");
        });
    }
}

#[test]
fn a_lost_session_is_opened_anew() {
    let registries = or_skip!(registries());
    let unknown = Answer::error(404, "BLOB_UPLOAD_UNKNOWN", "blob upload unknown to registry");
    survives_at_upload(&registries, Action::Answer(unknown), |run| {
        assert!(looks(&registries) >= 1, "{run}");
        assert_eq!(uploads(&registries).len(), 2, "{run}");
    });
}

#[test]
fn a_blob_that_was_lost_with_its_answer_is_sent_once_more() {
    let registries = or_skip!(registries());
    survives_at_upload(&registries, Action::Lose, |run| assert_eq!(uploads(&registries).len(), 2, "{run}"));
}

#[test]
fn a_blob_that_arrived_without_an_answer_is_not_sent_again() {
    let registries = or_skip!(registries());
    survives_at_upload(&registries, Action::Swallow, |run| {
        assert!(looks(&registries) >= 1, "{run}");
        assert_eq!(uploads(&registries).len(), 1, "{run}");
    });
}

#[test]
fn three_faults_of_the_registry_are_survived() {
    let registries = or_skip!(registries());
    for status in [500, 502, 503] {
        survives(&registries, [on_upload(&registries).times(3).does(Action::status(status))], |run| {
            assert_eq!(uploads(&registries).len(), 4, "{status}\n{run}");
        });
    }
}

#[test]
fn too_many_requests_are_waited_for_wherever_they_come() {
    let registries = or_skip!(registries());
    let slow = || Answer::error(429, "TOOMANYREQUESTS", "slow down").header("Retry-After", "1");
    for rule in [on("POST", "/blobs/uploads/"), on_upload(&registries), on_manifest()] {
        survives(&registries, [rule.does(Action::Answer(slow()))], |run| {
            assert!(run.elapsed >= Duration::from_secs(1), "{run}");
            let waited = registries.target.proxy.seen();
            assert_eq!(waited.iter().filter(|seen| seen.status == Some(429)).count(), 1, "{run}");
        });
    }
}

#[test]
fn a_blob_that_is_too_large_for_one_request_goes_in_chunks() {
    let registries = or_skip!(Registries::two(6 << 20));
    survives(
        &registries,
        [on_upload(&registries).when(|seen| length(seen) > 0).always().does(Action::status(413))],
        |run| {
            let chunks = registries.target.proxy.matching("PATCH", "/blobs/uploads/");
            assert!(chunks.len() >= 2 && chunks.iter().all(|chunk| chunk.up <= 4 << 20), "{run}");
        },
    );
}

#[test]
fn a_chunk_that_is_too_large_is_cut_smaller() {
    let registries = or_skip!(Registries::two(6 << 20));
    let large = Answer::new(416).body("request body is too large: exceeds 4.00MiB");
    let rules = [
        on_upload(&registries).when(|seen| length(seen) > 4 << 20).always().does(Action::status(413)),
        on("PATCH", "/blobs/uploads/").when(|seen| length(seen) > 4 << 20).always().does(Action::Answer(large)),
    ];
    survives(&registries, rules, |_| {});
}

/// The smallest chunk that some registries take.
const LEAST: u64 = 16 << 20;

#[test]
fn the_smallest_chunk_that_a_registry_takes_is_honoured() {
    let registries = or_skip!(Registries::two(20 << 20));
    let rules = [
        on("POST", "/blobs/uploads/").always().does(Action::set_header("OCI-Chunk-Min-Length", LEAST.to_string())),
        on_upload(&registries).when(|seen| length(seen) > LEAST).always().does(Action::status(413)),
    ];
    survives(&registries, rules, |run| {
        let chunks = registries.target.proxy.matching("PATCH", "/blobs/uploads/");
        let (_, before) = chunks.split_last().unwrap_or_else(|| panic!("no chunks\n{run}"));
        assert!(!before.is_empty() && before.iter().all(|chunk| chunk.up >= LEAST), "{run}");
    });
}

fn length(seen: &crate::support::proxy::Seen) -> u64 {
    seen.headers.length().unwrap_or(0)
}

#[test]
fn a_registry_that_lets_nobody_look_still_gets_the_blob() {
    let registries = or_skip!(registries());
    survives(&registries, [on("HEAD", "/blobs/").always().does(Action::status(403))], |run| {
        assert_eq!(uploads(&registries).len(), 1, "{run}");
        assert!(uploads(&registries)[0].up >= PAYLOAD as u64, "{run}");
    });
}

// Layers that the registry already has elsewhere.

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

// Tokens that run out while an image is published.

#[test]
fn a_token_that_runs_out_is_renewed_once_wherever_it_happens() {
    let guarded = or_skip!(Guarded::new(Manners::default()));
    let expected = guarded.rebase(&guarded.name("out/usual:v1")).run().ok().digest();
    let usual = guarded.tokens.seen().len();
    for (number, (method, pattern)) in
        [("POST", "/blobs/uploads/"), ("PUT", "/blobs/uploads/"), ("PUT", "/manifests/")].into_iter().enumerate()
    {
        let repository = format!("out/t{number}");
        let expired = guarded.tokens.expired(&repository, "pull,push");
        let answered = on(method, format!("/{repository}{pattern}")).when(|seen| seen.has("authorization"));
        guarded.proxy.script([answered.does(Action::Answer(expired))]);
        let run = guarded.rebase(&guarded.name(&format!("{repository}:v1"))).run().ok();
        assert_eq!(run.digest(), expected, "{run}");
        assert_eq!(guarded.tokens.seen().len(), usual + 1, "{method} {pattern}: one new token\n{run}");
        assert_eq!(published::registry(guarded.back.host(), &repository, "v1").unwrap().digest, expected);
    }
}
