//! `underpin kube` as people and scripts use it, on real files.

mod random;

use std::path::Path;

use serde_json::json;

use crate::support::fixtures;
use crate::support::invocation::Sandbox;
use crate::support::programs::{Machine, go, prints};
use crate::support::recipe::{Content, Recipe};
use crate::support::skip::{need, need_go_package, or_skip};
use crate::support::tar_layer::{Entry, Layer, Pack, program};

const BEFORE: &str = "kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: app
    image: registry.example/app:v1
    command: [sh, -c, exec /app --v=2]  # start
";
const PIPED: &str = "kind: Pod
metadata: {name: piped}
spec:
  containers:
  - name: app
    image: registry.example/app:v1
    command:
    - sh
    - -c
    - exec /app | grep x
";

fn write(sandbox: &Sandbox, name: &str, text: impl AsRef<[u8]>) {
    let path = sandbox.path("here").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn read(sandbox: &Sandbox, name: &str) -> String {
    std::fs::read_to_string(sandbox.path("here").join(name)).unwrap()
}

#[test]
fn a_diff_is_shown_and_nothing_is_written() {
    let sandbox = Sandbox::new();
    write(&sandbox, "web.yaml", BEFORE);
    for flags in [&[][..], &["--diff"]] {
        let run = sandbox.underpin(["kube", "web.yaml"]).args(flags).run().ok();
        assert_eq!(
            run.stdout,
            "--- a/web.yaml
+++ b/web.yaml
@@ -4,4 +4,4 @@
   containers:
   - name: app
     image: registry.example/app:v1
-    command: [sh, -c, exec /app --v=2]  # start
+    command: [/app, --v=2]  # start
"
        );
    }
    assert_eq!(read(&sandbox, "web.yaml"), BEFORE);
}

#[test]
fn check_fails_until_write_has_been_run() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = Sandbox::new();
    write(&sandbox, "web.yaml", BEFORE);
    let path = sandbox.path("here").join("web.yaml");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let check = || sandbox.underpin(["kube", "--check", "web.yaml"]).run();
    assert_eq!(check().refused().stdout, "web.yaml\n");
    assert_eq!(read(&sandbox, "web.yaml"), BEFORE, "a check writes nothing");
    assert_eq!(sandbox.underpin(["kube", "--write", "web.yaml"]).run().ok().stdout, "web.yaml\n");
    let after = BEFORE.replace("sh, -c, exec /app --v=2", "/app, --v=2");
    assert_eq!(read(&sandbox, "web.yaml"), after);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(check().ok().stdout, "");
    assert_eq!(sandbox.underpin(["kube", "--write", "web.yaml"]).run().ok().stdout, "", "a second run makes no edit");
    assert_eq!(sandbox.strays(), [path], "nothing else is left behind");
}

#[test]
fn a_refusal_has_file_line_column_container_and_caret() {
    let sandbox = Sandbox::new();
    write(&sandbox, "piped.yaml", PIPED);
    let run = sandbox.underpin(["kube", "--write", "-q", "piped.yaml"]).run().refused();
    assert_eq!(
        run.stderr,
        "refused: piped.yaml:10:17: Pod/piped, container app, command
  [pipeline] the output is piped into another program
    exec /app | grep x
              ^
hint: only `| tee [-a] FILE` has an equivalent; filter where the log is read
hint: `underpin explain pipeline` says more
"
    );
    assert_eq!(read(&sandbox, "piped.yaml"), PIPED);
}

#[test]
fn folders_patterns_and_streams_are_read() {
    let sandbox = Sandbox::new();
    for name in ["d/a.yaml", "d/b/c.yml", "d/b/d.json", "d/e.manifest", "d/notes.txt", "d/.git/f.yaml"] {
        write(&sandbox, name, BEFORE);
    }
    let names = |args: &[&str]| sandbox.underpin(["kube", "--check"]).args(args).run().refused().stdout;
    assert_eq!(names(&["d"]), "d/a.yaml\nd/b/c.yml\nd/b/d.json\nd/e.manifest\n");
    assert_eq!(names(&["d/**/*.yaml", "d/a.yaml"]), "d/a.yaml\n");
    assert_eq!(names(&["d/*/c.y?l", "d/b"]), "d/b/c.yml\nd/b/d.json\n");
    assert_eq!(names(&["d/notes.txt"]), "d/notes.txt\n", "a file that is named is read");
    sandbox.underpin(["kube", "d/*.nothing"]).run().fails("usage");
    let stream = |flags: &str| {
        let line = format!("cat d/a.yaml | {} kube {flags} -", crate::support::invocation::binary());
        sandbox.program("sh", ["-c", &line]).run()
    };
    assert_eq!(stream("--write").ok().stdout, BEFORE.replace("sh, -c, exec /app --v=2", "/app, --v=2"));
    assert!(stream("").ok().stdout.starts_with("--- a/-\n"));
    assert_eq!(stream("--check").refused().stdout, "-\n");
}

/// As `helm template` and `kustomize build` print it: comments that name sources, an empty document, hooks, a config
/// map with a template of its own, and a string whose lines are indented less.
const RENDERED: &str = r#"---
# Source: app/templates/configmap.yaml
apiVersion: v1
kind: ConfigMap
metadata:
  name: alerts
data:
  rules.yaml: |
    summary: "{{ $labels.instance }} is down"
