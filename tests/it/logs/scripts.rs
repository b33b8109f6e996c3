//! Entrypoint scripts: read and translated, with their arguments still taken from CMD.

use serde_json::{Value, json};

use super::programs::{klog_normalised, parts, plain};
use super::{HOME, LOG, marks, of_rule, shelled, text};
use crate::support::fixtures;
use crate::support::layouts::{Layouts, findings};
use crate::support::programs::GoCompiler;
use crate::support::skip::or_skip;
use crate::support::tar_layer::{Entry, program};

/// The script that cluster-autoscaler had, in its shape.
const RUN: &str = r#"#!/bin/sh

# Copyright of somebody
#
# Licensed under something

set -o errexit
set -o nounset

exec /cluster-autoscaler --v=2 "$@" 1>>/var/log/app.log 2>&1
"#;

fn layouts(script: &str, app: Vec<u8>, config: &Value) -> Layouts {
    shelled(&[program("cluster-autoscaler", app), program("run.sh", script)], config)
}

#[test]
fn the_script_of_the_cluster_autoscaler_moves_and_its_arguments_can_still_be_replaced() {
    or_skip!(parts());
    let layouts =
        layouts(RUN, klog_normalised(&GoCompiler::usual()), &json!({"Entrypoint": ["/run.sh"], "Cmd": ["one", "two"]}));
    let report = layouts.rebase("out").arg("--json").run().ok().json();
    let (before, after) = (layouts.container("app"), layouts.container("out"));
    let (entrypoint, cmd) = after.command();
    let flags = "--logtostderr=false --log-file=/var/log/app.log --log-file-max-size=0";
    assert_eq!(entrypoint.join(" "), format!("/cluster-autoscaler --v=2 {flags}"));
    assert_eq!(cmd, ["one", "two"]);
    for container in [&before, &after] {
        assert_eq!(container.start().code, Some(0));
        assert!(container.read(LOG).contains("] knows [one two]\n"), "{}", container.read(LOG));
        assert!(!container.read(LOG).contains("is silent"));
        assert_eq!(container.start_with(&["--v=3", "other words"]).code, Some(0));
        assert!(container.read(LOG).contains("] knows [other words]\n"), "{}", container.read(LOG));
        assert!(container.read(LOG).contains("] is silent\n"), "a later flag wins, as it did");
    }
    // The script is still in its layer. A manifest that names it would fail, and that is said.
    assert_eq!(findings(&report["platforms"][0]), ["warn shell-removed", HOME]);
    assert!(text(of_rule(&report, "shell-removed").pop().unwrap(), "message").contains("/run.sh"));
    assert_ne!(after.execute(&["/run.sh".to_owned()]).code, Some(0));
    layouts.verify("oci:out:v1").run().ok().says("verified");
}

