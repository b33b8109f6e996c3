//! Text that has been read and that something may still refer to: in Go, data comes after the strings that
//! it points to.
//!
//! Kept are pieces of 256 bytes that are mostly text or have a run of it, and their neighbours; at most 4 MiB
//! of them, the oldest go first. Of the first MiB more is kept: small programs have little text. A
//! reference to what is gone is told apart from one to what never was text.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::window::BLOCK;

/// Bytes of a piece; a block has a whole number of them.
const PIECE: usize = 256;
const MOST_PIECES: usize = (4 << 20) / PIECE;
/// As long as there are fewer pieces, two letters are text.
const FEW_PIECES: usize = (1 << 20) / PIECE;
/// Bytes that are text by accident in one of twenty pieces of noise.
const RUN: usize = 8;
/// How many bytes of a piece are text where it is kept: half in data, more in code, a third of which
/// looks like text.
const MOSTLY_TEXT: usize = PIECE / 2;
const MOSTLY_TEXT_IN_CODE: usize = PIECE * 3 / 4;

#[derive(Debug, Default)]
pub(super) struct TextStore {
    pieces: Vec<u8>,
    /// Which piece of the file each of them is.
    numbers: Vec<u32>,
    places: HashMap<u32, u32>,
    /// Where the next piece goes once all places are taken.
    oldest: usize,
    /// The blocks of the file of which pieces are gone.
    gone: Vec<bool>,
    last_was_text: bool,
}

/// The answer to a reference.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StoredText<'a> {
    Known(Cow<'a, [u8]>),
    /// It was text, and there was no room for it.
    Gone,
    /// It was never text.
    Never,
}

/// What the bytes are, as the program headers tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contents {
    Data,
    Code,
    /// Not loaded, or known to hold no strings.
    Nothing,
}

impl TextStore {
    /// Looks at a block, which begins at `start`, a multiple of [`BLOCK`]. `before` are the bytes before it.
    pub fn add_block(&mut self, block: &[u8], start: u64, before: &[u8], contents: impl Fn(u64) -> Contents) {
        let pieces: Vec<&[u8]> = block.chunks(PIECE).collect();
        let offset = |at: usize| start + (at * PIECE) as u64;
        let least = if self.numbers.len() < FEW_PIECES { 2 } else { PIECE };
        let is_text: Vec<bool> =
            pieces.iter().enumerate().map(|(at, piece)| has_text(piece, contents(offset(at)), least)).collect();
        let was_text = |at: usize| at.checked_sub(1).map_or(self.last_was_text, |at| is_text.get(at) == Some(&true));
        let keep: Vec<bool> = (0..pieces.len())
            .map(|at| {
                was_text(at)
                    || is_text.get(at..at + 2).is_some_and(|two| two.contains(&true))
                    || is_text.get(at) == Some(&true)
            })
            .collect();
        if is_text.first() == Some(&true) && !self.last_was_text {
            self.keep_previous(before, start);
        }
        for (at, piece) in pieces.iter().enumerate().filter(|(at, _)| keep.get(*at) == Some(&true)) {
            self.keep(offset(at), piece);
        }
        self.last_was_text = is_text.last() == Some(&true);
    }

    /// The piece before a block, which turns out to have text behind it.
    fn keep_previous(&mut self, before: &[u8], start: u64) {
        let from = before.len().checked_sub(PIECE).and_then(|from| before.get(from..));
        if let (Some(piece), Some(offset)) = (from, start.checked_sub(PIECE as u64)) {
            self.keep(offset, piece);
        }
    }

    fn keep(&mut self, offset: u64, piece: &[u8]) {
        let Ok(number) = u32::try_from(offset / PIECE as u64) else { return };
        if self.places.contains_key(&number) {
            return;
        }
        let mut whole = [0; PIECE];
        for (to, from) in whole.iter_mut().zip(piece) {
            *to = *from;
        }
        let place = if self.numbers.len() < MOST_PIECES {
            self.pieces.extend_from_slice(&whole);
            self.numbers.push(number);
            self.numbers.len() - 1
        } else {
            self.replace_oldest(number, &whole)
        };
        self.places.insert(number, u32::try_from(place).unwrap_or(0));
    }

    fn replace_oldest(&mut self, number: u32, piece: &[u8; PIECE]) -> usize {
        let place = self.oldest;
        self.oldest = (place + 1) % MOST_PIECES;
        if let (Some(old), Some(bytes)) = (self.numbers.get_mut(place), self.pieces.get_mut(place * PIECE..)) {
            self.places.remove(old);
            set(&mut self.gone, *old as usize * PIECE / BLOCK);
            *old = number;
            for (to, from) in bytes.iter_mut().zip(piece) {
                *to = *from;
            }
        }
        place
    }

