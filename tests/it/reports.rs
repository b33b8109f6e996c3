//! Reports in every format, read by others: a JSON Schema validator, an XML parser, a browser.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::fixtures;
use crate::support::layouts::{Layouts, upon};
use crate::support::programs::{Machine, prints};
use crate::support::python;
use crate::support::skip::{find, need, or_skip};
use crate::support::tar_layer::{Layer, Pack, file, program};

const FORMATS: [&str; 6] = ["text", "json", "markdown", "html", "junit", "sarif"];
/// Markup, and what is not seen: C1 controls, zero-width and bidi characters, separators, tags.
const EVIL: &str = "</code><script>document.title='evil'</script>\u{9b}\u{200b}\u{202e}\u{2066}\u{2028}\u{2060}\u{feff}\u{e0041}\u{e007f}";

/// An application that moves, and one that pipes what could break a page.
pub fn layouts() -> Layouts {
    let old = fixtures::old_base("linux/amd64");
    let layouts = Layouts::on(&old, &fixtures::app("linux/amd64", 200_000));
    let layer = [Layer::of(Pack::Gzip, &[program("app", prints(Machine::Amd64, "x"))])];
    let piped = json!({"Entrypoint": ["/bin/sh", "-c", format!("/app '{EVIL}' | grep x")]});
    upon(&old, layer, piped).build().layout(&layouts.layout("piped"), "v1");
    let file = "defaults: {base: 'oci:new:v1', old_base: 'oci:old:v1'}\nimages:\n\
        - {source: 'oci:app:v1', target: 'oci:out:app'}\n- {source: 'oci:piped:v1', target: 'oci:out:piped'}\n\
        - {source: 'oci:none:v1', target: 'oci:out:none'}\n";
    std::fs::write(layouts.layout("batch.yaml"), file).unwrap();
    std::fs::write(
        layouts.layout("list.md"),
        "|Component|Base|Reason|\n|-|-|-|\n|piped|oci:old:v1|Requires a shell|\n",
    )
    .unwrap();
    layouts
}

/// Runs the command with a report in every format: `NAME.FORMAT`.
fn reports(layouts: &Layouts, name: &str, args: &[&str]) {
    let flags = FORMATS.iter().flat_map(|format| ["--report".to_owned(), format!("{format}={name}.{format}")]);
    // What comes behind `--` is no flag.
    let (command, rest) = args.split_at(1);
    let run = layouts.underpin(command).args(flags).args(rest).run();
    assert!(FORMATS.iter().all(|format| layouts.layout(&format!("{name}.{format}")).is_file()), "{run}");
    // What a person reads at a terminal is also a report.
    std::fs::write(layouts.layout(&format!("{name}.stdout")), run.stdout).unwrap();
    std::fs::write(layouts.layout(&format!("{name}.stderr")), run.stderr).unwrap();
}

/// Every command that reports, each with the definition of its JSON in the schema.
pub const COMMANDS: [(&str, &str); 12] = [
    ("rebase", "report"),
    ("plan", "report"),
    ("check", "check"),
    ("batch", "batch"),
    ("inspect", "inspect"),
    ("verify", "verify"),
    ("start", "start"),
    ("outdated", "outdated"),
    ("elf", "program"),
    ("translate", "translate"),
    ("kube", "kube"),
    ("exceptions", "exceptions"),
];