/// The last flag wins: what CMD says about klog's files would undo what the entrypoint says.
#[test]
fn klogs_flags_are_not_given_where_cmd_would_undo_them() {
    or_skip!(parts());
    let config = json!({"Entrypoint": ["/run.sh"], "Cmd": ["--logtostderr=true", "one"]});
    let layouts = layouts(RUN, klog_normalised(&GoCompiler::usual()), &config);
    layouts.rebase("out").run().refused().says("CMD has flags that would override klog's").says("(log-flags)");
    assert!(!layouts.layout("out").exists(), "a refusal writes nothing");
    layouts.rebase("out").args(["--cmd", r#"["one"]"#]).run().ok();
    let after = layouts.container("out");
    assert_eq!(after.start().code, Some(0));
    assert!(after.read(LOG).contains("] knows [one]\n"), "{}", after.read(LOG));
}

#[test]
fn scripts_are_read_however_they_are_started() {
    or_skip!(parts());
    let app = plain();
    let script = |first: &str| format!("{first}\nset -e\nexport MODE=loud\ncd /srv\nexec /cluster-autoscaler \"$@\"\n");
    for (first, entrypoint) in [
        ("#!/bin/sh", json!(["/run.sh"])),
        ("#!/bin/bash", json!(["./run.sh"])),
        ("#!/bin/busybox sh", json!(["run.sh"])),
        ("#!/bin/sh", json!(["/bin/bash", "/run.sh"])),
        ("#!/bin/sh -e", json!(["sh", "/run.sh"])),
    ] {
        let path = "PATH=/bin:/";
        let config = json!({"Entrypoint": entrypoint, "Cmd": ["a b", "0"], "Env": [path], "WorkingDir": "/"});
        let files: [Entry; 3] = [
            program("cluster-autoscaler", app.clone()),
            program("run.sh", script(first)),
            crate::support::tar_layer::folder("srv/"),
        ];
        let layouts = shelled(&files, &config);
        let before = layouts.container("app").start();
        assert_eq!(before.stdout, "out [a b 0] loud\n", "{first} {entrypoint}");
        layouts.rebase("out").run().ok();
        let after = layouts.container("out");
        assert_eq!(after.start(), before, "{first} {entrypoint}");
        assert_eq!(after.command(), (vec!["/cluster-autoscaler".to_owned()], vec!["a b".to_owned(), "0".to_owned()]));
        assert_eq!(after.config["WorkingDir"], "/srv");
    }
}

/// `CMD ./run.sh` and `ENTRYPOINT ./run.sh` in a Dockerfile are shell form.
#[test]
fn a_script_behind_sh_c_is_read_like_one_that_is_started() {
    or_skip!(parts());
    let app = plain();
    let script = "#!/bin/sh\nset -e\nexport MODE=$LEVEL\nexec /cluster-autoscaler \"$@\"\n";
    for (config, expected) in [
        (json!({"Cmd": ["/bin/sh", "-c", "LEVEL=loud ./run.sh a 'b c' 0"]}), "out [a b c 0] loud\n"),
        (json!({"Entrypoint": ["/bin/sh", "-c", "export LEVEL=1 && exec /run.sh 0"], "Cmd": ["x"]}), "out [0] 1\n"),
    ] {
        let layouts = layouts(script, app.clone(), &config);
        assert_eq!(layouts.container("app").start().stdout, expected, "{config}");
        layouts.rebase("out").run().ok();
        let after = layouts.container("out");
        assert_eq!(after.start().stdout, expected, "{config}");
        assert!(!after.command().0.iter().chain(&after.command().1).any(|word| word.contains("run.sh")), "{config}");
        layouts.verify("oci:out:v1").run().ok().says("verified");
    }
    let loops = "#!/bin/sh\nwhile true; do /cluster-autoscaler 0; done\n";
    layouts(loops, app, &json!({"Cmd": ["/bin/sh", "-c", "./run.sh"]})).rebase("out").run().refused().says("(loop)");
}

#[test]
fn a_script_that_is_of_no_more_use_can_be_left_out() {
    or_skip!(parts());
    let config = json!({"Entrypoint": ["/run.sh"], "Cmd": ["one", "0"], "Env": [fixtures::PATH, "MODE=quiet"]});
    let script = "#!/bin/sh\nexec /cluster-autoscaler \"$@\"\n";
    let layouts = layouts(script, plain(), &config);
    let report = layouts.rebase("out").args(["--drop", "/run.sh", "--json"]).run().ok().json();
    assert_eq!(findings(&report["platforms"][0]), [""; 0], "nothing to warn of");
    let after = layouts.container("out");
    assert_eq!(after.start().stdout, "out [one 0] quiet\n");
    assert!(!after.has("/run.sh") && after.has("/cluster-autoscaler"));
    layouts.verify("oci:out:v1").run().ok().says("verified");
    layouts.rebase("taken").args(["--extract", "--drop", "/run.sh"]).run().ok();
    let taken = layouts.container("taken");
    assert_eq!((taken.start().stdout.as_str(), taken.has("/run.sh")), ("out [one 0] quiet\n", false));
    for wrong in ["/ran.sh", "/bin/sh"] {
        layouts.rebase("wrong").args(["--drop", wrong]).run().refused().says("[drop-missing]").says(wrong);
    }
    layouts.rebase("wrong").args(["--drop", "/cluster-autoscaler"]).run().refused().says("[entrypoint-missing]");
    assert!(!layouts.layout("wrong").exists(), "a refusal writes nothing");
}

#[test]
fn a_script_that_does_more_is_refused_at_the_construct() {
    or_skip!(parts());
    let config = json!({"Entrypoint": ["/run.sh"], "Cmd": ["0"], "Env": [fixtures::PATH]});
    let app = plain();
    for (line, marked, word) in [
        ("if [ -n \"$DEBUG\" ]; then set -x; fi", "if", "conditional"),
        ("ulimit -n 65536", "ulimit", "ulimit"),
        ("trap 'exit 0' TERM", "trap", "trap"),
        ("/cluster-autoscaler --once; date", ";", "multiple-commands"),
    ] {
        let script = format!("#!/bin/sh\n{line}\nexec /cluster-autoscaler \"$@\"\n");
        let layouts = layouts(&script, app.clone(), &config);
        let run = layouts.rebase("out").run().refused().says("[needs-shell]").says(word);
        marks(&run.stderr, marked);
        assert!(!layouts.layout("out").exists(), "a refusal writes nothing");
    }
}
