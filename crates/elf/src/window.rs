//! What is kept of a stream that is read once: its beginning, the ranges that were asked
//! for, and the last block.
//!
//! The rule it owns: never more than 2 MiB, and 32 MiB of a dynamic file's tables for its loader, whatever
//! the file and the caller. Bytes are worked on in blocks that begin at fixed offsets of the file, so an
//! answer cannot depend on the sizes in which the bytes arrived.

/// Names and tables are usually at the beginning.
const HEAD: usize = 1 << 20;
/// Bytes of a block.
pub(super) const BLOCK: usize = 64 << 10;
/// Bytes of the block before that stay in sight.
pub(super) const CARRY: usize = 4 << 10;
/// Bytes of all ranges of each kind together.
const HEADER_BYTES: usize = 608 << 10;
const CANDIDATE_BYTES: usize = 256 << 10;
/// Bytes of what a loader reads. libLLVM, the largest library of a Debian system, has 14 MiB of it, chromium 25 MiB.
pub(super) const TABLE_BYTES: usize = 32 << 20;
/// What it takes to keep a range, besides its bytes.
const FRAME: usize = 96;

/// Why a range is kept. Candidates, of which a file may have many, must not use up the room for what is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WantedFor {
    /// A header says that something is there.
    Header,
    /// It looks like something that a header may refer to later.
    Candidate,
    /// A loader reads it: symbols, their names and versions, relocations.
    Table,
}

/// A range that was asked for; it fills as the bytes go by.
struct SavedRange {
    start: u64,
    wanted: usize,
    bytes: Vec<u8>,
}

pub(super) struct Window {
    head: Vec<u8>,
    /// How many bytes of the beginning are kept.
    head_limit: usize,
    ranges: Vec<SavedRange>,
    /// How many bytes of ranges may still be kept.
    header_bytes_left: usize,
    candidate_bytes_left: usize,
    table_bytes_left: usize,
    /// The carry of the block before, then the block itself.
    recent: Vec<u8>,
    /// Where in the file `recent` begins.
    start: u64,
    /// How much of `recent` is carry.
    carried: usize,
}

impl Window {
    pub fn new() -> Self {
        Self {
            head: Vec::new(),
            head_limit: HEAD,
            ranges: Vec::new(),
            header_bytes_left: HEADER_BYTES,
            candidate_bytes_left: CANDIDATE_BYTES,
            table_bytes_left: TABLE_BYTES,
            recent: Vec::new(),
            start: 0,
            carried: 0,
        }
    }