/// A report of every command in every format.
pub fn all(layouts: &Layouts) {
    let base = ["--base", "oci:new:v1", "--old-base", "oci:old:v1"];
    let alone = ["--no-cache", "--offline"];
    let on_images = |name: &str, args: &[&str]| reports(layouts, name, &[args, &alone].concat());
    on_images("rebase", &[&["rebase", "oci:app:v1", "--to", "oci:moved:v1"], &base[..]].concat());
    on_images("plan", &[&["plan", "oci:piped:v1"], &base[..]].concat());
    let check =
        ["check", "oci:piped:v1", "oci:app:v1", "oci:none:v1", "--exceptions", "list.md", "--allow-base", "oci:new:v1"];
    on_images("check", &check);
    on_images("batch", &["batch", "batch.yaml"]);
    on_images("inspect", &["inspect", "oci:app:v1", "--bases", "oci:new:v1", "oci:none:v1"]);
    on_images("verify", &[&["verify", "oci:moved:v1", "--source", "oci:app:v1"], &base[..]].concat());
    on_images("start", &["start", "oci:app:v1", "--seconds", "1"]);
    newer_build(&layouts.layout("new"));
    on_images("outdated", &["outdated", "oci:moved:v1", "oci:piped:v1", "oci:none:v1", "--base", "oci:new:v1"]);
    let program = std::env::current_exe().unwrap();
    reports(layouts, "elf", &["elf", program.to_str().unwrap(), "batch.yaml", "none"]);
    reports(layouts, "translate", &["translate", "--", "/bin/sh", "-c", &format!("app '{EVIL}' | grep x")]);
    // YAML itself has no C1 controls.
    std::fs::write(layouts.layout("pod.yaml"), POD.replace("EVIL", &EVIL.replace('\u{9b}', ""))).unwrap();
    reports(layouts, "kube", &["kube", "--check", "pod.yaml", "none.yaml"]);
    std::fs::write(layouts.layout("rows.md"), "|Component|Base|Reason|\n|-|-|-|\n|a|debian|x|\n|a|debian||\n").unwrap();
    reports(layouts, "exceptions", &["exceptions", "rows.md"]);
}

/// Builds the new base again, with a file whose name could break a page.
fn newer_build(layout: &Path) {
    let mut base = fixtures::new_base("linux/amd64");
    base.layers.push(Layer::of(Pack::Gzip, &[file(&format!("etc/{}", EVIL.replace('/', "")), "x")]));
    base.build().layout(layout, "v1");
}

/// A command that can change, and one that cannot.
const POD: &str = r#"apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: one
    image: one
    command: [sh, -c, "exec /app --v=2"]
  - name: two
    image: two
    command: [sh, -c, "/app 'EVIL' | grep x"]
"#;

#[test]
fn every_json_report_is_as_its_schema_says() {
    let layouts = layouts();
    all(&layouts);
    for (name, definition) in COMMANDS {
        let text = std::fs::read_to_string(layouts.layout(&format!("{name}.json"))).unwrap();
        python::holds(definition, &text);
    }
    python::holds("explain", &layouts.underpin(&["explain", "--json"]).run().ok().stdout);
    let error = layouts.underpin(&["plan", "oci:none:v1", "--json"]).run().stdout;
    python::holds("error", &error);
}

#[test]
fn the_batch_files_schema_says_what_the_program_says() {
    or_skip!(python::need_module("jsonschema"));
    let layouts = layouts();
    let written = layouts.layout("schema.json");
    std::fs::write(&written, layouts.underpin(&["batch", "--schema"]).run().ok().stdout).unwrap();
    let script =
        "import json, sys, jsonschema\njsonschema.validate(json.load(open(sys.argv[2])), json.load(open(sys.argv[1])))";
    for (document, fits) in [
        (json!({"images": [{"source": "a", "target": "x.io/b:c"}]}), true),
        (json!({"defaults": {"logs": "klog", "allow": ["needs-shell"]}, "images": []}), true),
        (
            json!({"images": [{"source": "a", "target": ["x.io/b:c"], "platforms": "linux/amd64", "old_base": "layers:1"}]}),
            true,
        ),
        (json!({"images": [{"target": "x.io/b:c"}]}), false),
        (json!({"images": [{"source": "a", "taget": "x.io/b:c"}]}), false),
        (json!({"images": [{"source": "a", "logs": "loud"}]}), false),
        (json!({"defaults": {"target": "b"}, "images": []}), false),
        (json!({}), false),
    ] {
        let file = layouts.layout("try.yaml");
        std::fs::write(&file, document.to_string()).unwrap();
        assert_eq!(python::run(script, &[&written, &file]).is_ok(), fits, "{document}");
        // A file that the program cannot make sense of ends with `usage`; others go on to the images.
        let run = layouts.underpin(&["check", "--batch", "try.yaml", "--offline", "--no-cache"]).run();
        assert_eq!(run.kind().as_deref() != Some("usage"), fits, "{document}\n{run}");
    }
}

