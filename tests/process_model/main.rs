//! `process::start` against runc: for the same config and root both must say the same of the user, the groups, the
//! working directory, the environment, the file that runs in the end, or the stage at which nothing does.
//!
//! This one is linked against the library. The root is unpacked and the user resolved by umoci, with the library that
//! containerd and Docker use for it; all else is runc and the kernel. What is surprising there, and followed by the
//! model:
//!
//! - A number is looked up in `/etc/passwd` too: its line gives the group, the groups and HOME.
//! - runc sets HOME where it is unset or empty, from the first line with the number; an empty home is passed on.
//! - runc changes to the working directory while it is still root, and makes it where it is missing.
//! - runc finds the program with Go's `LookPath` after it became the user: the first file with any execute bit
//!   counts, and one that is found through an empty or relative element of PATH is refused.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::too_many_lines)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::print_stdout, clippy::print_stderr)]
#![allow(clippy::doc_markdown, unsafe_code)]

#[path = "../it/sweep/program.rs"]
#[allow(dead_code)]
mod program;
#[allow(dead_code, unused_imports)]
mod support;

mod comparison;
mod model;
mod pair;
mod random;
mod real;

mod accounts;
mod directories;
mod environment;
mod files;
mod scripts;
mod wrappers;

use support::skip::{Part, missing, need, or_skip};

/// Whether this can run: containers can be started.
fn can_start() -> Part<()> {
    let uid = std::process::Command::new("id").arg("-u").output().unwrap().stdout;
    if uid != b"0\n" {
        return Err(missing("root, who alone can start a container of any user"));
    }
    need(&["umoci", "runc", "musl-gcc", "busybox", "tini-static", "gosu"])
}

macro_rules! families {
    ($($test:ident $pairs:expr;)*) => {
        $(#[test]
        fn $test() {
            or_skip!(can_start());
            comparison::compare(&$pairs);
        })*

        /// How many pairs there are.
        fn count() -> usize {
            [$($pairs.len()),*].iter().sum()
        }
    };
}

families! {
    a_user_is_whom_runc_takes_it_for accounts::ordinary();
    a_user_of_damaged_files_is_whom_runc_takes_it_for accounts::damaged();
    a_working_directory_is_where_runc_goes directories::pairs();
    the_environment_is_what_runc_sets environment::pairs();
    a_file_is_found_and_executed_as_by_runc files::pairs();
    a_script_is_started_as_by_the_kernel scripts::pairs();
    a_wrapper_hands_over_as_it_really_does wrappers::pairs();
    whatever_is_combined_starts_as_by_runc random::pairs(0);
    whatever_else_is_combined_starts_as_by_runc random::pairs(1);
}

#[test]
fn some_hundred_pairs_are_compared() {
    or_skip!(can_start());
    assert!(count() >= 300, "{}", count());
}
