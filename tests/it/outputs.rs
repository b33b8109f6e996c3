//! Files that a run writes beside the image: opened before anything is published, never written through a link,
//! and where one fails after all, what was published is still told.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::support::faulty_disk::SmallDisk;
use crate::support::fixtures;
use crate::support::invocation::{Run, Sandbox, files_under};
use crate::support::layouts::Layouts;
use crate::support::programs::{Machine, prints};
use crate::support::proxy::{Action, on};
use crate::support::registries::{Registries, Trial};
use crate::support::skip::{missing, need, or_skip};

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

// Files that are in each other's way.

/// Everything in the directory that the runs work in, with its bytes.
fn snapshot(layouts: &Layouts) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = files_under(&layouts.sandbox.path("here"));
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(&path).unwrap_or_default())).collect()
}

/// A directory with a file of each kind that a run reads.
fn workplace() -> Layouts {
    let layouts = Layouts::on(&fixtures::old_base("linux/amd64"), &fixtures::app("linux/amd64", 5000));
    let write = |name: &str, text: &str| std::fs::write(layouts.layout(name), text).unwrap();
    write(
        "images.yaml",
        "images:\n- {source: 'oci:app:v1', target: 'oci:out:b', base: 'oci:new:v1', old_base: 'oci:old:v1'}\n",
    );
    write(
        "remote.yaml",
        "images:\n- {source: 'oci:app:v1', target: 'r.example/a:b', base: 'oci:new:v1', old_base: 'oci:old:v1'}\n",
    );
    write("list.md", "|Component|Base|Reason|\n|-|-|-|\n|other|b.io/b|x|\n");
    write("policy.yaml", "allow_bases: ['b.io/b']\nexceptions: list.md\n");
    write("run.sh", "#!/bin/sh\nexec /app\n");
    write(
        "pod.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    image: a\n    command: [sh, -c, exec app]\n",
    );
    std::fs::write(layouts.layout("app.bin"), prints(Machine::Amd64, fixtures::LINE)).unwrap();
    fixtures::app("linux/amd64", 5000).build().oci_archive(&layouts.layout("app.tar"), "v1");
    std::fs::hard_link(layouts.layout("images.yaml"), layouts.layout("images-hard.yaml")).unwrap();
    std::os::unix::fs::symlink(layouts.layout("."), layouts.layout("round")).unwrap();
    layouts
}

const REBASE: &[&str] = &["rebase", "oci-archive:app.tar:v1", "--base", "oci:new:v1", "--old-base", "oci:old:v1", "-q"];

/// Ends of `batch images.yaml`.
const COLLIDING_BATCH: &[&str] = &[
    "--report json=images.yaml",
    "--report html=./images.yaml",
    "--report json=round/images.yaml",
    "--report json=../here/images.yaml",
    "--report json=images-hard.yaml",
    "--report json=underpin.lock",
    "--report json=round/underpin.lock",
    "--report json=underpin.lock.journal",
    "--report json=a.json --report text=a.json",
    "--report json=a.json --report text=round/a.json",
    "--report spdx=s-{digest} --report cyclonedx=./s-{digest}",
    "--report spdx=underpin.lock-{digest} --report json=underpin.lock",
    "--policy policy.yaml --report json=policy.yaml",
    "--policy policy.yaml --report json=list.md",
    "--exceptions list.md --report junit=list.md",
    "--report json=app/index.json",
    "--report json=new/oci-layout",
    "--report json=old/blobs/sha256/x",
];

/// Ends of a rebase of `app.tar`.
const COLLIDING_REBASE: &[&str] = &[
    "--to oci:out:x --report json=app.tar",
    "--to oci:out:x --digest-file app.tar",
    "--to oci:out:x --digest-file d --report json=d",
    "--to oci:out:x --report spdx=d --report json=d",
    "--to oci:out:x --report json=new/index.json",
    "--to oci:out:x --cache cache --report json=cache/blobs/x.json",
    "--to oci:out:x --policy policy.yaml --digest-file list.md",
    "--to oci-archive:new.tar:x --report json=new.tar",
    "--to oci-archive:new.tar:x --digest-file round/new.tar",
    "--to oci:out:x --command-from pod.yaml#a --report json=pod.yaml",
    "--to oci:out:x --cacert list.md --report json=list.md",
    "--to oci:out:x --sign-key list.md --report json=list.md",
];

