//! Strings that something refers to before they are read, by the block of the file in which they end.
//!
//! At most 768 Ki of them, four bytes each. What does not fit is dropped, and that is known.

use crate::program::ReferredBy;
use crate::window::BLOCK;

/// The longest string that is looked at; of longer ones the beginning.
pub(super) const LONGEST: usize = 255;
const MOST: usize = 768 << 10;
/// Beyond this size, no file is searched for strings.
pub(super) const LARGEST_FILE: u64 = u32::MAX as u64;

/// How far a string goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StringEnd {
    /// Up to the next NUL.
    Nul,
    /// So many bytes; [`LONGEST`] for all that are longer.
    Length(u8),
}

/// A string that something refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StringReference {
    pub offset: u64,
    pub end: StringEnd,
    pub by: ReferredBy,
}

impl StringReference {
    /// How many bytes have to be seen to know it.
    pub fn reach(self) -> usize {
        match self.end {
            StringEnd::Nul => LONGEST,
            StringEnd::Length(length) => usize::from(length),
        }
    }

    /// The block in which it ends.
    pub fn block(self) -> u64 {
        self.offset.saturating_add(self.reach() as u64) / BLOCK as u64
    }
}

#[derive(Debug, Default)]
pub(super) struct WantedStrings {
    blocks: Vec<Vec<u32>>,
    count: usize,
    pub has_overflowed: bool,
}

impl WantedStrings {
    pub fn add(&mut self, reference: StringReference) {
        let Ok(block) = usize::try_from(reference.block()) else { return };
        if self.count == MOST {
            self.has_overflowed = true;
            return;
        }
        if self.blocks.len() <= block {
            self.blocks.resize_with(block + 1, Vec::new);
        }
        if let (Some(list), Some(packed)) = (self.blocks.get_mut(block), pack(reference)) {
            // References to one string often follow each other.
            if list.last() != Some(&packed) {
                list.push(packed);
                self.count += 1;
            }
        }
    }

    /// Those that end in this block, each once. They are no longer wanted.
    pub fn take(&mut self, block: u64) -> Vec<StringReference> {
        let list = usize::try_from(block).ok().and_then(|at| self.blocks.get_mut(at));
        let mut list = list.map(std::mem::take).unwrap_or_default();
        self.count -= list.len();
        list.sort_unstable();
        list.dedup();
        list.into_iter().map(|packed| unpack(packed, block)).collect()
    }
}

/// A string ends at most this much after its beginning, which may be in the block before.
const BACK: u64 = 256;

/// Seventeen bits for the place, eight for the length, one for what refers to it.
fn pack(reference: StringReference) -> Option<u32> {
    let start = reference.block() * BLOCK as u64;
    let place = u32::try_from((reference.offset + BACK).checked_sub(start)?).ok()?;
    let length = match reference.end {
        StringEnd::Nul => 0,
        StringEnd::Length(length) => u32::from(length),
    };
    let by = u32::from(reference.by != ReferredBy::Code);
    Some(place << 9 | length << 1 | by)
}

fn unpack(packed: u32, block: u64) -> StringReference {
    let [length, ..] = (packed >> 1 & 0xff).to_le_bytes();
    StringReference {
        offset: (block * BLOCK as u64 + u64::from(packed >> 9)).saturating_sub(BACK),
        end: if length == 0 { StringEnd::Nul } else { StringEnd::Length(length) },
        by: if packed & 1 == 0 { ReferredBy::Code } else { ReferredBy::Data },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reference(offset: u64, length: u8, by: ReferredBy) -> StringReference {
        let end = if length == 0 { StringEnd::Nul } else { StringEnd::Length(length) };
        StringReference { offset, end, by }
    }

    proptest! {
        #[test]
        fn what_is_wanted_comes_back_in_the_block_where_it_ends(offset in 0_u64..LARGEST_FILE, length: u8, is_code: bool) {
            let by = if is_code { ReferredBy::Code } else { ReferredBy::Data };
            let wanted = reference(offset, length, by);
            prop_assert_eq!(unpack(pack(wanted).unwrap(), wanted.block()), wanted);
        }
    }

    #[test]
    fn each_is_given_once_and_never_again() {
        let mut wanted = WantedStrings::default();
        let (first, second) = (reference(70_000, 3, ReferredBy::Code), reference(70_001, 0, ReferredBy::Data));
        for reference in [first, second, first] {
            wanted.add(reference);
        }
        assert_eq!(wanted.take(0), []);
        assert_eq!(wanted.take(1), [first, second]);
        assert_eq!(wanted.take(1), []);
    }

    #[test]
    fn too_many_are_noticed() {
        let mut wanted = WantedStrings::default();
        for offset in 0..=MOST as u64 {
            assert!(!wanted.has_overflowed);
            wanted.add(reference(offset * 2, 2, ReferredBy::Code));
        }
        assert!(wanted.has_overflowed);
    }
}
