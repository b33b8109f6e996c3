//! A run can end at any moment. The next one finds everything as it should be.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use crate::rig::proxy::{Action, on};
use crate::rig::world::World;

const KILLS: usize = 50;

/// Slow enough that a kill falls into the middle of something.
fn slow(world: &World) {
    for proxy in [&world.source.proxy, &world.target.proxy] {
        proxy.script([on("GET", "/blobs/").always().does(Action::Rate(4_000_000))]);
    }
}

#[test]
fn l4_a_kill_at_any_moment_harms_nothing() {
    let Some(world) = World::two(1_000_000) else { return };
    let trial = world.trial();
    slow(&world);
    let whole = trial.gives_the_expected_image(trial.run()).elapsed;
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut killed = 0;
    for number in 0..KILLS {
        let trial = world.trial();
        slow(&world);
        let moment = whole.mul_f64(random.f64());
        let running = trial.invocation().start();
        std::thread::sleep(moment);
        running.signal(libc::SIGKILL);
        let run = running.finish();
        println!("kill {number} of seed {seed} after {moment:?} of {whole:?}\n{run}");
        killed += usize::from(run.status.signal() == Some(libc::SIGKILL));
        trial.settle();
    }
    assert!(killed > KILLS / 2, "only {killed} of {KILLS} runs were still there to be killed");
}

#[test]
fn l5_an_interrupted_run_says_so_and_ends_at_once() {
    let Some(world) = World::two(1000) else { return };
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        for (method, pattern) in [("GET", "/blobs/"), ("GET", "/manifests/"), ("PUT", "/blobs/uploads/")] {
            let trial = world.trial();
            let proxy = if method == "PUT" { &world.target.proxy } else { &world.source.proxy };
            proxy.script([on(method, pattern).always().does(Action::Hang)]);
            let running = trial.invocation().env("UNDERPIN_TEST_PACE", "1").start();
            assert!(proxy.wait_for(method, pattern, Duration::from_secs(30)), "it never got there");
            let sent = Instant::now();
            running.signal(signal);
            let run = running.finish();
            assert_eq!(run.code(), Some(code), "{method} {pattern}\n{run}");
            assert!(sent.elapsed() < Duration::from_secs(2), "{:?}\n{run}", sent.elapsed());
            assert_eq!(trial.target(), None);
            trial.settle();
        }
    }
}
