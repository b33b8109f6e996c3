//! The content that is kept beside the list of entries: what later stages read of an image.
//!
//! A layer is read once, so what is not captured here is not known afterwards. To keep more,
//! add a row to one of the tables. Each purpose has limits of its own, so that a layer full of
//! scripts cannot hide its package database.

use serde::{Deserialize, Serialize};

use super::limits::Limits;
use super::path::RootPath;

/// Small text files, kept whole.
const TEXTS: [&str; 4] = ["etc/os-release", "usr/lib/os-release", "etc/passwd", "etc/group"];
/// What package managers write of the packages that they installed.
const DATABASES: [&str; 4] =
    ["var/lib/dpkg/status", "var/lib/dpkg/diversions", "lib/apk/db/installed", "usr/lib/apk/db/installed"];
/// Directories of such files, each with how their names end.
const DATABASE_DIRECTORIES: [(&str, &str); 2] = [("var/lib/dpkg/info/", ".list"), ("var/lib/dpkg/status.d/", "")];

/// What dynamic loaders read to find libraries; musl's is one of a directory.
const LOADER_FILES: [&str; 2] = ["etc/ld.so.cache", "etc/ld.so.preload"];
const LOADER_DIRECTORY: (&str, &str) = ("etc/", ".path");
const LOADER_NAME: &[u8] = b"ld-musl-";

/// What says of which Python a virtual environment is; and in the directory of a JVM, of which version that is.
const VENV: &[u8] = b"pyvenv.cfg";
const JVM_RELEASE: &[u8] = b"release";
const JVM_DIRECTORIES: [&[u8]; 4] = [b"jdk", b"jre", b"java", b"jvm"];

/// About what a kept file takes beside its content.
const OVERHEAD: u64 = 64;
const EXECUTE: u32 = 0o111;

/// Kept content of one entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// The entry's place in the layer's list. Not its path: that may be there twice.
    pub entry: usize,
    pub content: Vec<u8>,
}

/// What content is kept for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Text,
    Database,
    Script,
    Loader,
    Interpreter,
}

/// Whether a file's content is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CaptureChoice {
    Keep(Purpose),
    /// To be kept if it turns out to be a script.
    KeepScript,
    Skip,
    /// It would have been kept, were it smaller.
    TooLarge,
}

/// What has been kept of a layer so far.
#[derive(Default)]
pub(super) struct CapturedFiles {
    captured: Vec<Captured>,
    texts: u64,
    databases: u64,
    scripts: u64,
    loader_files: u64,
    interpreter_files: u64,
}

impl CapturedFiles {
    pub(super) fn choose(&self, path: &RootPath, size: u64, mode: u32, limits: &Limits) -> CaptureChoice {
        match purpose(path.as_bytes()) {
            Some(purpose) if self.has_room(purpose, size, limits) => CaptureChoice::Keep(purpose),
            Some(_) => CaptureChoice::TooLarge,
            None if size > 0 && may_be_script(path, mode) && self.has_room(Purpose::Script, size, limits) => {
                CaptureChoice::KeepScript
            }
            None => CaptureChoice::Skip,
        }
    }

    pub(super) fn keep(&mut self, purpose: Purpose, entry: usize, content: Vec<u8>) {
        let bytes = content.len() as u64 + OVERHEAD;
        match purpose {
            Purpose::Text => self.texts += bytes,
            Purpose::Database => self.databases += bytes,
            Purpose::Script => self.scripts += bytes,
            Purpose::Loader => self.loader_files += bytes,
            Purpose::Interpreter => self.interpreter_files += bytes,
        }
        self.captured.push(Captured { entry, content });
    }

    pub(super) fn finish(self) -> Vec<Captured> {
        self.captured
    }

    fn has_room(&self, purpose: Purpose, size: u64, limits: &Limits) -> bool {
        let (taken, of_one, of_all) = match purpose {
            Purpose::Text => (self.texts, limits.captured_file, limits.captured),
            Purpose::Database => (self.databases, limits.database_file, limits.database),
            Purpose::Script => (self.scripts, limits.script_file, limits.scripts),
            Purpose::Loader => (self.loader_files, limits.loader_file, limits.loader_files),
            Purpose::Interpreter => (self.interpreter_files, limits.interpreter_file, limits.interpreter_files),
        };
        size <= of_one && taken.saturating_add(size).saturating_add(OVERHEAD) <= of_all
    }
}

