//! Which strings a Go program passes to the functions that start other programs: `exec.Command("git")`.
//!
//! A string that is loaded into the registers of an argument right before a call is that argument. The
//! function is known by its entry in Go's function table, which stripping does not remove. Both come at
//! different places of the file: the calls are remembered until the strings go by, and those until the
//! table does. At most 256 Ki calls and 64 Ki strings; what does not fit is not seen, and that is known.
//!
//! Go's register order is that of `cmd/compile/abi-internal.md`; the table is `runtime/symtab.go`'s
//! `pcHeader` and `_func`, from Go 1.18 on.

use std::collections::BTreeSet;

use memchr::memmem;

use super::arm64::Arm64Decoder;
use super::layout::{CodeMachine, LinkedBy, ProgramLayout};
use super::operands::CodeStep;
use super::scan::BlockView;
use crate::elf::segments::LoadedPart;

const MOST_CALLS: usize = 256 << 10;
const MOST_TEXTS: usize = 64 << 10;
/// No name of a program is longer.
const LONGEST_NAME: u8 = 96;
/// Bytes before and after an address in which its length and the call may stand.
const BEFORE: usize = 40;
const AFTER: usize = 96;

/// Which argument of a function is the name of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::elf) enum NameArgument {
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
    /// The next code to be looked at.
    next: u64,
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
    arm64: Arm64Calls,
    pub(super) has_overflowed: bool,
}

impl GoCalls {
    pub(super) fn add_name(&mut self, offset: u64, argument: NameArgument) {
        self.names.push((offset, argument));
    }

    /// Looks at a block.
    pub(super) fn look(&mut self, view: &BlockView<'_>, layout: &ProgramLayout) {
        if layout.linked_by == LinkedBy::Other {
            return;
        }
        for part in &layout.parts {
            if part.access.is_code {
                self.read_code(part, view, layout);
            } else if view.fresh_of(part).is_some() {
                self.read_table(part, view);
            }
        }
        self.read_texts(view);
        self.read_entries(view);
    }

    fn read_code(&mut self, part: &LoadedPart, view: &BlockView<'_>, layout: &ProgramLayout) {
        let start = self.next.max(part.offset).max(view.start);
        let end = part.offset.saturating_add(part.len).min(view.end());
        let (Some(code), Some(len)) = (view.at(start), end.checked_sub(start)) else { return };
        let code = code.get(..usize::try_from(len).unwrap_or(usize::MAX)).unwrap_or(code);
        let address = start.wrapping_add(part.address.wrapping_sub(part.offset));
        let read = match layout.machine {
            CodeMachine::Amd64 => self.read_amd64(code, address, view.is_last || end < view.end(), layout),
            CodeMachine::Arm64 => self.read_arm64(code, address, layout),
            CodeMachine::Unreadable => 0,
        };
        self.next = start + read as u64;
    }

    /// Finds `LEAQ string(SB), AX` with `MOVL $length, BX` and the calls after it; likewise CX and DI. Gives
    /// how much has been looked at.
    fn read_amd64(&mut self, code: &[u8], address: u64, is_end: bool, layout: &ProgramLayout) -> usize {
        let until = if is_end { code.len() } else { code.len().saturating_sub(AFTER + 16) };
        for (lea, mov, argument) in
            [(b"\x48\x8d\x05", 0xbb, NameArgument::First), (b"\x48\x8d\x0d", 0xbf, NameArgument::Second)]
        {
            for at in memmem::find_iter(code.get(..until).unwrap_or_default(), lea) {
                self.read_load(code, at, mov, argument, address, layout);
            }
        }
        until
    }

    fn read_load(
        &mut self,
        code: &[u8],
        at: usize,
        mov: u8,
        argument: NameArgument,
        address: u64,
        layout: &ProgramLayout,
    ) -> Option<()> {
        let number = |at: usize| code.get(at..at + 4)?.try_into().ok().map(i32::from_le_bytes);
        let target_of = |at: usize, next: usize| {
            Some(address.wrapping_add(next as u64).wrapping_add_signed(i64::from(number(at)?)))
        };
        let string = target_of(at + 3, at + 7).and_then(|target| layout.offset_of(target))?;
        let near = at.saturating_sub(BEFORE)..(at + AFTER).min(code.len().saturating_sub(4));
        let is_length = |from: &usize| code.get(*from) == Some(&mov) && number(from + 1).is_some_and(is_name_length);
        let length =
            near.clone().filter(is_length).min_by_key(|from| from.abs_diff(at)).and_then(|at| number(at + 1))?;
        let calls = (at + 7..near.end).filter(|from| code.get(*from) == Some(&0xe8));
        let functions: Vec<u64> = calls.filter_map(|from| target_of(from + 1, from + 5)).take(3).collect();
        for function in functions {
            self.add(string, u8::try_from(length).ok()?, argument, function);
        }
        Some(())
    }

    fn read_arm64(&mut self, code: &[u8], address: u64, layout: &ProgramLayout) -> usize {
        let words = code.as_chunks::<4>().0;
        for (at, word) in (address..).step_by(4).zip(words) {
            let passed = self.arm64.step(u32::from_le_bytes(*word), at);
            for (string, length, argument, function) in passed.into_iter().flatten() {
                if let (Some(offset), Ok(length)) = (layout.offset_of(string), u8::try_from(length)) {
                    self.add(offset, length, argument, function);
                }
            }
        }
        words.len() * 4
    }

    fn add(&mut self, offset: u64, length: u8, argument: NameArgument, function: u64) {
        if self.calls.len() == MOST_CALLS {
            self.has_overflowed = true;
        } else if let Ok(offset) = u32::try_from(offset) {
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

fn is_name_length(length: i32) -> bool {
    (1..=i32::from(LONGEST_NAME)).contains(&length)
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

/// What the registers of arguments have, while code of arm64 goes by.
#[derive(Debug, Default)]
struct Arm64Calls {
    decoder: Arm64Decoder,
    addresses: [Option<u64>; 4],
    numbers: [Option<u32>; 4],
}

type Passed = (u64, u32, NameArgument, u64);

impl Arm64Calls {
    fn step(&mut self, word: u32, address: u64) -> [Option<Passed>; 2] {
        for step in self.decoder.decode(word, address).into_iter().flatten() {
            self.note(step);
        }
        if word >> 26 != 0x25 {
            return [None, None];
        }
        let distance = (i64::from(word & 0x3ff_ffff) << 38) >> 36;
        let function = address.wrapping_add_signed(distance);
        let [first, _, third, _] = self.addresses;
        let [_, second, _, fourth] = self.numbers;
        (self.addresses, self.numbers) = ([None; 4], [None; 4]);
        let is_name = |length: &u32| *length > 0 && *length <= u32::from(LONGEST_NAME);
        let passed = |string: Option<u64>, length: Option<u32>, argument| {
            Some((string?, length.filter(is_name)?, argument, function))
        };
        [passed(first, second, NameArgument::First), passed(third, fourth, NameArgument::Second)]
    }

    fn note(&mut self, step: CodeStep) {
        let (register, address, number) = match step {
            CodeStep::Address { register, target } => (register, Some(target), None),
            CodeStep::Number { register, value } => (register, None, Some(value)),
            CodeStep::Overwrite { register } | CodeStep::Move { to: register, .. } => (register, None, None),
            _ => return,
        };
        let at = usize::from(register);
        if let (Some(known), Some(counted)) = (self.addresses.get_mut(at), self.numbers.get_mut(at)) {
            (*known, *counted) = (address, number);
        }
    }
}
