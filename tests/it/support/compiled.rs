//! Programs as real compilers make them, and what of this machine a dynamic one needs to start.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::cli::Sandbox;
use super::layer::{Entry, program};
use super::reader::tool;

/// What all Go programs have in common is compiled once and kept beside the build.
pub fn go_cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-cache")
}

/// A Go program; `settings` are variables such as `GOARCH`. Static unless they ask for cgo.
pub fn go(source: &str, settings: &[(&str, &str)]) -> Vec<u8> {
    let build = |sandbox: &Sandbox| {
        let go = sandbox.program("go", ["build", "-o", "out", "main.go"]).env("GOCACHE", go_cache());
        let go = go.env("GO111MODULE", "off").env("GOFLAGS", "").env("CGO_ENABLED", "0");
        let go = settings.iter().fold(go, |go, (name, value)| go.env(name, value));
        go.limit(std::time::Duration::from_secs(300)).run().ok();
    };
    built("main.go", source, build)
}

/// A C program.
pub fn c(compiler: &str, flags: &[&str], source: &str) -> Vec<u8> {
    built("main.c", source, |sandbox| {
        sandbox.program(compiler, ["main.c", "-o", "out"]).args(flags).run().ok();
    })
}

fn built(name: &str, source: &str, build: impl FnOnce(&Sandbox)) -> Vec<u8> {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("here").join(name), source).unwrap();
    build(&sandbox);
    std::fs::read(sandbox.path("here").join("out")).unwrap()
}

/// The loader and the libraries that a dynamic program of this machine needs, where it looks for them.
pub fn libraries(of: &[u8]) -> Vec<Entry> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program");
    std::fs::write(&file, of).unwrap();
    tool("chmod", &["755", file.to_str().unwrap()]);
    let listed = Command::new("ldd").arg(&file).output().unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
    let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
    let found: Vec<Entry> = paths.map(|path| program(&path[1..], std::fs::read(path).unwrap())).collect();
    assert!(found.len() >= 2, "a loader and a library: {text}");
    found
}
