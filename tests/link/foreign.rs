//! Packages of other machines, whose loaders qemu runs: 32 and 64 bits, both byte orders, with and without addends.
//!
//! Their programs are not started: the loader is asked what it would load (`LD_TRACE_LOADED_OBJECTS`), with everything
//! bound and with warnings, as `ldd -r` does.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use elf::Linkage;

use crate::can_run;
use crate::chroot::Chroot;
use crate::damage::{Damage, Target, Undo};
use crate::model::{answers, layer, probe};
use crate::skip::{Part, missing, or_skip};

/// Debian's name of a machine, and qemu's.
const MACHINES: [(&str, &str); 8] = [
    ("arm64", "aarch64"),
    ("armel", "arm"),
    ("armhf", "arm"),
    ("i386", "i386"),
    ("mips64el", "mips64el"),
    ("mipsel", "mipsel"),
    ("ppc64el", "ppc64le"),
    ("s390x", "s390x"),
];
/// Programs that are looked at on a whole root, and on each damaged one.
const WHOLE: usize = 24;
const DAMAGED: usize = 3;
const DAMAGES: [Damage; 6] =
    [Damage::Removed, Damage::Swapped, Damage::Truncated, Damage::Text, Damage::SymbolRenamed, Damage::VersionRenamed];

/// The packages of a machine, which `scripts/check` fetches.
fn packages(machine: &str) -> Part<PathBuf> {
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/foreign").join(machine);
    if !packages.join("done").exists() {
        return Err(missing(&format!("packages of {machine}, which scripts/check fetches")));
    }
    Ok(packages.join("files"))
}

/// A root with all of them and with qemu, and its dynamic programs.
fn root_of(packages: &Path, qemu: &str) -> (Chroot, Vec<String>) {
    let root = Chroot::bare();
    root.copy_to(&format!("/usr/bin/qemu-{qemu}-static"), "qemu");
    let mut programs = Vec::new();
    for package in fs::read_dir(packages).unwrap() {
        let package = package.unwrap().path();
        for found in walkdir::WalkDir::new(&package).min_depth(1).into_iter().map(Result::unwrap) {
            let inside = found.path().strip_prefix(&package).unwrap().to_str().unwrap();
            let to = root.at(inside);
            let is_wanted =
                ["lib", "bin", "usr/bin", "usr/lib", "usr/sbin", "sbin"].iter().any(|p| inside.starts_with(p));
            if found.file_type().is_dir() {
                fs::create_dir_all(&to).unwrap();
            } else if found.file_type().is_symlink() && to.symlink_metadata().is_err() {
                fs::create_dir_all(to.parent().unwrap()).unwrap();
                symlink(fs::read_link(found.path()).unwrap(), &to).unwrap();
            } else if found.file_type().is_file() && is_wanted {
                root.copy_to(found.path().to_str().unwrap(), inside);
                if probe(&to).is_some_and(|program| program.linkage == Linkage::Dynamic) {
                    programs.push(format!("/{inside}"));
                }
            }
        }
    }
    programs.sort();
    (root, programs)
}

/// Compares the answers; gives how many programs the loader could load.
fn compare(root: &Chroot, what: &str, programs: &[String], wrong: &mut Vec<String>) -> usize {
    let layer = layer(root.path());
    let variables = [("LD_BIND_NOW", "1"), ("LD_WARN", "yes"), ("LD_TRACE_LOADED_OBJECTS", "1")];
    let mut loaded = 0;
    for (program, linked) in programs.iter().zip(answers(&layer, programs, &variables)) {
        let said = root.traced("/qemu", program, &variables);
        loaded += usize::from(said.is_ok());
        if linked.missing.is_none() != said.is_ok() {
            let missing = linked.missing.map(|missing| missing.to_string());
            wrong.push(format!("{what}: {program}: {missing:?} {said:?}"));
        }
    }
    loaded
}

/// Does every kind of damage to every library that programs are loaded with.
fn damage_all(root: &Chroot, programs: &[String], wrong: &mut Vec<String>) -> usize {
    let whole = layer(root.path());
    let mut count = 0;
    let libraries = answers(&whole, programs, &[]).into_iter().flat_map(|linked| linked.files);
    let mut libraries: Vec<(String, String)> = libraries.map(|file| (file.path.to_string(), file.written)).collect();
    libraries.sort();
    libraries.dedup();
    for (at, (file, written)) in libraries.iter().enumerate() {
        for damage in DAMAGES.into_iter().filter(|_| !file.contains("/ld")) {
            let facts = probe(&root.at(file)).and_then(|library| library.dynamic).unwrap();
            let version = facts.version_definitions.iter().rfind(|version| !version.is_base);
            let target = Target {
                root: root.path(),
                file: root.at(file),
                written: root.at(written),
                other: root.at(&libraries[(at + 1) % libraries.len()].0),
                symbol: "printf".to_owned(),
                version: version.map_or("none".to_owned(), |version| version.name.clone()),
            };
            let mut undo = Undo::default();
            damage.apply(&target, &mut undo);
            compare(root, &format!("{damage:?} {file}"), programs, wrong);
            undo.undo();
            count += programs.len();
        }
    }
    count
}

#[test]
fn loaders_of_other_machines_say_what_link_says() {
    or_skip!(can_run(&["qemu-aarch64-static"]));
    for (machine, qemu) in MACHINES {
        let packages = or_skip!(packages(machine));
        let (root, programs) = root_of(&packages, qemu);
        let mut wrong = Vec::new();
        let some: Vec<String> = programs.iter().step_by(programs.len().div_ceil(WHOLE)).cloned().collect();
        let loaded = compare(&root, "nothing was done", &some, &mut wrong);
        let whole: Vec<String> = some
            .into_iter()
            .filter(|program| root.traced("/qemu", program, &[("LD_TRACE_LOADED_OBJECTS", "1")]).is_ok())
            .collect();
        let few: Vec<String> = whole.into_iter().take(DAMAGED).collect();
        let damaged = damage_all(&root, &few, &mut wrong);
        println!(
            "{machine}: {} programs, {loaded} load, {damaged} on damaged roots, {} wrong",
            programs.len(),
            wrong.len()
        );
        assert!(loaded > 0, "{machine}");
        assert!(wrong.is_empty(), "{machine}:\n{}", wrong.join("\n"));
    }
}
