//! The strings that were found, and which of them count: that depends on the language.
//!
//! Go's and Rust's strings have a length and no end, C's have an end and no length. A number beside the
//! address of a string of C may be anything, and a NUL after one of Go's belongs to something else.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use super::shape::StringShape;
use crate::program::{ProgramString, ProgramStrings, ReferredBy};

/// Bytes of all strings together, with what it takes to keep each of them.
const ROOM: usize = 5 << 20;
const FRAME: usize = 72;
/// Bytes of the strings in the answer.
const MOST_TEXT: usize = 1 << 20;

/// How it is known where a string ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StringEvidence {
    /// Its length.
    Length,
    /// Something points to it, and a NUL ends it.
    Pointer,
    /// It is between two NULs.
    Whole,
    /// It stops being a path.
    Loose,
}

/// What a program is written in, as far as that decides which strings are its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StringLanguage {
    Go,
    /// Go that is linked with C.
    GoWithC,
    Rust,
    /// C, and all others whose strings have an end.
    Other,
}

/// Where a string was seen.
#[derive(Debug, Clone, Copy)]
struct Occurrence {
    first: u64,
    last: u64,
    by: ReferredBy,
}

type Occurrences = HashMap<String, Occurrence>;

/// The strings with one kind of evidence.
#[derive(Debug, Default)]
struct StringGroup {
    paths: Occurrences,
    words: Occurrences,
    command_words: Occurrences,
}

#[derive(Debug, Default)]
pub(super) struct FoundStrings {
    by_length: StringGroup,
    by_pointer: StringGroup,
    whole: StringGroup,
    loose: StringGroup,
    used: usize,
    /// Whether `-c` is one of the strings: it names nothing, and is what a shell gets before a command line.
    pub has_command_flag: bool,
    pub has_overflowed: bool,
}

impl FoundStrings {
    /// Adds a string that could name something.
    pub fn add_text(&mut self, text: &[u8], offset: u64, by: ReferredBy, evidence: StringEvidence) {
        self.has_command_flag |= text == b"-c";
        if let Some(shape) = StringShape::of(text) {
            self.add(shape, offset, by, evidence);
        }
    }

    fn add(&mut self, shape: StringShape<'_>, offset: u64, by: ReferredBy, evidence: StringEvidence) {
        let group = match evidence {
            StringEvidence::Length => &mut self.by_length,
            StringEvidence::Pointer => &mut self.by_pointer,
            StringEvidence::Whole => &mut self.whole,
            StringEvidence::Loose => &mut self.loose,
        };
        let (text, list) = match shape {
            StringShape::Path(text) => (text, &mut group.paths),
            StringShape::Word(text) => (text, &mut group.words),
            StringShape::CommandWord(text) => (text, &mut group.command_words),
        };
        if let Some(known) = list.get_mut(text) {
            known.first = known.first.min(offset);
            known.last = known.last.max(offset);
            known.by = known.by.min(by);
            return;
        }
        let used = self.used + text.len() + FRAME;
        if used > ROOM {
            self.has_overflowed = true;
            return;
        }
        self.used = used;
        list.insert(text.to_owned(), Occurrence { first: offset, last: offset, by });
    }

    /// The strings that count in this language, but for those that are only in one of the `tables`.
    pub fn finish(self, language: StringLanguage, tables: &[Range<u64>]) -> ProgramStrings {
        let mut counted = CountedStrings { complete: !self.has_overflowed, ..CountedStrings::default() };
        let lengths = self.starts(language);
        let is_apart = |at: &Occurrence, len: usize| {
            let end = at.first.saturating_add(len as u64);
            lengths.range(at.first..end).next().is_none()
        };
        let is_named =
            |at: &Occurrence| !tables.iter().any(|table| table.contains(&at.first) && table.contains(&at.last));
        match language {
            StringLanguage::Go => counted.take(self.by_length, |_, _| true),
            StringLanguage::GoWithC | StringLanguage::Rust => {
                counted.take(self.by_length, |_, _| true);
                counted.take(self.by_pointer, |at, len| is_apart(at, len) && is_named(at));
            }
            StringLanguage::Other => {
                counted.take(self.by_pointer, |at, _| is_named(at));
                counted.take(self.whole, |at, _| is_named(at));
            }
        }
        counted.take(self.loose, |_, _| true);
        counted.finish()
    }

    /// Where strings with a length begin, where others could be made of them.
    fn starts(&self, language: StringLanguage) -> BTreeSet<u64> {
        let group = &self.by_length;
        let all = group.paths.values().chain(group.words.values()).chain(group.command_words.values());
        match language {
            StringLanguage::Go | StringLanguage::Other => BTreeSet::new(),
            StringLanguage::GoWithC | StringLanguage::Rust => all.flat_map(|at| [at.first, at.last]).collect(),
        }
    }
}

