//! Bodies that end early, late or wrong: P1 to P14.

use super::{downloads, on_layer, survives, survives_once, world};
use crate::support::check;
use crate::support::cli::files_under;
use crate::support::proxy::{Action, At, Cut, Seen};
use crate::support::shelf::blob_path;
use crate::support::world::World;

const WHOLE: &str = "the whole";

fn from(byte: u64) -> String {
    format!("bytes={byte}-")
}

/// What each request asked for.
fn ranges(seen: &[Seen]) -> Vec<&str> {
    seen.iter().map(|seen| seen.headers.get("range").unwrap_or(WHOLE)).collect()
}

#[test]
fn p1_a_reset_before_the_first_byte_is_asked_again_from_the_start() {
    let Some(world) = world() else { return };
    let seen = survives_once(&world, Action::Cut(At::Body(0), Cut::Rst));
    assert_eq!(ranges(&seen), [WHOLE, WHOLE]);
}

#[test]
fn p2_a_reset_is_resumed_at_the_byte_where_it_came() {
    let Some(world) = world() else { return };
    let size = world.app_layer_size();
    for at in [1, 512, size / 2, size - 1] {
        let seen = survives_once(&world, Action::Cut(At::Body(at), Cut::Rst));
        assert_eq!(ranges(&seen), [WHOLE, &from(at)], "reset at {at}");
        let received: u64 = seen.iter().map(|seen| seen.down).sum();
        assert!(received <= size + 64 * 1024, "{received} bytes for a blob of {size}");
    }
}

#[test]
fn p4_a_reset_every_64_kib_is_survived() {
    let Some(world) = World::two(4 * 1024 * 1024) else { return };
    let cut = Action::Cut(At::Body(64 * 1024), Cut::Rst);
    let seen = survives(&world, [on_layer(&world).always().does(cut)]);
    assert!((60..=66).contains(&seen.len()), "{} requests", seen.len());
}

#[test]
fn p5_a_reset_at_the_same_byte_for_ever_ends_and_keeps_the_part() {
    let Some(world) = world() else { return };
    let trial = world.trial();
    world.source.proxy.script([
        on_layer(&world).when(|seen| !seen.has("range")).always().does(Action::Cut(At::Body(65_536), Cut::Rst)),
        on_layer(&world).when(|seen| seen.has("range")).always().does(Action::Cut(At::Body(0), Cut::Rst)),
    ]);
    let run = trial.fails(trial.run(), "network");
    assert!(run.elapsed.as_secs() < 60 && downloads(&world).len() <= 6, "{run}");
    let name = world.app_layer();
    let visible = |path: &std::path::PathBuf| path.ends_with(blob_path(&name));
    assert!(!files_under(&trial.cache()).iter().any(visible), "half a blob is visible");
    world.calm();
    trial.gives_the_expected_image(trial.run());
    assert_eq!(ranges(&downloads(&world)), [from(65_536)], "the part of the broken run is used");
    trial.settle();
}

#[test]
fn p6_an_early_end_is_resumed() {
    let Some(world) = world() else { return };
    let seen = survives_once(&world, Action::Cut(At::Body(100_000), Cut::Fin));
    assert_eq!(ranges(&seen), [WHOLE, &from(100_000)]);
}

#[test]
fn p8_a_body_without_a_length_that_ends_early_is_noticed_by_its_size() {
    let Some(world) = world() else { return };
    let half = world.app_layer_size() / 2;
    let seen = survives_once(&world, Action::CloseDelimited(half));
    assert_eq!(ranges(&seen), [WHOLE, &from(half)]);
}

#[test]
fn p9_a_body_that_is_too_long_is_not_read_to_its_end() {
    let Some(world) = world() else { return };
    let size = world.app_layer_size();
    for action in [Action::Extra(1), Action::Endless] {
        let trial = world.trial();
        world.source.proxy.script([on_layer(&world).always().does(action.clone())]);
        let run = trial.fails(trial.run(), "integrity");
        let seen = downloads(&world);
        assert_eq!(seen.len(), 3, "the first fetch and two more\n{run}");
        // The kernel's buffers take a few MiB that nobody ever reads.
        assert!(seen.iter().all(|seen| seen.down < size + 16 * 1024 * 1024), "{run}");
        assert!(run.peak < 256 * 1024, "{run}");
        trial.settle();
    }
    survives_once(&world, Action::Extra(1));
}

#[test]
fn p10_one_wrong_byte_is_fetched_again_and_said() {
    let Some(world) = world() else { return };
    let trial = world.trial();
    world.source.proxy.script([on_layer(&world).does(Action::Corrupt(1000))]);
    trial.gives_the_expected_image(trial.run()).says("fetching again");
    assert_eq!(ranges(&downloads(&world)), [WHOLE, WHOLE]);
    trial.settle();
}

#[test]
fn p11_a_byte_that_is_always_wrong_ends_the_run() {
    let Some(world) = world() else { return };
    let trial = world.trial();
    world.source.proxy.script([on_layer(&world).always().does(Action::Corrupt(1000))]);
    let run = trial.fails(trial.run(), "integrity").says(&world.app_layer());
    assert_eq!(downloads(&world).len(), 3, "the first fetch and two more\n{run}");
    assert_eq!(check::lies_in_cache(&trial.cache()), Vec::<std::path::PathBuf>::new());
    trial.settle();
}

#[test]
fn p12_a_registry_that_ignores_ranges_is_read_from_the_start() {
    let Some(world) = world() else { return };
    let size = world.app_layer_size();
    let seen = survives(
        &world,
        [
            on_layer(&world).does(Action::Cut(At::Body(size / 2), Cut::Rst)),
            on_layer(&world).when(|seen| seen.has("range")).always().does(Action::ignore_range()),
        ],
    );
    let received: u64 = seen.iter().map(|seen| seen.down).sum();
    assert!(seen.len() <= 3 && received <= 3 * size, "{} requests, {received} bytes", seen.len());
}

#[test]
fn p14_a_refused_range_restarts_once() {
    let Some(world) = world() else { return };
    for status in [416, 400] {
        let seen = survives(
            &world,
            [
                on_layer(&world).does(Action::Cut(At::Body(100_000), Cut::Rst)),
                on_layer(&world).when(|seen| seen.has("range")).does(Action::status(status)),
            ],
        );
        assert_eq!(ranges(&seen), [WHOLE, &from(100_000), WHOLE], "{status}");
    }
}

#[test]
fn p14_a_reset_after_the_last_byte_needs_no_request() {
    let Some(world) = world() else { return };
    let seen = survives_once(&world, Action::Cut(At::Body(world.app_layer_size()), Cut::Rst));
    assert_eq!(seen.len(), 1);
}
