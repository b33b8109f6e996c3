//! What Rust programs say about the crates that they were built from: the section `.dep-v0` of `cargo auditable`, JSON
//! compressed with zlib (<https://github.com/rust-secure-code/cargo-auditable>, PARSING.md).
//!
//! The section is not loaded, so it is behind what is; the headers that name it are at the very end of the file, when
//! it has gone by. So what is behind the loaded part is searched for compressed data that begins as the list does.
//! Bounded: how often that is tried, how many bytes are kept, and how large the list may become.

use flate2::{Decompress, FlushDecompress, Status};
use memchr::memchr_iter;
use serde::{Deserialize, Serialize};

use super::segments::Segments;
use super::window::{WantedFor, Window};

/// Bytes of the compressed list: a thousand crates take 25 KiB.
const COMPRESSED: usize = 128 << 10;
/// Bytes of the list: a thousand crates take 150 KiB.
const LIST: usize = 2 << 20;
const MOST_CRATES: usize = 10_000;
const LONGEST_NAME: usize = 256;
/// How often the beginning of data is decompressed: 100 MiB of debugging data have about six thousand places.
const TRIES: usize = 20_000;
/// Bytes that show whether data begins as the list does.
const BEGINNING: usize = 64;
const LIST_START: &[u8] = b"{\"packages\":[";
/// A program that reads such lists may contain one.
const CANDIDATES: usize = 2;

/// A crate that is linked in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RustCrate {
    pub name: String,
    pub version: String,
    /// Where it is from: `crates.io`, `git`, `local`, `registry`.
    pub source: String,
    /// The crates that it depends on, by their places in the list.
    pub dependencies: Vec<u32>,
}

/// What has been seen so far.
#[derive(Default)]
pub(super) struct AuditScan {
    found: Vec<u64>,
    /// How far the file was searched.
    next: u64,
    tries: usize,
    inflater: Option<Decompress>,
}

impl AuditScan {
    /// Searches the block that is in sight.
    pub fn look(&mut self, window: &mut Window, segments: Option<&Segments>, is_last: bool) {
        let Some(segments) = segments else { return };
        let (bytes, start, _) = window.recent();
        let loaded = segments.loaded().iter().map(|part| part.offset.saturating_add(part.len)).max().unwrap_or(0);
        let end = if is_last { bytes.len() } else { bytes.len().saturating_sub(BEGINNING) };
        let from = usize::try_from(loaded.max(self.next).saturating_sub(start)).unwrap_or(usize::MAX);
        let part = bytes.get(from..end).unwrap_or_default();
        let mut hits = Vec::new();
        for at in memchr_iter(0x78, part) {
            let rest = bytes.get(from + at..).unwrap_or_default();
            let is_zlib = matches!(rest.get(1), Some(0x01 | 0x5e | 0x9c | 0xda));
            if is_zlib && self.begins_a_list(rest.get(..BEGINNING).unwrap_or(rest)) {
                hits.push(start + (from + at) as u64);
            }
        }
        self.next = self.next.max(start + end as u64);
        for offset in hits {
            if self.found.len() < CANDIDATES {
                window.want(offset, COMPRESSED, WantedFor::Header);
                self.found.push(offset);
            }
        }
    }

    fn begins_a_list(&mut self, bytes: &[u8]) -> bool {
        self.tries += 1;
        if self.tries > TRIES {
            return false;
        }
        let inflater = self.inflater.get_or_insert_with(|| Decompress::new(true));
        inflater.reset(true);
        let mut out = [0; LIST_START.len()];
        // What is cut off is no error until its end is asked for.
        let ended = inflater.decompress(bytes, &mut out, FlushDecompress::None);
        ended.is_ok() && out == LIST_START
    }

    /// The crates, and a note where there is a list that cannot be read.
    pub fn finish(&self, window: &Window) -> (Vec<RustCrate>, Option<String>) {
        let Some(first) = self.found.first() else { return (Vec::new(), None) };
        let mut lists = self.found.iter().filter_map(|at| read(window.run(*at, COMPRESSED)));
        match lists.next() {
            Some(crates) => (crates, None),
            None => (Vec::new(), Some(format!("the list of Rust crates at {first:#x} cannot be read"))),
        }
    }
}

#[derive(Deserialize)]
struct AuditedList {
    packages: Vec<AuditedPackage>,
}

#[derive(Deserialize)]
struct AuditedPackage {
    name: String,
    version: String,
    source: String,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    dependencies: Vec<u32>,
}

