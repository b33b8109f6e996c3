//! The presubmit: what images stand on, whether they may, and whether they could move.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::fixtures;
use crate::support::http::{Answer, serve};
use crate::support::invocation::Run;
use crate::support::layouts::{Layouts, upon};
use crate::support::programs::{Machine, prints};
use crate::support::tar_layer::{Layer, Pack, program};

const STATIC: [&str; 2] = ["--allow-base", "oci:new:v1"];
const DEBIAN: [&str; 2] = ["--exception-base", "oci:old:v1"];

/// An application that can move, one that cannot, and the first as it is after the move.
fn layouts() -> Layouts {
    let old = fixtures::old_base("linux/amd64");
    let layouts = Layouts::on(&old, &fixtures::app("linux/amd64", 10));
    let layer = [Layer::of(Pack::Gzip, &[program("app", prints(Machine::Amd64, "x"))])];
    let piped = json!({"Entrypoint": ["/bin/sh", "-c", "/app | grep x"]});
    upon(&old, layer, piped).build().layout(&layouts.layout("piped"), "v1");
    layouts.rebase("moved").run().ok();
    layouts
}

fn check(layouts: &Layouts, images: &[&str], flags: &[&str]) -> Run {
    let images = images.iter().map(|image| format!("oci:{image}:v1"));
    layouts.underpin(&["check", "--no-cache", "--offline"]).args(images).args(flags).run()
}

fn list(layouts: &Layouts, rows: &str) {
    let page = format!("| Component | Base | Reason |\n|---|---|---|\n{rows}");
    std::fs::write(layouts.layout("list.md"), page).unwrap();
}

/// `LEVEL RULE` of the first platform of the only image.
fn said(run: &Run) -> Vec<String> {
    crate::support::layouts::findings(&run.json()["images"][0]["platforms"][0])
}

#[test]
fn an_image_that_needs_an_exception_and_has_none_is_refused() {
    let layouts = layouts();
    let flags = [&STATIC[..], &DEBIAN, &["--json"]].concat();
    let run = check(&layouts, &["app"], &flags).refused();
    assert_eq!(said(&run), ["refuse exception-missing"]);
    let image = &run.json()["images"][0];
    assert_eq!((&image["verdict"], &image["movable"]), (&json!("refused"), &json!("yes")));
    let platform = &image["platforms"][0];
    assert_eq!(platform["standing"], "exception");
    assert!(platform["base"].as_str().unwrap().starts_with("oci:old:v1@sha256:"), "{platform}");

    let run = check(&layouts, &["piped"], &flags).refused();
    let image = &run.json()["images"][0];
    assert_eq!(image["movable"], "no");
    assert!(image["stops"][0].as_str().unwrap().contains("[needs-shell]"), "{image}");
    let fix = image["platforms"][0]["findings"][0]["fix"].as_str().unwrap();
    assert!(fix.contains("underpin exceptions FILE --add piped --base oci:old:v1 --reason "), "{fix}");

    let run = check(&layouts, &["app"], &[&STATIC[..], &["--json"]].concat()).refused();
    assert_eq!(said(&run), ["refuse base-not-allowed"], "without an exception base");
}

#[test]
fn a_recorded_exception_lets_an_image_stay() {
    let layouts = layouts();
    list(&layouts, "| piped | oci:old:v1 | Requires a shell |\n");
    let flags = [&STATIC[..], &["--exceptions", "list.md", "--json"]].concat();
    let run = check(&layouts, &["piped"], &flags).ok();
    assert_eq!(said(&run), ["excepted exception-recorded"]);
    assert_eq!(run.json()["images"][0]["exception"]["reason"], "Requires a shell");

    list(&layouts, "| app | oci:old:v1 | Requires a shell |\n");
    let run = check(&layouts, &["app"], &flags).ok();
    assert_eq!(said(&run), ["excepted exception-recorded", "warn exception-recorded"], "it could move");

    list(&layouts, "| app | oci:new:v1 | Requires a shell |\n");
    let named = [&flags[..], &["--old-base", "oci:old:v1"]].concat();
    assert_eq!(said(&check(&layouts, &["app"], &named).refused()), ["refuse base-not-allowed"], "of another base");
}

