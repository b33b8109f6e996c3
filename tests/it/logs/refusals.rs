//! What has no exec form is refused with a mark under the construct, and nothing is written.

use serde_json::json;

use super::programs::{klog_flag, parts, plain};
use super::{marks, shelled};
use crate::support::layouts::findings;
use crate::support::skip::or_skip;
use crate::support::tar_layer::program;

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
