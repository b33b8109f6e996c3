//! What the headers say that is needed to follow references: where what is loaded, for which machine,
//! and how addresses are written.

use std::ops::Range;

use object::elf;

use crate::header::ElfHeader;
use crate::program::{Class, Endian};
use crate::segments::{LoadedPart, Segments};

/// No name or command line is longer.
pub(super) const LONGEST_TEXT: u64 = 1 << 20;

/// Whose instructions can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CodeMachine {
    Amd64,
    Arm64,
    Unreadable,
}

/// How a word is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WordFormat {
    pub class: Class,
    pub endian: Endian,
}

impl WordFormat {
    pub const fn size(self) -> usize {
        match self.class {
            Class::Bits32 => 4,
            Class::Bits64 => 8,
        }
    }

    /// The word at the beginning of `bytes`; zero where there is none.
    pub fn first(self, bytes: &[u8]) -> u64 {
        bytes.get(..self.size()).map_or(0, |word| self.read(word))
    }

    /// The word that is all of `bytes`; zero where they are not one.
    pub fn read(self, bytes: &[u8]) -> u64 {
        match (self.class, self.endian) {
            (Class::Bits64, Endian::Little) => bytes.try_into().map_or(0, u64::from_le_bytes),
            (Class::Bits64, Endian::Big) => bytes.try_into().map_or(0, u64::from_be_bytes),
            (Class::Bits32, Endian::Little) => bytes.try_into().map_or(0, |word| u64::from(u32::from_le_bytes(word))),
            (Class::Bits32, Endian::Big) => bytes.try_into().map_or(0, |word| u64::from(u32::from_be_bytes(word))),
        }
    }
}

/// Whether Go's linker left its mark: its strings have a length, and its code passes them in its own order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkedBy {
    /// With nothing but Go in it.
    Go,
    /// Go, and a linker of C.
    GoAndC,
    Other,
}

#[derive(Debug)]
pub(super) struct ProgramLayout {
    /// In the order of the addresses.
    pub parts: Vec<LoadedPart>,
    pub machine: CodeMachine,
    pub words: WordFormat,
    pub linked_by: LinkedBy,
    /// Where in the file the dynamic section is: its words are pairs, but no strings.
    pub dynamic: Range<u64>,
    /// The type of a relocation that puts an address into a word, where its entry holds that address.
    pub relative: Option<u64>,
    pub lowest: u64,
    highest: u64,
}

impl ProgramLayout {
    pub fn new(header: &ElfHeader, segments: &Segments, has_go_note: bool) -> Self {
        let parts = segments.loaded();
        // Go's own linker puts code first and read-only data apart from it; those of C do one or the other.
        let begins_with_code = parts.first().is_some_and(|part| part.access.is_code);
        let is_apart = parts.iter().any(|part| !part.access.is_code && !part.access.is_writable);
        let linked_by = match (has_go_note, begins_with_code && is_apart) {
            (true, true) => LinkedBy::Go,
            (true, false) => LinkedBy::GoAndC,
            (false, _) => LinkedBy::Other,
        };
        let end = |part: &LoadedPart| part.address.saturating_add(part.len);
        Self {
            machine: machine(header),
            words: WordFormat { class: header.class, endian: header.endian },
            linked_by,
            dynamic: segments.dynamic.map_or(0..0, |part| part.offset..part.offset + part.len as u64),
            relative: relative(header.machine),
            lowest: parts.iter().map(|part| part.address).min().unwrap_or(0),
            highest: parts.iter().map(end).max().unwrap_or(0),
            parts,
        }
    }

    /// Whether `address` may be one of this program's.
    pub fn may_have(&self, address: u64) -> bool {
        (self.lowest..self.highest).contains(&address)
    }

    /// Whether it is an address of this program, or less than one.
    pub fn is_low(&self, word: u64) -> bool {
        word < self.highest.max(LONGEST_TEXT)
    }

    /// The offset in the file of the byte that is loaded at `address`.
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        let at = self.parts.partition_point(|part| part.address <= address).checked_sub(1)?;
        let part = self.parts.get(at)?;
        let inside = address.checked_sub(part.address).filter(|inside| *inside < part.len)?;
        part.offset.checked_add(inside)
    }
}

fn machine(header: &ElfHeader) -> CodeMachine {
    match (header.machine, header.class, header.endian) {
        (elf::EM_X86_64, Class::Bits64, Endian::Little) => CodeMachine::Amd64,
        (elf::EM_AARCH64, Class::Bits64, Endian::Little) => CodeMachine::Arm64,
        _ => CodeMachine::Unreadable,
    }
}

/// `R_*_RELATIVE` of the machines whose relocations hold the address.
const fn relative(machine: elf::Machine) -> Option<u64> {
    match machine {
        elf::EM_X86_64 => Some(8),
        elf::EM_AARCH64 => Some(1027),
        elf::EM_S390 => Some(12),
        elf::EM_PPC64 => Some(22),
        elf::EM_RISCV => Some(3),
        _ => None,
    }
}