/// The strings of the answer so far.
#[derive(Debug, Default)]
struct CountedStrings {
    paths: BTreeMap<String, Occurrence>,
    words: BTreeMap<String, Occurrence>,
    command_words: BTreeMap<String, Occurrence>,
    complete: bool,
}

impl CountedStrings {
    fn take(&mut self, group: StringGroup, counts: impl Fn(&Occurrence, usize) -> bool) {
        for (from, to) in [
            (group.paths, &mut self.paths),
            (group.words, &mut self.words),
            (group.command_words, &mut self.command_words),
        ] {
            for (text, at) in from.into_iter().filter(|(text, at)| counts(at, text.len())) {
                let known = to.entry(text).or_insert(at);
                known.by = known.by.min(at.by);
            }
        }
    }

    /// Paths come first: they are the strongest evidence.
    fn finish(self) -> ProgramStrings {
        let mut left = MOST_TEXT;
        let mut fits = |text: &String| {
            let rest = left.checked_sub(text.len());
            left = rest.unwrap_or(0);
            rest.is_some()
        };
        let count = self.paths.len() + self.words.len() + self.command_words.len();
        let paths = self.paths.into_iter().filter(|(text, _)| fits(text));
        let paths: Vec<ProgramString> =
            paths.map(|(text, at)| ProgramString { text, offset: at.first, by: at.by }).collect();
        let words: Vec<String> = self.words.into_keys().filter(&mut fits).collect();
        let command_words: Vec<String> = self.command_words.into_keys().filter(&mut fits).collect();
        let is_whole = paths.len() + words.len() + command_words.len() == count;
        ProgramStrings { paths, words, command_words, calls: Vec::new(), complete: self.complete && is_whole }
    }
}

#[cfg(test)]
mod tests {
    use super::StringEvidence::{Length, Pointer, Whole};
    use super::*;

    fn finish(texts: &[(&str, u64, StringEvidence)], language: StringLanguage) -> Vec<String> {
        let mut found = FoundStrings::default();
        for (text, offset, evidence) in texts {
            found.add_text(text.as_bytes(), *offset, ReferredBy::Data, *evidence);
        }
        let strings = found.finish(language, &[1000..2000, 3000..4000]);
        assert!(strings.complete);
        strings.words
    }

    #[test]
    fn the_language_decides_which_evidence_counts() {
        let texts = [
            ("by-length", 10, Length),
            ("by-pointer", 200, Pointer),
            ("whole", 300, Whole),
            // It begins with another string: two of Go's or Rust's, and a NUL that is not theirs.
            ("by-lengthand-more", 10, Pointer),
            ("imported", 1500, Pointer),
            ("imported", 1500, Whole),
            ("in-both", 1600, Whole),
            ("in-both", 500, Whole),
        ];
        for (language, expected) in [
            (StringLanguage::Go, &["by-length"][..]),
            (StringLanguage::GoWithC, &["by-length", "by-pointer"]),
            (StringLanguage::Rust, &["by-length", "by-pointer"]),
            (StringLanguage::Other, &["by-lengthand-more", "by-pointer", "in-both", "whole"]),
        ] {
            assert_eq!(finish(&texts, language), expected, "{language:?}");
        }
    }

    #[test]
    fn a_string_has_its_first_place_and_its_strongest_evidence() {
        let mut found = FoundStrings::default();
        found.add_text(b"/sbin/ip -6", 90, ReferredBy::Terminated, Whole);
        found.add_text(b"/sbin/ip", 70, ReferredBy::Code, Pointer);
        let path = ProgramString { text: "/sbin/ip".to_owned(), offset: 70, by: ReferredBy::Code };
        assert_eq!(found.finish(StringLanguage::Other, &[]).paths, [path]);
    }

    #[test]
    fn more_strings_than_fit_are_not_complete() {
        let add = |count: u64, text: fn(u64) -> String| {
            let mut found = FoundStrings::default();
            for at in 0..count {
                found.add_text(text(at).as_bytes(), at, ReferredBy::Code, Length);
            }
            found.finish(StringLanguage::Go, &[])
        };
        assert!(add(1000, |at| format!("word-{at}")).complete);
        let many = add(100_000, |at| format!("word-{at}"));
        assert!(!many.complete && many.byte_len() <= MOST_TEXT);
        let long = add(20_000, |at| format!("/{at}{}", "x".repeat(100)));
        assert!(!long.complete && long.byte_len() <= MOST_TEXT);
    }
}
