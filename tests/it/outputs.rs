//! Files that a run writes beside the image: opened before anything is published, never written through a link,
//! and where one fails after all, what was published is still told.

use std::path::Path;

use crate::support::faulty_disk::SmallDisk;
use crate::support::invocation::{Run, Sandbox, files_under};
use crate::support::proxy::{Action, on};
use crate::support::registries::{Registries, Trial};
use crate::support::skip::or_skip;

/// Runs the trial with a digest file and a report at these paths.
fn run(trial: &Trial<'_>, digest: &Path, report: &Path) -> Run {
    let report = format!("--report=json={}", report.display());
    trial.invocation().arg("--digest-file").arg(digest).arg(report).run()
}

/// The run failed before it had asked the registry to write anything.
fn writes_nothing(registries: &Registries, trial: &Trial<'_>, run: Run, kind: &str) -> Run {
    let run = trial.fails(run, kind);
    assert_eq!(registries.target.proxy.seen().len(), 0, "{run}");
    run
}

#[test]
fn a_file_that_cannot_be_written_stops_the_run_before_it_publishes() {
    let registries = or_skip!(Registries::one(1000));
    let disk = or_skip!(SmallDisk::new("256k"));
    let free = registries.sandbox.path("free");
    std::fs::write(disk.path("filler"), vec![1; 250_000]).unwrap();
    let trial = registries.trial();
    for (digest, report) in [(disk.path("x"), free.clone()), (free.clone(), disk.path("x"))] {
        let run = run(&trial, &digest, &report);
        writes_nothing(&registries, &trial, run, "local-io").says(&disk.path("x").display().to_string());
    }
    std::fs::remove_file(disk.path("filler")).unwrap();
    disk.remount("ro");
    for (digest, report) in [(disk.path("x"), free.clone()), (free.clone(), disk.path("x"))] {
        let run = run(&trial, &digest, &report);
        writes_nothing(&registries, &trial, run, "local-io").says(&disk.path("x").display().to_string());
    }
    let missing = registries.sandbox.path("missing/x");
    let at_missing = run(&trial, &missing, &free);
    writes_nothing(&registries, &trial, at_missing, "usage").says("directory does not exist");
    disk.remount("rw");
    trial.gives_the_expected_image(run(&trial, &disk.path("digest"), &disk.path("report")));
    assert_eq!(std::fs::read_to_string(disk.path("digest")).unwrap().trim(), registries.expected());
    assert_eq!(files_under(disk.root()).len(), 2, "nothing else is left");
    trial.settle();
}

#[test]
fn links_are_not_written_through() {
    let registries = or_skip!(Registries::one(1000));
    let (victim, link) = (registries.sandbox.path("victim"), registries.sandbox.path("link"));
    let free = registries.sandbox.path("free");
    std::fs::write(&victim, "precious").unwrap();
    std::os::unix::fs::symlink(&victim, &link).unwrap();
    let trial = registries.trial();
    for (digest, report) in [(&link, &free), (&free, &link)] {
        let run = run(&trial, digest, report);
        writes_nothing(&registries, &trial, run, "usage").says("symbolic link").says("hint: name the file");
    }
    let archive = registries.rebase(&format!("oci-archive:{}", link.display()), "cache").run();
    archive.fails("usage").says("symbolic link");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    // What the hint says, and the links of the system itself.
    trial.gives_the_expected_image(run(&trial, &victim, Path::new("/dev/stderr"))).says("underpin.report/v1");
    assert_eq!(std::fs::read_to_string(&victim).unwrap().trim(), registries.expected());
    trial.settle();
}

