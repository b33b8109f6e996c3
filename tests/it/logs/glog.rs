//! glog cannot be given the name of a file: refused with the choices there are, each of which works.

use serde_json::json;

use super::programs::{glog, parts, runner};
use super::{LOG, of_rule, shelled, text};
use crate::support::fixtures;
use crate::support::layouts::findings;
use crate::support::skip::or_skip;
use crate::support::tar_layer::{Layer, Pack, program};

const SCRIPT: &str = "exec /app --logtostderr >>/var/log/app.log 2>&1";

#[test]
fn a_glog_program_is_refused_with_three_choices_and_moves_with_those_that_fit() {
    or_skip!(parts());
    let layouts = shelled(&[program("app", glog())], &json!({"Entrypoint": ["/bin/sh", "-c", SCRIPT]}));
    let before = layouts.container("app");
    assert_eq!(before.start().code, Some(0));
    assert!(before.read(LOG).contains("] starts\n") && before.read(LOG).contains("] goes on\n"));

    for args in [vec!["--json"], vec!["--json", "--logs", "klog"], vec!["--json", "--logs", "runner"]] {
        let report = layouts.rebase("out").args(&args).run().refused().json();
        assert_eq!(findings(&report["platforms"][0]), ["refuse uses-glog"], "{args:?}");
        let fix = text(of_rule(&report, "uses-glog")[0], "fix");
        for choice in ["--logs klog", "--logs runner", "--log-runner", "--logs stdout"] {
            assert!(fix.contains(choice), "{args:?}: {fix}");
        }
    }
    assert!(!layouts.layout("out").exists(), "a refusal writes nothing");

    layouts.rebase("out").args(["--logs", "stdout"]).run().ok();
    let after = layouts.container("out");
    assert_eq!(after.command().0, ["/app", "--logtostderr"]);
    let ended = after.start();
    assert!(ended.stderr.contains("] starts\n") && ended.stderr.contains("] goes on\n"), "{ended:?}");
    assert!(!after.has(LOG), "nobody writes the file");
    layouts.underpin(&["verify", "oci:out:v1"]).run().ok().says("verified");

    let mut new = fixtures::new_base("linux/amd64");
    new.layers.push(Layer::of(Pack::Gzip, &[program("go-runner", runner(&[]))]));
    new.build().layout(&layouts.layout("new"), "v1");
    layouts.rebase("run").run().ok();
    let after = layouts.container("run");
    after.start();
    assert!(after.read(LOG).contains("] starts\n") && after.read(LOG).contains("] goes on\n"));
}
