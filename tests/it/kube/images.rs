//! Manifests against real images: what a program shows decides.

use serde_json::json;

use super::{read, write};
use crate::support::fixtures;
use crate::support::invocation::Sandbox;
use crate::support::programs::{Machine, go, prints};
use crate::support::recipe::{Content, Recipe};
use crate::support::skip::{need, need_go_package, or_skip};
use crate::support::tar_layer::{Entry, Layer, Pack, program};

/// An image with `/app`, and a runner where one is asked for.
fn image(runner: bool) -> Content {
    let binary = prints(Machine::of("linux/amd64"), "hello\n");
    let mut files = vec![program("app", binary.clone())];
    if runner {
        files.push(program("go-runner", binary));
    }
    with(&files)
}

fn with(files: &[Entry]) -> Content {
    let mut recipe = fixtures::app("linux/amd64", 1);
    recipe.layers.clear();
    recipe.layers.push(Layer::of(Pack::Gzip, files));
    Recipe { config: json!({"Entrypoint": ["/app"], "Env": [fixtures::PATH]}), ..recipe }.build()
}

fn manifest(lines: &str) -> String {
    format!("kind: Pod\nspec:\n  containers:\n  - name: c\n    image: registry.example/app:v1\n{lines}")
}

#[test]
fn programs_and_strategies_are_proven_on_the_image() {
    let sandbox = Sandbox::new();
    image(false).layout(&sandbox.path("here").join("plain"), "v1");
    image(true).layout(&sandbox.path("here").join("runner"), "v1");
    let logs = "    command: [sh, -c, /app >>/l 2>&1]\n";
    for (lines, place, flags, expected) in [
        ("    command: [sh, -c, exec /app]\n", "plain", &[][..], Ok("command: [/app]")),
        ("    command: [sh, -c, exec /other]\n", "plain", &[], Err("entrypoint-missing")),
        ("    livenessProbe: {exec: {command: [curl, x]}}\n", "plain", &[], Err("entrypoint-missing")),
        ("    livenessProbe: {exec: {command: [/app, x]}}\n", "plain", &[], Ok("[/app, x]")),
        (logs, "plain", &[], Err("log-strategy-open")),
        (logs, "plain", &["--logs", "klog"], Err("log-flag-unknown")),
        (logs, "plain", &["--logs", "runner"], Err("log-runner-missing")),
        (logs, "runner", &[], Ok("command: [/go-runner, --log-file=/l, /app]")),
    ] {
        write(&sandbox, "m.yaml", manifest(lines));
        let image = format!("registry.example/app=oci:{place}:v1");
        let run = sandbox.underpin(["kube", "--write", "--no-cache", "--image", &image, "m.yaml"]).args(flags).run();
        match expected {
            Ok(text) => assert!(run.code() == Some(0) && read(&sandbox, "m.yaml").contains(text), "{lines}{run}"),
            Err(rule) => assert!(run.code() == Some(1) && run.stderr.contains(&format!("[{rule}]")), "{lines}{run}"),
        }
    }
}

/// klog's flags, and how they are spelled, are facts of the program.
#[test]
fn klog_is_proven_on_the_program_itself() {
    const SOURCES: &str = "/usr/share/gocode";
    or_skip!(need(&["go"]));
    or_skip!(need_go_package("k8s.io/klog"));
    let source = "package main\nimport (\"flag\"; \"k8s.io/klog\")\nfunc main() { klog.InitFlags(nil); flag.Parse(); klog.Info(1) }\n";
    let sandbox = Sandbox::new();
    with(&[program("app", go(source, &[("GOPATH", SOURCES)]))]).layout(&sandbox.path("here").join("klog"), "v1");
    write(&sandbox, "m.yaml", manifest("    command: [sh, -c, /app >>/var/log/a.log 2>&1]\n"));
    let image = "registry.example/app=oci:klog:v1";
    let run = sandbox.underpin(["kube", "--write", "--no-cache", "--image", image, "m.yaml"]).run().ok();
    assert!(!run.stderr.contains("assumed"), "{run}");
    assert!(read(&sandbox, "m.yaml").contains("--log_file=/var/log/a.log"), "{run}");
}

#[test]
fn an_image_must_be_named_well_and_be_there() {
    let sandbox = Sandbox::new();
    write(&sandbox, "m.yaml", manifest(""));
    sandbox.underpin(["kube", "m.yaml", "--image", "app"]).run().fails("usage");
    sandbox.underpin(["kube", "m.yaml", "--image", "a=oci:none:v1", "--no-cache"]).run().fails("not-found");
    let twice = ["--image", "a=oci:x:v1", "--image", "a=oci:y:v1"];
    sandbox.underpin(["kube", "m.yaml"]).args(twice).run().fails("usage");
}
