//! What GitHub reads of the clone: workflows, the action, templates. By the schemas that editors use, which
//! check-jsonschema ships; and by rules of our own that no schema has.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::support::fixtures;
use crate::support::invocation::{Sandbox, binary, files_under};
use crate::support::layouts::Layouts;
use crate::support::python;
use crate::support::recipe::Recipe;
use crate::support::skip::or_skip;

fn clone() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files in one process: Python takes its time to start. `FILE is not SCHEMA: MESSAGE` for each mistake.
const VALIDATE: &str = "
import sys
from ruamel.yaml import YAML
from check_jsonschema.builtin_schemas import get_builtin_schema
from jsonschema.validators import validator_for
for pair in sys.argv[1:]:
    name, file = pair.split('=', 1)
    schema = get_builtin_schema(name)
    document = YAML(typ='safe', pure=True).load(open(file))
    for error in validator_for(schema)(schema).iter_errors(document):
        print(file, 'is not', name + ':', error.json_path, error.message[:200])
";

/// What the schemas say of the files.
fn mistakes(files: &[(&str, PathBuf)]) -> String {
    let pairs: Vec<String> = files.iter().map(|(schema, file)| format!("{schema}={}", file.display())).collect();
    python::run_fetched(VALIDATE, &pairs).unwrap()
}

fn workflows() -> Vec<PathBuf> {
    files_under(&clone().join(".github/workflows"))
}

/// The example of the documentation, as a file.
fn example(sandbox: &Sandbox) -> PathBuf {
    let page = std::fs::read_to_string(clone().join("docs/ci.md")).unwrap();
    let fence =
        page.split("```yaml file=.github/workflows/release.yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let file = sandbox.path("example.yaml");
    std::fs::write(&file, fence).unwrap();
    file
}

#[test]
fn every_file_is_as_its_schema_has_it() {
    or_skip!(python::need_fetched("check_jsonschema"));
    let sandbox = Sandbox::new();
    let templates = clone().join(".github/ISSUE_TEMPLATE");
    let workflows = workflows().into_iter().chain([example(&sandbox)]).map(|file| ("vendor.github-workflows", file));
    let mut files: Vec<(&str, PathBuf)> = workflows.collect();
    assert!(files.len() > 2);
    files.push(("vendor.github-actions", clone().join("action.yml")));
    files.push(("vendor.github-issue-config", templates.join("config.yml")));
    files.extend(["bug.yaml", "wrong-verdict.yaml"].map(|name| ("vendor.github-issue-forms", templates.join(name))));
    // A twin that must be found, beside those that must not.
    let wrong = sandbox.path("wrong.yaml");
    std::fs::write(&wrong, "on: push\njobs: {a: {runs-on: x, steps: [{run: a, uses: b/c@v1, wit: {}}]}}\n").unwrap();
    files.push(("vendor.github-workflows", wrong.clone()));
    let found = mistakes(&files);
    let is_twin = |line: &str| line.starts_with(wrong.to_str().unwrap());
    assert!(!found.is_empty() && found.lines().all(is_twin), "{found}");
}

/// The values of a key, wherever it stands.
fn values<'a>(text: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = text.lines().map(|line| line.trim_start().trim_start_matches("- "));
    lines.filter_map(move |line| line.strip_prefix(key)?.strip_prefix(": "))
}

/// Whether an action is named by commit, with the release in a comment. Our own is named by release in the documentation:
/// its commit is not known before it is made.
fn is_pinned(uses: &str) -> bool {
    let (action, at) = uses.split_once('@').unwrap_or((uses, ""));
    let (commit, comment) = at.split_once(" # ").unwrap_or((at, ""));
    let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    action == "underpin-dev/underpin" || (is_commit && comment.starts_with('v'))
}

