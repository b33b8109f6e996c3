//! Other tools that know what a program is loaded with: pax-utils' `lddtree`, dpkg's `dpkg-shlibdeps`; and the libraries
//! of a newer Debian, whose loader is asked as the usual one is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use start::link::Linked;

use crate::can_run;
use crate::chroot::{Chroot, Outcome};
use crate::model::{answers, layer};
use crate::skip::{Part, missing, or_skip};

/// Programs of packages that every machine for these tests has, with few libraries and with many.
const PROGRAMS: [&str; 14] = [
    "/usr/bin/apt-get",
    "/usr/bin/busybox",
    "/usr/bin/curl",
    "/usr/bin/dash",
    "/usr/bin/find",
    "/usr/bin/gpgv",
    "/usr/bin/jq",
    "/usr/bin/ls",
    "/usr/bin/perl",
    "/usr/bin/python3",
    "/usr/bin/readelf",
    "/usr/bin/ssh",
    "/usr/bin/tar",
    "/usr/sbin/ipset",
];
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

/// A root with those of the programs that the machine has, and with all libraries and links beside them.
fn root() -> (Chroot, Vec<String>) {
    let root = Chroot::empty();
    let real: BTreeSet<String> = PROGRAMS
        .iter()
        .filter_map(|path| fs::canonicalize(path).ok())
        .map(|path| path.to_str().unwrap().to_owned())
        .filter(|path| fs::read(path).unwrap().starts_with(b"\x7fELF"))
        .collect();
    for program in &real {
        root.bring(Path::new(program));
    }
    for found in fs::read_dir(LIBRARIES).unwrap().map(|found| found.unwrap().path()) {
        let is_library = found.file_name().unwrap().to_str().unwrap().contains(".so");
        // A link to what is elsewhere leads nowhere in the root, in every tool's eyes.
        if is_library && (found.is_symlink() || found.is_file()) {
            root.bring(&found);
        }
    }
    root.copy("/lib64/ld-linux-x86-64.so.2");
    fs::write(root.at("etc/ld.so.conf"), format!("{LIBRARIES}\n")).unwrap();
    (root, real.into_iter().collect())
}

/// The files that a program is loaded with, without links.
fn files(linked: &Linked) -> BTreeSet<String> {
    linked.files.iter().map(|file| file.path.to_string()).collect()
}

/// What `lddtree` lists for a program of a root, without the program and the links.
fn lddtree(root: &Chroot, program: &str) -> BTreeSet<String> {
    let at = root.path().display().to_string();
    let output =
        Command::new("/usr/bin/python3").args(["/usr/bin/lddtree", "-R", &at, "-l", program]).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let real = |line: &str| -> PathBuf {
        let inside = line.trim().trim_start_matches(&at);
        fs::canonicalize(root.at(inside)).unwrap_or_else(|error| panic!("{program}: {line}: {error}"))
    };
    let inside = |path: PathBuf| format!("/{}", path.strip_prefix(root.path()).unwrap().display());
    text.lines().map(real).map(inside).filter(|path| path != program).collect()
}

/// What `lddtree` reads programs with.
fn elftools() -> Part<()> {
    let is_there = Path::new("/usr/lib/python3/dist-packages/elftools").is_dir();
    if is_there { Ok(()) } else { Err(missing("python3-pyelftools")) }
}

#[test]
fn lddtree_finds_the_same_libraries() {
    or_skip!(can_run(&["lddtree", "ldconfig"]));
    or_skip!(elftools());
    let (root, programs) = root();
    root.write_cache();
    let found = answers(&layer(root.path()), &programs, &[]);
    let mut seen = 0;
    for (program, linked) in programs.iter().zip(&found).filter(|(_, linked)| !linked.files.is_empty()) {
        assert_eq!(linked.missing, None, "{program}");
        assert_eq!(files(linked), lddtree(&root, program), "{program}");
        seen += linked.files.len();
    }
    assert!(seen > 50, "{seen} libraries show little");
}

