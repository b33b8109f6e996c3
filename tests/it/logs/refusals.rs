//! What has no exec form is refused with a mark under the construct, and nothing is written.

use serde_json::{Value, json};

use super::programs::{klog_flag, parts, plain, runner};
use super::{LOG, marks, of_rule, shelled, text};
use crate::support::fixtures;
use crate::support::layouts::{Layouts, findings};
use crate::support::skip::or_skip;
use crate::support::tar_layer::{Layer, Pack, program};

#[test]
fn a_refusal_marks_the_construct_and_writes_nothing() {
    or_skip!(parts());
    let app = [program("app", plain())];
    for (shell, script, marked) in [
        ("/bin/sh", "exec /app --v=2 | grep -v probe", "|"),
        ("/bin/sh", "/app 0 && /app 1", "&&"),
        ("/bin/sh", "while true; do /app 0; done", "while"),
        ("/bin/sh", "exec /app --at=$(hostname)", "$(hostname)"),
        ("/bin/sh", "exec /app &>>/var/log/app.log", "&"),
        ("/bin/bash", "exec /app 2>&1 1>>/var/log/app.log ${A:-b}", "${A:-b}"),
        ("/bin/sh", "exec /app /etc/*.conf", "*"),
        ("/bin/sh", "/app <<END\nx\nEND\n", "<<"),
    ] {
        let layouts = shelled(&app, &json!({"Entrypoint": [shell, "-c", script]}));
        let run = layouts.rebase("out").run().refused();
        assert_eq!(run.stdout, "", "stdout carries data only\n{run}");
        assert!(run.stderr.contains("refuse [needs-shell]"), "{run}");
        marks(&run.stderr, marked);
        // A plan is data.
        marks(&layouts.plan().run().refused().stdout, marked);
        let report = layouts.rebase("out").arg("--json").run().refused().json();
        assert_eq!(findings(&report["platforms"][0]), ["refuse needs-shell"], "{script}");
        assert_eq!(report["platforms"][0]["entrypoint"]["after"], json!([shell, "-c", script]), "left as it is");
        assert!(!layouts.layout("out").exists(), "a refusal writes nothing");
    }
}

#[test]
fn what_no_strategy_can_express_is_refused() {
    or_skip!(parts());
    let layouts =
        |script: &str| shelled(&[program("app", klog_flag())], &json!({"Entrypoint": ["/bin/sh", "-c", script]}));
    for (script, word) in [
        ("exec /app >>/var/log/app.log", "(partial-redirect)"),
        ("exec /app >>/var/log/out.log 2>>/var/log/err.log", "(partial-redirect)"),
        ("exec /app --log_dir=/tmp >>/var/log/app.log 2>&1", "(log-flags)"),
    ] {
        let layouts = layouts(script);
        layouts.rebase("out").run().refused().says("refuse [needs-shell]").says(word);
        assert!(!layouts.layout("out").exists(), "a refusal writes nothing");
    }
    layouts("exec /app >>/var/log/app.log 2>&1").rebase("out").run().ok();
}

// What the reports say of the log: who writes it, why, and what else there is.

/// A layouts whose new base has a runner.
fn layouts(script: &str) -> Layouts {
    let layouts =
        shelled(&[program("app", klog_flag())], &json!({"Entrypoint": ["/bin/sh", "-c", script], "Cmd": ["x"]}));
    let mut new = fixtures::new_base("linux/amd64");
    new.layers.push(Layer::of(Pack::Gzip, &[program("go-runner", runner(&[]))]));
    new.build().layout(&layouts.layout("new"), "v1");
    layouts
}

fn planned(layouts: &Layouts, logs: &str) -> Value {
    layouts.plan().args(["--json", "--logs", logs]).run().ok().json()
}

#[test]
fn the_report_says_who_writes_the_log_and_why_and_what_else_there_is() {
    or_skip!(parts());
    let layouts = layouts("exec /app 1>>/var/log/app.log 2>&1");
    for (logs, strategy, message, why, others) in [
        ("auto", "klog", "klog's own flags", "underscores", "--logs runner, --logs stdout"),
        ("klog", "klog", "klog's own flags", "underscores", "--logs runner, --logs stdout"),
        ("runner", "runner", "a log runner", "/go-runner", "--logs klog, --logs stdout"),
        ("stdout", "stdout", "the container's log", "--logs stdout", "--logs klog, --logs runner"),
    ] {
        let report = planned(&layouts, logs);
        assert_eq!(report["platforms"][0]["logs"], json!({"strategy": strategy, "file": LOG}), "{logs}");
        let note = of_rule(&report, "log-strategy");
        assert_eq!(note.len(), 1, "{logs}");
        assert_eq!(text(note[0], "level"), "note");
        assert!(text(note[0], "message").starts_with(LOG) && text(note[0], "message").contains(message), "{note:?}");
        assert!(text(note[0], "evidence").contains(why), "{note:?}");
        assert!(text(note[0], "fix").contains(others), "{note:?}");
        let cleared = of_rule(&report, "cmd-changes-meaning");
        assert!(cleared.iter().any(|note| text(note, "message").contains("CMD is cleared")), "{cleared:?}");
        let run = layouts.plan().args(["--logs", logs]).run().ok();
        assert!(run.stdout.contains("note [log-strategy]") && run.stdout.contains(others), "{run}");
    }
}

#[test]
fn what_klog_cannot_catch_is_noted_and_only_for_klog() {
    or_skip!(parts());
    let layouts = layouts("exec /app >/var/log/app.log 2>&1");
    for (logs, klog_only, appends) in [("klog", true, true), ("runner", false, true), ("stdout", false, false)] {
        let report = planned(&layouts, logs);
        let notes: String = of_rule(&report, "shell-removed").iter().map(|note| text(note, "message")).collect();
        assert_eq!(notes.contains("panics and plain prints"), klog_only, "{logs}: {notes}");
        assert_eq!(notes.contains("now it is appended to"), appends, "{logs}: {notes}");
    }
}

#[test]
fn a_command_without_a_file_has_no_strategy() {
    or_skip!(parts());
    let report = planned(&layouts("exec /app --v=2"), "auto");
    assert_eq!(report["platforms"][0]["logs"], json!({"strategy": "none", "file": null}));
    assert!(of_rule(&report, "log-strategy").is_empty());
    let report = planned(&layouts("exec /app --v=2 >/dev/null 2>&1"), "auto");
    assert_eq!(report["platforms"][0]["logs"], json!({"strategy": "stdout", "file": "/dev/null"}));
}

/// Debian's builds outside of modules say nothing of klog's version; that must not be needed.
#[test]
fn inspect_shows_the_facts_that_the_choice_stands_on() {
    or_skip!(parts());
    let layouts = layouts("exec /app >>/var/log/app.log 2>&1");
    layouts.rebase("out").run().ok();
    let facts = layouts.underpin(&["inspect", "oci:out:v1", "--json", "--no-cache"]).run().ok().json();
    let go = &facts["platforms"][0]["go"];
    assert_eq!(go["modules"], json!([]), "{facts}");
    assert!(go["packages"].as_array().unwrap().contains(&json!("k8s.io/klog.InitFlags")), "{facts}");
}
