//! The proposal's own tables as acceptance test: an image in each row's situation, and the verdict
//! of the row, or of history where the row is wrong.

mod rows;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::fixtures;
use crate::support::invocation::Sandbox;
use crate::support::programs::{GoCompiler, go_compilers};
use crate::support::skip::{Part, need, need_go_package, or_skip};
use rows::{Case, EXCEPTIONS, Programs, REBASED, Truth, Verdict};

const LIST: &str = include_str!("../../../testdata/base-image-exception-list.md");
const TABLE: &str = include_str!("../../../testdata/kep-rebased-images.md");

/// The first cells of the rows of a Markdown table.
fn components(page: &str) -> Vec<&str> {
    let rows =
        page.lines().filter(|line| line.starts_with('|') && !line.contains("---") && !line.contains("Component Name"));
    rows.map(|row| row.split('|').nth(1).unwrap().trim()).collect()
}

#[test]
fn every_row_of_the_tables_has_its_case() {
    assert_eq!(components(TABLE), REBASED.each_ref().map(|case| case.component));
    assert_eq!(components(LIST), EXCEPTIONS.each_ref().map(|case| case.component));
}

/// Bases and images as layouts, and the list with the bases where they are here.
struct Project {
    sandbox: Sandbox,
}

impl Project {
    fn new(cases: &[Case], compiler: &GoCompiler) -> Self {
        let sandbox = Sandbox::new();
        let here = |name: &str| sandbox.path("here").join(name);
        fixtures::new_base("linux/amd64").build().layout(&here("static"), "v1");
        let programs = Programs::compile(compiler);
        let mut bases = BTreeSet::new();
        for case in cases {
            programs.image(case.component, case.base, case.situation).build().layout(&here(case.component), "v1");
            let Some((name, tag)) = case.base.place().and_then(|place| place.split_once(':')) else { continue };
            if bases.insert((name, tag)) {
                case.base.recipe().build().layout(&here(name), tag);
            }
        }
        std::fs::write(here("list.md"), LIST.replace("k8s.gcr.io/", "oci:")).unwrap();
        Self { sandbox }
    }

    fn run(&self, args: &[&str]) -> crate::support::invocation::Run {
        self.sandbox.underpin(args.iter().chain(&["--offline", "--no-cache", "--json"])).run()
    }

    fn rebase(&self, case: &Case) -> crate::support::invocation::Run {
        let (source, to) = (format!("oci:{}:v1", case.component), format!("oci:moved/{}:v1", case.component));
        let old = case.base.place().map_or_else(|| "scratch".to_owned(), |place| format!("oci:{place}"));
        std::fs::create_dir_all(self.sandbox.path("here").join("moved")).unwrap();
        let args = ["rebase", &source, "--to", &to, "--base", "oci:static:v1", "--old-base", &old];
        self.run(&args)
    }

    fn check(&self, image: &str, more: &[&str]) -> crate::support::invocation::Run {
        let policy = ["--allow-base", "oci:static:v1", "--exception-base", "oci:debian-base"];
        self.run(&[&["check", image], &policy[..], more].concat())
    }
}

fn refusals(report: &Value) -> Vec<&Value> {
    let findings = report["platforms"][0]["findings"].as_array().unwrap().iter();
    findings.filter(|finding| finding["level"] == "refuse").collect()
}

/// The verdict in words, once it is the expected one.
fn judged(project: &Project, case: &Case) -> String {
    let run = project.rebase(case);
    let report = run.json();
    let refused = refusals(&report);
    match case.verdict {
        Verdict::Moves => {
            assert_eq!((run.code(), refused.len()), (Some(0), 0), "{}: {run}", case.component);
            let moved = project.check(&format!("oci:moved/{}:v1", case.component), &[]).ok().json();
            assert_eq!(moved["images"][0]["movable"], "already", "{}", case.component);
            let platform = &report["platforms"][0];
            let words = ["entrypoint", "cmd"].map(|key| platform[key]["after"].as_array().unwrap().clone()).concat();
            let words: Vec<&str> = words.iter().map(|word| word.as_str().unwrap()).collect();
            assert!(words[0].ends_with(case.component), "{}: {words:?}", case.component);
            let logs = words.iter().any(|word| word.starts_with("--log_file=/var/log/"));
            assert_eq!(logs, format!("{:?}", case.situation).contains("Redirects"), "{}: {words:?}", case.component);
            format!("moves, starts {}", words.join(" "))
        }
        Verdict::Stays(rules, word) => {
            assert_eq!(run.code(), Some(1), "{}: {run}", case.component);
            let found = refused.iter().find(|finding| rules.iter().any(|rule| finding["rule"] == *rule));
            let found = found.unwrap_or_else(|| panic!("{}: nothing of {rules:?}: {run}", case.component));
            assert!(found.to_string().contains(word), "{}: nothing of {word}: {found}", case.component);
            format!("stays, {}", found["message"].as_str().unwrap())
        }
    }
}

fn print(title: &str, rows: &[(&Case, String)]) {
    println!("\n{title}\n{}", "-".repeat(title.len()));
    for (case, verdict) in rows {
        let base = case.base.place().unwrap_or("scratch");
        let truth = match case.truth {
            Truth::Row => String::new(),
            Truth::Git(why) => format!("  [{why}]"),
        };
        println!("{:42} {base:26} {verdict}{truth}", case.component);
    }
}

fn can_compile() -> Part<()> {
    need(&["go", "gcc"])?;
    need_go_package("k8s.io/klog")
}

#[test]
fn the_rebased_images_get_the_verdicts_of_their_rows() {
    or_skip!(can_compile());
    for compiler in or_skip!(go_compilers()) {
        let project = Project::new(&REBASED, &compiler);
        let rows: Vec<(&Case, String)> = REBASED.iter().map(|case| (case, judged(&project, case))).collect();
        print(&format!("Rebased Images, {}", compiler.version()), &rows);
    }
    let moved = REBASED.iter().filter(|case| case.verdict == Verdict::Moves).count();
    assert_eq!(moved, 17, "all that went to distroless, then or later");
}

#[test]
fn the_exceptions_are_excepted_for_their_reasons() {
    or_skip!(can_compile());
    for compiler in or_skip!(go_compilers()) {
        let project = Project::new(&EXCEPTIONS, &compiler);
        let rows: Vec<(&Case, String)> = EXCEPTIONS.iter().map(|case| (case, excepted(&project, case))).collect();
        print(&format!("Base Image Exception List, {}", compiler.version()), &rows);
    }
}

/// The verdict in words, once the list and the policy have said what they should.
fn excepted(project: &Project, case: &Case) -> String {
    let image = format!("oci:{}:v1", case.component);
    let old = format!("oci:{}", case.base.place().unwrap());
    let run = project.check(&image, &["--exceptions", "list.md", "--old-base", &old]).ok();
    let checked = &run.json()["images"][0];
    let findings = checked["platforms"][0]["findings"].as_array().unwrap();
    assert_eq!(findings[0]["rule"], "exception-recorded", "{run}");
    assert_eq!(findings[0]["level"], "excepted", "{run}");
    let movable = if case.verdict == Verdict::Moves { "yes" } else { "no" };
    assert_eq!(checked["movable"], movable, "{run}");
    let unrecorded = project.check(&image, &["--old-base", &old]).refused().json();
    let rule = if old.starts_with("oci:debian-base:") { "exception-missing" } else { "base-not-allowed" };
    assert_eq!(unrecorded["images"][0]["platforms"][0]["findings"][0]["rule"], rule, "{}", case.component);
    judged(project, case)
}
