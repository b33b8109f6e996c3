//! Disks without room, and processes without handles.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use crate::support::faulty_disk::SmallDisk;
use crate::support::published;
use crate::support::registries::Registries;
use crate::support::skip::or_skip;

use super::{hidden_files, under};

/// Sizes of disks that the result does not fit on, at random.
fn sizes(count: usize, most: usize) -> impl Iterator<Item = String> {
    let seed = fastrand::u64(..);
    println!("sizes of seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(move |_| format!("{}k", random.usize(1..most)))
}

#[test]
fn a_full_disk_is_named_and_harms_nothing() {
    let registries = or_skip!(Registries::two(300_000));
    for size in sizes(50, 290) {
        let disk = or_skip!(SmallDisk::new(&size));
        let to = format!("oci:{}:v1", disk.path("out").display());
        let run = registries.rebase(&to, "cache-l1").run().fails("local-io");
        let run = run.says(&disk.root().display().to_string());
        // Where bytes did not fit it says how many there are.
        assert!(!run.stderr.contains("could not write") || run.stderr.contains("\n  needed "), "{size}\n{run}");
        assert!(!disk.path("out/index.json").exists(), "{size}\n{run}");
        disk.grow("8m");
        let run = registries.rebase(&to, "cache-l1").run().ok();
        assert_eq!(published::layout(&disk.path("out"), "v1").unwrap().digest, run.digest(), "{size}");
        assert_eq!(hidden_files(&disk.path("out")), Vec::<PathBuf>::new(), "{size}\n{run}");
    }
}

#[test]
fn a_cache_that_is_full_does_not_stop_the_work() {
    let registries = or_skip!(Registries::two(500_000));
    for size in sizes(20, 480) {
        let disk = or_skip!(SmallDisk::new(&size));
        let trial = registries.trial();
        let run = trial.run_with_cache(&disk.path("cache"));
        let run = trial.gives_the_expected_image(run).says("cache");
        assert_eq!(published::lies_in_cache(&disk.path("cache")), Vec::<PathBuf>::new(), "{size}\n{run}");
        trial.settle();
    }
}

#[test]
fn few_files_are_enough() {
    let registries = or_skip!(Registries::two(100_000));
    let trial = registries.trial();
    trial.gives_the_expected_image(under(&registries, &trial, "ulimit -n 32;"));
    trial.settle();
}

#[test]
fn a_file_that_may_not_grow_does_not_end_in_a_lie() {
    let registries = or_skip!(Registries::two(1_000_000));
    let trial = registries.trial();
    // 200 KiB: the layer does not fit.
    let run = under(&registries, &trial, "ulimit -f 400;");
    assert_eq!(run.status.signal(), None, "{run}");
    match run.code() {
        // The cache may turn itself off and the work go on.
        Some(0) => drop(trial.gives_the_expected_image(run)),
        _ => drop(trial.fails(run, "local-io")),
    }
    trial.settle();
}