/// Other command lines.
const COLLIDING_OTHERS: &[&str] = &[
    "batch remote.yaml --report json=a.json --promoter a.json",
    "batch remote.yaml --promoter remote.yaml",
    "batch remote.yaml --promoter underpin.lock",
    "kube --write pod.yaml --report json=pod.yaml",
    "kube --write . --report json=round/pod.yaml",
    "kube pod.yaml --report json=a --report html=a",
    "exceptions list.md --remove other --report json=list.md",
    "exceptions --init new.md --report json=new.md",
    "exceptions list.md --batch images.yaml --report json=images.yaml",
    "outdated --batch images.yaml --write images.yaml --base b.io/b",
    "outdated --batch images.yaml --write w --report json=w --base b.io/b",
    "outdated --kube pod.yaml --write pod.yaml --base b.io/b",
    "outdated oci:app:v1 --write app/index.json --base b.io/b",
    "check oci-archive:app.tar:v1 --base oci:new:v1 --report json=app.tar",
    "check --batch images.yaml --report json=images.yaml",
    "inspect oci-archive:app.tar:v1 --report html=app.tar",
    "inspect oci:app:v1 --known-base oci:old:v1 --report html=old/index.json",
    "verify oci-archive:app.tar:v1 --report json=app.tar",
    "start oci-archive:app.tar:v1 --report json=app.tar",
    "elf app.bin --report json=app.bin",
    "translate --script run.sh --report json=run.sh -- ./run.sh",
    "plan oci-archive:app.tar:v1 --base oci:new:v1 --old-base oci:old:v1 --report json=app.tar",
];

/// Command lines that would write over what they read, or one file over another.
fn collisions() -> Vec<Vec<String>> {
    let words = |line: String| line.split(' ').map(str::to_owned).collect();
    let batch = COLLIDING_BATCH.iter().map(|more| format!("batch images.yaml {more}"));
    let rebase = COLLIDING_REBASE.iter().map(|more| format!("{} {more}", REBASE.join(" ")));
    batch.chain(rebase).chain(COLLIDING_OTHERS.iter().map(ToString::to_string)).map(words).collect()
}

#[test]
fn nothing_is_written_over_what_a_run_reads_or_writes() {
    let layouts = workplace();
    // A cache that is there, for a report that would be in it.
    layouts.underpin(&["inspect", "oci:app:v1", "--cache", "cache"]).run().ok();
    let before = snapshot(&layouts);
    for line in collisions() {
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let run = layouts.underpin(&words).run();
        assert_eq!(run.code(), Some(2), "{run}");
        let run = run.says("cannot write the file");
        assert!(run.stderr.contains("hint: name another file"), "{run}");
        let after = snapshot(&layouts);
        let names = |files: &[(PathBuf, Vec<u8>)]| files.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
        assert_eq!(names(&after), names(&before), "{run}");
        assert!(after == before, "{run}");
    }
}

#[test]
fn files_that_are_not_in_each_others_way_are_written() {
    let layouts = workplace();
    for line in [
        "batch images.yaml --report json=app/report.json --report html=a.html --policy policy.yaml",
        "batch images.yaml --locked --report json=a.json --report spdx=s-{digest} --report cyclonedx=c-{digest}",
        "rebase oci-archive:app.tar:v1 --base oci:new:v1 --old-base oci:old:v1 --to oci-archive:out.tar:x --digest-file d --report json=j",
        "rebase oci-archive:out.tar:x --base oci:new:v1 --old-base oci:new:v1 --to oci-archive:out.tar:y --digest-file d --report json=j",
        "kube --write pod.yaml --report json=k.json --report text=/dev/stdout --report text=/dev/stdout",
        "exceptions list.md --remove other --report json=e.json",
        "elf app.bin --report json=e.json",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let run = layouts.underpin(&words).run();
        assert!(matches!(run.code(), Some(0 | 1)), "{run}");
    }
}

