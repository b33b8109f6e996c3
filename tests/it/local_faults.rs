//! Disks, caches and pipes that fail, and processes that share.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::debian::of_this_machine;
use crate::support::faulty_disk::{Harm, Preload, SmallDisk};
use crate::support::invocation::{Run, Sandbox, files_under};
use crate::support::layouts::{Layouts, upon};
use crate::support::programs::{Machine, prints};
use crate::support::recipe::blob_path;
use crate::support::registries::{Registries, Trial};
use crate::support::skip::or_skip;
use crate::support::tar_layer::{Layer, Pack, file, noise, program};
use crate::support::{fixtures, published};

/// Runs `underpin` under a shell that sets something first.
fn under(registries: &Registries, trial: &Trial, prefix: &str) -> Run {
    let name = |rest: &str| registries.source.name(rest);
    let script = format!("{prefix} exec \"$0\" \"$@\"");
    let binary = crate::support::invocation::binary();
    let args = ["-c", &script, &binary, "rebase", &name("in/app:v1"), "--base", &name("base/new:v1")];
    let invocation = registries.sandbox.program("/bin/sh", args);
    let invocation = invocation.args(["--old-base", &name("base/old:v1"), "--to", &trial.to(), "--cache"]);
    invocation.arg(trial.cache()).hurried().run()
}

/// Temporary files that nobody removed.
fn hidden_files(folder: &Path) -> Vec<PathBuf> {
    let mut left = files_under(folder);
    left.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')));
    left
}

// Strange paths, other devices, and readers that do not read.

#[test]
fn temporary_files_may_be_on_another_device() {
    // A layer that is written again and too large for memory, beside what leaves it.
    let package = or_skip!(of_this_machine("netbase"));
    let own = [program("app", prints(Machine::Amd64, fixtures::LINE)), file("srv/payload", noise(7, 6 << 20))];
    let layer = Layer::of(Pack::Gzip, &package.installed().into_iter().chain(own).collect::<Vec<_>>());
    let old = fixtures::old_base("linux/amd64");
    let layouts = Layouts::on(&old, &upon(&old, [layer], fixtures::app_config()));
    let disk = or_skip!(SmallDisk::new("1m"));
    let rebase = || layouts.rebase("out").env("TMPDIR", disk.root());
    rebase().run().fails("local-io").says(&disk.root().display().to_string());
    assert!(!layouts.layout("out").join("index.json").exists());
    disk.grow("32m");
    let run = rebase().run().ok();
    assert_eq!(published::layout(&layouts.layout("out"), "v1").unwrap().digest, run.digest());
    assert_eq!(files_under(disk.root()), Vec::<PathBuf>::new());
}

#[test]
fn any_path_will_do() {
    let sandbox = Sandbox::new();
    let odd = sandbox.path("with space, ümlaut, 'quotes' and \u{1f980}").join("x".repeat(200));
    std::fs::create_dir_all(odd.join("tmp")).unwrap();
    fixtures::app("linux/amd64", 1000).build().layout(&odd.join("app"), "v1");
    fixtures::old_base("linux/amd64").build().layout(&odd.join("old"), "v1");
    fixtures::new_base("linux/amd64").build().layout(&odd.join("new"), "v1");
    let at = |name: &str| format!("oci:{}:v1", odd.join(name).display());
    let args = ["rebase", &at("app"), "--base", &at("new"), "--old-base", &at("old"), "--to", &at("out"), "--cache"];
    sandbox.underpin(args).arg(odd.join("cache")).env("TMPDIR", odd.join("tmp")).run().ok();
    published::layout(&odd.join("out"), "v1").unwrap();
}

#[test]
fn a_reader_that_went_away_is_no_panic() {
    let registries = or_skip!(Registries::two(1000));
    let trial = registries.trial();
    let run = under(&registries, &trial, "exec >&-;");
    assert!(run.code().is_some_and(|code| code == 0 || code == 2), "{run}");
    trial.settle();
    let trial = registries.trial();
    let run = under(&registries, &trial, "exec >/dev/full;");
    assert!(run.code() == Some(0) || run.kind().as_deref() == Some("local-io"), "{run}");
    trial.settle();
}

#[test]
fn a_reader_of_messages_that_stands_still_does_not_stop_the_work() {
    let registries = or_skip!(Registries::two(1000));
    let trial = registries.trial();
    // The pipe is full before the run begins, and its reader reads nothing until the run has ended.
    let script = "exec 3>&1; { head -c 65536 /dev/zero >&2; \"$0\" \"$@\" 1>&3; echo $? >$TMPDIR/code; } 2>&1 | \
                  { while ! [ -e $TMPDIR/code ]; do sleep 0.1; done; cat >/dev/null; }; \
                  code=$(cat $TMPDIR/code); rm $TMPDIR/code; exit $code";
    let name = |rest: &str| registries.source.name(rest);
    let binary = crate::support::invocation::binary();
    let args = ["-c", script, &binary, "rebase", &name("in/app:v1"), "--base", &name("base/new:v1")];
    let invocation = registries.sandbox.program("/bin/sh", args);
    let invocation = invocation.args(["--old-base", &name("base/old:v1"), "--to", &trial.to(), "--cache"]);
    let run = invocation.arg(trial.cache()).hurried().limit(Duration::from_secs(60)).run();
    trial.gives_the_expected_image(run);
    trial.settle();
}

// Disks without room, and processes without handles.

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

// Caches that are damaged, in the way, or on a file system without locks.