#[test]
fn workflows_pin_what_they_use_and_say_what_they_may() {
    assert!(!is_pinned("actions/checkout@v4") && !is_pinned("actions/checkout"));
    let sandbox = Sandbox::new();
    for file in workflows().into_iter().chain([example(&sandbox)]) {
        let text = std::fs::read_to_string(&file).unwrap();
        for uses in values(&text, "uses") {
            assert!(is_pinned(uses), "{}: {uses}", file.display());
        }
        assert!(text.contains("permissions:\n"), "{}", file.display());
        assert!(text.contains("timeout-minutes:"), "{}", file.display());
        // Whoever names a branch must not become part of a script.
        for script in crate::documented::session::scripts(&text) {
            assert!(!script.contains("${{"), "{}: {script}", file.display());
            let parsed = Command::new("bash").args(["-n", "-c", &script]).output().unwrap();
            assert!(parsed.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&parsed.stderr));
        }
    }
}

#[test]
fn github_finds_what_it_looks_for() {
    for (file, says) in [
        ("CONTRIBUTING.md", "scripts/test"),
        ("SECURITY.md", "Report a vulnerability"),
        ("CODE_OF_CONDUCT.md", "maintainers"),
        (".github/pull_request_template.md", ""),
        ("LICENSE", "Apache License"),
    ] {
        let text = std::fs::read_to_string(clone().join(file)).unwrap();
        assert!(text.contains(says) && text.len() > 40, "{file}");
    }
    let package = std::fs::read_to_string(clone().join("Cargo.toml")).unwrap();
    let repository = package.lines().find_map(|line| line.strip_prefix("repository = \"")?.strip_suffix('"')).unwrap();
    let config = std::fs::read_to_string(clone().join(".github/ISSUE_TEMPLATE/config.yml")).unwrap();
    assert!(config.contains(repository), "one repository, wherever it is named");
}

/// The script of the action that moves the image, as a runner starts it: `bash -eo pipefail`, with its inputs as variables.
#[test]
fn the_action_moves_an_image_and_says_why_it_does_not() {
    let action = std::fs::read_to_string(clone().join("action.yml")).unwrap();
    let scripts = crate::documented::session::scripts(&action);
    let script = scripts.iter().find(|script| script.contains("underpin rebase")).unwrap();
    let old = fixtures::old_base("linux/amd64");
    let piped = json!({"Entrypoint": ["/bin/sh", "-c", "/app | cat"], "Env": [fixtures::PATH]});
    let stuck = Recipe { config: piped, ..fixtures::app("linux/amd64", 10) };
    let layouts = Layouts::on(&old, &fixtures::app("linux/amd64", 10));
    stuck.build().layout(&layouts.layout("stuck"), "v1");
    let bin = layouts.sandbox.path("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(binary(), bin.join("underpin")).unwrap();
    for (source, target, code, output) in [
        ("oci:app:v1", "oci:out:v1", 0, "image=oci:out@sha256:"),
        ("oci:app:v1", "", 0, ""),
        ("oci:stuck:v1", "oci:no:v1", 1, "image=\n"),
        ("oci:stuck:v1", "", 1, ""),
    ] {
        for file in ["output", "summary", "underpin.md"] {
            let _ = std::fs::remove_file(layouts.sandbox.path(file));
        }
        let at = |name: &str| layouts.sandbox.path(name);
        let run = layouts.sandbox.program("bash", ["--noprofile", "--norc", "-eo", "pipefail", "-c", script]);
        let run = run.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
        let run = run.env("SOURCE", source).env("TARGET", target).env("BASE", "oci:new:v1");
        let run = run.env("ARGS", "--old-base oci:old:v1").env("RUNNER_TEMP", at(""));
        let run = run.env("GITHUB_OUTPUT", at("output")).env("GITHUB_STEP_SUMMARY", at("summary")).run();
        assert_eq!(run.code(), Some(code), "{run}");
        assert!(std::fs::read_to_string(at("output")).unwrap_or_default().starts_with(output), "{run}");
        let summary = std::fs::read_to_string(at("summary")).unwrap();
        assert_eq!(summary.contains("needs-shell"), code == 1, "{summary}");
    }
}
