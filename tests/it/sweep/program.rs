//! The observer as a program: compiled once for each set of flags, and kept beside the build.

use crate::support::programs::{self, c};
use crate::support::tar_layer::digest;

const SOURCE: &str = include_str!("observe.c");
const WRAPPERS: &str = include_str!("wrap.c");
const FIXED: [&str; 3] = ["-static", "-Os", "-s"];

/// A static program that says what it finds, and does what its arguments ask.
pub fn observer() -> Vec<u8> {
    compiled(&[])
}

/// The same under another name, so that one can be told from another.
pub fn tagged(tag: &str) -> Vec<u8> {
    compiled(&[format!("-DTAG=\"{tag}\"")])
}

/// One that also looks up accounts: `--account`, `--group`, `--run-as`.
pub fn with_accounts() -> Vec<u8> {
    compiled(&["-DACCOUNTS".to_owned()])
}

/// One that also tells the local time: `--zone`.
pub fn with_zone() -> Vec<u8> {
    compiled(&["-DZONE".to_owned()])
}

/// One that waits before it says anything.
#[allow(dead_code, reason = "used by the tests of the process model")]
pub fn patient() -> Vec<u8> {
    compiled(&["-DPATIENCE=5".to_owned()])
}

/// One that does what its code says: `act("hook", "/usr/bin/git")`, whatever its arguments are.
pub fn doing(code: &str) -> Vec<u8> {
    compiled(&[format!("-DBAKED={code}"), "-DACCOUNTS".to_owned()])
}

/// `nice`, `nohup`, `timeout`, `env`, `su-exec`, `setpriv`, `cat`, or a tool that just succeeds, whichever it is
/// called by.
pub fn tool() -> Vec<u8> {
    kept("musl-gcc", &FIXED.map(str::to_owned), WRAPPERS)
}

/// The dynamic twin, for the C library of the machine that the tests run on.
pub fn dynamic() -> Vec<u8> {
    kept("gcc", &["-Os".to_owned(), "-s".to_owned()], SOURCE)
}

fn compiled(flags: &[String]) -> Vec<u8> {
    kept("musl-gcc", &[&FIXED.map(str::to_owned)[..], flags].concat(), SOURCE)
}

fn kept(compiler: &str, flags: &[String], source: &str) -> Vec<u8> {
    let name = digest(format!("{compiler} {flags:?} {source}").as_bytes()).replace(':', "-");
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    programs::kept("observers", &name, || c(compiler, &flags, source))
}
