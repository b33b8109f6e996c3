//! Bodies that end early, late or wrong.

use super::{downloads, on_layer, registries, survives, survives_once};
use crate::support::invocation::files_under;
use crate::support::proxy::{Action, At, Cut, Seen};
use crate::support::published;
use crate::support::recipe::blob_path;
use crate::support::registries::Registries;
use crate::support::skip::or_skip;

const WHOLE: &str = "the whole";

fn from(byte: u64) -> String {
    format!("bytes={byte}-")
}

/// What each request asked for.
fn ranges(seen: &[Seen]) -> Vec<&str> {
    seen.iter().map(|seen| seen.headers.get("range").unwrap_or(WHOLE)).collect()
}

#[test]
fn a_reset_before_the_first_byte_is_asked_again_from_the_start() {
    let registries = or_skip!(registries());
    let seen = survives_once(&registries, Action::Cut(At::Body(0), Cut::Rst));
    assert_eq!(ranges(&seen), [WHOLE, WHOLE]);
}

#[test]
fn a_reset_is_resumed_at_the_byte_where_it_came() {
    let registries = or_skip!(registries());
    let size = registries.app_layer_size();
    for at in [1, 512, size / 2, size - 1] {
        let seen = survives_once(&registries, Action::Cut(At::Body(at), Cut::Rst));
        assert_eq!(ranges(&seen), [WHOLE, &from(at)], "reset at {at}");
        let received: u64 = seen.iter().map(|seen| seen.down).sum();
        assert!(received <= size + 64 * 1024, "{received} bytes for a blob of {size}");
    }
}

#[test]
fn a_reset_every_64_kib_is_survived() {
    let registries = or_skip!(Registries::two(4 * 1024 * 1024));
    let cut = Action::Cut(At::Body(64 * 1024), Cut::Rst);
    let seen = survives(&registries, [on_layer(&registries).always().does(cut)]);
    assert!((60..=66).contains(&seen.len()), "{} requests", seen.len());
}

#[test]
fn a_reset_at_the_same_byte_for_ever_ends_and_keeps_the_part() {
    let registries = or_skip!(registries());
    let trial = registries.trial();
    registries.source.proxy.script([
        on_layer(&registries).when(|seen| !seen.has("range")).always().does(Action::Cut(At::Body(65_536), Cut::Rst)),
        on_layer(&registries).when(|seen| seen.has("range")).always().does(Action::Cut(At::Body(0), Cut::Rst)),
    ]);
    let run = trial.fails(trial.run(), "network");
    assert!(run.elapsed.as_secs() < 60 && downloads(&registries).len() <= 6, "{run}");
    let name = registries.app_layer();
    let visible = |path: &std::path::PathBuf| path.ends_with(blob_path(&name));
    assert!(!files_under(&trial.cache()).iter().any(visible), "half a blob is visible");
    registries.calm();
    trial.gives_the_expected_image(trial.run());
    assert_eq!(ranges(&downloads(&registries)), [from(65_536)], "the part of the broken run is used");
    trial.settle();
}

#[test]
fn an_early_end_is_resumed() {
    let registries = or_skip!(registries());
    let seen = survives_once(&registries, Action::Cut(At::Body(100_000), Cut::Fin));
    assert_eq!(ranges(&seen), [WHOLE, &from(100_000)]);
}

#[test]
fn a_body_without_a_length_that_ends_early_is_noticed_by_its_size() {
    let registries = or_skip!(registries());
    let half = registries.app_layer_size() / 2;
    let seen = survives_once(&registries, Action::CloseDelimited(half));
    assert_eq!(ranges(&seen), [WHOLE, &from(half)]);
}

#[test]
fn a_body_that_is_too_long_is_not_read_to_its_end() {
    let registries = or_skip!(registries());
    let size = registries.app_layer_size();
    for action in [Action::Extra(1), Action::Endless] {
        let trial = registries.trial();
        registries.source.proxy.script([on_layer(&registries).always().does(action.clone())]);
        let run = trial.fails(trial.run(), "integrity");
        let seen = downloads(&registries);
        assert_eq!(seen.len(), 3, "the first fetch and two more\n{run}");
        // The kernel's buffers take a few MiB that nobody ever reads.
        assert!(seen.iter().all(|seen| seen.down < size + 16 * 1024 * 1024), "{run}");
        assert!(run.peak < 256 * 1024, "{run}");
        trial.settle();
    }
    survives_once(&registries, Action::Extra(1));
}

#[test]
fn one_wrong_byte_is_fetched_again_and_said() {
    let registries = or_skip!(registries());
    let trial = registries.trial();
    registries.source.proxy.script([on_layer(&registries).does(Action::Corrupt(1000))]);
    trial.gives_the_expected_image(trial.run()).says("fetching again");
    assert_eq!(ranges(&downloads(&registries)), [WHOLE, WHOLE]);
    trial.settle();
}

#[test]
fn a_byte_that_is_always_wrong_ends_the_run() {
    let registries = or_skip!(registries());
    let trial = registries.trial();
    registries.source.proxy.script([on_layer(&registries).always().does(Action::Corrupt(1000))]);
    let run = trial.fails(trial.run(), "integrity").says(&registries.app_layer());
    assert_eq!(downloads(&registries).len(), 3, "the first fetch and two more\n{run}");
    assert_eq!(published::lies_in_cache(&trial.cache()), Vec::<std::path::PathBuf>::new());
    trial.settle();
}

#[test]
fn a_registry_that_ignores_ranges_is_read_from_the_start() {
    let registries = or_skip!(registries());
    let size = registries.app_layer_size();
    let seen = survives(
        &registries,
        [
            on_layer(&registries).does(Action::Cut(At::Body(size / 2), Cut::Rst)),
            on_layer(&registries).when(|seen| seen.has("range")).always().does(Action::ignore_range()),
        ],
    );
    let received: u64 = seen.iter().map(|seen| seen.down).sum();
    assert!(seen.len() <= 3 && received <= 3 * size, "{} requests, {received} bytes", seen.len());
}

#[test]
fn a_refused_range_restarts_once() {
    let registries = or_skip!(registries());
    for status in [416, 400] {
        let seen = survives(
            &registries,
            [
                on_layer(&registries).does(Action::Cut(At::Body(100_000), Cut::Rst)),
                on_layer(&registries).when(|seen| seen.has("range")).does(Action::status(status)),
            ],
        );
        assert_eq!(ranges(&seen), [WHOLE, &from(100_000), WHOLE], "{status}");
    }
}

#[test]
fn a_reset_after_the_last_byte_needs_no_request() {
    let registries = or_skip!(registries());
    let seen = survives_once(&registries, Action::Cut(At::Body(registries.app_layer_size()), Cut::Rst));
    assert_eq!(seen.len(), 1);
}