/// A shell reads what it is given, executable or not.
fn may_be_script(path: &RootPath, mode: u32) -> bool {
    mode & EXECUTE != 0 || path.name().is_some_and(|name| name.ends_with(b".sh"))
}

/// What a path alone says a file is needed for.
fn purpose(path: &[u8]) -> Option<Purpose> {
    let is_in = |table: &[&str]| table.iter().any(|row| row.as_bytes() == path);
    let is_inside = |(directory, end): &(&str, &str)| {
        let name = path.strip_prefix(directory.as_bytes()).unwrap_or_default();
        !name.is_empty() && !name.contains(&b'/') && name.ends_with(end.as_bytes())
    };
    let is_musl =
        || is_inside(&LOADER_DIRECTORY) && path.strip_prefix(b"etc/").is_some_and(|name| name.starts_with(LOADER_NAME));
    if is_in(&TEXTS) {
        Some(Purpose::Text)
    } else if is_in(&DATABASES) || DATABASE_DIRECTORIES.iter().any(is_inside) {
        Some(Purpose::Database)
    } else if is_in(&LOADER_FILES) || is_musl() {
        Some(Purpose::Loader)
    } else if is_of_interpreter(path) {
        Some(Purpose::Interpreter)
    } else {
        None
    }
}

fn is_of_interpreter(path: &[u8]) -> bool {
    let mut names = path.rsplit(|byte| *byte == b'/');
    let (name, directory) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
    let is_jvm = || JVM_DIRECTORIES.iter().any(|part| directory.windows(part.len()).any(|window| window == *part));
    name == VENV || (name == JVM_RELEASE && is_jvm())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LayerIndex;
    use crate::scan::scan;
    use crate::testing::{TestMember, described, index_of, tar_of};
    use oci::Compression;

    fn executable(name: &str, content: &[u8]) -> TestMember {
        TestMember::file(name, content).patched(100, b"0000755\0")
    }

    fn kept(index: &LayerIndex) -> Vec<String> {
        index.captured.iter().map(|captured| index.entries[captured.entry].path.to_string()).collect()
    }

    fn scan_with(members: &[TestMember], limits: &Limits) -> LayerIndex {
        let tar = tar_of(members);
        scan(tar.as_slice(), &described(&tar, Compression::None), None, limits).unwrap()
    }

    #[test]
    fn databases_are_kept_and_their_neighbours_are_not() {
        let index = index_of(
            &[
                "var/lib/dpkg/status",
                "var/lib/dpkg/status-old",
                "var/lib/dpkg/diversions",
                "var/lib/dpkg/info/curl.list",
                "var/lib/dpkg/info/libc6:amd64.list",
                "var/lib/dpkg/info/curl.md5sums",
                "var/lib/dpkg/info/deep/curl.list",
                "var/lib/dpkg/status.d/tzdata",
                "var/lib/dpkg/status.d/tzdata.md5sums",
                "lib/apk/db/installed",
                "usr/lib/apk/db/installed",
                "lib/apk/db/triggers",
            ]
            .map(|path| TestMember::file(path, b"x")),
        );
        assert_eq!(
            kept(&index),
            [
                "/var/lib/dpkg/status",
                "/var/lib/dpkg/diversions",
                "/var/lib/dpkg/info/curl.list",
                "/var/lib/dpkg/info/libc6:amd64.list",
                "/var/lib/dpkg/status.d/tzdata",
                "/var/lib/dpkg/status.d/tzdata.md5sums",
                "/lib/apk/db/installed",
                "/usr/lib/apk/db/installed",
            ]
        );
    }

    #[test]
    fn what_loaders_read_is_kept_with_a_limit_of_its_own() {
        let names = ["etc/ld.so.cache", "etc/ld.so.conf", "etc/ld-musl-x86_64.path", "etc/x.path", "etc/ld.so.preload"];
        let index = index_of(&names.map(|path| TestMember::file(path, b"x")));
        assert_eq!(kept(&index), ["/etc/ld.so.cache", "/etc/ld-musl-x86_64.path", "/etc/ld.so.preload"]);
        let limits = Limits { loader_file: 4, ..Limits::default() };
        let large = scan_with(&[TestMember::file("etc/ld.so.cache", b"12345")], &limits);
        assert_eq!(kept(&large), [""; 0]);
        assert!(large.notes.iter().any(|note| note.contains("/etc/ld.so.cache is too large to read")));
    }

    #[test]
    fn what_says_the_version_of_an_interpreter_is_kept() {
        let names = ["venv/pyvenv.cfg", "opt/java/openjdk/release", "usr/lib/jvm/java-17-openjdk-amd64/release"];
        let others = ["venv/pyvenv.cfg.bak", "etc/release", "release", "usr/share/java/x/release"];
        let members: Vec<TestMember> = names.iter().chain(&others).map(|path| TestMember::file(*path, b"x")).collect();
        assert_eq!(kept(&index_of(&members)), names.map(|name| format!("/{name}")));
    }

    #[test]
    fn symbols_over_the_limit_are_left_out_and_that_is_noted() {
        // A dynamic program, on every machine that this is built on.
        let members = [executable("bin/sh", &std::fs::read("/bin/sh").unwrap())];
        for (symbols, is_complete) in [(48 << 20, true), (100, false)] {
            let index = scan_with(&members, &Limits { symbols, ..Limits::default() });
            let program = &index.programs[0].program;
            assert_eq!(program.dynamic.as_ref().unwrap().complete, is_complete);
            assert_eq!(program.notes.iter().any(|note| note.contains("more symbols than are kept")), !is_complete);
        }
    }

    #[test]
    fn scripts_are_kept_and_still_inspected() {
        let long = [b"#!/bin/sh\n".as_slice(), &vec![b'#'; 64 << 10]].concat();
        let index = index_of(&[
            executable("run.sh", b"#!/bin/sh\nexec app\n"),
            TestMember::file("not-executable.sh", b"#!/bin/sh\n"),
            executable("data", b"no script"),
            executable("empty", b""),
            executable("long.sh", &long),
            TestMember::file("plain.sh", b"exec app\n"),
            TestMember::file("plain", b"#!/bin/sh\n"),
        ]);
        assert_eq!(kept(&index), ["/run.sh", "/not-executable.sh", "/plain.sh"]);
        assert_eq!(index.captured[0].content, b"#!/bin/sh\nexec app\n");
        let inspected: Vec<usize> = index.programs.iter().map(|program| program.entry).collect();
        assert_eq!(inspected, [0, 1, 4, 6]);
    }

    #[test]
    fn a_database_over_its_limit_is_remarked_and_scripts_do_not_crowd_it_out() {
        let limits = Limits { database_file: 10, database: 200, scripts: 100, ..Limits::default() };
        let index = scan_with(
            &[
                executable("a.sh", b"#!a"),
                executable("b.sh", b"#!b"),
                TestMember::file("var/lib/dpkg/info/long.list", &[b'x'; 11]),
                TestMember::file("var/lib/dpkg/info/a.list", b"1234567890"),
                TestMember::file("var/lib/dpkg/info/b.list", b"1234567890"),
                TestMember::file("var/lib/dpkg/info/c.list", b"1234567890"),
            ],
            &limits,
        );
        assert_eq!(kept(&index), ["/a.sh", "/var/lib/dpkg/info/a.list", "/var/lib/dpkg/info/b.list"]);
        assert!(index.notes.iter().any(|note| note.contains("long.list is too large to read (and 1 more")));
    }

    #[test]
    fn a_thousand_packages_fit() {
        let list = vec![b'x'; 10 << 10];
        let mut members = vec![TestMember::file("var/lib/dpkg/status", &vec![b'x'; 1 << 20])];
        members.extend((0..1000).map(|number| TestMember::file(format!("var/lib/dpkg/info/p{number}.list"), &list)));
        let index = index_of(&members);
        assert_eq!((index.captured.len(), index.notes.len()), (1001, 0));
    }
}
