//! A collector that is killed, and one that works beside runs.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::invocation::Invocation;
use crate::support::published;
use crate::support::skip::or_skip;
use crate::support::sweep;
use crate::support::tar_layer::digest;

use super::Setup;

fn kills() -> usize {
    sweep::times(10, 50)
}

fn copy(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.unwrap().success());
}

/// Blobs that nobody holds, so that a collection takes a while.
fn litter(cache: &Path, count: usize) {
    for number in 0..count {
        let bytes = format!("litter {number}");
        let name = digest(bytes.as_bytes());
        std::fs::write(cache.join("blobs/sha256").join(name.strip_prefix("sha256:").unwrap()), bytes).unwrap();
    }
}

#[test]
fn a_collector_killed_at_any_moment_harms_nothing() {
    let mut setup = or_skip!(Setup::new(10_000));
    litter(&setup.cache, 300);
    let template = setup.registries.sandbox.path("template");
    copy(&setup.cache, &template);
    let protected = setup.name("base/new:v1");
    let args = ["gc", "--max-size", "0", "--protect", &protected];
    let blobs = |cache: &Path| std::fs::read_dir(cache.join("blobs/sha256")).unwrap().count();
    let before = blobs(&setup.cache);
    setup.run(&args).ok();
    let removed = before - blobs(&setup.cache);
    let done: Vec<PathBuf> =
        setup.files().iter().map(|path| path.strip_prefix(&setup.cache).unwrap().to_owned()).collect();
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut killed = 0;
    let kills = kills();
    for number in 0..kills {
        setup.cache = setup.registries.sandbox.path(&format!("killed-{number}"));
        copy(&template, &setup.cache);
        // Told by what is gone: a time would come early on a busy machine, or after the end on one that is idle again.
        let after = random.usize(0..removed);
        let running = setup.command(&args).start();
        while before - blobs(&setup.cache) < after && running.is_running() {}
        running.signal(libc::SIGKILL);
        let run = running.finish();
        println!("kill {number} of seed {seed} after {after} of {removed} blobs\n{run}");
        killed += usize::from(run.status.signal() == Some(libc::SIGKILL));
        assert_eq!(published::lies_in_cache(&setup.cache), Vec::<PathBuf>::new());
        assert!(setup.has("base/new:v1"), "the protected image is whole");
        // What is still recorded is whole too.
        for image in setup.json(&["ls"])["images"].as_array().unwrap() {
            let name = image["reference"].as_str().unwrap();
            assert!(setup.has(name.split_once('/').unwrap().1), "{name} is recorded and not whole");
        }
        setup.run(&args).ok();
        let left: Vec<PathBuf> =
            setup.files().iter().map(|path| path.strip_prefix(&setup.cache).unwrap().to_owned()).collect();
        assert_eq!(left, done, "the second one finishes");
        std::fs::remove_dir_all(&setup.cache).unwrap();
    }
    assert!(killed > kills / 4, "only {killed} of {kills} were still there to be killed");
}

/// Ends the watch, also when something fails.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How long the collector works beside the runs.
fn duration() -> Duration {
    Duration::from_secs(sweep::times(6, 60))
}

/// Six runs at a time into the shared store; some are killed, all others give what they should.
fn rebase_until(setup: &Setup, until: Instant, expected: &str) -> [usize; 2] {
    let mut random = fastrand::Rng::new();
    let mut ended = [0, 0];
    while Instant::now() < until {
        let out = |number: usize| setup.registries.sandbox.path(&format!("out-{number}"));
        let to = |number: usize| format!("oci:{}:t", out(number).display());
        let running: Vec<_> = (0..6).map(|number| setup.registries.rebase(&to(number), "store").start()).collect();
        for (number, run) in running.into_iter().enumerate() {
            if number < 2 && random.bool() {
                std::thread::sleep(Duration::from_millis(random.u64(0..60)));
                run.signal(libc::SIGKILL);
            }
            let run = run.finish();
            let is_killed = run.status.signal().is_some();
            ended[usize::from(is_killed)] += 1;
            if !is_killed {
                assert_eq!(run.ok().digest(), expected);
            }
            let _ = std::fs::remove_dir_all(out(number));
        }
    }
    ended
}

/// Writes the list of protected images anew all the time: with one entry, or with two.
fn protect_until(over: &AtomicBool, list: &Path, always: &str, sometimes: &str) {
    let fresh = list.with_extension("fresh");
    while !over.load(Ordering::Relaxed) {
        for text in [format!("{always}\n"), format!("{sometimes}\n{always}\n")] {
            std::fs::write(&fresh, text).unwrap();
            std::fs::rename(&fresh, list).unwrap();
            std::thread::sleep(Duration::from_millis(3));
        }
    }
}

/// Collects until the time is over. Collectors are killed too, now and then; the others succeed.
fn collect_until(until: Instant, commands: impl Iterator<Item = Invocation>) -> usize {
    let mut random = fastrand::Rng::new();
    let mut done = 0;
    for command in commands.take_while(|_| Instant::now() < until) {
        let running = command.start();
        if random.u8(0..4) == 0 {
            std::thread::sleep(Duration::from_millis(random.u64(0..40)));
            running.signal(libc::SIGKILL);
        }
        let run = running.finish();
        if run.status.signal().is_none() {
            run.ok();
            done += 1;
        }
    }
    done
}

#[test]
fn a_collector_beside_runs_breaks_none_and_takes_nothing_protected() {
    let setup = or_skip!(Setup::new(30_000));
    let protected = setup.name("base/new:v1");
    let list = setup.file("protected", &format!("{protected}\n"));
    let kept: Vec<PathBuf> = {
        let blobs = setup.registries.new_base.layers().into_iter().chain([setup.registries.new_base.digest()]);
        blobs.map(|name| setup.cache.join("blobs/sha256").join(name.strip_prefix("sha256:").unwrap())).collect()
    };
    assert!(kept.iter().all(|path| path.exists()));
    let expected = setup.registries.expected().to_owned();
    let (over, until, old) = (AtomicBool::new(false), Instant::now() + duration(), setup.name("base/old:v1"));
    // Made before: what they are made from stays with this thread.
    let gc = |_| setup.command(&["gc", "--max-size", "0", "--protect-file", &list]);
    let commands: Vec<Invocation> = (0..100 * duration().as_secs()).map(gc).collect();
    let (collections, ended) = std::thread::scope(|scope| {
        let (over, kept) = (&over, &kept);
        let _end = Ending(over);
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                assert!(kept.iter().all(|path| path.exists()), "something protected was taken");
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let (list, protected, old) = (&list, &protected, &old);
        scope.spawn(move || protect_until(over, Path::new(list), protected, old));
        let collector = scope.spawn(move || collect_until(until, commands.into_iter()));
        let ended = rebase_until(&setup, until, &expected);
        (collector.join().unwrap(), ended)
    });
    println!("{collections} collections beside {} runs, and {} that were killed", ended[0], ended[1]);
    assert!(collections > 2 && ended[0] > 6 && ended[1] > 0, "{collections} collections, {ended:?}");
    assert!(setup.has("base/new:v1"));
    assert_eq!(published::lies_in_cache(&setup.cache), Vec::<PathBuf>::new());
    setup.run(&["verify"]).ok();
    setup.run(&["gc", "--max-size", "0", "--protect", &protected]).ok();
    assert!(setup.has("base/new:v1") && !setup.has("in/app:v1"));
}
