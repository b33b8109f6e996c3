//! The order of the modules of `src`: a module uses only those listed before it, and only `store` touches files. Crates are kept
//! apart by the compiler.
//!
//! What is read is the text, without its tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// From the values at the bottom to the command line. `docs/architecture.md` explains each.
const ORDER: [&str; 18] = [
    "yaml", "process", "examine", "rules", "plan", "policy", "assemble", "attest", "kube", "store", "sandbox",
    "report", "settings", "run", "verify", "check", "batch", "cli",
];

fn sources() -> Vec<(String, String)> {
    sources_below("src")
}

fn sources_below(directory: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let mut open: Vec<PathBuf> = vec![root.clone()];
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            found.push((name, without_tests(&fs::read_to_string(&path).unwrap())));
        }
    }
    found.retain(|(name, _)| !is_test(name));
    found.sort();
    found
}

fn is_test(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap();
    name.contains("/tests/") || file == "tests.rs" || file == "testing.rs" || file.ends_with("_tests.rs")
}

/// The text without the modules that are only compiled for tests, which end at a brace of their own line.
fn without_tests(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let opens_tests = line == "#[cfg(test)]" && lines.peek().is_some_and(|next| next.ends_with('{'));
        if opens_tests {
            lines.by_ref().find(|line| *line == "}");
            continue;
        }
        kept.push_str(line.split("//").next().unwrap());
        kept.push('\n');
    }
    kept
}

fn module_of(name: &str) -> &str {
    name.split('/').next().unwrap().trim_end_matches(".rs")
}

fn rank(module: &str) -> Option<usize> {
    ORDER.iter().position(|listed| *listed == module)
}

/// The modules that a text names as `crate::MODULE`, alone or in a group.
fn named(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for rest in text.split("crate::").skip(1) {
        let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
        match rest.strip_prefix('{') {
            Some(group) => found.extend(group.split('}').next().unwrap().split(',').map(|part| word(part.trim()))),
            None => drop(found.insert(word(rest))),
        }
    }
    found
}

fn upward(sources: &[(String, String)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, text) in sources {
        let Some(own) = rank(module_of(name)) else { continue };
        let above = named(text).into_iter().filter(|module| rank(module).is_some_and(|rank| rank > own));
        wrong.extend(above.map(|module| format!("src/{name} uses {module}, which comes after {}", module_of(name))));
    }
    wrong
}

#[test]
fn a_module_uses_only_those_listed_before_it() {
    let sources = sources();
    assert!(sources.len() > 100, "src was not read: {} files", sources.len());
    let wrong = upward(&sources);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_has_its_place_in_the_order() {
    let modules: BTreeSet<String> = sources().iter().map(|(name, _)| module_of(name).to_owned()).collect();
    let listed: BTreeSet<String> = ORDER.iter().chain(&["lib", "main"]).map(|name| (*name).to_owned()).collect();
    assert_eq!(modules, listed);
}

#[test]
fn a_wrong_edge_is_found_and_named() {
    let file = |name: &str, text: &str| (name.to_owned(), without_tests(text));
    let tests = "#[cfg(test)]\nmod tests {\n    use crate::cli::x;\n}\n";
    for (text, wrong) in [
        ("use crate::run::rebase;", true),
        ("use crate::{oci, run};", true),
        ("fn f() { crate::cli::main() }", true),
        ("use crate::oci::Digest;", false),
        ("// as crate::cli does\n", false),
        (tests, false),
    ] {
        assert_eq!(!upward(&[file("plan/mod.rs", text)]).is_empty(), wrong, "{text}");
    }
}

#[test]
fn files_are_touched_in_store_and_sandbox_only() {
    let may = |name: &str| matches!(module_of(name), "store" | "sandbox");
    let crates = sources_below("crates");
    assert!(crates.len() > 50, "crates were not read: {} files", crates.len());
    let outside = sources().into_iter().chain(crates).filter(|(name, text)| !may(name) && text.contains("std::fs"));
    let outside: Vec<String> = outside.map(|(name, _)| name).collect();
    assert!(outside.is_empty(), "std::fs outside src/store and src/sandbox: {}", outside.join(", "));
}