---
# Source: app/templates/empty.yaml
---
# Source: app/templates/crd.yaml
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: snapshots.example.com
spec:
  versions:
  - additionalPrinterColumns:
    - description: "Name of the content to which the snapshot
    intends to bind"
      name: Content
---
# Source: app/templates/job.yaml
apiVersion: batch/v1
kind: Job
metadata:
  name: app-migrate
  annotations:
    "helm.sh/hook": pre-install
spec:
  template:
    spec:
      containers:
        - name: migrate
          image: "registry.example/app:v1"
          command: ["sh", "-c", "exec /app migrate"]
"#;

#[test]
fn what_helm_and_kustomize_print_is_read_from_stdin() {
    let sandbox = Sandbox::new();
    let stream = |text: &str, flags: &str| {
        write(&sandbox, "rendered", text);
        let line = format!("cat rendered | {} kube {flags} -", crate::support::invocation::binary());
        sandbox.program("sh", ["-c", &line]).run()
    };
    let expected = RENDERED.replace(r#""sh", "-c", "exec /app migrate""#, r#""/app", "migrate""#);
    assert_eq!(stream(RENDERED, "--write").ok().stdout, expected);
    assert_eq!(stream(&expected, "--check").ok().stdout, "");
    let json =
        "{\"kind\":\"Pod\",\"spec\":{\"containers\":[{\"name\":\"a\",\"command\":[\"sh\",\"-c\",\"exec /a\"]}]}}\n";
    let two = [json, json].concat();
    assert_eq!(stream(&two, "--write").ok().stdout, two.replace(r#""sh","-c","exec /a""#, r#""/a""#));
    let sleeps = RENDERED.replace("exec /app migrate", "sleep 5");
    stream(&sleeps, "--check").refused().says("[tool-unproven] sleep is a tool");
}

#[test]
fn one_bad_file_does_not_stop_the_others() {
    let sandbox = Sandbox::new();
    write(&sandbox, "a.yaml", "kind: [\n");
    write(&sandbox, "b.yaml", BEFORE);
    write(&sandbox, "c.yaml", b"\xff\xfe");
    write(&sandbox, "d.yaml", "kind: Pod\nspec: {{ .Values.spec }}\n");
    let files = ["a.yaml", "b.yaml", "c.yaml", "d.yaml", "none.yaml"];
    let run = sandbox.underpin(["kube", "--write"]).args(files).run();
    assert_eq!(run.code(), Some(2), "{run}");
    assert_eq!(run.stdout, "b.yaml\n");
    for word in ["not valid YAML", "not UTF-8", "[unrendered-template] {{ .Values.spec }}", "no such file", "none.yaml"]
    {
        assert!(run.stderr.contains(word), "{word}\n{run}");
    }
    let run = sandbox.underpin(["kube", "--json"]).args(files).run();
    assert_eq!(run.json()["outcome"], "error", "one object, errors included\n{run}");
    sandbox.underpin(["kube", "d.yaml"]).run().refused();
}

#[test]
fn reports_say_the_same_in_every_format() {
    let sandbox = Sandbox::new();
    write(&sandbox, "web.yaml", BEFORE);
    write(&sandbox, "piped.yaml", PIPED);
    let reports = ["--report", "json=r.json", "--report", "sarif=r.sarif", "--report", "junit=r.xml"];
    let run = sandbox.underpin(["kube", "--check", "--json", "web.yaml", "piped.yaml"]).args(reports).run().refused();
    let report = run.json();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&read(&sandbox, "r.json")).unwrap(), report);
    assert_eq!((&report["schema"], &report["outcome"]), (&json!("underpin.kube/v1"), &json!("refused")));
    let [web, piped] = [0, 1].map(|at| &report["files"][at]["commands"][0]);
    assert_eq!((&web["verdict"], &web["command"]), (&json!("translate"), &json!(["/app", "--v=2"])));
    assert_eq!(web["object"], json!({"kind": "Pod", "name": "web"}));
    assert_eq!((&piped["verdict"], &piped["reason"]), (&json!("refuse"), &json!("pipeline")));
    assert_eq!((&piped["line"], &piped["column"]), (&json!(10), &json!(17)));
    let sarif: serde_json::Value = serde_json::from_str(&read(&sandbox, "r.sarif")).unwrap();
    let rules: Vec<&str> =
        sarif["runs"][0]["results"].as_array().unwrap().iter().map(|one| one["ruleId"].as_str().unwrap()).collect();
    assert_eq!(rules, ["shell-form", "pipeline"]);
    let junit = read(&sandbox, "r.xml");
    assert!(junit.contains("failures=\"2\"") && junit.contains("message=\"pipeline\""), "{junit}");
    let wrong = sandbox.underpin(["kube", "web.yaml", "--report", "pdf=x"]).run();
    assert_eq!(wrong.code(), Some(2), "{wrong}");
}

#[test]
fn large_files_are_refused_before_they_are_read() {
    let sandbox = Sandbox::new();
    let file = std::fs::File::create(sandbox.path("here").join("large.yaml")).unwrap();
    file.set_len(100 << 20).unwrap();
    let run = sandbox.underpin(["kube", "large.yaml"]).run();
    assert_eq!((run.code(), run.kind().as_deref()), (Some(2), Some("input")), "{run}");
    assert!(run.peak < 64 << 10, "{run}");
    assert!(Path::new(&sandbox.path("here")).is_dir());
}

// Manifests against real images: what a program shows decides.

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
