//! Disks, caches and pipes that fail, and processes that share: rows L1 to L13, C1 and C2.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::rig::check;
use crate::rig::cli::{Sandbox, files_under};
use crate::rig::debian::of_this_machine;
use crate::rig::layer::{Layer, Pack, file, noise, program};
use crate::rig::preload::{Harm, Preload};
use crate::rig::program::{Machine, prints};
use crate::rig::run::Run;
use crate::rig::shelf::blob_path;
use crate::rig::small_disk::SmallDisk;
use crate::rig::stage::{Stage, upon};
use crate::rig::stock;
use crate::rig::world::World;

/// Runs `underpin` under a shell that sets something first.
fn under(world: &World, trial: &crate::rig::world::Trial, prefix: &str) -> Run {
    let name = |rest: &str| world.source.name(rest);
    let script = format!("{prefix} exec \"$0\" \"$@\"");
    let binary = crate::rig::cli::binary();
    let args = ["-c", &script, &binary, "rebase", &name("in/app:v1"), "--base", &name("base/new:v1")];
    let invocation = world.sandbox.program("/bin/sh", args);
    let invocation = invocation.args(["--old-base", &name("base/old:v1"), "--to", &trial.to(), "--cache"]);
    invocation.arg(trial.cache()).hurried().run()
}

