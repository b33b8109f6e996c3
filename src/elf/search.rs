//! Looks for the rows of the table in a stream, at about the speed of memory.
//!
//! A row counts wherever its bytes stand, also inside or across another row, and across blocks.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, Input, MatchKind};

use super::words::{Meaning, TABLE};

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

/// What has been found so far, one bit for each row.
#[derive(Debug, Default)]
pub(super) struct Search {
    found: u64,
}

impl Search {
    /// Looks through `bytes`, which stand at `start` in the file. The first `seen` of them have
    /// been looked through before: only what ends after them is new.
    pub fn look(&mut self, bytes: &[u8], start: u64, seen: usize) -> Vec<Hit> {
        let Patterns { automaton: Some(automaton), heads, longest } = &*PATTERNS else { return Vec::new() };
        let mut hits = Vec::new();
        let mut from = seen.saturating_sub(longest.saturating_sub(1));
        while let Some(found) = automaton.find(Input::new(bytes).range(from..)) {
            from = found.start() + 1;
            if found.end() <= seen {
                continue;
            }
            let row = found.pattern().as_usize();
            self.found |= heads.get(row).copied().unwrap_or(0);
            let meaning = TABLE.get(row).map(|(_, meaning)| *meaning);
            if let Some(meaning) = meaning.filter(|meaning| meaning.has_a_place()) {
                hits.push(Hit { meaning, offset: start + found.start() as u64 });
            }
        }
        hits
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

    fn mentions(text: &str) -> Vec<&'static str> {
        let mut search = Search::default();
        search.look(text.as_bytes(), 0, 0);
        let word = |meaning| match meaning {
            Meaning::Mention(word) | Meaning::Package(word) => Some(word),
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
        assert!(PATTERNS.longest < crate::elf::memory::CARRY);
    }

    #[test]
    fn rows_are_found_inside_and_across_each_other() {
        for (text, expected) in [
            ("--log_file_max_size=0", vec!["log_file", "log_file_max_size"]),
            ("umount", vec!["mount", "umount"]),
            ("amountx", vec!["mount"]),
            ("iptablesocat", vec!["iptables", "socat"]),
            ("log-filelog_file", vec!["log_file", "log-file"]),
            ("k8s.io/klog.InitFlags", vec!["k8s.io/klog"]),
            ("k8s.io/klog/v2.InitFlags", vec!["k8s.io/klog/v2"]),
            ("/go/pkg/mod/k8s.io/klog/v2@v2.80.1/klog.go", vec![]),
            ("k8s.io/kubernetes/vendor/k8s.io/klog.Info", vec!["k8s.io/klog"]),
            (
                "k8s.io/component-base/cli/flag.WordSepNormalizeFunc",
                vec!["k8s.io/component-base", "WordSepNormalizeFunc"],
            ),
            ("moun", vec![]),
        ] {
            assert_eq!(mentions(text), expected, "{text}");
        }
    }

    #[test]
    fn what_stands_across_two_blocks_is_found_once() {
        let bytes = [b"xx", BUILD_INFO, b" umount"].concat();
        let whole = Search::default().look(&bytes, 1000, 0);
        assert_eq!(whole, [Hit { meaning: Meaning::BuildInfo, offset: 1002 }]);
        for cut in 0..bytes.len() {
            let mut search = Search::default();
            let mut hits = search.look(&bytes[..cut], 1000, 0);
            hits.extend(search.look(&bytes, 1000, cut));
            assert_eq!(hits, whole, "cut at {cut}");
            assert!(search.found().any(|meaning| meaning == Meaning::Mention("umount")));
        }
    }
}
