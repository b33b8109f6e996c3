//! `underpin translate` as people and scripts use it, and against real shells.

mod comparison;
mod generated;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::invocation::Sandbox;
use crate::support::skip::{need, or_skip};
use comparison::{Scratch, kubelet, same};

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
        (&["--logs", "klog"], json!(["/app", "--logtostderr=false", "--log-file=/l", "--log-file-max-size=0"])),
        (
            &["--logs", "klog", "--klog-style", "underscore"],
            json!(["/app", "--logtostderr=false", "--log_file=/l", "--log_file_max_size=0"]),
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

// The command lines of the corpus under real shells, their programs and files moved to a scratch.

fn rows() -> Vec<Value> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/commands.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|word| word.as_str().unwrap().to_owned()).collect()
}

fn translate(sandbox: &Sandbox, row: &Value, argv: &[String]) -> Value {
    let mut flags = vec!["translate".to_owned(), "--json".to_owned()];
    if row["kind"] == "manifest" {
        let place = match row["where"].as_str() {
            Some("readinessProbe" | "livenessProbe") => "probe",
            Some("preStop") => "hook",
            _ => "command",
        };
        flags.push(format!("--kube={place}"));
        flags.extend(strings(&row["container_env_names"]).into_iter().flat_map(|name| ["--env".to_owned(), name]));
    }
    let run = sandbox.underpin(flags).arg("--").args(argv).run();
    assert!(matches!(run.code(), Some(0 | 1)), "{run}");
    run.json()
}

/// The command with its program, folder and log moved to the scratch, where each is named once.
fn moved(argv: &[String], answer: &Value, scratch: &Scratch) -> Option<(Vec<String>, Option<PathBuf>)> {
    let mut argv = argv.to_vec();
    let script = argv.iter_mut().find(|word| word.contains(' ') || word.contains('/') && !word.ends_with("sh"))?;
    let mut put = |from: &str, to: PathBuf| {
        if script.matches(from).count() != 1 {
            return None;
        }
        *script = script.replace(from, &to.display().to_string());
        Some(to)
    };
    if let Some(folder) = answer["workdir"].as_str() {
        put(folder, scratch.path("work/sub"))?;
    }
    let log = match answer["log"]["path"].as_str() {
        Some(path) => Some(put(path, scratch.path("log/l"))?),
        None => None,
    };
    let program = answer["argv"][0].as_str()?;
    if program.contains('/') {
        put(program, scratch.path("bin/program"))?;
    }
    Some((argv, log))
}

#[test]
fn translated_rows_run_as_the_shells_run_them() {
    or_skip!(need(&["dash", "bash"]));
    let sandbox = Sandbox::new();
    let (mut compared, mut translated) = (0, 0);
    for row in rows() {
        let argv = strings(&row["argv"]);
        let answer = translate(&sandbox, &row, &argv);
        // These are started by the shell itself; there is no program to put a stub in place of.
        let builtin = answer["notes"].to_string().contains("builtin-becomes-program");
        if answer["verdict"] != "translate" || builtin {
            continue;
        }
        translated += 1;
        let program = answer["argv"][0].as_str().unwrap();
        let mut scratch = Scratch::new(&[program.rsplit('/').next().unwrap(), "program"]);
        let Some((argv, log)) = moved(&argv, &answer, &scratch) else { continue };
        let variables: BTreeMap<String, String> = strings(&row["container_env_names"])
            .into_iter()
            .map(|name| (name.clone(), format!("value-of-{name}")))
            .collect();
        scratch.environment.extend(variables.clone());
        let mut answer = translate(&sandbox, &row, &argv);
        assert_eq!(answer["verdict"], "translate", "{argv:?}");
        let expand = |word: &str| if row["kind"] == "manifest" { kubelet(word, &variables) } else { word.to_owned() };
        answer["argv"] = strings(&answer["argv"]).iter().map(|word| expand(word)).collect();
        for value in answer["env"].as_object_mut().unwrap().values_mut() {
            *value = expand(value.as_str().unwrap()).into();
        }
        let started: Vec<String> = argv.iter().map(|word| expand(word)).collect();
        // Not busybox, which would run its own `rm` and `chmod` in place of the stubs.
        for shell in scratch.shells(&argv[0], &["dash", "bash"]) {
            let original = scratch.original(&shell, &started, log.as_deref());
            let direct = scratch.translated(&answer, log.as_deref());
            if let Err(difference) = same(&original, &direct, &answer) {
                panic!("{started:?} under {}\n{difference}", shell.display());
            }
        }
        compared += 1;
    }
    println!("{compared} of {translated} translated rows were compared");
    assert!(compared >= 50, "{compared} of {translated}");
}
