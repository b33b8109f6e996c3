//! Looks for the rows of the table in a stream, at about the speed of memory.
//!
//! A row counts wherever its bytes stand, also inside or across another row, and across blocks.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, Input, MatchKind};

use super::sighting::{AFTER, Sightings};
use super::words::{Meaning, Proof, TABLE};

struct Patterns {
    automaton: Option<AhoCorasick>,
    /// For each row, the rows that begin it and itself, one bit each.
    heads: Vec<u64>,
    longest: usize,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| Patterns {
    // The longest match: every other row that matches there is the beginning of it.
    automaton: AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(rows()).ok(),
    heads: rows().map(|row| bits(|other| row.starts_with(other))).collect(),
    longest: rows().map(<[u8]>::len).max().unwrap_or(0),
});

fn rows() -> impl Iterator<Item = &'static [u8]> {
    TABLE.iter().map(|(bytes, _)| *bytes)
}

fn bits(is_set: impl Fn(&[u8]) -> bool) -> u64 {
    rows().enumerate().filter(|(_, row)| is_set(row)).fold(0, |bits, (at, _)| bits | 1 << at)
}

/// A row that was found, where its place is of interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit {
    pub meaning: Meaning,
    pub offset: u64,
}

/// Whether the file goes on after the bytes that are looked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    ToCome,
    Nothing,
}

/// What has been found so far.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// One bit for each row.
    found: u64,
    /// For the rows that are tools, how their names stand there.
    tools: BTreeMap<usize, Sightings>,
}

impl Search {
    /// Looks through `bytes`, which stand at `start` in the file. The first `seen` of them have
    /// been looked through before. A row is found as soon as what stands after it is there, too.
    pub fn look(&mut self, bytes: &[u8], start: u64, seen: usize, rest: Rest) -> Vec<Hit> {
        let Patterns { automaton: Some(automaton), longest, .. } = &*PATTERNS else { return Vec::new() };
        let mut hits = Vec::new();
        let mut from = seen.saturating_sub(longest.saturating_add(AFTER));
        while let Some(found) = automaton.find(Input::new(bytes).range(from..)) {
            from = found.start() + 1;
            let needed = found.end() + AFTER;
            // Found before, or to be found when more is there.
            if needed <= seen || (rest == Rest::ToCome && needed > bytes.len()) {
                continue;
            }
            let meaning = self.note(found.pattern().as_usize(), bytes, found.range());
            if let Some(meaning) = meaning.filter(|meaning| meaning.has_a_place()) {
                hits.push(Hit { meaning, offset: start + found.start() as u64 });
            }
        }
        hits
    }

    fn note(&mut self, row: usize, bytes: &[u8], range: Range<usize>) -> Option<Meaning> {
        self.found |= PATTERNS.heads.get(row).copied().unwrap_or(0);
        let meaning = TABLE.get(row).map(|(_, meaning)| *meaning)?;
        if let Meaning::Tool(..) = meaning {
            let after = bytes.get(range.end..).unwrap_or_default();
            let before = bytes.get(..range.start).unwrap_or_default();
            self.tools.entry(row).or_default().see(before, after.get(..AFTER).unwrap_or(after));
        }
        Some(meaning)
    }

    /// How the names of tools stand in the file, in the order of the table.
    pub fn tools(&self) -> impl Iterator<Item = (&'static str, Proof, Sightings)> {
        self.tools.iter().filter_map(|(row, sightings)| match TABLE.get(*row)? {
            (_, Meaning::Tool(name, proof)) => Some((*name, *proof, *sightings)),
            _ => None,
        })
    }

    /// The meanings of all rows that were found, in the order of the table.
    pub fn found(&self) -> impl Iterator<Item = Meaning> {
        TABLE.iter().enumerate().filter(|(at, _)| self.found >> at & 1 == 1).map(|(_, (_, meaning))| *meaning)
    }
}

impl Meaning {
    fn has_a_place(self) -> bool {
        matches!(self, Self::LibraryName | Self::GoVersion | Self::BuildInfo | Self::ModuleInfo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::words::BUILD_INFO;

    fn found(text: &str) -> Vec<&'static str> {
        let mut search = Search::default();
        search.look(text.as_bytes(), 0, 0, Rest::Nothing);
        let word = |meaning| match meaning {
            Meaning::Mention(word) | Meaning::Package(word) | Meaning::Tool(word, _) | Meaning::Library(word) => {
                Some(word)
            }
            Meaning::Runs(_, package) => Some(package),
            _ => None,
        };
        search.found().filter_map(word).collect()
    }

    #[test]
    fn the_table_fits_the_search() {
        assert!(TABLE.len() <= 64);
        assert!(PATTERNS.automaton.is_some());
        assert!(rows().all(|row| row.len() >= 4), "shorter rows would be found everywhere");
        // A row inside another one, but not at its beginning, would be missed only if it began earlier.
        assert!(PATTERNS.longest + AFTER < crate::elf::memory::CARRY);
        let tools = TABLE.iter().filter(|(_, meaning)| matches!(meaning, Meaning::Tool(..)));
        for (tool, _) in tools {
            assert_eq!(rows().filter(|row| row.starts_with(tool)).count(), 1, "what stands around it would be lost");
        }
    }

    #[test]
    fn rows_are_found_inside_and_across_each_other() {
        for (text, expected) in [
            ("--log_file_max_size=0", vec!["log_file", "log_file_max_size"]),
            ("umount", vec!["mount", "umount"]),
            ("amountx", vec!["mount"]),
            ("iptablesocat", vec!["iptables", "socat"]),
            ("log-filelog_file", vec!["log_file", "log-file"]),
            ("k8s.io/klog.InitFlags", vec!["k8s.io/klog", "k8s.io/klog.InitFlags"]),
            ("k8s.io/klog/v2.InitFlags", vec!["k8s.io/klog/v2", "k8s.io/klog/v2.InitFlags"]),
            ("k8s.io/klog/v2.Info", vec!["k8s.io/klog/v2"]),
            ("/go/pkg/mod/k8s.io/klog/v2@v2.80.1/klog.go", vec![]),
            ("k8s.io/kubernetes/vendor/k8s.io/klog.Info", vec!["k8s.io/klog"]),
            (
                "k8s.io/component-base/cli/flag.WordSepNormalizeFunc",
                vec!["k8s.io/component-base", "WordSepNormalizeFunc"],
            ),
            ("k8s.io/mount-utils.(*Mounter).Mount", vec!["mount", "k8s.io/mount-utils"]),
            ("libsystemd.so.0", vec!["libsystemd.so"]),
            ("moun", vec![]),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn what_stands_across_two_blocks_is_found_once() {
        let bytes = [b"xx", BUILD_INFO, b"\0/bin/umount -a"].concat();
        let whole = Search::default().look(&bytes, 1000, 0, Rest::Nothing);
        assert_eq!(whole, [Hit { meaning: Meaning::BuildInfo, offset: 1002 }]);
        for cut in 0..=bytes.len() {
            let mut search = Search::default();
            let mut hits = search.look(&bytes[..cut], 1000, 0, Rest::ToCome);
            hits.extend(search.look(&bytes, 1000, cut, Rest::Nothing));
            assert_eq!(hits, whole, "cut at {cut}");
            let (_, _, seen) = search.tools().find(|(name, ..)| *name == "umount").unwrap();
            assert_eq!(seen, Sightings { ended_path: true, ..Sightings::default() }, "cut at {cut}");
        }
    }
}
