//! Which commit a release is built from, for `underpin --version`.
//!
//! Whoever builds may name it (`UNDERPIN_COMMIT`), as `scripts/release` does; else it is read from the clone, or from
//! what `cargo package` writes into its archive. Without any of them the build still works, and says so.

// Its own files, when it is built; nothing of an image is read here.
#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=UNDERPIN_COMMIT");
    println!("cargo::rustc-env=UNDERPIN_COMMIT={}", commit().as_deref().map_or("unknown", shortened));
}

fn commit() -> Option<String> {
    let named = std::env::var("UNDERPIN_COMMIT").ok().filter(|name| !name.is_empty());
    // A build for development would be done again after every commit.
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    named.or_else(|| if is_release { packaged().or_else(cloned) } else { None })
}

fn shortened(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

/// `{"git": {"sha1": "..."}}`, beside the sources of a package.
fn packaged() -> Option<String> {
    let text = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let rest = text.split("\"sha1\"").nth(1)?;
    rest.split('"').nth(1).map(str::to_owned)
}

fn cloned() -> Option<String> {
    // Below another repository, or without git, the commit would be somebody else's.
    if !Path::new(".git").exists() {
        return None;
    }
    let log = asked(&["rev-parse", "--git-path", "logs/HEAD"])?;
    println!("cargo::rerun-if-changed={log}");
    asked(&["rev-parse", "HEAD"])
}

fn asked(args: &[&str]) -> Option<String> {
    let out = Command::new("git").args(args).output().ok().filter(|out| out.status.success())?;
    Some(String::from_utf8(out.stdout).ok()?.trim().to_owned())
}