#[test]
fn a_fifo_that_nobody_reads_is_refused_and_one_that_is_read_gets_the_report() {
    let sandbox = Sandbox::new();
    let fifo = sandbox.path("here").join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    std::fs::write(sandbox.path("here").join("list.md"), "|Component|Base|Reason|\n|-|-|-|\n").unwrap();
    let words = ["exceptions", "list.md", "--report", "json=fifo"];
    let run = sandbox.underpin(words).limit(std::time::Duration::from_secs(20)).run().says("nobody reads it");
    assert_eq!(run.code(), Some(2), "{run}");
    let reader = std::thread::spawn(move || std::fs::read_to_string(fifo).unwrap());
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while sandbox.underpin(words).run().code() != Some(0) {
        assert!(std::time::Instant::now() < until, "the reader is there by now");
    }
    assert!(reader.join().unwrap().contains("[]"));
    // What a shell makes of `>(command)`, and the streams of the run itself.
    let binary = crate::support::invocation::binary();
    let script =
        "\"$0\" exceptions list.md --report json=>(cat > substituted) --report text=/dev/stdout; wait; sleep 0.2";
    sandbox.program("bash", ["-c", script, &binary]).run();
    let text = std::fs::read_to_string(sandbox.path("here").join("substituted")).unwrap();
    assert!(text.contains("[]"), "{text}");
}

#[test]
fn a_report_with_another_name_leaves_what_is_under_that() {
    let sandbox = Sandbox::new();
    let at = |name: &str| sandbox.path("here").join(name);
    std::fs::write(at("list.md"), "|Component|Base|Reason|\n|-|-|-|\n").unwrap();
    std::fs::write(at("kept"), "precious").unwrap();
    std::fs::hard_link(at("kept"), at("report")).unwrap();
    sandbox.underpin(["exceptions", "list.md", "--report", "json=report"]).run().ok();
    assert_eq!(std::fs::read_to_string(at("kept")).unwrap(), "precious");
    assert!(std::fs::read_to_string(at("report")).unwrap().contains("[]"));
}

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    image: a\n    command: [sh, -c, exec app]\n";

#[test]
fn an_edited_file_keeps_its_owner_its_mode_and_its_attributes() {
    or_skip!(need(&["setpriv"]));
    if !rustix::process::geteuid().is_root() {
        return missing("the rights of root").stop();
    }
    let sandbox = Sandbox::new();
    let here = sandbox.path("here");
    let pod = here.join("pod.yaml");
    let set_up = |mode: u32| {
        std::fs::write(&pod, POD).unwrap();
        std::os::unix::fs::chown(&pod, Some(1234), Some(2345)).unwrap();
        std::fs::set_permissions(&pod, std::fs::Permissions::from_mode(mode)).unwrap();
        let _ = rustix::fs::setxattr(&pod, "user.note", b"mine", rustix::fs::XattrFlags::empty());
    };
    let kept = |mode: u32| {
        let found = pod.metadata().unwrap();
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (1234, 2345, mode));
        let mut note = [0; 16];
        if let Ok(length) = rustix::fs::getxattr(&pod, "user.note", &mut note[..]) {
            assert_eq!(&note[..length], b"mine");
        }
    };
    for mode in [0o640, 0o600, 0o664, 0o400] {
        set_up(mode);
        sandbox.underpin(["kube", "--write", "--logs", "klog", "pod.yaml"]).run().ok();
        assert!(!std::fs::read_to_string(&pod).unwrap().contains("sh, -c"), "it was rewritten");
        kept(mode);
    }
    // Who cannot give it back to its owner does not take it.
    set_up(0o644);
    for directory in [sandbox.path("."), here.clone(), sandbox.path("home"), sandbox.path("tmp")] {
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let binary = crate::support::invocation::binary();
    let user = ["--reuid=4321", "--regid=4321", "--clear-groups", &binary, "kube", "--write", "pod.yaml", "--no-cache"];
    let run = sandbox.program("setpriv", user).run().says("could not keep the owner").says("1234");
    assert_eq!(run.code(), Some(2), "{run}");
    assert_eq!(std::fs::read_to_string(&pod).unwrap(), POD);
    kept(0o644);
}