#[test]
fn an_exception_that_is_no_longer_needed_is_refused() {
    let layouts = layouts();
    let flags = [&STATIC[..], &["--exceptions", "list.md", "--json"]].concat();
    list(&layouts, "| other | oci:old:v1 | Requires a shell |\n");
    let run = check(&layouts, &["moved"], &flags).ok();
    assert_eq!((said(&run), &run.json()["images"][0]["movable"]), (vec![], &json!("already")));
    list(&layouts, "| moved | oci:old:v1 | Requires a shell |\n");
    assert_eq!(said(&check(&layouts, &["moved"], &flags).refused()), ["refuse exception-recorded"]);
}

#[test]
fn the_policy_can_stand_in_a_file() {
    let layouts = layouts();
    let policy = "allow_bases: oci:new:v1\nexception_bases: [oci:old:v1]\nexceptions: list.md\n";
    std::fs::write(layouts.layout("policy.yaml"), policy).unwrap();
    list(&layouts, "| app | oci:old:v1 | Requires a shell |\n");
    check(&layouts, &["app", "moved"], &["--policy", "policy.yaml"]).ok();
    check(&layouts, &["piped"], &["--policy", "policy.yaml"]).refused();
    std::fs::write(layouts.layout("policy.yaml"), "alow_bases: x\n").unwrap();
    check(&layouts, &["app"], &["--policy", "policy.yaml"])
        .fails("usage")
        .says("unknown key `alow_bases`")
        .says("line 1");
}

#[test]
fn a_batch_file_is_checked_with_the_lists_that_it_names() {
    let layouts = layouts();
    list(&layouts, "| piped | oci:old:v1 | Requires a shell |\n| gone | oci:old:v1 | Requires a shell |\n");
    let file = "defaults: {base: 'oci:new:v1', exceptions: list.md}\nimages:\n- source: oci:piped:v1\n- source: oci:moved:v1\n";
    std::fs::write(layouts.layout("batch.yaml"), file).unwrap();
    let flags = [&STATIC[..], &["--batch", "batch.yaml", "--json"]].concat();
    let run = check(&layouts, &[], &flags).ok();
    assert_eq!(said(&run), ["excepted exception-recorded"]);
    assert_eq!(run.json()["unmatched"], json!(["gone"]));
    // Without it, the list of the command line is the one.
    std::fs::write(layouts.layout("batch.yaml"), file.replace(", exceptions: list.md", "")).unwrap();
    assert_eq!(said(&check(&layouts, &[], &flags).refused()), ["refuse base-not-allowed"]);
    check(&layouts, &[], &[&flags[..], &["--exceptions", "list.md"]].concat()).ok();
    std::fs::write(layouts.layout("batch.yaml"), file.replace("list.md", "none.md")).unwrap();
    let run = check(&layouts, &[], &flags[..4]).says("none.md").says("line 3");
    assert_eq!(run.code(), Some(2), "{run}");
}

#[test]
fn one_image_that_cannot_be_read_does_not_hide_the_others() {
    let layouts = layouts();
    let run = check(&layouts, &["none", "moved"], &[&STATIC[..], &["--report", "json=report.json"]].concat());
    assert_eq!(run.code(), Some(2), "{run}");
    assert!(run.stdout.contains("failed   oci:none:v1") && run.stdout.contains("passed   oci:moved:v1"), "{run}");
    let report: Value = serde_json::from_slice(&std::fs::read(layouts.layout("report.json")).unwrap()).unwrap();
    assert_eq!((&report["outcome"], &report["images"][1]["verdict"]), (&json!("failed"), &json!("passed")));
}