    /// Takes as much of `bytes` as the block has room for, and gives the rest.
    pub fn take<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let room = self.carried + BLOCK - self.recent.len();
        let (now, rest) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
        self.recent.extend_from_slice(now);
        rest
    }

    pub fn block_is_full(&self) -> bool {
        self.recent.len() >= self.carried + BLOCK
    }

    /// Puts the block where it was asked for.
    pub fn keep_block(&mut self) {
        let Self { head, head_limit, ranges, recent, start, carried, .. } = self;
        let fresh = recent.get(*carried..).unwrap_or_default();
        let room = head_limit.saturating_sub(head.len());
        head.extend_from_slice(fresh.get(..room).unwrap_or(fresh));
        let at = *start + *carried as u64;
        for range in ranges {
            range.fill(at, fresh);
        }
    }

    /// Makes room for the next block.
    pub fn next_block(&mut self) {
        let gone = self.recent.len().saturating_sub(CARRY);
        self.recent.drain(..gone);
        self.start += gone as u64;
        self.carried = self.recent.len();
    }

    /// The carry and the block, where in the file they begin, and how much of it is carry.
    pub fn recent(&self) -> (&[u8], u64, usize) {
        (&self.recent, self.start, self.carried)
    }

    /// Keeps more of the beginning, up to `end`, as long as nothing of it is gone: the tables of a loader are
    /// there, and what says where they are comes after them.
    pub fn keep_beginning(&mut self, end: u64) {
        let is_whole = self.head.len() as u64 == self.start + self.recent.len() as u64;
        let end = usize::try_from(end).unwrap_or(usize::MAX).min(self.head_limit.saturating_add(self.table_bytes_left));
        if is_whole && end > self.head_limit {
            self.table_bytes_left -= end - self.head_limit;
            self.head_limit = end;
            self.head.reserve_exact(end.saturating_sub(self.head.len()));
        }
    }

    /// How much of the beginning is kept, once it has gone by.
    pub fn beginning(&self) -> u64 {
        self.head_limit as u64
    }

    /// Remembers a range that is in sight or still to come. What is gone stays unknown, and so
    /// does what there is no room for.
    pub fn want(&mut self, start: u64, wanted: usize, reason: WantedFor) {
        if start.saturating_add(wanted as u64) <= self.head_limit as u64 {
            return;
        }
        let left = match reason {
            WantedFor::Header => &mut self.header_bytes_left,
            WantedFor::Candidate => &mut self.candidate_bytes_left,
            WantedFor::Table => &mut self.table_bytes_left,
        };
        let Some(rest) = left.checked_sub(wanted.saturating_add(FRAME)) else { return };
        *left = rest;
        // The part that is gone is left out: the rest may still be useful.
        let gone = usize::try_from(self.start.saturating_sub(start)).unwrap_or(usize::MAX);
        let wanted = wanted.saturating_sub(gone);
        let mut range = SavedRange { start: start.max(self.start), wanted, bytes: Vec::new() };
        range.fill(self.start, &self.recent);
        self.ranges.push(range);
    }

    /// The bytes at `start`, all of them, where they are kept.
    pub fn bytes(&self, start: u64, len: usize) -> Option<&[u8]> {
        self.known(start).find_map(|bytes| bytes.get(..len))
    }

    /// The longest kept run of bytes at `start`, at most `limit` of them.
    pub fn run(&self, start: u64, limit: usize) -> &[u8] {
        let longest = self.known(start).max_by_key(|bytes| bytes.len()).unwrap_or_default();
        longest.get(..limit).unwrap_or(longest)
    }

    /// The bytes at `start` up to the next NUL, where both are kept.
    pub fn text(&self, start: u64) -> Option<&[u8]> {
        self.known(start)
            .find_map(|bytes| bytes.split(|byte| *byte == 0).next().filter(|text| text.len() < bytes.len()))
    }

    /// Every kept run that begins at `start`.
    fn known(&self, start: u64) -> impl Iterator<Item = &[u8]> {
        let head = (0, self.head.as_slice());
        let ranges = self.ranges.iter().map(|range| (range.start, range.bytes.as_slice()));
        let recent = (self.start, self.recent.as_slice());
        [head].into_iter().chain(ranges).chain([recent]).filter_map(move |(from, bytes)| {
            let skip = usize::try_from(start.checked_sub(from)?).ok()?;
            bytes.get(skip..)
        })
    }
}

