//! A run can end at any moment. The next one finds everything as it should be.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use crate::support::invocation::Run;
use crate::support::proxy::{Action, on};
use crate::support::registries::Registries;
use crate::support::skip::or_skip;
use crate::support::sweep;

/// How often a run is ended, at another moment each time.
fn times() -> usize {
    sweep::times(15, 100)
}

/// Slow enough that a kill falls into the middle of something.
fn slow(registries: &Registries) {
    for proxy in [&registries.source.proxy, &registries.target.proxy] {
        proxy.script([on("GET", "/blobs/").always().does(Action::Rate(4_000_000))]);
    }
}

/// How many requests came since the trial began.
fn asked(registries: &Registries) -> usize {
    registries.source.proxy.count("*", "") + registries.target.proxy.count("*", "")
}

/// Ends runs with these signals in turn, at random moments, and looks at what each has left. A moment is told by requests,
/// because a time would come early on a busy machine, or after the end of the run on one that is idle again. `check`
/// is asked about every run that was ended, and how long it took to end.
fn ended_at_random_moments(signals: &[libc::c_int], check: impl Fn(libc::c_int, &Run, Duration)) {
    let registries = or_skip!(Registries::two(1_000_000));
    let trial = registries.trial();
    slow(&registries);
    let whole = trial.gives_the_expected_image(trial.run()).elapsed;
    let requests = asked(&registries);
    let gap = whole / u32::try_from(requests).unwrap();
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut ended = 0;
    let times = times();
    for number in 0..times {
        let trial = registries.trial();
        slow(&registries);
        let (after, moment) = (random.usize(0..requests), gap.mul_f64(random.f64()));
        let signal = signals[number % signals.len()];
        let running = trial.invocation().start();
        while asked(&registries) < after && running.is_running() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(moment);
        running.signal(signal);
        let sent = Instant::now();
        let run = running.finish();
        println!(
            "signal {signal}, {number} of seed {seed}, after {after} of {requests} requests and {moment:?}\n{run}"
        );
        if run.code() != Some(0) {
            ended += 1;
            check(signal, &run, sent.elapsed());
        }
        trial.settle();
    }
    println!("{ended} of {times} runs were ended");
    assert!(ended > times / 2, "only {ended} of {times} runs were still there to be ended");
}

#[test]
fn a_kill_at_any_moment_harms_nothing() {
    ended_at_random_moments(&[libc::SIGKILL], |signal, run, _| assert_eq!(run.status.signal(), Some(signal), "{run}"));
}

#[test]
fn an_interruption_at_any_moment_harms_nothing() {
    ended_at_random_moments(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP], |signal, run, took| {
        // Before it heeds signals, the system ends it.
        assert!(run.code() == Some(128 + signal) || run.status.signal() == Some(signal), "{run}");
        assert!(took < Duration::from_secs(2), "{took:?}\n{run}");
    });
}

#[test]
fn an_interrupted_run_says_so_and_ends_at_once() {
    let registries = or_skip!(Registries::two(1000));
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        for (method, pattern) in [("GET", "/blobs/"), ("GET", "/manifests/"), ("PUT", "/blobs/uploads/")] {
            let trial = registries.trial();
            let proxy = if method == "PUT" { &registries.target.proxy } else { &registries.source.proxy };
            proxy.script([on(method, pattern).always().does(Action::Hang)]);
            let running = trial.invocation().env("UNDERPIN_TEST_PACE", "1").start();
            assert!(proxy.wait_for(method, pattern, Duration::from_secs(30)), "it never got there");
            let sent = Instant::now();
            running.signal(signal);
            let run = running.finish();
            assert_eq!(run.code(), Some(code), "{method} {pattern}\n{run}");
            assert!(run.stderr.ends_with("interrupted: nothing was published\n"), "{method} {pattern}\n{run}");
            assert!(sent.elapsed() < Duration::from_secs(2), "{:?}\n{run}", sent.elapsed());
            assert_eq!(trial.target(), None);
            trial.settle();
        }
    }
}

#[test]
fn a_run_under_nohup_outlives_its_terminal() {
    let registries = or_skip!(Registries::two(1000));
    let trial = registries.trial();
    registries.source.proxy.script([on("GET", "/blobs/").always().does(Action::Rate(100_000))]);
    let running = trial.invocation().upon(libc::SIGHUP, libc::SIG_IGN).start();
    assert!(registries.source.proxy.wait_for("GET", "/blobs/", Duration::from_secs(30)), "it never got there");
    running.signal(libc::SIGHUP);
    trial.gives_the_expected_image(running.finish());
}
