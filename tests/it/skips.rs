//! That no test passes because it did not run: a test whose part is missing is named, is on the list that
//! `scripts/test` prints, and fails in CI; what `scripts/test` leaves for `scripts/check` is done there.

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

/// What `scripts/parts` says, a line each.
fn list(name: &str) -> Vec<String> {
    let script = format!(". scripts/parts && printf '%s\\n' \"${{{name}[@]}}\"");
    let out = Command::new("bash").args(["-c", &script]).current_dir(CLONE).output().unwrap();
    String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// A part of a sweep is tried here; that all of it is tried somewhere is a list that a person keeps.
#[test]
fn whatever_sweeps_is_swept_whole_in_check() {
    let (modules, binaries) = (list("swept_modules"), list("swept_binaries"));
    let tests = Path::new(CLONE).join("tests");
    let (mut sweeping, mut missing) = (0, Vec::new());
    for file in files_under(&tests) {
        let name = file.strip_prefix(&tests).unwrap().with_extension("").to_str().unwrap().replace('/', "::");
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let sweeps = ["sweep::times", "sweep::spread", "sweep::some", "sweep::is_whole", "go_compilers()"];
        if name.contains("support::") || !sweeps.iter().any(|word| text.contains(word)) || name == "it::skips" {
            continue;
        }
        sweeping += 1;
        let (binary, module) = name.split_once("::").unwrap();
        let is_listed = |listed: &String| module == listed || module.starts_with(&format!("{listed}::"));
        if !binaries.iter().any(|listed| listed == binary) && !modules.iter().any(is_listed) {
            missing.push(name);
        }
    }
    assert!(sweeping > 10, "{sweeping}");
    assert!(missing.is_empty(), "scripts/parts lists them in neither swept_modules nor swept_binaries: {missing:?}");
}

/// A name that no test has would leave nothing out of `scripts/test`, and nothing in `scripts/check`.
#[test]
fn what_is_left_for_check_exists() {
    let out = Command::new(std::env::current_exe().unwrap()).arg("--list").output().unwrap();
    let tests = String::from_utf8(out.stdout).unwrap();
    let is_here = |prefix: &String| tests.lines().any(|line| line.starts_with(prefix.as_str()));
    // The test of the other binary is `link`'s.
    let unknown: Vec<String> = list("later").into_iter().filter(|name| name != "foreign::" && !is_here(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let modules = list("swept_modules");
    let unknown: Vec<&String> = modules.iter().filter(|module| !is_here(&format!("{module}::"))).collect();
    assert!(modules.len() > 5 && unknown.is_empty(), "{unknown:?}");
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
    for folder in ["src", "crates", "tests"] {
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
