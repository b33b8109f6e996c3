//! Every call that opens or changes a file fails once, with every error that a disk has.
//!
//! The run ends with the right result, where it can do without the call, or with exit 2, kind
//! `local-io` and the path; and never with a lie.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::support::faulty_disk::{Call, Harm, Preload, calls};
use crate::support::invocation::Run;
use crate::support::registries::Registries;
use crate::support::skip::or_skip;
use crate::support::sweep;

use super::cases;
use super::cases::Case;

const ERRORS: [i32; 3] = [libc::EIO, libc::ENOSPC, libc::EDQUOT];

/// How many points of a case are tried at most.
fn points() -> usize {
    sweep::times(24, 400)
}

/// Of each kind of call the first, the one in the middle and the last, and others spread over the run.
fn chosen(counted: &[Call]) -> BTreeSet<usize> {
    let mut of_kind: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, call) in counted.iter().enumerate() {
        of_kind.entry(&call.kind).or_default().push(at + 1);
    }
    let ends = of_kind.values().flat_map(|all| [all[0], all[all.len() / 2], all[all.len() - 1]]);
    ends.chain((1..=counted.len()).step_by(counted.len().div_ceil(points()))).collect()
}

fn fails_at_every_point(case: &Case) {
    let preload = or_skip!(Preload::new());
    let disk = case.disk("counted");
    let log = case.sandbox.path("log");
    let run = preload.put(case.command(&disk), &disk, &log, Harm::None).run().ok();
    case.is_done(&disk, &run);
    let counted = calls(&log);
    assert!(!counted.is_empty(), "nothing was caught: is the binary static?\n{run}");
    let mut kinds: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    for call in &counted {
        kinds.entry(call.kind.clone()).or_default()[0] += 1;
    }
    let mut tried = 0;
    for at in chosen(&counted) {
        let errno = ERRORS[at % ERRORS.len()];
        // A full disk stays full; other errors may come alone.
        let harm = if errno == libc::ENOSPC { Harm::FailsFrom { at, errno } } else { Harm::Fails { at, errno } };
        if let Some(call) = fails_at(case, &preload, at, harm) {
            kinds.entry(call.kind).or_default()[1] += 1;
            tried += 1;
        }
    }
    println!("{tried} of {} points were tried; of each kind, there and tried: {kinds:?}", counted.len());
    assert!(kinds.values().all(|[_, tried]| *tried > 0), "a kind of call was never made to fail: {kinds:?}");
    assert_eq!(case.sandbox.strays(), Vec::<std::path::PathBuf>::new());
}

/// The call that failed, where the run got there: threads may have made another one unnecessary.
fn fails_at(case: &Case, preload: &Preload, at: usize, harm: Harm) -> Option<Call> {
    let disk = case.disk("failing");
    let log = case.sandbox.path("log");
    let run = preload.put(case.command(&disk), &disk, &log, harm).run();
    let failed: Vec<Call> = calls(&log).into_iter().filter(|call| call.failed).collect();
    println!("{harm:?}: {}\n{run}", failed.first().map_or("nothing".to_owned(), ToString::to_string));
    match run.code() {
        Some(0) => {
            case.is_done(&disk, &run);
            let lie = failed.iter().find(|call| is_promised(&disk, call));
            // The lock of a batch is written often, and the last time counts.
            let is_tried_again = run.stderr.contains("warning: could not write underpin.lock");
            assert!(lie.is_none() || is_tried_again, "{} failed, and it says that all is well\n{run}", lie.unwrap());
        }
        Some(2) => says_what_failed(&disk, &failed, &run),
        _ => panic!("{at}: neither done nor an error\n{run}"),
    }
    case.is_sound(&disk, &run);
    case.is_done_by_the_next_run(preload, &disk, &run);
    std::fs::remove_dir_all(&disk).unwrap();
    failed.into_iter().next()
}

/// A change of what the command was asked for, not of the store or of what it reads.
fn is_promised(disk: &Path, call: &Call) -> bool {
    let path = call.path.strip_prefix(disk).unwrap();
    let changes = ["create", "write", "truncate", "sync", "rename", "sync-folder", "mkdir", "chmod"];
    changes.contains(&call.kind.as_str()) && !path.starts_with("kept")
}

fn says_what_failed(disk: &Path, failed: &[Call], run: &Run) {
    assert_eq!(run.kind().as_deref(), Some("local-io"), "{run}");
    // As the command line has it, from the disk on; the disk itself is `.`, or written out, or a file in it is named.
    let names = |path: &Path| match path.strip_prefix(disk) {
        Ok(rest) if rest != Path::new("") => run.stderr.contains(&rest.display().to_string()),
        _ => {
            let mut named = run.stderr.lines().filter_map(|line| line.trim().strip_prefix("path  "));
            named.any(|name| Path::new(name) == disk || !name.contains('/'))
        }
    };
    let is_named = failed.iter().any(|call| names(&call.path) || call.path.parent().is_some_and(names));
    assert!(is_named, "it does not say where\n{run}");
}

#[test]
fn a_rebase_to_a_layout_with_any_call_failing() {
    fails_at_every_point(&cases::to_layout());
}

#[test]
fn a_rebase_over_an_image_in_a_layout_with_any_call_failing() {
    fails_at_every_point(&cases::over_an_image());
}

#[test]
fn a_rebase_to_an_oci_archive_with_any_call_failing() {
    fails_at_every_point(&cases::to_oci_archive());
}

#[test]
fn a_rebase_to_a_docker_archive_with_any_call_failing() {
    fails_at_every_point(&cases::to_docker_archive());
}

#[test]
fn a_rebase_from_a_registry_with_any_call_failing() {
    let registries = or_skip!(Registries::two(3_000));
    fails_at_every_point(&cases::from_registry(&registries));
}

#[test]
fn a_rebase_with_a_report_and_a_digest_file_with_any_call_failing() {
    fails_at_every_point(&cases::with_files());
}

#[test]
fn a_batch_and_its_lock_with_any_call_failing() {
    fails_at_every_point(&cases::batch());
}

#[test]
fn a_manifest_changed_in_place_with_any_call_failing() {
    fails_at_every_point(&cases::kube_write());
}

#[test]
fn a_garbage_collection_with_any_call_failing() {
    let registries = or_skip!(Registries::two(3_000));
    fails_at_every_point(&cases::collection(&registries));
}
