//! Every ELF file of this system, and of Debian's packages for other machines, as `readelf` sees it.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::support::invocation::{Sandbox, files_under};
use crate::support::skip::{missing, need, or_skip};
use crate::support::sweep;

/// More would only take longer.
const MOST: usize = 3000;
const PART: usize = 400;
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
    let step = files.len().div_ceil(sweep::times(PART, MOST)).max(1);
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
        let (said, expected) = (ours(&sandbox, batch), read(batch));
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
        or_skip!(Err(missing("packages of other architectures, which scripts/check fetches")));
    }
    for machine in machines {
        let files = elf_files(&[machine.join("files")]);
        assert!(!files.is_empty(), "{}", machine.display());
        compare(&machine.file_name().unwrap().to_string_lossy(), &files);
    }
}

// The same facts as `readelf` tells them: an opinion that is not ours.

/// What can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    pub linkage: &'static str,
    pub class: u64,
    pub endian: &'static str,
    pub machine: String,
    pub float_abi: Option<&'static str>,
    pub interpreter: Option<String>,
    pub needed: Vec<String>,
}

/// Asks about many files at once.
pub fn read(files: &[PathBuf]) -> BTreeMap<PathBuf, Facts> {
    let mut command = Command::new("readelf");
    // Names are printed only where there are several files.
    command.args(["-hldW", "/dev/null", "--"]).args(files).env("LC_ALL", "C");
    let out = command.output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    let parts = text.split("\nFile: ").skip(1);
    parts.filter_map(|part| part.split_once('\n')).map(|(name, text)| (PathBuf::from(name), facts(text))).collect()
}

fn facts(text: &str) -> Facts {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_default().trim().to_owned()
    };
    let class = if field("Class") == "ELF64" { 64 } else { 32 };
    let endian = if field("Data").contains("big") { "big" } else { "little" };
    let flags = field("Flags");
    let float_abi = [("hard-float ABI", "hard"), ("soft-float ABI", "soft")];
    let is_arm = field("Machine") == "ARM";
    Facts {
        linkage: linkage(text, &field("Type"), &field("Entry point address")),
        class,
        endian,
        machine: machine(&field("Machine"), class, endian),
        float_abi: float_abi.iter().find(|(words, _)| is_arm && flags.contains(words)).map(|(_, word)| *word),
        interpreter: values(text, "[Requesting program interpreter: ").next(),
        needed: values(text, "(NEEDED)").collect(),
    }
}

/// What stands in brackets at the end of each line with these words.
fn values<'a>(text: &'a str, words: &'a str) -> impl Iterator<Item = String> + 'a {
    let lines = text.lines().filter(move |line| line.contains(words));
    lines.filter_map(|line| Some(line.strip_suffix(']')?.rsplit(['[', ' ']).next()?.to_owned()))
}

fn linkage(text: &str, kind: &str, entry: &str) -> &'static str {
    let has = |words: &str| text.contains(words);
    let segment = |name: &str| text.lines().any(|line| line.trim_start().starts_with(&format!("{name} ")));
    // Files of debug information have the headers of a program, and nothing behind them.
    let is_hollow = segment("DYNAMIC") && has("There is no dynamic section");
    let (interpreter, needed, pie) = (segment("INTERP"), has("(NEEDED)"), has(" PIE\n"));
    let kind = kind.split(' ').next().unwrap_or_default();
    match kind {
        _ if is_hollow => "other",
        "EXEC" if interpreter || needed => "dynamic",
        "EXEC" => "static",
        "DYN" if has("(SONAME)") && !pie => "shared-object",
        "DYN" if interpreter || (pie && needed) => "dynamic",
        "DYN" if needed || (entry == "0x0" && !pie) => "shared-object",
        "DYN" => "static-pie",
        _ => "other",
    }
}

fn machine(name: &str, class: u64, endian: &str) -> String {
    let suffix = if endian == "little" { "le" } else { "" };
    match name {
        "Advanced Micro Devices X86-64" => "amd64".to_owned(),
        "AArch64" => "arm64".to_owned(),
        "ARM" => "arm".to_owned(),
        "Intel 80386" => "386".to_owned(),
        "IBM S/390" if class == 64 => "s390x".to_owned(),
        "RISC-V" if class == 64 => "riscv64".to_owned(),
        "PowerPC64" => format!("ppc64{suffix}"),
        "MIPS R3000" if class == 64 => format!("mips64{suffix}"),
        "MIPS R3000" => format!("mips{suffix}"),
        _ => "unknown".to_owned(),
    }
}

#[test]
fn reads_what_readelf_says() {
    or_skip!(crate::support::skip::need(&["readelf"]));
    let facts = &read(&[PathBuf::from("/bin/sh")])[Path::new("/bin/sh")];
    assert_eq!(facts.linkage, "dynamic");
    assert!(facts.needed.iter().any(|name| name.starts_with("libc.")), "{facts:?}");
}
