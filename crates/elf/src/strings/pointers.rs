//! Reads data word by word: pointers to strings, with the length behind them where there is one, and
//! relocations, which hold the pointers of programs that can be loaded anywhere.
//!
//! At most 256 Ki relocations are kept, eight bytes each. Go's table of function names, which is text that
//! nothing points to, is recognised here as well.

use std::ops::Range;

use super::layout::{LONGEST_TEXT, LinkedBy, ProgramLayout};
use super::scan::BlockView;
use crate::program::{Class, Endian};
use crate::segments::LoadedPart;
use crate::window::BLOCK;

const MOST_RELOCATIONS: usize = 256 << 10;

/// A pointer in data, with the word behind it where that may be a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DataPointer {
    pub target: u64,
    pub length: Option<usize>,
}

/// A word that will hold an address once the program is loaded.
#[derive(Debug, Clone, Copy)]
struct RelocatedWord {
    offset: u64,
    target: u64,
}

#[derive(Debug, Default)]
pub(super) struct PointerReader {
    found: Vec<DataPointer>,
    /// By the block in which the word after the relocated one ends: offset, and the address less the lowest.
    relocated: Vec<Vec<(u32, u32)>>,
    count: usize,
    pub has_overflowed: bool,
    function_table: Option<u64>,
    function_names: Range<u64>,
}

impl PointerReader {
    /// Where in the file the names of Go's functions are.
    pub fn function_names(&self) -> Range<u64> {
        self.function_names.clone()
    }

    /// Reads the fresh words of a part.
    pub fn read(&mut self, fresh: Range<u64>, part: &LoadedPart, view: &BlockView<'_>, layout: &ProgramLayout) {
        match (layout.words.class, layout.words.endian) {
            (Class::Bits64, Endian::Little) => {
                let read = |word: &[u8]| word.try_into().map_or(0, u64::from_le_bytes);
                self.read_words::<8>(fresh, part, view, layout, read);
            }
            (Class::Bits64, Endian::Big) => {
                self.read_words::<8>(fresh, part, view, layout, |word| layout.words.read(word));
            }
            (Class::Bits32, _) => self.read_words::<4>(fresh, part, view, layout, |word| layout.words.read(word)),
        }
        // Its header may end in the next block.
        self.read_function_table(part, view);
    }

    fn read_words<const SIZE: usize>(
        &mut self,
        fresh: Range<u64>,
        part: &LoadedPart,
        view: &BlockView<'_>,
        layout: &ProgramLayout,
        read: impl Fn(&[u8]) -> u64,
    ) {
        let size = SIZE as u64;
        // Two words more, of which the last may be the end of something here.
        let from = fresh.start.saturating_sub(2 * size).max(part.offset).max(view.start).next_multiple_of(size);
        let Some(bytes) = view.at(from) else { return };
        let len = usize::try_from(fresh.end.saturating_sub(from)).unwrap_or(usize::MAX);
        let bytes = bytes.get(..len).unwrap_or(bytes);
        let (mut first, mut second) = (0, 0);
        let mut offset = from;
        for word in bytes.chunks_exact(SIZE) {
            let third = read(word);
            // Most words are neither: instructions, numbers, text.
            if (layout.is_low(third) || is_function_table(third)) && offset + size > fresh.start {
                self.add_words([first, second, third], offset, layout);
            }
            (first, second) = (second, third);
            offset += size;
        }
    }

    /// The last of three words is an address, a small number, or the beginning of Go's function table.
    fn add_words(&mut self, [first, second, third]: [u64; 3], offset: u64, layout: &ProgramLayout) {
        if layout.dynamic.contains(&offset) {
            return;
        }
        if third.wrapping_sub(1) < LONGEST_TEXT && layout.may_have(second) {
            self.found.push(DataPointer { target: second, length: usize::try_from(third).ok() });
        } else if layout.linked_by != LinkedBy::Go && layout.may_have(third) {
            self.found.push(DataPointer { target: third, length: None });
        }
        if layout.relative == Some(second) && layout.may_have(first) && layout.may_have(third) {
            self.relocate(first, third, layout);
        }
        if is_function_table(third) && self.function_names.is_empty() {
            self.function_table = Some(offset);
        }
    }

    fn relocate(&mut self, address: u64, target: u64, layout: &ProgramLayout) {
        let Some(offset) = layout.offset_of(address) else { return };
        let end = offset.saturating_add(2 * layout.words.size() as u64);
        let Ok(block) = usize::try_from(end / BLOCK as u64) else { return };
        if self.count == MOST_RELOCATIONS {
            self.has_overflowed = true;
            return;
        }
        if self.relocated.len() <= block {
            self.relocated.resize_with(block + 1, Vec::new);
        }
        let packed = u32::try_from(offset).ok().zip(u32::try_from(target.wrapping_sub(layout.lowest)).ok());
        if let (Some(list), Some(packed)) = (self.relocated.get_mut(block), packed) {
            list.push(packed);
            self.count += 1;
        }
    }

    /// The pointers of this block, and those that relocations put into it.
    pub fn take(&mut self, view: &BlockView<'_>, layout: &ProgramLayout) -> Vec<DataPointer> {
        let mut pointers = std::mem::take(&mut self.found);
        let block = usize::try_from(view.fresh() / BLOCK as u64).unwrap_or(usize::MAX);
        let last = if view.is_last { block.saturating_add(1) } else { block };
        for block in block..=last {
            let relocated = self.relocated.get_mut(block).map(std::mem::take).unwrap_or_default();
            self.count -= relocated.len();
            let words = relocated.into_iter().map(|(offset, target)| RelocatedWord {
                offset: offset.into(),
                target: layout.lowest.wrapping_add(target.into()),
            });
            pointers.extend(words.filter_map(|word| word.pointer(view, layout)));
        }
        pointers
    }

    /// From its header, where the names in Go's function table end. The header has at most nine words.
    fn read_function_table(&mut self, part: &LoadedPart, view: &BlockView<'_>) {
        let Some(start) = self.function_table else { return };
        let Some(header) = view.at(start).and_then(|bytes| bytes.get(8..72)) else { return };
        self.function_table = None;
        let rest = part.offset.saturating_add(part.len).saturating_sub(start);
        let words = header.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
        let names_end = words.filter(|offset| *offset < rest).max().unwrap_or(0);
        self.function_names = start..start.saturating_add(names_end);
    }
}

/// `pcHeader`: the magic number of Go 1.2, 1.16, 1.18 or 1.20, two zeros, the quantum of instructions, the
/// size of a pointer.
fn is_function_table(word: u64) -> bool {
    if word >> 56 != 8 {
        return false;
    }
    let [a, b, c, d, 0, 0, quantum, 8] = word.to_le_bytes() else { return false };
    let magic = u32::from_le_bytes([a, b, c, d]);
    matches!(magic, 0xffff_fff0 | 0xffff_fff1 | 0xffff_fffa | 0xffff_fffb) && matches!(quantum, 1 | 2 | 4)
}

impl RelocatedWord {
    fn pointer(self, view: &BlockView<'_>, layout: &ProgramLayout) -> Option<DataPointer> {
        let size = layout.words.size();
        let length = view.at(self.offset)?.get(size..2 * size).map(|word| layout.words.read(word));
        let length = length.filter(|length| (1..=LONGEST_TEXT).contains(length));
        Some(DataPointer { target: self.target, length: length.and_then(|length| usize::try_from(length).ok()) })
    }
}