#[test]
fn lists_manifests_and_locks_are_not_written_through_links_either() {
    let sandbox = Sandbox::new();
    let at = |name: &str| sandbox.path("here").join(name);
    let files = [
        ("list", "|Component|Base|Reason|\n|-|-|-|\n|app|b.io/b|x|\n"),
        (
            "pod",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    image: a\n    command: [sh, -c, exec app]\n",
        ),
        ("batch", "images: []\n"),
        ("lock", "{\"version\":1,\"images\":[]}\n"),
    ];
    for (name, text) in files {
        std::fs::write(at(name), text).unwrap();
    }
    for (link, to) in [("list.md", "list"), ("pod.yaml", "pod"), ("batch.yaml", "batch"), ("underpin.lock", "lock")] {
        std::os::unix::fs::symlink(to, at(link)).unwrap();
    }
    let refused = |words: &[&str]| {
        let run = sandbox.underpin(words).run().says("symbolic link");
        assert_eq!(run.code(), Some(2), "{run}");
    };
    refused(&["exceptions", "list.md", "--remove", "app"]);
    refused(&["kube", "--write", "pod.yaml"]);
    refused(&["batch", "batch.yaml"]);
    std::fs::remove_file(at("underpin.lock")).unwrap();
    refused(&["batch", "batch.yaml", "--promoter", "list.md"]);
    for (name, text) in files {
        assert_eq!(std::fs::read_to_string(at(name)).unwrap(), text);
    }
    sandbox.underpin(["kube", "--write", "pod"]).run().ok();
    sandbox.underpin(["exceptions", "list", "--remove", "app"]).run().ok();
    sandbox.underpin(["batch", "batch.yaml"]).run().ok();
}

#[test]
fn what_was_published_is_told_even_if_a_file_fails_after_that() {
    let registries = or_skip!(Registries::one(1000));
    let folder = registries.sandbox.path("reports");
    for flags in [&[][..], &["--json"]] {
        let trial = registries.trial();
        std::fs::create_dir_all(&folder).unwrap();
        let gone = folder.clone();
        let remove = Action::then(move || std::fs::remove_dir_all(&gone).unwrap());
        registries.target.proxy.script([on("PUT", "/manifests/v1").does(remove)]);
        let invocation = trial.invocation().args(flags).arg("--digest-file").arg(folder.join("digest"));
        let run = invocation.arg("--report").arg(format!("json={}", folder.join("report").display())).run();
        let run = run.says("could not").says("reports").says("published");
        assert_eq!((run.code(), run.kind().as_deref()), (Some(2), Some("local-io")), "{run}");
        assert_eq!(trial.target().as_deref(), Some(registries.expected()), "{run}");
        match flags {
            [] => assert_eq!(run.digest(), registries.expected(), "{run}"),
            _ => assert_eq!(run.json()["targets"][0]["digest"], registries.expected(), "{run}"),
        }
        trial.settle();
    }
}

#[test]
fn a_batch_tells_what_it_published_even_if_its_lock_fails() {
    let registries = or_skip!(Registries::one(1000));
    let trial = registries.trial();
    let folder = registries.sandbox.path("batch");
    std::fs::create_dir(&folder).unwrap();
    let name = |rest: &str| registries.source.name(rest);
    let (source, base, old) = (name("in/app:v1"), name("base/new:v1"), name("base/old:v1"));
    let image = format!("{{source: '{source}', target: '{}', base: '{base}', old_base: '{old}'}}", trial.to());
    std::fs::write(folder.join("batch.yaml"), format!("images: [{image}]\n")).unwrap();
    let gone = folder.clone();
    let remove = Action::then(move || std::fs::remove_dir_all(&gone).unwrap());
    registries.target.proxy.script([on("PUT", "/manifests/v1").does(remove)]);
    let run = registries.sandbox.underpin(["batch"]).arg(folder.join("batch.yaml")).hurried().run();
    let run = run.says("error:").says("batch");
    assert_eq!(run.code(), Some(2), "{run}");
    assert_eq!(
        (run.digest().as_str(), trial.target().as_deref()),
        (registries.expected(), Some(registries.expected()))
    );
    trial.settle();
}
