//! Strange paths, other devices, and readers that do not read.

use std::path::PathBuf;
use std::time::Duration;

use crate::support::debian::of_this_machine;
use crate::support::faulty_disk::SmallDisk;
use crate::support::fixtures;
use crate::support::invocation::{Sandbox, files_under};
use crate::support::layouts::{Layouts, upon};
use crate::support::programs::{Machine, prints};
use crate::support::published;
use crate::support::registries::Registries;
use crate::support::skip::or_skip;
use crate::support::tar_layer::{Layer, Pack, file, noise, program};

use super::under;

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