#[test]
fn an_exception_does_not_make_a_refused_move_right() {
    let layouts = layouts();
    list(&layouts, "| piped | oci:old:v1 | Requires a shell |\n| app | oci:old:v1 | Requires a shell |\n");
    let base = ["--base", "oci:new:v1", "--old-base", "oci:old:v1", "--exceptions", "list.md", "--no-cache", "--json"];
    let rebase =
        |image: &str| layouts.underpin(&["rebase", &format!("oci:{image}:v1"), "--to", "oci:out:v1"]).args(base).run();
    let report = rebase("piped").refused().json();
    let rules: Vec<&Value> =
        report["platforms"][0]["findings"].as_array().unwrap().iter().map(|it| &it["rule"]).collect();
    assert!(rules.contains(&&json!("needs-shell")) && rules.contains(&&json!("exception-recorded")), "{rules:?}");
    assert!(!layouts.layout("out").exists(), "nothing is written");
    let report = rebase("app").ok().json();
    assert_eq!(crate::support::layouts::findings(&report["platforms"][0]), ["warn exception-recorded"]);

    std::fs::write(layouts.layout("policy.yaml"), "excepted_rules: [needs-shell]\n").unwrap();
    let report = layouts.underpin(&["plan", "oci:piped:v1", "--policy", "policy.yaml"]).args(base).run().ok().json();
    assert!(
        crate::support::layouts::findings(&report["platforms"][0]).contains(&"excepted needs-shell".to_owned()),
        "{report}"
    );
}

/// The hosts that underpin wants to reach, by a proxy that lets it reach none.
fn asked(layouts: &Layouts, flags: &[&str]) -> Vec<String> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let proxy = serve(move |request| {
        noted.lock().unwrap().push(request.target.clone());
        Answer::new(403)
    });
    let args = ["check", "--no-cache", "oci:piped:v1"];
    let check = layouts.underpin(&args).args(flags).hurried();
    check.env("HTTPS_PROXY", format!("http://{}", proxy.host())).run().refused();
    let mut hosts = seen.lock().unwrap().clone();
    hosts.sort();
    hosts.dedup();
    hosts
}

#[test]
fn no_registry_is_asked_that_nobody_named() {
    let layouts = layouts();
    assert_eq!(asked(&layouts, &["--base", "oci:new:v1"]), [""; 0]);
    assert_eq!(asked(&layouts, &[]), ["gcr.io:443"], "the default base, and nothing else");
    let today = ["--base", "oci:new:v1", "--policy", "kubernetes"];
    assert_eq!(asked(&layouts, &today), ["registry.k8s.io:443"], "and not the retired one");
    let named = ["--base", "oci:new:v1", "--exception-base", "k8s.gcr.io/debian-base"];
    assert_eq!(asked(&layouts, &named), ["k8s.gcr.io:443"], "the user named it");
}

#[test]
fn bases_have_the_versions_that_a_file_of_dependencies_records() {
    let layouts = layouts();
    let file = "dependencies:\n- {name: 'registry.k8s.io/debian-base: dependents', version: bookworm-v1}\n- {name: zeitgeist, version: v1}\n";
    std::fs::write(layouts.layout("dependencies.yaml"), file).unwrap();
    let flags = ["--allow-base", "oci:new:v1", "--policy", "kubernetes", "--dependencies", "dependencies.yaml"];
    let run = check(&layouts, &["piped"], &flags).refused();
    let run = run.says("registry.k8s.io/build-image/debian-base:bookworm-v1 was not compared");
    assert!(!run.stderr.contains("build-image/debian-base:latest was"), "{run}");
    std::fs::write(layouts.layout("dependencies.yaml"), "dependencies: [{name: zeitgeist, version: v1}]\n").unwrap();
    check(&layouts, &["piped"], &flags).fails("input").says("no version of a base of the policy");
}

#[test]
fn todays_list_names_bases_by_their_last_part() {
    let layouts = layouts();
    let page =
        "### Release: `old`\n\n| Image Name | Reasons for exception |\n|---|---|\n| piped | Requires a shell |\n";
    std::fs::write(layouts.layout("list.md"), page).unwrap();
    // The base of that name is in the policy.
    let policy = "allow_bases: oci:new:v1\nexception_bases: [registry.example/base/old]\n";
    std::fs::write(layouts.layout("policy.yaml"), policy).unwrap();
    let flags = ["--policy", "policy.yaml", "--exceptions", "list.md", "--json"];
    let run = check(&layouts, &["piped"], &flags).ok();
    assert_eq!(said(&run), ["excepted exception-recorded", "warn exception-recorded"], "nothing proves its base");
    assert_eq!(run.json()["images"][0]["exception"]["base"], "old");
}