/// Sizes of disks that the result does not fit on, at random.
fn sizes(count: usize, most: usize) -> impl Iterator<Item = String> {
    let seed = fastrand::u64(..);
    println!("sizes of seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(move |_| format!("{}k", random.usize(1..most)))
}

#[test]
fn l1_a_full_disk_is_named_and_harms_nothing() {
    let Some(world) = World::two(300_000) else { return };
    for size in sizes(50, 290) {
        let Some(disk) = SmallDisk::new(&size) else { return };
        let to = format!("oci:{}:v1", disk.path("out").display());
        let run = world.rebase(&to, "cache-l1").run().fails("local-io");
        let run = run.says(&disk.root().display().to_string());
        // Where bytes did not fit it says how many there are.
        assert!(!run.stderr.contains("could not write") || run.stderr.contains("\n  needed "), "{size}\n{run}");
        assert!(!disk.path("out/index.json").exists(), "{size}\n{run}");
        disk.grow("8m");
        let run = world.rebase(&to, "cache-l1").run().ok();
        assert_eq!(check::layout(&disk.path("out"), "v1").unwrap().digest, run.digest(), "{size}");
        assert_eq!(hidden_files(&disk.path("out")), Vec::<PathBuf>::new(), "{size}\n{run}");
    }
}

#[test]
fn l1_a_cache_that_is_full_does_not_stop_the_work() {
    let Some(world) = World::two(500_000) else { return };
    for size in sizes(20, 480) {
        let Some(disk) = SmallDisk::new(&size) else { return };
        let trial = world.trial();
        let run = trial.run_with_cache(&disk.path("cache"));
        let run = trial.gives_the_expected_image(run).says("cache");
        assert_eq!(check::lies_in_cache(&disk.path("cache")), Vec::<PathBuf>::new(), "{size}\n{run}");
        trial.settle();
    }
}

#[test]
fn l3_few_files_are_enough() {
    let Some(world) = World::two(100_000) else { return };
    let trial = world.trial();
    trial.gives_the_expected_image(under(&world, &trial, "ulimit -n 32;"));
    trial.settle();
}

#[test]
fn l3_a_file_that_may_not_grow_does_not_end_in_a_lie() {
    let Some(world) = World::two(1_000_000) else { return };
    let trial = world.trial();
    // 200 KiB: the layer does not fit.
    let run = under(&world, &trial, "ulimit -f 400;");
    assert_eq!(run.status.signal(), None, "{run}");
    match run.code() {
        // The cache may turn itself off and the work go on.
        Some(0) => drop(trial.gives_the_expected_image(run)),
        _ => drop(trial.fails(run, "local-io")),
    }
    trial.settle();
}

#[test]
fn l7_a_damaged_cache_is_noticed_and_mended() {
    let Some(world) = World::two(100_000) else { return };
    let harms: [fn(&mut Vec<u8>); 3] = [|bytes| bytes[500] ^= 1, |bytes| bytes.truncate(600), Vec::clear];
    for harm in harms {
        let trial = world.trial();
        trial.gives_the_expected_image(trial.run());
        let mut blobs = files_under(&trial.cache());
        blobs.retain(|path| path.parent().is_some_and(|folder| folder.ends_with("blobs/sha256")));
        for path in &blobs {
            let mut bytes = std::fs::read(path).unwrap();
            if bytes.len() > 1000 {
                harm(&mut bytes);
                std::fs::write(path, bytes).unwrap();
            }
        }
        let again = world.target.name(&format!("again/{}:v1", trial.tag));
        let run = world.rebase(&again, &format!("cache-{}", &trial.tag[1..])).run().ok();
        assert_eq!(run.digest(), world.expected(), "{run}");
        trial.settle();
    }
}

#[test]
fn l9_a_cache_that_cannot_be_written_is_done_without() {
    let Some(world) = World::two(1000) else { return };
    let trial = world.trial();
    // A file where the folder should be stops root too.
    std::fs::write(trial.cache(), "in the way").unwrap();
    let run = trial.run();
    match run.code() {
        Some(0) => drop(trial.gives_the_expected_image(run).says("cache")),
        _ => drop(trial.fails(run, "local-io")),
    }
    std::fs::remove_file(trial.cache()).unwrap();
    trial.settle();
}

#[test]
fn l9_a_cache_on_a_file_system_without_locks_is_done_without() {
    let Some(preload) = Preload::new() else { return };
    let Some(world) = World::two(1000) else { return };
    for errno in [libc::ENOLCK, libc::EOPNOTSUPP, libc::ENOSYS] {
        let trial = world.trial();
        let log = world.sandbox.path("log");
        let run = preload.put(trial.invocation(), &trial.cache(), &log, Harm::NoLocks { errno }).run();
        trial.gives_the_expected_image(run).says("working without a cache").says("cannot lock");
        assert_eq!(files_under(&trial.cache()), Vec::<PathBuf>::new(), "nothing is shared there");
        // A target without locks cannot be shared either, and is not written to.
        let out = world.sandbox.path("out");
        for to in [format!("oci:{}:v1", out.display()), format!("oci-archive:{}:v1", out.join("a.tar").display())] {
            let _ = std::fs::remove_dir_all(&out);
            std::fs::create_dir(&out).unwrap();
            let rebase = world.rebase(&to, "cache-expected");
            let run = preload.put(rebase, &out, &log, Harm::NoLocks { errno }).run().fails("local-io");
            let run = run.says("lock").says(&out.display().to_string());
            assert!(!out.join("index.json").exists() && !out.join("a.tar").exists(), "{run}");
            world.rebase(&to, "cache-expected").run().ok();
        }
        trial.settle();
    }
}

#[test]
fn l10_temporary_files_may_be_on_another_device() {
    // A layer that is written again and too large for memory, beside what leaves it.
    let Some(package) = of_this_machine("netbase") else { return };
    let own = [program("app", prints(Machine::Amd64, stock::LINE)), file("srv/payload", noise(7, 6 << 20))];
    let layer = Layer::of(Pack::Gzip, &package.installed().into_iter().chain(own).collect::<Vec<_>>());
    let old = stock::old_base("linux/amd64");
    let stage = Stage::on(&old, &upon(&old, [layer], stock::app_config()));
    let Some(disk) = SmallDisk::new("1m") else { return };
    let rebase = || stage.rebase("out").env("TMPDIR", disk.root());
    rebase().run().fails("local-io").says(&disk.root().display().to_string());
    assert!(!stage.layout("out").join("index.json").exists());
    disk.grow("32m");
    let run = rebase().run().ok();
    assert_eq!(check::layout(&stage.layout("out"), "v1").unwrap().digest, run.digest());
    assert_eq!(files_under(disk.root()), Vec::<PathBuf>::new());
}

#[test]
fn l10_any_path_will_do() {
    let sandbox = Sandbox::new();
    let odd = sandbox.path("with space, ümlaut, 'quotes' and \u{1f980}").join("x".repeat(200));
    std::fs::create_dir_all(odd.join("tmp")).unwrap();
    stock::app("linux/amd64", 1000).build().layout(&odd.join("app"), "v1");
    stock::old_base("linux/amd64").build().layout(&odd.join("old"), "v1");
    stock::new_base("linux/amd64").build().layout(&odd.join("new"), "v1");
    let at = |name: &str| format!("oci:{}:v1", odd.join(name).display());
    let args = ["rebase", &at("app"), "--base", &at("new"), "--old-base", &at("old"), "--to", &at("out"), "--cache"];
    sandbox.underpin(args).arg(odd.join("cache")).env("TMPDIR", odd.join("tmp")).run().ok();
    check::layout(&odd.join("out"), "v1").unwrap();
}

#[test]
fn l13_a_reader_that_went_away_is_no_panic() {
    let Some(world) = World::two(1000) else { return };
    let trial = world.trial();
    let run = under(&world, &trial, "exec >&-;");
    assert!(run.code().is_some_and(|code| code == 0 || code == 2), "{run}");
    trial.settle();
    let trial = world.trial();
    let run = under(&world, &trial, "exec >/dev/full;");
    assert!(run.code() == Some(0) || run.kind().as_deref() == Some("local-io"), "{run}");
    trial.settle();
}

#[test]
fn l13_a_reader_of_messages_that_stands_still_does_not_stop_the_work() {
    let Some(world) = World::two(1000) else { return };
    let trial = world.trial();
    // The pipe is full before the run begins, and its reader reads nothing until the run has ended.
    let script = "exec 3>&1; { head -c 65536 /dev/zero >&2; \"$0\" \"$@\" 1>&3; echo $? >$TMPDIR/code; } 2>&1 | \
                  { while ! [ -e $TMPDIR/code ]; do sleep 0.1; done; cat >/dev/null; }; \
                  code=$(cat $TMPDIR/code); rm $TMPDIR/code; exit $code";
    let name = |rest: &str| world.source.name(rest);
    let binary = crate::rig::cli::binary();
    let args = ["-c", script, &binary, "rebase", &name("in/app:v1"), "--base", &name("base/new:v1")];
    let invocation = world.sandbox.program("/bin/sh", args);
    let invocation = invocation.args(["--old-base", &name("base/old:v1"), "--to", &trial.to(), "--cache"]);
    let run = invocation.arg(trial.cache()).hurried().limit(Duration::from_secs(60)).run();
    trial.gives_the_expected_image(run);
    trial.settle();
}

#[test]
fn c1_runs_that_share_a_cold_cache_fetch_each_blob_at_most_twice() {
    let Some(world) = World::two(500_000) else { return };
    let trial = world.trial();
    let start =
        |number: usize| world.rebase(&world.target.name(&format!("share/s{number}:v1")), "cache-shared").start();
    let running: Vec<_> = (0..4).map(start).collect();
    for run in running {
        assert_eq!(run.finish().ok().digest(), world.expected());
    }
    let fetched = world.source.proxy.count("GET", &format!("/blobs/{}", world.app_layer()));
    assert!(fetched <= 2, "the layer was fetched {fetched} times");
    assert_eq!(check::lies_in_cache(&world.sandbox.path("cache-shared")), Vec::<PathBuf>::new());
    trial.settle();
}

#[test]
fn c2_eight_runs_write_eight_tags_into_one_layout() {
    let Some(world) = World::two(10_000) else { return };
    let out = world.sandbox.path("layout");
    let start = |number: usize| {
        let cache = format!("cache-{number}");
        world.rebase(&format!("oci:{}:t{number}", out.display()), &cache).start()
    };
    let running: Vec<_> = (0..8).map(start).collect();
    for run in running {
        run.finish().ok();
    }
    for number in 0..8 {
        check::layout(&out, &format!("t{number}")).unwrap_or_else(|why| panic!("t{number}: {why}"));
    }
    assert_eq!(hidden_files(&out), Vec::<PathBuf>::new(), "orphans");
}

/// Temporary files that nobody removed.
fn hidden_files(folder: &Path) -> Vec<PathBuf> {
    let mut left = files_under(folder);
    left.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')));
    left
}

#[test]
fn a_layout_that_is_damaged_is_not_made_worse() {
    let Some(world) = World::two(1000) else { return };
    let out = world.sandbox.path("layout");
    let to = format!("oci:{}:v1", out.display());
    world.rebase(&to, "cache").run().ok();
    std::fs::write(out.join("index.json"), "{\"manifests\": ").unwrap();
    let run = world.rebase(&to, "cache").run();
    assert_eq!(run.code(), Some(2), "{run}");
    assert_eq!(std::fs::read_to_string(out.join("index.json")).unwrap(), "{\"manifests\": ");
    // A blob of the right name and the wrong content is replaced, never trusted.
    let layer = out.join(blob_path(&stock::app_layer("linux/amd64", 1000).digest()));
    let size = std::fs::metadata(&layer).unwrap().len();
    std::fs::write(&layer, vec![0; usize::try_from(size).unwrap()]).unwrap();
    let fresh = world.sandbox.path("fresh");
    std::fs::create_dir_all(fresh.join("blobs/sha256")).unwrap();
    std::fs::copy(&layer, fresh.join("blobs/sha256").join(layer.file_name().unwrap())).unwrap();
    std::fs::copy(out.join("oci-layout"), fresh.join("oci-layout")).unwrap();
    std::fs::write(fresh.join("index.json"), "{\"schemaVersion\":2,\"manifests\":[]}").unwrap();
    world.rebase(&format!("oci:{}:v1", fresh.display()), "cache").run().ok();
    check::layout(&fresh, "v1").unwrap();
}