#[test]
fn junit_is_xml_that_counts_right() {
    or_skip!(python::need_module("xml"));
    let layouts = layouts();
    let script = r#"
import sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
for suite in [root] + root.findall("testsuite"):
    cases = list(suite.iter("testcase"))
    count = lambda tag: sum(case.find(tag) is not None for case in cases)
    keys = [key for key in ("tests", "failures", "errors", "skipped") if suite.get(key)]
    counts = dict(tests=len(cases), failures=count("failure"), errors=count("error"), skipped=count("skipped"))
    assert {key: int(suite.get(key)) for key in keys} == {key: counts[key] for key in keys}, suite.attrib
print(len(list(root.iter("testcase"))))
"#;
    all(&layouts);
    for (name, _) in COMMANDS {
        let counted = python::run(script, &[&layouts.layout(&format!("{name}.junit"))]);
        let counted = counted.unwrap_or_else(|why| panic!("{name}: {why}"));
        assert!(!counted.starts_with('0'), "{name} has no case");
    }
    let batch = std::fs::read_to_string(layouts.layout("batch.junit")).unwrap();
    assert!(["tests=\"3\"", "failures=\"1\"", "errors=\"1\""].iter().all(|count| batch.contains(count)), "{batch}");
}

/// The official schema, from the package that `tests/schemas` names.
fn sarif_schema() -> PathBuf {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/schemas/Cargo.toml");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let out = cargo.args(["metadata", "--locked", "--format-version=1", "--manifest-path", manifest]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let metadata: Value = serde_json::from_slice(&out.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|package| package["name"] == "serde-sarif").unwrap();
    Path::new(package["manifest_path"].as_str().unwrap()).with_file_name("src").join("schema.json")
}

#[test]
fn sarif_is_as_its_official_schema_says() {
    or_skip!(python::need_module("jsonschema"));
    let script = r#"
import json, sys, jsonschema
schema = json.load(open(sys.argv[1]))
assert schema["$id"].endswith("/sarif-schema-2.1.0.json"), schema["$id"]
jsonschema.Draft7Validator(schema, format_checker=jsonschema.draft7_format_checker).validate(json.load(open(sys.argv[2])))
"#;
    let (layouts, schema) = (layouts(), sarif_schema());
    all(&layouts);
    for (name, _) in COMMANDS {
        let report = layouts.layout(&format!("{name}.sarif"));
        let validate = || python::run(script, &[&schema, &report]);
        validate().unwrap_or_else(|why| panic!("{name}: {why}"));
        let text = std::fs::read_to_string(&report).unwrap();
        std::fs::write(&report, text.replacen("\"tool\":", "\"tools\":", 1)).unwrap();
        assert!(validate().is_err(), "{name}: the schema refuses nothing");
    }
}

