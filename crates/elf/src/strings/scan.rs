//! Follows the references of a program while its bytes go by.

use std::ops::Range;

use super::calls::{GoCalls, NameArgument};
use super::code::{CodeAddress, CodeReader};
use super::found::{FoundStrings, StringEvidence, StringLanguage};
use super::layout::{CodeMachine, LinkedBy, ProgramLayout};
use super::pointers::{DataPointer, PointerReader};
use super::text_store::{Contents, StoredText, TextStore};
use super::wanted::{LARGEST_FILE, LONGEST, StringEnd, StringReference, WantedStrings};
use super::whole;
use crate::header::ElfHeader;
use crate::program::{ProgramStrings, ReferredBy};
use crate::segments::{LoadedPart, Segments};
use crate::window::BLOCK;

/// Numbers that look like an address and a length occur by chance. Where strings are really gone, there are
/// hundreds of references to them.
const GONE_BY_CHANCE: usize = 8;
/// Bytes of two addresses.
const TWO_WORDS: usize = 16;

/// The bytes in sight: the end of the last block, and the block itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockView<'a> {
    pub bytes: &'a [u8],
    /// Where in the file they begin.
    pub start: u64,
    /// How many of them were in sight before.
    pub seen: usize,
    /// Whether nothing comes after them.
    pub is_last: bool,
}

impl<'a> BlockView<'a> {
    pub fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Where the block itself begins.
    pub fn fresh(&self) -> u64 {
        self.start + self.seen as u64
    }

    /// The bytes from `offset` on, where it is in sight.
    pub fn at(&self, offset: u64) -> Option<&'a [u8]> {
        self.bytes.get(usize::try_from(offset.checked_sub(self.start)?).ok()?..)
    }

    /// The fresh bytes of `part`, as a range of offsets.
    pub fn fresh_of(&self, part: &LoadedPart) -> Option<Range<u64>> {
        let range = part.offset.max(self.fresh())..part.offset.saturating_add(part.len).min(self.end());
        (range.start < range.end).then_some(range)
    }
}

#[derive(Debug, Default)]
pub(crate) struct StringScan {
    layout: Option<ProgramLayout>,
    code: CodeReader,
    pointers: PointerReader,
    whole: whole::WholeStrings,
    wanted: WantedStrings,
    store: TextStore,
    found: FoundStrings,
    calls: GoCalls,
    /// Something went by unseen.
    has_gaps: bool,
    /// How many strings were referred to when they were no longer kept.
    gone: usize,
}

impl StringScan {
    pub fn has_layout(&self) -> bool {
        self.layout.is_some()
    }

    /// Whether nothing but Go is in it.
    pub fn has_only_go(&self) -> bool {
        self.layout.as_ref().is_some_and(|layout| layout.linked_by == LinkedBy::Go)
    }

    /// Whether `-c` is one of the strings.
    pub fn has_command_flag(&self) -> bool {
        self.found.has_command_flag
    }

    /// From here on it is known what is loaded. `missed` bytes have gone by without that.
    pub fn set_layout(&mut self, header: &ElfHeader, segments: &Segments, has_go_note: bool, missed: u64) {
        let layout = ProgramLayout::new(header, segments, has_go_note);
        let size = layout.parts.iter().map(|part| part.offset.saturating_add(part.len)).max().unwrap_or(0);
        self.has_gaps |= missed > 0 || size > LARGEST_FILE;
        if size <= LARGEST_FILE {
            self.layout = Some(layout);
        }
    }

    /// The name of a function that starts programs is at this offset of the file.
    pub fn add_starter(&mut self, offset: u64, argument: NameArgument) {
        self.calls.add_name(offset, argument);
    }

    /// Looks at a block.
    pub fn look(&mut self, view: BlockView<'_>) {
        let Some(layout) = self.layout.take() else { return };
        self.keep_text(&view, &layout);
        for part in &layout.parts {
            self.look_at_part(part, &view, &layout);
        }
        for address in self.code.addresses(&layout, &view) {
            self.add_call(address, &layout);
            let length = address.length.map(|length| usize::try_from(length).unwrap_or(usize::MAX));
            self.refer(address.target, length, ReferredBy::Code, &view, &layout);
        }
        for DataPointer { target, length } in self.pointers.take(&view, &layout) {
            self.refer(target, length, ReferredBy::Data, &view, &layout);
        }
        self.resolve(&view, &layout);
        self.calls.look(&view, &layout);
        self.layout = Some(layout);
    }

    fn add_call(&mut self, address: CodeAddress, layout: &ProgramLayout) {
        if let (Some((argument, function)), Some(length)) = (address.passed_to, address.length)
            && let Some(offset) = layout.offset_of(address.target)
        {
            self.calls.add(offset, length, argument, function);
        }
    }

    fn keep_text(&mut self, view: &BlockView<'_>, layout: &ProgramLayout) {
        let names = self.pointers.function_names();
        let contents = |offset: u64| {
            let is_in =
                |part: &&LoadedPart| offset + 256 > part.offset && offset < part.offset.saturating_add(part.len);
            match layout.parts.iter().find(is_in) {
                _ if names.contains(&offset) => Contents::Nothing,
                Some(part) if part.access.is_code => Contents::Code,
                Some(_) => Contents::Data,
                None => Contents::Nothing,
            }
        };
        let (before, block) = view.bytes.split_at_checked(view.seen).unwrap_or((&[], view.bytes));
        self.store.add_block(block, view.fresh(), before, contents);
    }