/// The packages that a program depends on by its libraries, as Debian's own builds find them.
fn dependencies(program: &str) -> BTreeSet<String> {
    let build = tempfile::tempdir().unwrap();
    fs::create_dir(build.path().join("debian")).unwrap();
    fs::write(build.path().join("debian/control"), "Source: x\n\nPackage: x\nArchitecture: any\n").unwrap();
    let mut tool = Command::new("dpkg-shlibdeps");
    let output = tool.current_dir(build.path()).args(["-O", "--ignore-missing-info", program]).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let list = text.lines().find_map(|line| line.strip_prefix("shlibs:Depends=")).unwrap_or_default();
    list.split(", ")
        .filter_map(|one| one.split(' ').next())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The packages that files belong to.
fn owners(files: &BTreeSet<String>) -> BTreeSet<String> {
    let old = files.iter().map(|file| file.trim_start_matches("/usr").to_owned());
    let output = Command::new("dpkg").arg("-S").args(files).args(old).output().unwrap();
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    lines.lines().filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect()
}

#[test]
fn every_package_that_dpkg_shlibdeps_names_has_a_library_that_is_found() {
    or_skip!(can_run(&["dpkg-shlibdeps", "ldconfig"]));
    let (root, programs) = root();
    root.write_cache();
    // It takes its time: a third of them will do.
    let programs: Vec<String> = programs.into_iter().step_by(3).collect();
    let found = answers(&layer(root.path()), &programs, &[]);
    let mut seen = 0;
    for (program, linked) in programs.iter().zip(&found).filter(|(_, linked)| !linked.files.is_empty()) {
        let (named, found) = (dependencies(program), owners(&files(linked)));
        assert!(named.is_subset(&found), "{program}: {named:?} and {found:?}");
        seen += named.len();
    }
    assert!(seen > 6, "{seen} packages show little");
}

/// A package of the next Debian, which `scripts/test` fetches.
fn newer(package: &str) -> Part<PathBuf> {
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/newer/trixie").join(package);
    if at.is_dir() { Ok(at) } else { Err(missing(&format!("{package} of trixie, which scripts/test fetches"))) }
}

#[test]
fn a_program_of_the_next_release_needs_its_libc_and_one_of_this_release_does_with_it() {
    or_skip!(can_run(&["gcc", "dash"]));
    let (program, libc) = (or_skip!(newer("dash")).join("usr/bin/dash"), or_skip!(newer("libc6")));
    let (here, there) = (PathBuf::from("/usr/bin/dash"), program);
    let this = PathBuf::from("/");
    for (program, libraries, expected) in [
        (&here, &this, None),
        (&here, &libc, None),
        (&there, &libc, None),
        (&there, &this, Some("libc.so.6 in the image does not have version GLIBC_2.38")),
    ] {
        let root = Chroot::new();
        root.copy_to(program.to_str().unwrap(), "/usr/bin/dash");
        for name in ["ld-linux-x86-64.so.2", "libc.so.6"] {
            let from = libraries.join("usr/lib/x86_64-linux-gnu").join(name);
            root.copy_to(from.to_str().unwrap(), &format!("{LIBRARIES}/{name}"));
        }
        std::os::unix::fs::symlink(format!("{LIBRARIES}/ld-linux-x86-64.so.2"), root.at("lib64/ld-linux-x86-64.so.2"))
            .unwrap();
        let linked = answers(&layer(root.path()), &["/usr/bin/dash".to_owned()], &[]).remove(0);
        let missing = linked.missing.map(|missing| missing.to_string());
        let outcome = root.load("/usr/bin/dash", &[]);
        assert_eq!(missing.is_none(), outcome == Outcome::Loaded, "{missing:?} {outcome:?}");
        assert_eq!(missing.is_none(), expected.is_none(), "{missing:?}");
        assert!(missing.unwrap_or_default().contains(expected.unwrap_or_default()), "{outcome:?}");
    }
}
