//! `underpin translate` as people and scripts use it, and against real shells.

mod comparison;
mod corpus;
mod generated;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde_json::json;

use crate::support::invocation::Sandbox;

#[test]
fn exit_codes_tell_translated_refused_and_wrong_usage() {
    let sandbox = Sandbox::new();
    for (args, code) in [
        (&["--", "sh", "-c", "exec app"][..], 0),
        (&["--", "/app", "-x"], 0),
        (&["--", "sh", "-c", "a; b"], 1),
        (&["--logs", "klog", "--", "sh", "-c", "app >>/l"], 1),
        (&["--logs", "runner", "--", "sh", "-c", "app >>/l"], 0),
        (&["--kube", "--env", "A", "--", "sh", "-c", "app $A"], 0),
        (&["--kube=probe", "--env", "A", "--", "sh", "-c", "app $A"], 1),
        (&["--kube=probe", "--env", "A=1", "--", "sh", "-c", "app $A"], 0),
        (&["--kube=hook", "--", "sh", "-c", "app $A"], 1),
        (&["--image-env", "A=1", "--", "sh", "-c", "app $A"], 0),
        (&["--image-env", "A", "--", "sh", "-c", "app"], 2),
        (&["--env", "A", "--", "sh", "-c", "app"], 2),
        (&["--kube=x", "--", "app"], 2),
        (&["--script", "missing", "--", "run.sh"], 2),
        (&[], 2),
        (&["--"], 2),
    ] {
        let run = sandbox.underpin(["translate"]).args(args).run();
        assert_eq!(run.code(), Some(code), "{run}");
    }
    assert!(sandbox.strays().is_empty(), "nothing is written and nothing is executed");
}

#[test]
fn the_json_is_the_contract() {
    let sandbox = Sandbox::new();
    let json = |args: &[&str]| sandbox.underpin(["translate", "--json"]).args(args).run().json();
    let keys = ["verdict", "argv", "env", "workdir", "log", "reason", "detail", "at"];
    let translated = json(&["--", "sh", "-c", "cd /w && A=1 exec app x 2>&1 | tee /l"]);
    let refused = json(&["--", "sh", "-c", "exec app\t* &"]);
    let unchanged = json(&["--", "/app"]);
    for object in [&translated, &refused, &unchanged] {
        assert!(keys.iter().all(|key| object.get(key).is_some()), "{object}");
    }
    for (key, value) in [
        ("verdict", json!("translate")),
        ("argv", json!(["app", "x"])),
        ("env", json!({"A": "1"})),
        ("workdir", json!("/w")),
        ("log", json!({"path": "/l", "append": false, "streams": "both", "tee": true})),
        ("reason", json!("")),
    ] {
        assert_eq!(translated[key], value, "{key}");
    }
    for (key, value) in [
        ("verdict", json!("refuse")),
        ("reason", json!("background-job")),
        ("at", json!(11)),
        ("word", json!(2)),
        ("argv", json!([])),
    ] {
        assert_eq!(refused[key], value, "{key}");
    }
    assert_eq!((&unchanged["verdict"], &unchanged["argv"]), (&json!("unchanged"), &json!(["/app"])));
}

#[test]
fn a_refusal_points_at_the_construct() {
    let run = Sandbox::new()
        .underpin(["translate", "--", "sh", "-c", "set -e\nexec kube-proxy --v=2 | grep -v probe"])
        .run()
        .refused();
    assert_eq!(run.stdout, "", "stdout carries data only");
    assert_eq!(
        run.stderr,
        "refused: the command cannot be translated
  command  [\"sh\",\"-c\",\"set -e\\nexec kube-proxy --v=2 | grep -v probe\"]
  [pipeline] the output is piped into another program
    exec kube-proxy --v=2 | grep -v probe
                          ^
hint: only `| tee [-a] FILE` has an equivalent; filter where the log is read
hint: `underpin explain pipeline` says more
"
    );
}

#[test]
fn a_translation_shows_before_after_and_the_log() {
    let run = Sandbox::new()
        .underpin(["translate", "--", "/bin/sh", "-c", "exec /app --v=2 >>/var/log/app.log 2>&1"])
        .run()
        .ok();
    assert_eq!(
        run.stdout,
        "before     [\"/bin/sh\",\"-c\",\"exec /app --v=2 >>/var/log/app.log 2>&1\"]
after      [\"/app\",\"--v=2\"]
log        /var/log/app.log (stdout and stderr, appended)
           not part of the command yet: choose --logs klog, --logs runner or --logs stdout
note       arguments given to the container now reach the program; the shell ignored them
"
    );
}

#[test]
fn strategies_give_their_words() {
    let sandbox = Sandbox::new();
    for (flags, expected) in [
        (&["--logs", "runner"][..], json!(["/go-runner", "--log-file=/l", "/app", "--logtostderr"])),
        (&["--logs", "stdout"], json!(["/app", "--logtostderr"])),
        (
            &["--logs", "klog"],
            json!(["/app", "--logtostderr=false", "--log-file=/l", "--log-file-max-size=0", "--stderrthreshold=FATAL"]),
        ),
        (
            &["--logs", "klog", "--klog-style", "underscore"],
            json!(["/app", "--logtostderr=false", "--log_file=/l", "--log_file_max_size=0", "--stderrthreshold=FATAL"]),
        ),
    ] {
        let run = sandbox.underpin(["translate", "--json"]).args(flags);
        let run = run.args(["--", "sh", "-c", "/app --logtostderr >>/l 2>&1"]).run().ok();
        assert_eq!(run.json()["argv"], expected, "{flags:?}");
    }
}

#[test]
fn scripts_are_read_from_a_file() {
    let sandbox = Sandbox::new();
    let file = |text: &[u8]| std::fs::write(sandbox.path("here").join("run.sh"), text).unwrap();
    let run = || sandbox.underpin(["translate", "--json", "--script", "run.sh", "--", "./run.sh", "-v", "a b"]).run();
    file(b"#!/bin/sh\nset -o errexit\n# start\nexec ./cluster-autoscaler \"$@\" 1>>/var/log/ca.log 2>&1\n");
    let json = run().ok().json();
    assert_eq!(json["argv"], json!(["./cluster-autoscaler", "-v", "a b"]));
    assert_eq!(json["log"]["path"], "/var/log/ca.log");
    for (text, reason) in [
        (&b"#!/bin/sh\nsleep 1\nexec app \"$@\"\n"[..], "multiple-commands"),
        (b"#!/bin/sh\nexec app \"$@\" \xff\n", "not-text"),
        (b"#!/bin/sh\nexec app \"$@\" \0\n", "control-character"),
        (b"exec app \"$@\"\n", "unknown-shell"),
        (&b"#!/bin/sh\nexec app\n".repeat(100_000), "too-long"),
    ] {
        file(text);
        assert_eq!(run().refused().json()["reason"], reason);
    }
}

#[test]
fn words_that_are_not_text_are_refused() {
    let sandbox = Sandbox::new();
    let words = [b"sh", &b"-c"[..], b"app \xff"].map(OsStr::from_bytes);
    let run = sandbox.underpin(["translate", "--json", "--"]).args(words).run().refused();
    assert_eq!((&run.json()["reason"], &run.json()["word"]), (&json!("not-text"), &json!(2)));
    // One argument cannot be longer than this on Linux.
    let long = format!("app {}", "a $(".repeat(30_000));
    sandbox.underpin(["translate", "--json", "--", "sh", "-c"]).arg(long).run().refused();
}
