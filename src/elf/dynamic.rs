//! The dynamic section: what a loader is told to do.

use object::elf;
use object::endian::Endianness;
use object::pod;
use object::read::elf::{Dyn, FileHeader};

use super::header::{Checked, Malformed};
use super::header::{Elf32, Elf64, ElfHeader};
use super::program::Class;

/// No program needs as many libraries.
const MOST_NEEDED: usize = 256;

/// What the section says; names are offsets into the string table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Dynamic {
    pub needed: Vec<u64>,
    /// The address of the string table, and its length.
    pub strings: Option<u64>,
    pub strings_len: Option<u64>,
    pub has_soname: bool,
    /// The linker says that it is a program.
    pub is_pie: bool,
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
            elf::DT_SONAME => self.has_soname = true,
            elf::DT_FLAGS_1 => self.is_pie = value & elf::DF_1_PIE.0 != 0,
            _ => {}
        }
        Ok(())
    }

    /// The address of a library's name. `None` where the section does not say, or says nonsense.
    pub fn address_of(&self, name: u64) -> Option<u64> {
        let inside = self.strings_len.is_none_or(|len| name < len);
        self.strings?.checked_add(name).filter(|_| inside)
    }
}

/// As many entries as there are whole ones.
fn entries<E: FileHeader>(bytes: &[u8]) -> &[E::Dyn] {
    let count = bytes.len() / size_of::<E::Dyn>();
    pod::slice_from_bytes(bytes, count).map_or(&[], |(entries, _)| entries)
}
