//! What the tests need of the machine. A test whose part is missing is skipped, and never in silence:
//! it is named on stderr and in the list that `scripts/test` prints at its end. With `CI=true` it
//! fails, so that a green run there means that everything ran.
//!
//! Nothing but [`missing`] makes a [`Skipped`], and nothing but [`or_skip`] ends a test early (the
//! test `no_test_ends_early_without_being_counted` looks for others). This file is a module of each
//! test binary.

#![allow(dead_code, unused_imports, clippy::print_stderr, clippy::disallowed_methods, clippy::disallowed_types)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unused_self)]

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The file with a line `TEST<tab>PART` for each test that was skipped; `scripts/test` sets it.
const LIST: &str = "UNDERPIN_SKIPPED";

/// A part is missing, and that has been recorded.
#[derive(Debug)]
#[must_use = "end the test with `or_skip!`"]
pub struct Skipped(());

/// A part of the machine that a test needs.
pub type Part<T> = Result<T, Skipped>;

impl Skipped {
    /// What [`or_skip`] ends a test with.
    pub fn stop(self) {}
}

/// The part, or the end of the test.
macro_rules! or_skip {
    ($part:expr) => {
        match $part {
            Ok(part) => part,
            Err(skipped) => return skipped.stop(),
        }
    };
}
pub(crate) use or_skip;

/// Records that this test cannot run for want of `part`; fails where `CI=true`.
pub fn missing(part: &str) -> Skipped {
    let test = test_name();
    // Not `eprintln!`, which is shown for failed tests only.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {part} is missing");
    if let Some(list) = std::env::var_os(LIST) {
        let mut list = std::fs::OpenOptions::new().append(true).create(true).open(list).unwrap();
        // One call, so that lines of tests that run at once are not mixed.
        list.write_all(format!("{test}\t{part}\n").as_bytes()).unwrap();
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{part} is missing, and CI skips nothing");
    Skipped(())
}

/// Whether all of `programs` are installed.
pub fn need(programs: &[&str]) -> Part<()> {
    programs.iter().try_for_each(|program| match find(program) {
        Some(_) => Ok(()),
        None => Err(missing(program)),
    })
}

/// Whether Debian has the sources of a Go package here.
pub fn need_go_package(name: &str) -> Part<()> {
    if Path::new("/usr/share/gocode/src").join(name).is_dir() { Ok(()) } else { Err(missing(name)) }
}

/// Where `program` is, also where root's programs are.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin", "/usr/local/bin"].map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// A test runs in a thread of its name, or it is the only one that the binary was asked for.
fn test_name() -> String {
    let thread = std::thread::current();
    let asked_for = || std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let name = thread.name().filter(|name| *name != "main").map(str::to_owned).or_else(asked_for);
    format!("{} {}", env!("CARGO_CRATE_NAME"), name.as_deref().unwrap_or("(a test without a name)"))
}

#[test]
fn finds_what_every_machine_has_and_nothing_else() {
    assert!(find("sh").is_some());
    assert!(find("no-such-program-of-underpin").is_none());
}