impl SavedRange {
    /// Takes its next part out of `bytes`, which are at `at` in the file.
    fn fill(&mut self, at: u64, bytes: &[u8]) {
        let missing = self.wanted - self.bytes.len();
        let next = self.start + self.bytes.len() as u64;
        let Some(skip) = next.checked_sub(at).and_then(|skip| usize::try_from(skip).ok()) else { return };
        let Some(there) = bytes.get(skip..) else { return };
        if missing > 0 && !there.is_empty() {
            self.bytes.reserve_exact(missing.min(there.len()));
            self.bytes.extend_from_slice(there.get(..missing).unwrap_or(there));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::WantedFor::{Candidate, Header};
    use super::*;

    fn byte(at: usize) -> u8 {
        u8::try_from(at * 7 % 251).unwrap()
    }

    fn feed(window: &mut Window, bytes: &[u8], mut each: impl FnMut(&mut Window)) {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = window.take(rest);
            if window.block_is_full() {
                window.keep_block();
                each(window);
                window.next_block();
            }
        }
        window.keep_block();
        each(window);
    }

    fn held(window: &Window) -> usize {
        let ranges = window.ranges.iter().map(|range| range.bytes.capacity() + size_of::<SavedRange>());
        window.head.capacity() + window.recent.capacity() + ranges.sum::<usize>()
    }

    #[test]
    fn the_beginning_and_what_was_asked_for_in_time_are_remembered() {
        let file: Vec<u8> = (0..3 * HEAD).map(byte).collect();
        let mut window = Window::new();
        let mut block = 0;
        let late = 2 * HEAD + 5000;
        feed(&mut window, &file, |window| {
            block += 1;
            match block {
                1 => window.want(late as u64, 100_000, Header),
                20 => window.want(HEAD as u64 + 10, 10, Header),
                // In sight: the carry of block 29.
                30 => window.want((29 * BLOCK - CARRY) as u64, 2 * CARRY, Candidate),
                _ => {}
            }
        });
        assert_eq!(window.bytes(0, HEAD), Some(&file[..HEAD]));
        assert_eq!(window.bytes(late as u64, 100_000), Some(&file[late..late + 100_000]));
        assert_eq!(
            window.bytes((29 * BLOCK - CARRY) as u64, 2 * CARRY),
            Some(&file[29 * BLOCK - CARRY..][..2 * CARRY])
        );
        assert_eq!(window.bytes(HEAD as u64 + 10, 10), None, "it was gone");
        assert_eq!(window.bytes(u64::MAX, 1), None);
        assert_eq!(window.run(HEAD as u64 - 5, 100).len(), 5);
    }

    #[test]
    fn text_counts_only_with_its_end() {
        let mut window = Window::new();
        feed(&mut window, b"\0one\0two", |_| ());
        assert_eq!(window.text(1), Some(&b"one"[..]));
        assert_eq!(window.text(0), Some(&b""[..]));
        assert_eq!(window.text(5), None);
        assert_eq!(window.text(50), None);
    }

    #[test]
    fn never_holds_more_than_two_mebibytes() {
        let block = vec![0; BLOCK];
        let mut window = Window::new();
        for _ in 0..100 {
            feed(&mut window, &block, |window| {
                let (bytes, start, _) = window.recent();
                let end = start + bytes.len() as u64;
                for at in (start..end).step_by(16) {
                    window.want(at, 144, Candidate);
                    window.want(at, 4000, Header);
                }
                window.want(end, usize::MAX, Header);
            });
            window.next_block();
            assert!(held(&window) <= 2 << 20, "{}", held(&window));
        }
        assert!(held(&window) > 1 << 20);
    }

    #[test]
    fn the_beginning_can_be_kept_further_only_while_all_of_it_is_there() {
        let file: Vec<u8> = (0..4 * HEAD).map(byte).collect();
        for (asked_at, end, kept) in
            [(1, 3 * HEAD, 3 * HEAD), (1, HEAD / 2, HEAD), (1, usize::MAX, 4 * HEAD), (40, 3 * HEAD, HEAD)]
        {
            let mut window = Window::new();
            let mut block = 0;
            feed(&mut window, &file, |window| {
                block += 1;
                if block == asked_at {
                    window.keep_beginning(end as u64);
                }
            });
            assert_eq!(window.head.len(), kept, "{asked_at} {end}");
            assert!(held(&window) <= TABLE_BYTES + (2 << 20));
            assert_eq!(window.bytes(0, kept), Some(&file[..kept]));
        }
    }

    proptest! {
        #[test]
        fn whatever_is_remembered_is_what_was_there(
            wants in proptest::collection::vec((HEAD - 9..HEAD + 9 * BLOCK, 0_usize..BLOCK, 0_usize..25), 0..20),
        ) {
            let file: Vec<u8> = (0..HEAD + 10 * BLOCK).map(byte).collect();
            let mut window = Window::new();
            let mut block = 0;
            feed(&mut window, &file, |window| {
                for (start, len, _) in wants.iter().filter(|(.., when)| *when == block) {
                    window.want(*start as u64, *len, Header);
                }
                block += 1;
            });
            for (start, len, _) in &wants {
                if let Some(bytes) = window.bytes(*start as u64, *len) {
                    prop_assert_eq!(bytes, &file[*start..start + len]);
                }
            }
        }
    }
}