    fn look_at_part(&mut self, part: &LoadedPart, view: &BlockView<'_>, layout: &ProgramLayout) {
        let Some(range) = view.fresh_of(part) else { return };
        if part.access.is_code {
            self.code.read(part, view, layout);
        }
        // Go's code has no data in it.
        if !part.access.is_code || layout.linked_by != LinkedBy::Go {
            self.pointers.read(range.clone(), part, view, layout);
        }
        if layout.linked_by == LinkedBy::Other {
            self.whole.read(range.clone(), part, view, &mut self.found);
        }
        if layout.machine == CodeMachine::Unreadable {
            whole::read_loose(range, view, &mut self.found);
        }
    }

    /// Something refers to the string at `target`. It is still to come, in sight, or kept.
    fn refer(
        &mut self,
        target: u64,
        length: Option<usize>,
        by: ReferredBy,
        view: &BlockView<'_>,
        layout: &ProgramLayout,
    ) {
        let Some(offset) = layout.offset_of(target) else { return };
        let with_length = length.filter(|length| *length > 1).map(|length| {
            let clipped = u8::try_from(length.min(LONGEST)).unwrap_or(u8::MAX);
            StringReference { offset, end: StringEnd::Length(clipped), by }
        });
        let has_no_end = match layout.linked_by {
            LinkedBy::Go => true,
            LinkedBy::GoAndC => with_length.is_some(),
            LinkedBy::Other => false,
        };
        let with_end = (!has_no_end).then_some(StringReference { offset, end: StringEnd::Nul, by });
        for reference in with_length.into_iter().chain(with_end) {
            if reference.block() >= view.fresh() / BLOCK as u64 {
                self.wanted.add(reference);
            } else {
                self.look_up(reference, view, layout);
            }
        }
    }

    /// A string that has gone by.
    fn look_up(&mut self, reference: StringReference, view: &BlockView<'_>, layout: &ProgramLayout) {
        if let Some(bytes) = view.at(reference.offset) {
            add(&mut self.found, reference, bytes, layout);
            return;
        }
        match self.store.read(reference.offset, reference.reach() + TWO_WORDS) {
            StoredText::Known(text) => add(&mut self.found, reference, &text, layout),
            StoredText::Gone => self.gone += usize::from(counts_when_gone(reference)),
            StoredText::Never => {}
        }
    }

    /// The strings that end in this block.
    fn resolve(&mut self, view: &BlockView<'_>, layout: &ProgramLayout) {
        let block = view.fresh() / BLOCK as u64;
        let last = if view.is_last { block + 1 } else { block };
        for block in block..=last {
            for reference in self.wanted.take(block) {
                if let Some(bytes) = view.at(reference.offset) {
                    add(&mut self.found, reference, bytes, layout);
                }
            }
        }
    }

    /// The strings, after the last block. `tables` hold names that are no strings of the program.
    pub fn finish(self, language: StringLanguage, tables: &[Range<u64>]) -> ProgramStrings {
        let Some(layout) = self.layout else { return ProgramStrings::default() };
        let is_readable = layout.machine != CodeMachine::Unreadable;
        let has_room = !self.wanted.has_overflowed && !self.pointers.has_overflowed && !self.calls.has_overflowed;
        let calls = self.calls.finish(&layout);
        let mut strings = ProgramStrings { calls, ..self.found.finish(language, tables) };
        strings.complete &= is_readable && has_room && !self.has_gaps && self.gone <= GONE_BY_CHANCE;
        strings
    }
}

/// Where strings end with a NUL, those that are whole have been seen, and long ones are no names.
fn counts_when_gone(reference: StringReference) -> bool {
    matches!(reference.end, StringEnd::Length(length) if usize::from(length) < LONGEST)
}

/// Whether these bytes are a list of addresses, and the length is that of the list. Where memory begins at zero,
/// the file has no addresses, and every number could be one.
fn is_address_list(bytes: &[u8], text: &[u8], layout: &ProgramLayout) -> bool {
    let size = layout.words.size();
    let (first, second) = (layout.words.first(bytes), layout.words.first(bytes.get(size..).unwrap_or_default()));
    text.len() < size && layout.lowest > 0 && layout.may_have(first) && layout.may_have(second)
}

/// Adds the string at the beginning of `bytes`.
fn add(found: &mut FoundStrings, reference: StringReference, bytes: &[u8], layout: &ProgramLayout) {
    let seen = bytes.get(..reference.reach()).unwrap_or(bytes);
    let (text, evidence) = match reference.end {
        StringEnd::Length(length) if usize::from(length) != seen.len() => return,
        StringEnd::Length(_) => (seen, StringEvidence::Length),
        StringEnd::Nul => {
            let end = seen.iter().position(|byte| *byte == 0).unwrap_or(seen.len());
            (seen.get(..end).unwrap_or(seen), StringEvidence::Pointer)
        }
    };
    // What is longer than what is seen of it has only a beginning.
    let is_cut = text.len() >= LONGEST && !text.contains(&b' ');
    if !is_cut && !is_address_list(bytes, text, layout) {
        found.add_text(text, reference.offset, reference.by, evidence);
    }
}
