//! Disks, caches and pipes that fail, and processes that share.

mod cache;
mod full;
mod sharing;
mod surroundings;

use std::path::{Path, PathBuf};

use crate::support::invocation::{Run, files_under};
use crate::support::registries::{Registries, Trial};

/// Runs `underpin` under a shell that sets something first.
fn under(registries: &Registries, trial: &Trial, prefix: &str) -> Run {
    let name = |rest: &str| registries.source.name(rest);
    let script = format!("{prefix} exec \"$0\" \"$@\"");
    let binary = crate::support::invocation::binary();
    let args = ["-c", &script, &binary, "rebase", &name("in/app:v1"), "--base", &name("base/new:v1")];
    let invocation = registries.sandbox.program("/bin/sh", args);
    let invocation = invocation.args(["--old-base", &name("base/old:v1"), "--to", &trial.to(), "--cache"]);
    invocation.arg(trial.cache()).hurried().run()
}

/// Temporary files that nobody removed.
fn hidden_files(folder: &Path) -> Vec<PathBuf> {
    let mut left = files_under(folder);
    left.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')));
    left
}