/// What is linked in. Crates that were only used to build it are not in the program.
fn read(compressed: &[u8]) -> Option<Vec<RustCrate>> {
    let list: AuditedList = serde_json::from_slice(&inflate(compressed)?).ok()?;
    let is_plain =
        |text: &str| text.len() <= LONGEST_NAME && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    let is_good =
        |package: &AuditedPackage| [&package.name, &package.version, &package.source].iter().all(|text| is_plain(text));
    if list.packages.len() > MOST_CRATES || !list.packages.iter().all(is_good) {
        return None;
    }
    let is_linked = |package: &AuditedPackage| package.kind.as_deref().is_none_or(|kind| kind == "runtime");
    // Places in the list of what is left.
    let mut places = Vec::new();
    let mut next = 0_u32;
    for package in &list.packages {
        places.push(is_linked(package).then_some(next));
        next += u32::from(is_linked(package));
    }
    let place = |at: &u32| usize::try_from(*at).ok().and_then(|at| places.get(at).copied().flatten());
    let linked = list.packages.iter().filter(|package| is_linked(package)).map(|package| RustCrate {
        dependencies: package.dependencies.iter().filter_map(place).collect(),
        name: package.name.clone(),
        version: package.version.clone(),
        source: package.source.clone(),
    });
    Some(linked.collect())
}

/// All of the data, up to the limit.
fn inflate(compressed: &[u8]) -> Option<Vec<u8>> {
    let mut inflater = Decompress::new(true);
    let mut out = Vec::with_capacity(64 << 10);
    loop {
        let taken = usize::try_from(inflater.total_in()).ok()?;
        let before = (inflater.total_in(), inflater.total_out());
        match inflater.decompress_vec(compressed.get(taken..)?, &mut out, FlushDecompress::Finish) {
            Ok(Status::StreamEnd) => return Some(out),
            Ok(Status::Ok | Status::BufError) if out.len() < LIST => {
                if out.len() == out.capacity() {
                    out.reserve(out.len().min(LIST));
                } else if before == (inflater.total_in(), inflater.total_out()) {
                    return None;
                }
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::testing::{EXEC, TestElf, probe};

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// A program with this behind what is loaded.
    fn with(behind: &[u8]) -> (Vec<RustCrate>, Vec<String>) {
        let program = probe(&[&TestElf::new(EXEC).build(), behind].concat());
        (program.crates, program.notes)
    }

    const AUDITED: &str = r#"{"packages":[{"name":"build","version":"1.0.0","source":"crates.io","kind":"build"},
        {"name":"libc","version":"0.2.1","source":"crates.io"},
        {"name":"app","version":"0.1.0","source":"local","dependencies":[0,1,9],"root":true}]}"#;

    #[test]
    fn the_crates_that_are_linked_in_are_read() {
        for gap in [0, 100, 3 << 20] {
            let behind =
                [&vec![b'x'; gap], zlib(AUDITED.replace('\n', "").as_bytes()).as_slice(), &[b'y'; 200]].concat();
            let (crates, notes) = with(&behind);
            let names: Vec<_> =
                crates.iter().map(|it| (it.name.as_str(), it.version.as_str(), it.source.as_str())).collect();
            assert_eq!(names, [("libc", "0.2.1", "crates.io"), ("app", "0.1.0", "local")], "{gap}");
            assert_eq!((crates[1].dependencies.as_slice(), notes.len()), (&[0][..], 0));
        }
    }

    #[test]
    fn what_is_loaded_or_is_something_else_is_no_list() {
        let list = zlib(AUDITED.as_bytes());
        let loaded = TestElf { tail: list, ..TestElf::new(EXEC) }.build();
        assert!(probe(&loaded).crates.is_empty());
        for behind in [zlib(b"{\"other\":[]}"), b"\x78\x9c\xff\xff".repeat(1000), vec![0x78; 100_000]] {
            assert_eq!(with(&behind), (Vec::new(), Vec::new()));
        }
    }

    #[test]
    fn hostile_lists_are_noted_and_cost_little() {
        let bomb = [b"{\"packages\":[".as_slice(), &vec![b' '; 64 << 20]].concat();
        let crates = |count: usize, name: &str| {
            let one = format!(r#"{{"name":"{name}","version":"1","source":"local"}},"#).repeat(count);
            format!("{{\"packages\":[{}]}}", one.trim_end_matches(',')).into_bytes()
        };
        let cut = zlib(AUDITED.as_bytes());
        for list in [
            zlib(&bomb),
            zlib(&crates(10_001, "a")),
            zlib(&crates(1, &"a".repeat(257))),
            zlib(&crates(1, "a\\nb")),
            zlib(&crates(1, "")),
            zlib(b"{\"packages\":[1]}"),
            zlib(&[b"{\"packages\":[".as_slice(), &vec![b'['; 1 << 20]].concat()),
            cut[..cut.len() - 10].to_vec(),
        ] {
            let (crates, notes) = with(&list);
            assert!(crates.is_empty());
            assert!(notes.iter().any(|note| note.contains("Rust crates")), "{notes:?}");
        }
    }
}
