//! The machine's own Python, which has Debian's packages: a reader of YAML, XML and JSON Schema that is not ours.

use std::ffi::OsStr;
use std::process::Command;

const PYTHON: &str = "/usr/bin/python3";

/// Whether the module is installed; says so where it is not, and fails where `CI=true`.
pub fn has(module: &str) -> bool {
    let has = run::<&str>(&format!("import {module}"), &[]).is_ok();
    if !has {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "python3-{module} is not installed, and CI skips nothing"
        );
        eprintln!("SKIPPED: python3-{module} is not installed (scripts/test installs it)");
    }
    has
}

/// What the script prints, or what it says when it fails.
pub fn run<A: AsRef<OsStr>>(script: &str, args: &[A]) -> Result<String, String> {
    let out = Command::new(PYTHON).arg("-c").arg(script).args(args).output().map_err(|error| error.to_string())?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    if out.status.success() { Ok(text(out.stdout)) } else { Err(text(out.stderr)) }
}