#[test]
fn sarif_has_every_refusal_with_its_rule() {
    let layouts = layouts();
    all(&layouts);
    let log: Value = serde_json::from_slice(&std::fs::read(layouts.layout("batch.sarif")).unwrap()).unwrap();
    let results = log["runs"][0]["results"].as_array().unwrap();
    let errors: Vec<&Value> =
        results.iter().filter(|result| result["level"] == "error").map(|it| &it["ruleId"]).collect();
    assert_eq!(errors, [&json!("needs-shell")]);
    assert_eq!(log["runs"][0]["invocations"][0]["executionSuccessful"], false);
    let rules = log["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
    assert!(results.iter().all(|result| rules.iter().any(|rule| rule["id"] == result["ruleId"])));
}

#[test]
fn markdown_has_a_line_for_each_image() {
    let layouts = layouts();
    all(&layouts);
    let page = std::fs::read_to_string(layouts.layout("batch.markdown")).unwrap();
    for part in [
        "| `oci:app:v1` | rebased |",
        "| `oci:piped:v1` | refused |",
        "| `oci:none:v1` | failed |",
        "**refuse** `needs-shell`",
    ] {
        assert!(page.contains(part), "nothing of {part}:\n{page}");
    }
}

/// The page as a browser has built it, with scripts allowed: nothing of an image becomes one.
fn dom(page: &Path, folder: &Path) -> String {
    let chromium = find("chromium").unwrap();
    let shot = std::env::var_os("UNDERPIN_SCREENSHOT").map_or_else(|| folder.join("shot.png"), PathBuf::from);
    let browser = |more: &str| {
        let mut command = Command::new(&chromium);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1200,2000"]);
        command.arg(format!("--user-data-dir={}", folder.join("profile").display())).arg(more);
        let out = command.arg(format!("file://{}", page.display())).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    browser(&format!("--screenshot={}", shot.display()));
    assert!(std::fs::metadata(shot).unwrap().len() > 10_000, "an empty picture");
    browser("--dump-dom")
}

#[test]
fn a_browser_shows_the_page_and_runs_nothing() {
    or_skip!(need(&["chromium"]));
    let layouts = layouts();
    all(&layouts);
    let page = layouts.layout("batch.html");
    for (name, _) in COMMANDS {
        let text = std::fs::read_to_string(layouts.layout(&format!("{name}.html"))).unwrap();
        for outside in ["http://", "https://", "src=", "@import", "url(", "<link"] {
            assert!(!text.contains(outside), "the page of {name} needs {outside}");
        }
        assert_eq!(text.matches("<script").count(), 1, "{name} has a script that is not its own");
        // Also of a plan that is refused.
        assert!(text.contains(&format!("<title>underpin {name}</title>")), "the page of {name} has another title");
    }
    let dom = dom(&page, layouts.sandbox.path("tmp").as_path());
    assert!(dom.contains("<title>underpin batch</title>"), "{dom}");
    assert_eq!(dom.matches("<script").count(), 1, "{dom}");
    assert_eq!(dom.matches("<details id=").count(), 3);
    for part in [
        "rebased",
        "refused",
        "failed",
        "needs-shell",
        "class=\"stripped\"",
        "class=\"kept\"",
        "class=\"base\"",
        "&lt;script&gt;",
    ] {
        assert!(dom.contains(part), "nothing of {part}");
    }
}

/// What nobody sees, or what changes how the rest is seen.
fn is_hidden(c: char) -> bool {
    let is_invisible = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{61c}' | '\u{feff}');
    is_invisible || ('\u{e0000}'..='\u{e007f}').contains(&c) || (c.is_control() && c != '\n' && c != '\t')
}

#[test]
fn nothing_hidden_reaches_a_reader_and_json_has_it_all_the_same() {
    let layouts = layouts();
    all(&layouts);
    let mut found = 0;
    for (name, _) in COMMANDS {
        for kind in FORMATS.iter().chain(&["stdout", "stderr"]) {
            let text = std::fs::read_to_string(layouts.layout(&format!("{name}.{kind}"))).unwrap();
            let hidden: Vec<char> = text.chars().filter(|c| is_hidden(*c)).collect();
            assert!(hidden.is_empty(), "{name}.{kind} has {hidden:?}: {text}");
            found += usize::from(text.contains("\\u{202e}") || text.contains("\\u202e"));
        }
    }
    assert!(found > 20, "what was to be hidden is in {found} of the texts, so little was tested");
    let report: Value = serde_json::from_slice(&std::fs::read(layouts.layout("plan.json")).unwrap()).unwrap();
    let command = report["platforms"][0]["entrypoint"]["before"][2].as_str().unwrap();
    assert!(command.contains(EVIL), "JSON is data: {command:?}");
}
