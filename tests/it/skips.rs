//! That no test passes because it did not run: a test whose part is missing is named, is on the list that
//! `scripts/test` prints, and fails in CI.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::invocation::files_under;

const CLONE: &str = env!("CARGO_MANIFEST_DIR");

/// This binary with one test that needs a program, and no directory to find programs in.
fn without_programs(test: &str, list: &Path, ci: &str) -> Output {
    let mut binary = Command::new(std::env::current_exe().unwrap());
    binary.args(["--exact", test]).env("PATH", "").env("UNDERPIN_SKIPPED", list).env("CI", ci);
    binary.output().unwrap()
}

fn listed(list: &Path, ci: &str) -> (String, bool) {
    let mut script = Command::new(Path::new(CLONE).join("scripts/test"));
    let out = script.arg("--skipped").env("UNDERPIN_SKIPPED", list).env("CI", ci).output().unwrap();
    (String::from_utf8(out.stdout).unwrap(), out.status.success())
}

#[test]
fn a_test_without_its_part_is_named_and_listed() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("skipped");
    assert_eq!(listed(&list, ""), ("\n0 tests skipped\n".to_owned(), true));
    for test in ["shells::zsh_completes", "shells::fish_completes"] {
        let out = without_programs(test, &list, "");
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.success() && said.contains(&format!("SKIPPED it {test}")), "{said}");
    }
    let expected =
        "\n2 tests skipped, for want of:\n  it shells::fish_completes: fish\n  it shells::zsh_completes: zsh\n";
    assert_eq!(listed(&list, ""), (expected.to_owned(), true));
    assert_eq!(listed(&list, "true"), (expected.to_owned(), false));
}

#[test]
fn in_ci_a_test_without_its_part_fails_and_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("skipped");
    let out = without_programs("shells::zsh_completes", &list, "true");
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(!out.status.success() && said.contains("CI skips nothing"), "{said}");
    assert!(listed(&list, "true").0.contains("it shells::zsh_completes: zsh"));
}

/// The bodies of all test functions of a file, with the line that each starts at.
fn test_bodies(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let starts = lines.iter().enumerate().filter(|(_, line)| line.trim() == "#[test]").map(|(at, _)| at);
    let body = |at: usize| {
        let indent = lines[at].len() - lines[at].trim_start().len();
        let end = format!("{}}}", " ".repeat(indent));
        lines[at..].iter().take_while(|line| **line != end).copied().collect::<Vec<_>>().join("\n")
    };
    starts.map(|at| (at + 1, body(at))).collect()
}

/// Why a test may pass without having run, as far as can be seen.
fn ends_early(body: &str) -> bool {
    ["return;", "return }", "SKIPPED: ", "\"CI\""].iter().any(|word| body.contains(word))
}

#[test]
fn no_test_ends_early_without_being_counted() {
    assert!(ends_early("let Some(x) = y() else { return };") && !ends_early("let x = or_skip!(y());"));
    let mut found = Vec::new();
    for folder in ["src", "tests"] {
        let files = files_under(&Path::new(CLONE).join(folder));
        for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "rs")) {
            let text = std::fs::read_to_string(file).unwrap();
            let bodies = test_bodies(&text).into_iter().filter(|(_, body)| ends_early(body));
            found.extend(bodies.map(|(line, _)| format!("{}:{line}", file.display())));
        }
    }
    found.retain(|at| !at.contains("tests/it/skips.rs"));
    assert!(found.is_empty(), "these end early; use `or_skip!`:\n{}", found.join("\n"));
}
