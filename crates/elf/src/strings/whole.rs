//! Strings that are visible without a reference: in C those between two NULs, and paths in the programs of
//! machines whose code is not read.

use std::ops::Range;

use super::found::{FoundStrings, StringEvidence};
use super::scan::BlockView;
use super::shape::is_of_word;
use super::wanted::LONGEST;
use crate::program::ReferredBy;
use crate::segments::LoadedPart;

/// Among instructions, shorter strings may be no strings.
const SHORTEST_IN_CODE: usize = 4;

/// Where the next string begins.
#[derive(Debug, Default)]
pub(super) struct WholeStrings {
    begin: u64,
}

impl WholeStrings {
    /// Adds the strings that end in this range of a part.
    pub fn read(&mut self, fresh: Range<u64>, part: &LoadedPart, view: &BlockView<'_>, found: &mut FoundStrings) {
        self.begin = self.begin.max(part.offset);
        let shortest = if part.access.is_code { SHORTEST_IN_CODE } else { 2 };
        let Some(bytes) = view.at(fresh.start) else { return };
        let len = usize::try_from(fresh.end - fresh.start).unwrap_or(usize::MAX);
        for (at, _) in bytes.iter().take(len).enumerate().filter(|(_, byte)| **byte == 0) {
            let end = fresh.start + at as u64;
            let len = usize::try_from(end.saturating_sub(self.begin)).unwrap_or(usize::MAX);
            if len >= shortest {
                add_whole(self.begin, len, view, found);
            }
            self.begin = end + 1;
        }
    }
}

fn add_whole(begin: u64, len: usize, view: &BlockView<'_>, found: &mut FoundStrings) {
    let Some(bytes) = view.at(begin) else { return };
    let Some(text) = bytes.get(..len.min(LONGEST)) else { return };
    let is_cut = len > LONGEST && !text.contains(&b' ');
    if !is_cut {
        found.add_text(text, begin, ReferredBy::Terminated, StringEvidence::Whole);
    }
}

/// Directories of the root that programs name files in.
const TOP: [&[u8]; 11] =
    [b"/bin/", b"/sbin/", b"/usr/", b"/etc/", b"/opt/", b"/lib/", b"/lib64/", b"/var/", b"/run/", b"/srv/", b"/home/"];
/// The longest path that is read without a length.
const LONGEST_LOOSE: usize = 128;

/// Adds the paths that begin visibly in this range, however they end.
pub(super) fn read_loose(fresh: Range<u64>, view: &BlockView<'_>, found: &mut FoundStrings) {
    // What is near the end of a block is read with the next one.
    let back = LONGEST_LOOSE as u64;
    let from = fresh.start.saturating_sub(back).max(view.start);
    let to = if view.is_last { fresh.end } else { fresh.end.saturating_sub(back) };
    let Some(bytes) = view.at(from) else { return };
    let len = usize::try_from(to.saturating_sub(from)).unwrap_or(0);
    for (at, _) in bytes.iter().take(len).enumerate().filter(|(_, byte)| **byte == b'/') {
        let rest = bytes.get(at..).unwrap_or_default();
        if TOP.iter().any(|top| rest.starts_with(top)) {
            add_loose(rest, from + at as u64, found);
        }
    }
}

fn add_loose(rest: &[u8], offset: u64, found: &mut FoundStrings) {
    let is_end = |byte: &u8| !is_of_word(*byte) && *byte != b'/';
    let end = rest.iter().take(LONGEST_LOOSE).position(is_end).unwrap_or(LONGEST_LOOSE);
    if let Some(text) = rest.get(..end) {
        found.add_text(text, offset, ReferredBy::Loose, StringEvidence::Loose);
    }
}
