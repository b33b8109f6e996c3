//! What is told about a pod that runs the image: its shell, its log, its user and its volumes.

use serde_json::json;

use super::{Advice, advice, again, computed_advice};
use crate::core_images::{Case, base_with, debian};
use crate::logs::programs::runner;
use crate::support::invocation::{Invocation, Run};
use crate::support::layouts::upon;
use crate::support::programs::{Machine, prints};
use crate::support::skip::{need, or_skip};
use crate::support::tar_layer::{Entry, Layer, Pack, folder, program};
use crate::support::tools::tool;

/// An image with the program `/bin/app`, to be moved to a base of this user with these files, and run by this container.
fn case(files: &[Entry], user: &str, container: &str) -> Case {
    let own = [folder("bin/"), program("bin/app", prints(Machine::Amd64, "x\n"))];
    let app = upon(&debian(), [Layer::of(Pack::Gzip, &own)], json!({}));
    Case::new(&app, &base_with(files, user), container)
}

fn moving(case: &Case) -> Invocation {
    case.layouts.rebase("out").args(["--command-from", "pod.yaml#main"])
}

/// Moves it once the manifest has these lines.
fn moves_with(case: &Case, container: &str) {
    case.manifest(container);
    moving(case).run().ok();
}

#[test]
fn of_a_manifest_that_starts_a_shell() {
    or_skip!(need(&["go", "busybox"]));
    let key = "src/policy/pod.rs: fix";
    let does_as_told = |case: &Case, told: Advice| {
        case.layouts.sandbox.underpin(told.command(&[])).run().ok();
        moving(case).run().ok();
    };
    let go_runner = [program("go-runner", runner(&[("GOARCH", "amd64")]))];
    let shell = |words: &str| format!("command: [/bin/sh, -c, {words}]");
    let logging = shell("exec /bin/app >>/var/log/app.log 2>&1");
    for (base, command) in [(&[][..], &shell("exec /bin/app --x")), (&go_runner, &logging)] {
        let case = case(base, "0", command);
        let run = moving(&case).run().refused().says("needs-shell");
        does_as_told(&case, computed_advice(&run, "take the shell out of the manifest: {}", key));
    }
    let without_runner = case(&[], "0", &logging);
    let run = moving(&without_runner).run().refused().says("needs-shell");
    let written = "choose how the log is kept, and take the shell out of the manifest: {}";
    does_as_told(&without_runner, computed_advice(&run, written, key));

    let piping = case(&[], "0", &shell("/bin/app | cat"));
    let run = moving(&piping).run().refused().says("needs-shell");
    let told = computed_advice(&run, "{}; {} shows all commands of the manifest", key).command(&[]);
    let shown = piping.layouts.sandbox.underpin(told).run().refused();
    assert!(format!("{}{}", shown.stdout, shown.stderr).contains("/bin/app | cat"), "{shown}");
    moves_with(&piping, "command: [/bin/app]");
}

#[test]
fn of_a_log_that_the_pod_cannot_write() {
    or_skip!(need(&["go", "busybox"]));
    let line = "command: [/go-runner, --log-file=/var/log/app.log, /bin/app]";
    let mounted = "volumeMounts: [{name: log, mountPath: /var/log}]\n---\nvolumes: [{name: log";
    let read_only = "securityContext: {readOnlyRootFilesystem: true}";
    let go_runner = [program("go-runner", runner(&[("GOARCH", "amd64")]))];
    for closed in [format!("{line}\n{read_only}"), format!("{line}\n{mounted}, configMap: {{name: log}}}}]")] {
        let case = case(&go_runner, "0", &closed);
        let run = moving(&case).run().refused().says("log-dir-missing");
        advice(&run, "mount a volume there that can be written to: a hostPath, or an emptyDir").by_hand("an emptyDir");
        for volume in ["hostPath: {path: /var/log}", "emptyDir: {}"] {
            moves_with(&case, &format!("{line}\n{read_only}\n{mounted}, {volume}}}]"));
        }
    }
}

#[test]
fn of_a_user_that_the_kubelet_does_not_start() {
    or_skip!(need(&["busybox"]));
    let written = "set runAsUser in the manifest, or choose a --base or pass --user with a number that is not 0";
    let told = |run: &Run| computed_advice(run, written, "src/policy/pod.rs: Rule::PodUser.fix()");
    let lines = "command: [/bin/app]\nsecurityContext: {runAsNonRoot: true}";
    for user in ["0", "nonroot"] {
        let case = case(&[], user, lines);
        let run = moving(&case).run().refused().says("pod-user");
        told(&run).by_hand("pass --user with a number");
        moving(&case).args(["--user", "65532"]).run().ok();
        told(&run).by_hand("set runAsUser in the manifest");
        moves_with(&case, "command: [/bin/app]\nsecurityContext: {runAsNonRoot: true, runAsUser: 5}");
    }
    moving(&case(&[], "65532", lines)).run().ok();
}

#[test]
fn of_a_directory_that_the_user_of_the_pod_can_no_longer_make() {
    or_skip!(need(&["busybox"]));
    let line = "command: [/bin/app, --dir=/var/run/app]";
    let closed = case(&[], "65532", line);
    let run = moving(&closed).run().refused().says("pod-not-writable");
    let written = "choose a base that runs as root, pass --user, set runAsUser, or mount an emptyDir there";
    let told = |part: &str| {
        let key = "src/policy/pod.rs: Rule::PodNotWritable.fix()";
        computed_advice(&run, written, key).by_hand(part);
    };
    told("choose a base that runs as root");
    moving(&case(&[], "0", line)).run().ok();
    told("pass --user");
    moving(&closed).args(["--user", "0"]).run().ok();
    told("set runAsUser");
    moves_with(&closed, &format!("{line}\nsecurityContext: {{runAsUser: 0}}"));
    told("mount an emptyDir there");
    let mounted = "volumeMounts: [{name: run, mountPath: /var/run/app}]\n---\nvolumes: [{name: run, emptyDir: {}}]";
    moves_with(&closed, &format!("{line}\n{mounted}"));
}

#[test]
fn of_a_program_on_a_volume() {
    or_skip!(need(&["busybox", "runc"]));
    let volume = "volumeMounts: [{name: p, mountPath: /plugins}]\n---\nvolumes: [{name: p, emptyDir: {}}]";
    let case = case(&[], "0", &format!("command: [/plugins/run]\n{volume}"));
    let run = moving(&case).run().ok().says("program-on-volume");
    let copy = case.layouts.sandbox.path("copy");
    std::fs::create_dir(&copy).unwrap();
    let flags = advice(
        &run,
        "check the volume, or see the image start with a copy of it: --start --start-mount HOST-PATH:PATH",
    )
    .flags("--start --start-mount HOST-PATH:PATH", &[("HOST-PATH", copy.to_str().unwrap()), ("PATH", "/plugins")]);
    let start = || again(|| moving(&case), &flags).ok();
    // A volume without the program is found out, and one with it is seen to start on both sides.
    start().says("start-unproven").says("stat /plugins/run: no such file");
    let file = copy.join("run");
    std::fs::write(&file, prints(Machine::Amd64, "x\n")).unwrap();
    tool("chmod", &["755", file.to_str().unwrap()]);
    let started = start().says("source ended with status 0").says("result ended with status 0");
    assert!(!started.stderr.contains("start-unproven"), "{started}");
}
