//! Uploads that break.

use std::time::Duration;

use super::{PAYLOAD, looks, on_manifest, on_upload, registries, survives, survives_at_upload, uploads};
use crate::support::http::Answer;
use crate::support::proxy::{Action, Cut, on};
use crate::support::registries::Registries;
use crate::support::skip::or_skip;

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
