//! The tests that `docs/security.md` names for what it promises: each of them exists.

use std::path::{Path, PathBuf};

fn rust_files(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// What is between backticks in the last column of the first table.
fn names(page: &str) -> Vec<&str> {
    let section = page.split("\n## ").find(|section| section.starts_with("Who is trusted")).unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---")).skip(1);
    let held_by = rows.map(|row| row.trim_end_matches(" |").rsplit(" | ").next().unwrap());
    held_by.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn every_test_that_the_security_page_names_exists() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(top.join("docs/security.md")).unwrap();
    let mut files = Vec::new();
    rust_files(&top.join("src"), &mut files);
    rust_files(&top.join("crates"), &mut files);
    rust_files(&top.join("tests"), &mut files);
    let code: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let names = names(&page);
    assert!(names.len() > 40, "{names:?}");
    for name in names {
        assert!(code.contains(&format!("fn {name}(")), "there is no test {name}");
    }
}
