//! Every ELF file of this system, and of Debian's packages for other machines, as `readelf` sees it.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::readelf::{self, Facts};
use crate::support::invocation::{Sandbox, files_under};
use crate::support::skip::{missing, need, or_skip};

/// More would only take longer.
const MOST: usize = 3000;
const BATCH: usize = 100;

fn is_elf(file: &Path) -> bool {
    let mut head = [0; 4];
    let regular = file.symlink_metadata().is_ok_and(|data| data.is_file());
    regular && std::fs::File::open(file).is_ok_and(|mut file| file.read_exact(&mut head).is_ok()) && head == *b"\x7fELF"
}

/// The ELF files below the folders; of too many the same ones each time.
fn elf_files(folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        folders.iter().flat_map(|folder| files_under(folder)).filter(|file| is_elf(file)).collect();
    files.sort();
    let step = files.len().div_ceil(MOST).max(1);
    files.into_iter().step_by(step).collect()
}

fn ours(sandbox: &Sandbox, files: &[PathBuf]) -> BTreeMap<PathBuf, Value> {
    let run = sandbox.underpin(["elf", "--json", "--"]).args(files).limit(Duration::from_secs(300)).run();
    assert!(matches!(run.code(), Some(0 | 1)), "{}", run.stderr);
    let parse = |line| serde_json::from_str::<Value>(line).unwrap();
    run.stdout.lines().map(parse).map(|json| (PathBuf::from(json["path"].as_str().unwrap()), json)).collect()
}

/// What differs, in words. What is `other` has no dynamic facts.
fn differences(json: &Value, facts: &Facts) -> Vec<String> {
    let is_other = facts.linkage == "other";
    let machine = json["machine"].as_str().unwrap_or_default();
    let same_machine = machine == facts.machine || (facts.machine == "unknown" && machine.starts_with("unknown("));
    let needed: Vec<&str> = json["needed"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let checks = [
        ("linkage", json["linkage"] == facts.linkage),
        ("class", json["class"] == facts.class),
        ("endian", json["endian"] == facts.endian),
        ("machine", same_machine),
        ("float ABI", json["float_abi"].as_str() == facts.float_abi),
        ("interpreter", is_other || json["interpreter"].as_str() == facts.interpreter.as_deref()),
        ("needed", is_other || needed == facts.needed),
        ("static", json["static"] == facts.linkage.starts_with("static")),
    ];
    checks.iter().filter(|(_, same)| !same).map(|(what, _)| format!("{what}: {json} but {facts:?}")).collect()
}

/// Compares all of them and prints how many there were of each kind.
fn compare(name: &str, files: &[PathBuf]) {
    let sandbox = Sandbox::new();
    let (mut counts, mut wrong) = (BTreeMap::<String, usize>::new(), Vec::new());
    for batch in files.chunks(BATCH) {
        let (said, expected) = (ours(&sandbox, batch), readelf::read(batch));
        assert_eq!(expected.len(), batch.len(), "readelf has an opinion on each");
        for (file, facts) in &expected {
            wrong.extend(differences(&said[file], facts));
            *counts.entry(format!("{} {}", facts.machine, facts.linkage)).or_default() += 1;
        }
    }
    println!("{name}: {} ELF files, {} differences from readelf; {counts:?}", files.len(), wrong.len());
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn agrees_with_readelf_on_this_system() {
    or_skip!(need(&["readelf"]));
    let files = elf_files(&["/usr/bin", "/usr/sbin", "/usr/lib", "/usr/libexec", "/usr/local"].map(PathBuf::from));
    assert!(files.len() > 100, "this is no system");
    compare("this system", &files);
}

#[test]
fn agrees_with_readelf_on_packages_of_other_machines() {
    or_skip!(need(&["readelf"]));
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/foreign");
    let mut machines: Vec<PathBuf> = std::fs::read_dir(&folder).map_or_else(
        |_| Vec::new(),
        |entries| {
            entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.join("done").exists()).collect()
        },
    );
    machines.sort();
    if machines.is_empty() {
        or_skip!(Err(missing("packages of other architectures, which scripts/test fetches")));
    }
    for machine in machines {
        let files = elf_files(&[machine.join("files")]);
        assert!(!files.is_empty(), "{}", machine.display());
        compare(&machine.file_name().unwrap().to_string_lossy(), &files);
    }
}
