//! The virtual root against `umoci unpack`: of the same image both must make the same files.
//!
//! This one is linked against the library, which has no command that lists a root. umoci writes to
//! disk as root; what it wrote is read with `lstat` and compared path by path. The same images, with
//! packages installed, show whom the entries of a layer belong to (`installed`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::disallowed_methods, clippy::print_stderr)]

mod disk;
mod installed;
mod layout;
mod random;
mod real;
#[path = "../it/support/skip.rs"]
mod skip;
#[path = "../it/support/sweep.rs"]
mod sweep;
mod tarball;
mod written;

use std::collections::BTreeMap;

use start::rootfs::Root;

use disk::Seen;
use skip::{Part, missing, need};

/// Whether this can run: umoci is here, and may give files to others.
fn can_run(programs: &[&str]) -> Part<()> {
    let uid = std::process::Command::new("id").arg("-u").output().unwrap().stdout;
    if uid != b"0\n" {
        return Err(missing("root, who alone can unpack an image with its owners"));
    }
    need(programs)
}

/// Fails with the first paths that differ.
fn compare(what: &str, root: &Root<'_>, unpacked: &BTreeMap<Vec<u8>, Seen>) {
    let ours = disk::expected(root);
    let paths: std::collections::BTreeSet<&Vec<u8>> = ours.keys().chain(unpacked.keys()).collect();
    let differs = paths.into_iter().filter(|path| ours.get(*path) != unpacked.get(*path));
    let lines: Vec<String> = differs
        .map(|path| {
            let path_shown = String::from_utf8_lossy(path);
            format!("{path_shown}\n  ours  {:?}\n  umoci {:?}", ours.get(path), unpacked.get(path))
        })
        .take(10)
        .collect();
    assert!(lines.is_empty(), "{what}: the roots differ:\n{}", lines.join("\n"));
}
