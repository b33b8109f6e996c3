//! The dynamic section: what a loader is told to do, and where its tables are.

use object::elf;
use object::endian::Endianness;
use object::pod;
use object::read::elf::{Dyn, FileHeader};

use super::header::{Checked, Malformed};
use super::header::{Elf32, Elf64, ElfHeader};
use super::program::Class;

/// No program needs as many libraries.
const MOST_NEEDED: usize = 256;

const DT_RELRSZ: i64 = 35;
const DT_RELR: i64 = 36;
const DT_MIPS_SYMTABNO: i64 = 0x7000_0011;
const DT_AUXILIARY: i64 = 0x7fff_fffd;
const DT_FILTER: i64 = 0x7fff_ffff;

/// What the section says; names are offsets into the string table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Dynamic {
    pub needed: Vec<u64>,
    /// The address of the string table, and its length.
    pub strings: Option<u64>,
    pub strings_len: Option<u64>,
    pub soname: Option<u64>,
    pub rpath: Option<u64>,
    pub runpath: Option<u64>,
    pub flags: u64,
    pub flags_1: u64,
    pub tables: LoaderTables,
    /// Names the libraries that it stands before: an old way that linkers still know.
    pub is_filter: bool,
}

/// Where the tables of the loader are, by address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LoaderTables {
    pub symbols: Option<u64>,
    pub gnu_hash: Option<u64>,
    pub hash: Option<u64>,
    pub symbol_versions: Option<u64>,
    pub version_needs: Option<u64>,
    pub version_definitions: Option<u64>,
    pub with_addend: RelocationTable,
    pub without_addend: RelocationTable,
    /// What is bound when it is called first, unless all is bound at once.
    pub calls: RelocationTable,
    /// Whether the entries of `calls` have an addend: `DT_PLTREL`.
    pub calls_kind: Option<u64>,
    pub has_packed_relative: bool,
    /// How many symbols there are, where the machine is MIPS: its loader goes through all of them.
    pub mips_symbols: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RelocationTable {
    pub address: Option<u64>,
    pub len: u64,
}

impl Dynamic {
    pub fn read(bytes: &[u8], header: &ElfHeader) -> Checked<Self> {
        let endian = header.endianness();
        match header.class {
            Class::Bits32 => Self::of(entries::<Elf32>(bytes), endian),
            Class::Bits64 => Self::of(entries::<Elf64>(bytes), endian),
        }
    }

    fn of<D: Dyn<Endian = Endianness>>(entries: &[D], endian: Endianness) -> Checked<Self> {
        let mut dynamic = Self::default();
        for entry in entries {
            match entry.d_tag(endian) {
                elf::DT_NULL => return Ok(dynamic),
                tag => dynamic.add(tag, entry.val(endian))?,
            }
        }
        Err(Malformed::new("the dynamic section has no end"))
    }

    fn add(&mut self, tag: elf::DynamicTag, value: u64) -> Checked<()> {
        match tag {
            elf::DT_NEEDED if self.needed.len() == MOST_NEEDED => {
                return Err(Malformed::new("the dynamic section needs an implausible number of libraries"));
            }
            elf::DT_NEEDED => self.needed.push(value),
            elf::DT_STRTAB => self.strings = Some(value),
            elf::DT_STRSZ => self.strings_len = Some(value),
            elf::DT_SONAME => self.soname = Some(value),
            elf::DT_RPATH => self.rpath = Some(value),
            elf::DT_RUNPATH => self.runpath = Some(value),
            elf::DT_FLAGS => self.flags |= value,
            elf::DT_BIND_NOW => self.flags |= elf::DF_BIND_NOW.0,
            elf::DT_FLAGS_1 => self.flags_1 = value,
            elf::DynamicTag(DT_AUXILIARY | DT_FILTER) => self.is_filter = true,
            tag => self.tables.add(tag, value),
        }
        Ok(())
    }

    /// The linker says that it is a program.
    pub const fn is_pie(&self) -> bool {
        self.flags_1 & elf::DF_1_PIE.0 != 0
    }

    /// The address of a name. `None` where the section does not say, or says nonsense.
    pub fn address_of(&self, name: u64) -> Option<u64> {
        let inside = self.strings_len.is_none_or(|len| name < len);
        self.strings?.checked_add(name).filter(|_| inside)
    }
}

impl LoaderTables {
    fn add(&mut self, tag: elf::DynamicTag, value: u64) {
        match tag {
            elf::DT_SYMTAB => self.symbols = Some(value),
            elf::DT_GNU_HASH => self.gnu_hash = Some(value),
            elf::DT_HASH => self.hash = Some(value),
            elf::DT_VERSYM => self.symbol_versions = Some(value),
            elf::DT_VERNEED => self.version_needs = Some(value),
            elf::DT_VERDEF => self.version_definitions = Some(value),
            elf::DT_RELA => self.with_addend.address = Some(value),
            elf::DT_RELASZ => self.with_addend.len = value,
            elf::DT_REL => self.without_addend.address = Some(value),
            elf::DT_RELSZ => self.without_addend.len = value,
            elf::DT_JMPREL => self.calls.address = Some(value),
            elf::DT_PLTRELSZ => self.calls.len = value,
            elf::DT_PLTREL => self.calls_kind = Some(value),
            elf::DynamicTag(DT_RELR | DT_RELRSZ) => self.has_packed_relative = true,
            elf::DynamicTag(DT_MIPS_SYMTABNO) => self.mips_symbols = Some(value),
            _ => {}
        }
    }

    /// All of them, by address.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        let plain = [
            self.symbols,
            self.gnu_hash,
            self.hash,
            self.symbol_versions,
            self.version_needs,
            self.version_definitions,
        ];
        let relocations = [self.with_addend, self.without_addend, self.calls].map(|table| table.address);
        plain.into_iter().chain(relocations).flatten()
    }
}

/// As many entries as there are whole ones.
fn entries<E: FileHeader>(bytes: &[u8]) -> &[E::Dyn] {
    let count = bytes.len() / size_of::<E::Dyn>();
    pod::slice_from_bytes(bytes, count).map_or(&[], |(entries, _)| entries)
}
