//! The same facts as `readelf` tells them: an opinion that is not ours.

use crate::support::skip::or_skip;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

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
