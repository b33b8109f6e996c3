//! `link` against the loaders themselves: glibc's of this machine, and musl's.
//!
//! A root is a directory of hard links to the programs and libraries of this machine, in which a program is started
//! for real, with a library in front of it that ends the process as soon as the loader has bound everything
//! (`LD_BIND_NOW`). So nothing but loaders ever runs. The same directory is shown to `link`. **What `link` accepts
//! must start.** What it refuses and starts nevertheless is counted.
//!
//! `UNDERPIN_LINK_ROUNDS=N` makes more rounds than the usual ones.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::too_many_lines)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::print_stdout, clippy::print_stderr)]
#![allow(clippy::doc_markdown, unsafe_code)]

mod chroot;
mod compiled;
mod damage;
mod foreign;
mod installed;
mod model;
mod oracles;
#[path = "../it/support/skip.rs"]
mod skip;
#[path = "../it/support/sweep.rs"]
mod sweep;

use skip::{Part, missing, need};

/// Whether this can run: it takes root to change the root.
fn can_run(programs: &[&str]) -> Part<()> {
    let uid = std::process::Command::new("id").arg("-u").output().unwrap().stdout;
    if uid != b"0\n" {
        return Err(missing("root, who alone can change the root directory"));
    }
    need(programs)
}
