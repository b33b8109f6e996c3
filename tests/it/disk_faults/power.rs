//! The power goes, right after exit 0 and at random moments, and takes all that was not synced.
//!
//! After exit 0 what was asked for is there. After any other moment the store does not lie, a target
//! is as it was or complete, and the next run does the rest.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};

use crate::support::durable::{Deaf, Durable, Names};
use crate::support::faulty_disk::{Call, Harm, Preload, calls};
use crate::support::invocation::{Run, files_under};
use crate::support::registries::Registries;
use crate::support::skip::{Part, or_skip};
use crate::support::sweep;

use super::cases;
use super::cases::{Case, STORE};

/// How often the power goes in each case.
fn cuts() -> usize {
    sweep::times(9, 50)
}

/// What may be left: names come to the disk early or late, and not everywhere alike.
fn remains() -> Vec<Names> {
    [Names::Synced, Names::All].into_iter().chain((0..6).map(Names::Mixed)).collect()
}

/// A disk whose durable part is known.
struct Cut<'a> {
    case: &'a Case,
    preload: Preload,
    disk: PathBuf,
    log: PathBuf,
    durable: Durable,
}

impl<'a> Cut<'a> {
    fn new(case: &'a Case) -> Part<Self> {
        let preload = Preload::new()?;
        let [disk, state] = ["disk", "state"].map(|name| case.sandbox.path(name));
        for folder in [&disk, &state] {
            let _ = std::fs::remove_dir_all(folder);
        }
        let disk = case.disk("disk");
        let durable = Durable::new(&disk, &state);
        Ok(Self { case, preload, disk, log: case.sandbox.path("log"), durable })
    }

    fn run(&self, harm: Harm, deaf: Option<Deaf>) -> Run {
        let command = self.durable.watch(self.case.command(&self.disk));
        let command = deaf.into_iter().fold(command, |command, deaf| deaf.to(command));
        self.preload.put(command, &self.disk, &self.log, harm).run()
    }

    fn calls(&self) -> Vec<Call> {
        let calls = calls(&self.log);
        assert!(!calls.is_empty(), "nothing was caught: is the binary static?");
        calls
    }

    /// What the power cut leaves, looked at.
    fn left<T>(&self, names: Names, look: impl FnOnce(&Path) -> T) -> T {
        let left = self.case.sandbox.path("left");
        self.durable.after_power_cut(names, &left);
        let seen = look(&left);
        std::fs::remove_dir_all(&left).unwrap();
        seen
    }
}

fn survives(case: &Case) {
    let cut = or_skip!(Cut::new(case));
    let run = cut.run(Harm::None, None).ok();
    for names in remains() {
        println!("after exit 0: {names:?}");
        cut.left(names, |left| case.is_done(left, &run));
    }
    let count = cut.calls().len();
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut killed = 0;
    let cuts = cuts();
    for number in 0..cuts {
        let at = random.usize(1..=count);
        let cut = Cut::new(case).unwrap();
        let run = cut.run(Harm::Kills { at }, None);
        killed += usize::from(run.status.signal() == Some(libc::SIGKILL));
        for (turn, names) in [Names::Synced, Names::All, Names::Mixed(random.u64(..))].into_iter().enumerate() {
            println!("cut {number} of seed {seed} before call {at} of {count}: {names:?}\n{run}");
            cut.left(names, |left| {
                case.is_sound(left, &run);
                // In turn: the next run takes longer than all the rest.
                if number % 3 == turn {
                    case.is_done_by_the_next_run(&cut.preload, left, &run);
                }
            });
        }
    }
    println!("{killed} of {cuts} runs were cut off, at {count} calls");
    assert!(killed > cuts / 2, "only {killed} of {cuts} runs were cut off");
}

#[test]
fn a_layout_survives_a_power_cut() {
    survives(&cases::to_layout());
}

#[test]
fn a_layout_that_has_images_survives_a_power_cut() {
    survives(&cases::over_an_image());
}

#[test]
fn an_oci_archive_survives_a_power_cut() {
    survives(&cases::to_oci_archive());
}

#[test]
fn a_docker_archive_survives_a_power_cut() {
    survives(&cases::to_docker_archive());
}

#[test]
fn a_cold_cache_survives_a_power_cut() {
    let registries = or_skip!(Registries::two(3_000));
    survives(&cases::from_registry(&registries));
}

#[test]
fn a_report_and_a_digest_file_survive_a_power_cut() {
    survives(&cases::with_files());
}

#[test]
fn a_batch_and_its_lock_survive_a_power_cut() {
    survives(&cases::batch());
}

#[test]
fn a_manifest_changed_in_place_survives_a_power_cut() {
    survives(&cases::kube_write());
}

#[test]
fn a_garbage_collection_survives_a_power_cut() {
    let registries = or_skip!(Registries::two(3_000));
    survives(&cases::collection(&registries));
}

/// What was fetched need not be fetched again.
#[test]
fn a_store_survives_a_power_cut() {
    let registries = or_skip!(Registries::two(3_000));
    let case = cases::from_registry(&registries);
    let cut = or_skip!(Cut::new(&case));
    cut.run(Harm::None, None).ok();
    let names = |disk: &Path| {
        let files = files_under(&disk.join(STORE));
        let names: BTreeSet<PathBuf> = files.iter().map(|path| path.strip_prefix(disk).unwrap().to_owned()).collect();
        names
    };
    assert!(names(&cut.disk).len() > 10);
    assert_eq!(cut.left(Names::Synced, names), names(&cut.disk));
}

/// A run is killed when its result has its name, and before that name is durable. The next one finds
/// nothing to do; after its exit 0 the result is durable all the same.
#[test]
fn what_a_killed_run_has_named_is_durable_after_the_next() {
    for (mut case, named) in [
        (cases::over_an_image(), "out/index.json"),
        (cases::to_layout(), "out/index.json"),
        (cases::to_oci_archive(), "out.tar"),
        (cases::to_docker_archive(), "out.tar"),
        (cases::batch(), "underpin.lock"),
    ] {
        // One thing after another, so that both runs make the same calls.
        case.args.extend(["--jobs", "1"].map(Into::into));
        let cut = or_skip!(Cut::new(&case));
        cut.run(Harm::None, None).ok();
        let is_it = |call: &Call| call.kind == "rename" && call.path.ends_with(named);
        let at = cut.calls().iter().rposition(is_it).unwrap() + 2;
        let cut = Cut::new(&case).unwrap();
        let killed = cut.run(Harm::Kills { at }, None);
        assert!(cut.calls().last().is_some_and(is_it), "{killed}");
        cut.left(Names::Synced, |left| assert!((case.done)(left).is_err(), "it was durable already\n{killed}"));
        let run = cut.run(Harm::None, None).ok();
        cut.left(Names::Synced, |left| case.is_done(left, &run));
    }
}

/// The checks above can fail: without syncs of folders names are lost, without those of files bytes.
#[test]
fn a_disk_that_ignores_syncs_is_noticed() {
    let mut cases = vec![cases::to_layout(), cases::to_oci_archive(), cases::with_files(), cases::batch()];
    cases.push(cases::kube_write());
    for case in &cases {
        for (deaf, names) in [(Deaf::Folders, Names::Synced), (Deaf::Files, Names::All)] {
            let cut = or_skip!(Cut::new(case));
            let run = cut.run(Harm::None, Some(deaf)).ok();
            cut.left(names, |left| assert!((case.done)(left).is_err(), "{deaf:?} made no difference\n{run}"));
        }
    }
}
