//! The ELF header: what kind of file this is, and where its program headers are.
//!
//! The limits are Linux's (`fs/binfmt_elf.c`): what it would not start is not a program.

use std::mem::size_of;

use object::elf::{self, FileHeader32, FileHeader64};
use object::endian::Endianness;
use object::read::elf::FileHeader;

use super::fault::{Fault, Sound, require};
use super::program::{Class, Endian};

/// The largest header: the 64-bit one.
pub(super) const LARGEST: usize = size_of::<FileHeader64<Endianness>>();
/// Linux takes no larger table of program headers.
const LARGEST_TABLE: u64 = 64 << 10;

pub(super) type Elf32 = FileHeader32<Endianness>;
pub(super) type Elf64 = FileHeader64<Endianness>;

/// What the header says that has been checked against itself, not yet against the file.
#[derive(Debug, Clone)]
pub(super) struct Header {
    pub class: Class,
    pub endian: Endian,
    pub kind: elf::FileType,
    pub machine: elf::Machine,
    pub flags: u32,
    pub entry: u64,
    table: Table,
    sections: Table,
}

/// A table of `count` rows in the file.
#[derive(Debug, Clone, Copy)]
struct Table {
    offset: u64,
    row: u16,
    count: u16,
}

impl Table {
    fn len(self) -> u64 {
        u64::from(self.row) * u64::from(self.count)
    }

    fn is_within(self, size: u64) -> bool {
        self.offset.checked_add(self.len()).is_some_and(|end| end <= size)
    }
}

/// The number of program headers.
pub(super) struct Rows {
    pub offset: u64,
    pub len: usize,
    pub count: usize,
}

pub(super) fn is_elf(head: &[u8]) -> bool {
    head.starts_with(&elf::ELFMAG)
}

impl Header {
    /// The header at the beginning of a file.
    pub fn read(head: &[u8]) -> Sound<Self> {
        match head.get(4).copied().map(elf::FileClass) {
            Some(elf::ELFCLASS32) => Self::of::<Elf32>(head, Class::Bits32),
            Some(elf::ELFCLASS64) => Self::of::<Elf64>(head, Class::Bits64),
            Some(_) => Err(Fault::new("the ELF header names no known class")),
            None => Err(Fault::new("the file ends inside the ELF header")),
        }
    }

    fn of<E: FileHeader<Endian = Endianness>>(head: &[u8], class: Class) -> Sound<Self> {
        require(head.len() >= size_of::<E>(), "the file ends inside the ELF header")?;
        let header = E::parse(head).map_err(|_| Fault::new("the ELF header is of an unknown form"))?;
        let endian = header.endian().map_err(|_| Fault::new("the ELF header names no known byte order"))?;
        Ok(Self {
            class,
            endian: if endian == Endianness::Big { Endian::Big } else { Endian::Little },
            kind: header.e_type(endian),
            machine: header.e_machine(endian),
            flags: header.e_flags(endian).0,
            entry: header.e_entry(endian).into(),
            table: Table {
                offset: header.e_phoff(endian).into(),
                row: header.e_phentsize(endian),
                count: header.e_phnum(endian),
            },
            sections: Table {
                offset: header.e_shoff(endian).into(),
                row: header.e_shentsize(endian),
                count: header.e_shnum(endian),
            },
        })
    }

    pub fn endianness(&self) -> Endianness {
        match self.endian {
            Endian::Little => Endianness::Little,
            Endian::Big => Endianness::Big,
        }
    }

    /// Where the program headers are, for a file of `size` bytes that could be started or loaded.
    pub fn program_headers(&self, size: u64) -> Sound<Rows> {
        require(self.kind != elf::ET_REL, "an object file, not a program")?;
        require(self.kind != elf::ET_CORE, "a memory dump, not a program")?;
        require(matches!(self.kind, elf::ET_EXEC | elf::ET_DYN), "the ELF header names no known kind of file")?;
        let row = match self.class {
            Class::Bits32 => size_of::<<Elf32 as FileHeader>::ProgramHeader>(),
            Class::Bits64 => size_of::<<Elf64 as FileHeader>::ProgramHeader>(),
        };
        require(self.table.count != elf::PN_XNUM, "more program headers than Linux takes")?;
        require(self.table.count > 0, "no program headers")?;
        require(usize::from(self.table.row) == row, "program headers of a wrong size")?;
        require(self.table.len() <= LARGEST_TABLE, "more program headers than Linux takes")?;
        require(self.table.is_within(size), "the program headers lie outside the file: it is cut short")?;
        require(self.sections_fit(size), "the section headers lie outside the file: it is cut short")?;
        let count = usize::from(self.table.count);
        Ok(Rows { offset: self.table.offset, len: row * count, count })
    }

    /// Nothing here reads section headers, but they stand at the very end: where they are missing,
    /// so may be more.
    fn sections_fit(&self, size: u64) -> bool {
        self.sections.offset == 0 || self.sections.is_within(size)
    }
}
