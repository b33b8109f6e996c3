//! What a run that was killed leaves, the next one removes; what a signal ends, ends without a trace.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{acting, assert_nothing_is_left, layouts};
use crate::support::invocation::Running;
use crate::support::layouts::Layouts;
use crate::support::skip::{need, or_skip};
use crate::support::sweep;

/// How often a run is killed.
fn kills() -> usize {
    sweep::times(6, 60)
}

/// The directories of runs, dead or alive.
pub(super) fn runs(layouts: &Layouts) -> Vec<String> {
    let all = std::fs::read_dir(layouts.sandbox.path("tmp")).into_iter().flatten().flatten();
    let all = all.flat_map(|of_user| std::fs::read_dir(of_user.path()).into_iter().flatten().flatten());
    all.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name != "lock").collect()
}

/// The processes that belong to one of the runs: by their control group, their mounts, or their arguments.
fn processes(layouts: &Layouts, runs: &[String]) -> Vec<String> {
    let place = layouts.sandbox.path("tmp").to_str().unwrap().to_owned();
    let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let read = |path: &Path, name: &str| {
        std::fs::read(path.join(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    let belongs = |path: &PathBuf| {
        let groups = read(path, "cgroup").unwrap_or_default();
        let mounts = read(path, "mountinfo").unwrap_or_default();
        runs.iter().any(|run| groups.contains(run) || mounts.contains(run))
            || read(path, "cmdline").unwrap_or_default().contains(&place)
    };
    all.filter(belongs).map(|path| read(&path, "status").unwrap_or_default()).collect()
}

fn groups(runs: &[String]) -> Vec<PathBuf> {
    let hierarchies = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten().map(|entry| entry.path());
    let all = hierarchies
        .chain([PathBuf::from("/sys/fs/cgroup")])
        .flat_map(|path| std::fs::read_dir(path).into_iter().flatten().flatten());
    let is_theirs = |path: &PathBuf| {
        runs.iter().any(|run| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(run.as_str())))
    };
    all.map(|entry| entry.path()).filter(is_theirs).collect()
}

/// Until a program of an image runs.
pub(super) fn wait_for_program(layouts: &Layouts) {
    let begun = std::time::Instant::now();
    let is_running = || processes(layouts, &runs(layouts)).iter().any(|status| status.starts_with("Name:\tapp\n"));
    while !is_running() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it was never started");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(super) fn assert_all_is_gone(layouts: &Layouts, seen: &[String]) {
    assert_nothing_is_left(layouts);
    assert_eq!(runs(layouts), Vec::<String>::new());
    assert_eq!(processes(layouts, seen), Vec::<String>::new());
    assert_eq!(groups(seen), Vec::<PathBuf>::new());
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(layouts.sandbox.path("tmp").to_str().unwrap()), "{mounts}");
}

/// Kills a run whose program runs, then others at random points, and says which were seen.
pub(super) fn killed(layouts: &Layouts, count: usize, start: impl Fn() -> Running) -> Vec<String> {
    let begun = std::time::Instant::now();
    let first = start();
    wait_for_program(layouts);
    let until_started = begun.elapsed();
    let mut seen = runs(layouts);
    end_hard(first);
    for _ in 0..count {
        let running = start();
        std::thread::sleep(until_started.mul_f64(fastrand::f64() * 1.5));
        seen.extend(runs(layouts));
        end_hard(running);
    }
    seen.sort();
    seen.dedup();
    seen
}

/// Its streams are closed when the last of its processes is gone, which may be only the next run's doing.
fn end_hard(running: Running) {
    running.signal(libc::SIGKILL);
    std::thread::spawn(move || running.finish());
}

#[test]
fn what_a_killed_run_leaves_the_next_one_removes() {
    or_skip!(need(&["runc", "cc"]));
    let layouts = layouts(&acting(&["deaf"]));
    let seen = killed(&layouts, kills(), || {
        layouts.underpin(&["start", "oci:app:v1", "--no-cache", "--seconds", "60"]).start()
    });
    layouts.underpin(&["start", "oci:app:v1", "--no-cache", "--seconds", "1"]).run().ok();
    assert_all_is_gone(&layouts, &seen);
}

#[test]
fn a_signal_ends_the_program_and_leaves_nothing() {
    or_skip!(need(&["runc", "cc"]));
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        let layouts = layouts(&acting(&["deaf"]));
        let running = layouts.underpin(&["start", "oci:app:v1", "--no-cache", "--seconds", "60"]).start();
        let begun = std::time::Instant::now();
        while groups(&runs(&layouts)).is_empty() && begun.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let seen = runs(&layouts);
        assert!(!groups(&seen).is_empty(), "it was never started");
        running.signal(signal);
        let run = running.finish();
        assert_eq!(run.code(), Some(code), "{run}");
        assert_all_is_gone(&layouts, &seen);
    }
}

#[test]
fn runs_side_by_side_leave_each_other_alone() {
    or_skip!(need(&["runc", "cc"]));
    let layouts = layouts(&acting(&["stay"]));
    let start = || layouts.underpin(&["start", "oci:app:v1", "--no-cache", "--seconds", "1"]).start();
    let all: Vec<_> = (0..3).map(|_| start()).collect();
    for running in all {
        running.finish().ok();
    }
    assert_all_is_gone(&layouts, &[]);
}
