//! Which strings a Go program passes to the functions that start other programs: `exec.Command("git")`.
//!
//! A string that the code has in the registers of an argument when it calls a function is that argument. The
//! function is known by its entry in Go's function table, which stripping does not remove. Both come at
//! different places of the file: the calls are remembered until the strings go by, and those until the
//! table does. At most 256 Ki calls and 64 Ki strings; what does not fit is not seen, and that is known.
//!
//! Go's register order is that of `cmd/compile/abi-internal.md`; the table is `runtime/symtab.go`'s
//! `pcHeader` and `_func`, from Go 1.18 on.

use std::collections::BTreeSet;

use memchr::memmem;

use super::layout::{LinkedBy, ProgramLayout};
use super::scan::BlockView;
use crate::segments::LoadedPart;

const MOST_CALLS: usize = 256 << 10;
const MOST_TEXTS: usize = 64 << 10;
/// No name of a program is longer.
const LONGEST_NAME: u32 = 96;

/// Which argument of a function is the name of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NameArgument {
    First,
    /// After a context.
    Second,
}

/// A string that is an argument of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PassedString {
    /// Where in the file the string is.
    offset: u32,
    length: u8,
    argument: NameArgument,
    /// Where in the program the function begins.
    function: u64,
}

/// Where Go's function table is, and what its offsets are relative to.
#[derive(Debug, Clone, Copy)]
struct FunctionTable {
    names: u64,
    text: u64,
}

#[derive(Debug, Default)]
pub(super) struct GoCalls {
    calls: Vec<PassedString>,
    /// How many of the calls, sorted, have had their string.
    done: usize,
    is_sorted: bool,
    texts: BTreeSet<(u64, NameArgument, String)>,
    table: Option<FunctionTable>,
    /// The names of functions that start programs, where they are in the file.
    names: Vec<(u64, NameArgument)>,
    /// Where in the code such functions begin, from the beginning of the code.
    entries: Vec<(u32, NameArgument)>,
    pub(super) has_overflowed: bool,
}

impl GoCalls {
    pub(super) fn add_name(&mut self, offset: u64, argument: NameArgument) {
        self.names.push((offset, argument));
    }

    /// Looks at a block, after the calls of its code were added.
    pub(super) fn look(&mut self, view: &BlockView<'_>, layout: &ProgramLayout) {
        if layout.linked_by == LinkedBy::Other {
            return;
        }
        for part in layout.parts.iter().filter(|part| !part.access.is_code && view.fresh_of(part).is_some()) {
            self.read_table(part, view);
        }
        self.read_texts(view);
        self.read_entries(view);
    }

    /// The code calls `function` with the string of `length` bytes at `offset` of the file.
    pub(super) fn add(&mut self, offset: u64, length: u32, argument: NameArgument, function: u64) {
        if self.calls.len() == MOST_CALLS {
            self.has_overflowed = true;
        } else if let (Ok(offset), Ok(length)) = (u32::try_from(offset), u8::try_from(length)) {
            self.calls.push(PassedString { offset, length, argument, function });
            self.is_sorted = false;
        }
    }

    /// The strings that are in sight. Go has them after its code.
    fn read_texts(&mut self, view: &BlockView<'_>) {
        if !self.is_sorted {
            let later = self.calls.split_off(self.done);
            let mut later: Vec<PassedString> = later;
            later.sort_unstable();
            later.dedup();
            self.calls.extend(later);
            self.is_sorted = true;
        }
        while let Some(call) = self.calls.get(self.done).copied() {
            let end = u64::from(call.offset) + u64::from(call.length);
            if end > view.end() {
                break;
            }
            self.done += 1;
            let text = view.at(call.offset.into()).and_then(|bytes| bytes.get(..usize::from(call.length)));
            let name = text.and_then(|text| std::str::from_utf8(text).ok()).filter(|text| is_name(text));
            if let Some(name) = name.filter(|_| self.texts.len() < MOST_TEXTS) {
                self.texts.insert((call.function, call.argument, name.to_owned()));
            }
        }
    }

    /// The header of the function table: its words are counts, then offsets, which grow.
    fn read_table(&mut self, part: &LoadedPart, view: &BlockView<'_>) {
        if self.table.is_some() {
            return;
        }
        let from = view.fresh().saturating_sub(128).max(part.offset).max(view.start).next_multiple_of(8);
        let Some(bytes) = view.at(from) else { return };
        for (number, header) in bytes.windows(72).step_by(8).enumerate() {
            if let Some(table) = function_table(header, from + 8 * number as u64) {
                self.table = Some(table);
                return;
            }
        }
    }

    /// `_func`s of the wanted names: the beginning of the function, then the offset of its name.
    fn read_entries(&mut self, view: &BlockView<'_>) {
        let Some(table) = self.table else { return };
        for (name, argument) in &self.names {
            let Some(offset) = name.checked_sub(table.names).and_then(|offset| u32::try_from(offset).ok()) else {
                continue;
            };
            let from = view.seen.saturating_sub(8);
            let fresh = view.bytes.get(from..).unwrap_or_default();
            for at in memmem::find_iter(fresh, &offset.to_le_bytes()) {
                let entry =
                    at.checked_sub(4).and_then(|at| fresh.get(at..at + 4)).and_then(|word| word.try_into().ok());
                self.entries.extend(entry.map(|entry| (u32::from_le_bytes(entry), *argument)));
            }
        }
        self.entries.sort_unstable();
        self.entries.dedup();
        // By chance an offset occurs a few times; more is noise.
        self.entries.truncate(4096);
    }

    /// The names that are passed to functions that start programs.
    pub(super) fn finish(&self, layout: &ProgramLayout) -> Vec<String> {
        let Some(table) = self.table else { return Vec::new() };
        let code = layout.parts.iter().find(|part| part.access.is_code).map_or(0, |part| part.address);
        let starts = [table.text, code, code.wrapping_add(0x1000)];
        let is_starter = |function: u64, argument: NameArgument| {
            let entry = |start: &u64| function.checked_sub(*start).and_then(|entry| u32::try_from(entry).ok());
            starts.iter().filter_map(entry).any(|entry| self.entries.binary_search(&(entry, argument)).is_ok())
        };
        let called = self.texts.iter().filter(|(function, argument, _)| is_starter(*function, *argument));
        let names: BTreeSet<&String> = called.map(|(_, _, name)| name).collect();
        names.into_iter().cloned().collect()
    }
}

/// Whether the name of a program may be so long.
pub(super) fn is_name_length(length: u32) -> bool {
    (1..=LONGEST_NAME).contains(&length)
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn function_table(header: &[u8], start: u64) -> Option<FunctionTable> {
    let magic = u32::from_le_bytes(header.get(..4)?.try_into().ok()?);
    let is_table = matches!(magic, 0xffff_fff0 | 0xffff_fff1)
        && header.get(4..6) == Some(&[0, 0])
        && matches!(header.get(6..8), Some([1 | 2 | 4, 8]));
    if !is_table {
        return None;
    }
    let words = header.get(8..)?.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
    let words: Vec<u64> = words.collect();
    // The names follow the header at once; before them is the beginning of the code, where it is still told.
    let at = words.iter().skip(2).position(|offset| (64..=512).contains(offset))? + 2;
    let text = at.checked_sub(1).and_then(|before| words.get(before)).copied().filter(|_| at > 2).unwrap_or(0);
    Some(FunctionTable { names: start + words.get(at)?, text })
}