    /// The `len` bytes at `offset`, or as many as are kept in one run.
    pub fn read(&self, offset: u64, len: usize) -> StoredText<'_> {
        let skip = usize::try_from(offset % PIECE as u64).unwrap_or(0);
        let Some(first) = self.piece(offset / PIECE as u64).and_then(|piece| piece.get(skip..)) else {
            let block = usize::try_from(offset / BLOCK as u64).unwrap_or(usize::MAX);
            let is_gone = self.gone.get(block) == Some(&true);
            return if is_gone { StoredText::Gone } else { StoredText::Never };
        };
        if let Some(text) = first.get(..len) {
            return StoredText::Known(Cow::Borrowed(text));
        }
        let mut text = first.to_vec();
        while text.len() < len {
            let Some(piece) = self.piece(offset.saturating_add(text.len() as u64) / PIECE as u64) else { break };
            text.extend(piece.iter().take(len - text.len()));
        }
        StoredText::Known(Cow::Owned(text))
    }

    fn piece(&self, number: u64) -> Option<&[u8]> {
        let place = *self.places.get(&u32::try_from(number).ok()?)? as usize;
        self.pieces.get(place * PIECE..(place + 1) * PIECE)
    }
}

fn set(flags: &mut Vec<bool>, at: usize) {
    if flags.len() <= at {
        flags.resize(at + 1, false);
    }
    if let Some(flag) = flags.get_mut(at) {
        *flag = true;
    }
}

fn is_printable(byte: u8) -> bool {
    byte.wrapping_sub(0x20) < 0x5f
}

fn has_text(piece: &[u8], contents: Contents, least: usize) -> bool {
    let mostly = match contents {
        Contents::Nothing => return false,
        Contents::Data => MOSTLY_TEXT,
        Contents::Code => MOSTLY_TEXT_IN_CODE,
    };
    let printable = |part: &[u8]| part.iter().map(|byte| u8::from(is_printable(*byte))).sum::<u8>();
    // Sums of 64 are done in bytes, many at a time.
    let count = piece.chunks(64).map(|part| usize::from(printable(part))).sum::<usize>();
    count >= mostly.min(least) || (count >= RUN && contents == Contents::Data && has_run(piece))
}

/// A run goes over one of the bytes that are so far apart.
fn has_run(piece: &[u8]) -> bool {
    let count = |bytes: &mut dyn Iterator<Item = &u8>| bytes.take(RUN).take_while(|byte| is_printable(**byte)).count();
    (RUN - 1..piece.len()).step_by(RUN).any(|at| {
        piece.split_at_checked(at).is_some_and(|(before, after)| {
            let behind = count(&mut after.iter());
            behind > 0 && behind + count(&mut before.iter().rev()) >= RUN
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(text: &[u8]) -> StoredText<'_> {
        StoredText::Known(Cow::Borrowed(text))
    }

    fn add(store: &mut TextStore, blocks: &[Vec<u8>], contents: Contents) {
        let mut before: &[u8] = &[];
        for (at, block) in blocks.iter().enumerate() {
            store.add_block(block, (at * BLOCK) as u64, before, |_| contents);
            before = block;
        }
    }

    #[test]
    fn text_and_its_neighbours_are_kept_and_nothing_else() {
        let mut store = TextStore::default();
        add(&mut store, &vec![vec![b'b'; BLOCK]; 16], Contents::Data);
        let mut block = vec![0; BLOCK];
        block[1000..1400].fill(b'a');
        block[PIECE * 20 + 7..PIECE * 20 + 10].copy_from_slice(b"git");
        block[PIECE * 30 + 7..PIECE * 30 + 16].copy_from_slice(b"systemctl");
        let start = 16 * BLOCK as u64;
        store.add_block(&block, start, &vec![0; BLOCK], |_| Contents::Data);
        assert_eq!(store.read(start + 1000, 3), known(b"aaa"));
        assert_eq!(store.read(start + 1399, 2), known(b"a\0"), "the neighbour");
        assert_eq!(store.read(start + (PIECE * 20 + 7) as u64, 3), StoredText::Never, "a word alone among zeros");
        assert_eq!(store.read(start + (PIECE * 30 + 7) as u64, 9), known(b"systemctl"), "a run");
        let mut small = TextStore::default();
        add(&mut small, &[block], Contents::Data);
        assert_eq!(small.read((PIECE * 20 + 7) as u64, 3), known(b"git"), "the file may be small");
        let mut nothing = TextStore::default();
        add(&mut nothing, &[vec![b'a'; BLOCK]], Contents::Nothing);
        assert_eq!(nothing.read(0, 1), StoredText::Never);
    }

    #[test]
    fn a_string_across_blocks_is_whole() {
        let mut first = vec![0; BLOCK];
        first[BLOCK - 3..].copy_from_slice(b"sys");
        let mut second = vec![b'x'; BLOCK];
        second[..6].copy_from_slice(b"temctl");
        let mut store = TextStore::default();
        add(&mut store, &[first, second], Contents::Data);
        assert_eq!(store.read(BLOCK as u64 - 3, 9), known(b"systemctl"));
    }

    #[test]
    fn the_oldest_text_goes_and_that_is_known() {
        let blocks = vec![vec![b'a'; BLOCK]; 70];
        let mut store = TextStore::default();
        add(&mut store, &blocks, Contents::Data);
        assert_eq!(store.read(0, 3), StoredText::Gone);
        assert_eq!(store.read(69 * BLOCK as u64, 3), known(b"aaa"));
        assert_eq!(store.read(71 * BLOCK as u64, 3), StoredText::Never);
        assert!(store.pieces.len() <= 4 << 20);
    }
}
