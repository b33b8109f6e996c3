//! Hints about the machine: what it lacks, who holds what, and what others left there.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use serde_json::json;

use super::{advice, again};
use crate::real_start::{acting, rootless};
use crate::store::Setup;
use crate::support::faulty_disk::{Harm, Preload, SmallDisk};
use crate::support::fixtures;
use crate::support::invocation::{binary, die_with_us, files_under};
use crate::support::layouts::Layouts;
use crate::support::skip::{find, need, or_skip};
use crate::support::tools::tool;

fn layouts() -> Layouts {
    Layouts::on(&fixtures::old_base("linux/amd64"), &fixtures::app("linux/amd64", 10))
}

/// A process that has the directory locked, until it is ended.
struct Holder(Child);

impl Holder {
    fn of(directory: &Path, how: &str) -> Self {
        let mut flock = Command::new("flock");
        flock.args(["--no-fork", how]).arg(directory).args(["sleep", "600"]);
        let holder = Self(die_with_us(&mut flock).spawn().unwrap());
        let is_free = || Command::new("flock").arg("--nonblock").arg(directory).arg("true").status().unwrap().success();
        while is_free() {
            std::thread::sleep(Duration::from_millis(5));
        }
        holder
    }

    fn end(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn of_a_lock_file_that_cannot_be_written() {
    let layouts = layouts();
    let disk = or_skip!(SmallDisk::new("1m"));
    let image = json!({"source": "oci:app:v1", "old_base": "oci:old:v1", "base": "oci:new:v1", "target": "oci:out:v1"});
    std::fs::write(disk.path("batch.yaml"), json!({"images": [image]}).to_string()).unwrap();
    let batch = |file: &Path| layouts.underpin(&["batch"]).arg(file);
    let here = || batch(&disk.path("batch.yaml"));

    disk.remount("ro");
    let elsewhere = layouts.layout("batch.yaml");
    let is_moved = |flags: &[&str]| {
        let run = here().args(flags).run().fails("local-io");
        advice(&run, "underpin.lock is written beside the batch file: copy that to where you can write")
            .by_hand("copy that to where you can write");
        std::fs::copy(disk.path("batch.yaml"), &elsewhere).unwrap();
        batch(&elsewhere).args(flags).run().ok();
    };
    is_moved(&[]);

    disk.remount("rw");
    here().run().ok();
    disk.remount("ro");
    let run = here().run().fails("local-io");
    let locked = advice(&run, "pass --locked, which does not write underpin.lock").flags("--locked", &[]);
    again(here, &locked).ok();
    is_moved(&["--lock-only"]);
    is_moved(&["--update-lock"]);
}

#[test]
fn of_a_record_that_is_damaged() {
    let setup = or_skip!(Setup::new(10));
    let record = files_under(&setup.cache.join("images")).pop().unwrap();
    std::fs::write(&record, "{").unwrap();
    let collect = || setup.run(&["gc", "--max-size", "1GiB"]);
    let run = collect().fails("integrity");
    let verify = advice(&run, "{} removes it; then fetch the image again").command(&[]);
    let verify = setup.registries.sandbox.underpin(verify).run().refused();
    assert!(verify.stdout.contains(record.to_str().unwrap()), "{verify}");
    for image in ["in/app:v1", "base/old:v1", "base/new:v1"] {
        setup.fetch(image);
    }
    assert!(record.exists(), "it is remembered again");
    collect().ok();
}

#[test]
fn of_a_cache_that_others_use() {
    or_skip!(need(&["flock"]));
    let layouts = layouts();
    layouts.underpin(&["inspect", "oci:app:v1", "--cache", "kept"]).run().ok();
    let collect = || layouts.underpin(&["cache", "gc", "--cache", "kept", "--max-size", "0"]);
    let holder = Holder::of(&layouts.layout("kept"), "--shared");
    let run = collect().args(["--lock-timeout", "0s"]).run().fails("lock");
    let written = "run again when the runs that use it have ended, or wait longer with --lock-timeout";
    advice(&run, written).by_hand("wait longer with --lock-timeout");
    let waiting = collect().args(["--lock-timeout", "60s"]).start();
    std::thread::sleep(Duration::from_millis(200));
    holder.end();
    waiting.finish().ok();
    collect().args(["--lock-timeout", "0s"]).run().ok();
}

#[test]
fn of_a_process_that_keeps_a_directory() {
    or_skip!(need(&["flock"]));
    let preload = or_skip!(Preload::new());
    let layouts = layouts();
    layouts.rebase("out").run().ok();
    let rebase = || layouts.rebase("out").args(["--workdir", "/tmp"]);
    let holder = Holder::of(&layouts.layout("out"), "--exclusive");
    let run = preload.hurry(rebase(), 30).run().fails("lock").says("60 s");
    advice(&run, "find the stopped process that uses the directory, end it, and run again").by_hand("end it");
    holder.end();
    rebase().run().ok();
}

#[test]
fn of_a_file_system_without_locks() {
    let preload = or_skip!(Preload::new());
    let layouts = layouts();
    let remote = layouts.layout("remote");
    std::fs::create_dir(&remote).unwrap();
    let to = |name: &str| {
        preload.put(layouts.rebase(name), &remote, &layouts.sandbox.path("log"), Harm::NoLocks { errno: libc::ENOLCK })
    };
    let run = to("remote").run().fails("local-io");
    advice(&run, "use a directory on a local file system and copy the result").by_hand("copy the result");
    to("local").run().ok();
    tool("cp", &["-r", layouts.layout("local/.").to_str().unwrap(), remote.to_str().unwrap()]);
    layouts.underpin(&["inspect", "oci:remote:v1"]).run().ok();
}

/// Runs in a mount namespace in which the installed runtime cannot be executed.
const WITHOUT: &str = r#"mount --bind /dev/null "$runc"; exec "$@""#;

#[test]
fn of_a_machine_without_a_runtime() {
    or_skip!(need(&["runc", "unshare"]));
    or_skip!(SmallDisk::new("1m"));
    let layouts = layouts();
    let runc = find("runc").unwrap();
    let elsewhere = layouts.layout("my-runc");
    std::fs::copy(&runc, &elsewhere).unwrap();
    let words = ["start", "oci:app:v1", "--no-cache"];
    let start = || {
        let unshare = layouts.sandbox.program("unshare", ["--mount", "sh", "-c", WITHOUT, "sh", &binary()]);
        unshare.args(words).env("runc", &runc)
    };
    let run = start().run().fails("usage");
    let written = "install runc, or name a runtime with --runtime PATH";
    let named = advice(&run, written).flags("--runtime PATH", &[("PATH", elsewhere.to_str().unwrap())]);
    again(start, &named).ok();
    layouts.underpin(&words).run().ok();
}

#[test]
fn of_a_directory_for_runs_that_others_can_enter() {
    or_skip!(need(&["runc"]));
    let layouts = layouts();
    let start = || layouts.underpin(&["start", "oci:app:v1", "--no-cache"]);
    start().run().ok();
    let mut left = std::fs::read_dir(layouts.sandbox.path("tmp")).unwrap();
    let runs = left.next().unwrap().unwrap().path();
    std::fs::set_permissions(&runs, std::fs::Permissions::from_mode(0o755)).unwrap();
    let run = start().run().fails("usage");
    advice(&run, "remove it, or set TMPDIR to a directory of your own").by_hand("set TMPDIR");
    assert!(run.stderr.contains(runs.to_str().unwrap()), "which\n{run}");
    std::fs::create_dir(layouts.layout("own")).unwrap();
    start().env("TMPDIR", layouts.layout("own")).run().ok();
    std::fs::remove_dir_all(runs).unwrap();
    start().run().ok();
}

#[test]
fn of_root_without_its_rights() {
    or_skip!(rootless::can_start());
    let layouts = rootless::layouts(&acting(&["serve"]));
    let words = ["start", "oci:app:v1", "--no-cache", "--seconds", "1"];
    let drop = ["--bounding-set", "-sys_admin", &binary()];
    // Root writes to no directory of the user's.
    let own = layouts.sandbox.path("roots");
    std::fs::create_dir(&own).unwrap();
    let run = layouts.sandbox.program("setpriv", drop).args(words).env("TMPDIR", &own).run().fails("local-io");
    advice(&run, "run underpin as a user without root's rights, or with CAP_SYS_ADMIN").by_hand("CAP_SYS_ADMIN");
    rootless::as_user(&layouts, rootless::Lent::No, &words).run().ok();
    layouts.underpin(&words).env("TMPDIR", own).run().ok();
}

#[test]
fn of_a_directory_for_temporary_files_that_others_can_replace() {
    or_skip!(need(&["runc"]));
    let layouts = layouts();
    let start = || layouts.underpin(&["start", "oci:app:v1", "--no-cache"]);
    let open = |mode: u32| {
        let tmp = layouts.sandbox.path("tmp");
        std::fs::set_permissions(tmp, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(0o777);
    let run = start().run().fails("usage");
    let written = "set TMPDIR to a directory that only you can write to, or one with the sticky bit such as /tmp";
    advice(&run, written).by_hand("set TMPDIR");
    std::fs::create_dir(layouts.layout("own")).unwrap();
    start().env("TMPDIR", layouts.layout("own")).run().ok();
    open(0o1777);
    start().run().ok();
}

#[test]
fn of_a_directory_for_temporary_files_that_is_full() {
    or_skip!(need(&["runc", "unshare"]));
    let layouts = layouts();
    let enter = r#"mount -t tmpfs -o size=16k tmpfs "$full" && exec "$@""#;
    let start = || {
        let unshare = layouts.sandbox.program("unshare", ["--mount", "sh", "-c", enter, "sh", &binary()]);
        unshare.args(["start", "oci:app:v1", "--no-cache"]).env("full", layouts.sandbox.path("tmp"))
    };
    let run = start().run().fails("local-io");
    advice(&run, "set TMPDIR to a directory with more room").by_hand("set TMPDIR");
    std::fs::create_dir(layouts.layout("own")).unwrap();
    start().env("TMPDIR", layouts.layout("own")).run().ok();
}