#[test]
fn a_damaged_cache_is_noticed_and_mended() {
    let registries = or_skip!(Registries::two(100_000));
    let harms: [fn(&mut Vec<u8>); 3] = [|bytes| bytes[500] ^= 1, |bytes| bytes.truncate(600), Vec::clear];
    for harm in harms {
        let trial = registries.trial();
        trial.gives_the_expected_image(trial.run());
        let mut blobs = files_under(&trial.cache());
        blobs.retain(|path| path.parent().is_some_and(|folder| folder.ends_with("blobs/sha256")));
        // Layers of the bases are where they are to go already, so nobody reads these again.
        let app = registries.app_layer();
        blobs.retain(|path| path.file_name().is_some_and(|name| app.ends_with(&*name.to_string_lossy())));
        for path in &blobs {
            let mut bytes = std::fs::read(path).unwrap();
            if bytes.len() > 1000 {
                harm(&mut bytes);
                std::fs::write(path, bytes).unwrap();
            }
        }
        let again = registries.target.name(&format!("again/{}:v1", trial.tag));
        let run = registries.rebase(&again, &format!("cache-{}", &trial.tag[1..])).run().ok();
        assert_eq!(run.digest(), registries.expected(), "{run}");
        trial.settle();
    }
}

#[test]
fn a_cache_that_cannot_be_written_is_done_without() {
    let registries = or_skip!(Registries::two(1000));
    let trial = registries.trial();
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
fn a_cache_on_a_file_system_without_locks_is_done_without() {
    let preload = or_skip!(Preload::new());
    let registries = or_skip!(Registries::two(1000));
    for errno in [libc::ENOLCK, libc::EOPNOTSUPP, libc::ENOSYS] {
        let trial = registries.trial();
        let log = registries.sandbox.path("log");
        let run = preload.put(trial.invocation(), &trial.cache(), &log, Harm::NoLocks { errno }).run();
        trial.gives_the_expected_image(run).says("working without a cache").says("cannot lock");
        assert_eq!(files_under(&trial.cache()), Vec::<PathBuf>::new(), "nothing is shared there");
        // A target without locks cannot be shared either, and is not written to.
        let out = registries.sandbox.path("out");
        for to in [format!("oci:{}:v1", out.display()), format!("oci-archive:{}:v1", out.join("a.tar").display())] {
            let _ = std::fs::remove_dir_all(&out);
            std::fs::create_dir(&out).unwrap();
            let rebase = registries.rebase(&to, "cache-expected");
            let run = preload.put(rebase, &out, &log, Harm::NoLocks { errno }).run().fails("local-io");
            let run = run.says("lock").says(&out.display().to_string());
            assert!(!out.join("index.json").exists() && !out.join("a.tar").exists(), "{run}");
            registries.rebase(&to, "cache-expected").run().ok();
        }
        trial.settle();
    }
}

// Processes that share a cache or a layout.

#[test]
fn runs_that_share_a_cold_cache_fetch_each_blob_at_most_twice() {
    let registries = or_skip!(Registries::two(500_000));
    let trial = registries.trial();
    let start = |number: usize| {
        registries.rebase(&registries.target.name(&format!("share/s{number}:v1")), "cache-shared").start()
    };
    let running: Vec<_> = (0..4).map(start).collect();
    for run in running {
        assert_eq!(run.finish().ok().digest(), registries.expected());
    }
    let fetched = registries.source.proxy.count("GET", &format!("/blobs/{}", registries.app_layer()));
    assert!(fetched <= 2, "the layer was fetched {fetched} times");
    assert_eq!(published::lies_in_cache(&registries.sandbox.path("cache-shared")), Vec::<PathBuf>::new());
    trial.settle();
}

#[test]
fn eight_runs_write_eight_tags_into_one_layout() {
    let registries = or_skip!(Registries::two(10_000));
    let out = registries.sandbox.path("layout");
    let start = |number: usize| {
        let cache = format!("cache-{number}");
        registries.rebase(&format!("oci:{}:t{number}", out.display()), &cache).start()
    };
    let running: Vec<_> = (0..8).map(start).collect();
    for run in running {
        run.finish().ok();
    }
    for number in 0..8 {
        published::layout(&out, &format!("t{number}")).unwrap_or_else(|why| panic!("t{number}: {why}"));
    }
    assert_eq!(hidden_files(&out), Vec::<PathBuf>::new(), "orphans");
}

#[test]
fn a_layout_that_is_damaged_is_not_made_worse() {
    let registries = or_skip!(Registries::two(1000));
    let out = registries.sandbox.path("layout");
    let to = format!("oci:{}:v1", out.display());
    registries.rebase(&to, "cache").run().ok();
    std::fs::write(out.join("index.json"), "{\"manifests\": ").unwrap();
    let run = registries.rebase(&to, "cache").run();
    assert_eq!(run.code(), Some(2), "{run}");
    assert_eq!(std::fs::read_to_string(out.join("index.json")).unwrap(), "{\"manifests\": ");
    // A blob of the right name and the wrong content is replaced, never trusted.
    let layer = out.join(blob_path(&fixtures::app_layer("linux/amd64", 1000).digest()));
    let size = std::fs::metadata(&layer).unwrap().len();
    std::fs::write(&layer, vec![0; usize::try_from(size).unwrap()]).unwrap();
    let fresh = registries.sandbox.path("fresh");
    std::fs::create_dir_all(fresh.join("blobs/sha256")).unwrap();
    std::fs::copy(&layer, fresh.join("blobs/sha256").join(layer.file_name().unwrap())).unwrap();
    std::fs::copy(out.join("oci-layout"), fresh.join("oci-layout")).unwrap();
    std::fs::write(fresh.join("index.json"), "{\"schemaVersion\":2,\"manifests\":[]}").unwrap();
    registries.rebase(&format!("oci:{}:v1", fresh.display()), "cache").run().ok();
    published::layout(&fresh, "v1").unwrap();
}
