//! The ELF header: what kind of file this is, for which machine, and where its program headers are.
//!
//! The limits are Linux's (`fs/binfmt_elf.c`): what it would not start is not a program. Machines are
//! named as OCI platforms and Go name them.

use std::mem::size_of;

use object::elf::{self, FileHeader32, FileHeader64};
use object::endian::Endianness;
use object::read::elf::FileHeader;

use super::program::{Class, Endian, FloatAbi};

/// The largest header: the 64-bit one.
pub(super) const LARGEST: usize = size_of::<FileHeader64<Endianness>>();
/// Linux accepts no larger table of program headers.
const LARGEST_TABLE: u64 = 64 << 10;

pub(super) type Elf32 = FileHeader32<Endianness>;
pub(super) type Elf64 = FileHeader64<Endianness>;

/// What the header says that has been checked against itself, not yet against the file.
#[derive(Debug, Clone)]
pub(super) struct ElfHeader {
    pub class: Class,
    pub endian: Endian,
    pub kind: elf::FileType,
    pub machine: elf::Machine,
    pub flags: u32,
    pub entry: u64,
    /// Whether glibc's loader maps a library with such a header; the kernel asks for less.
    pub is_usual: bool,
    table: HeaderTable,
    sections: HeaderTable,
}

/// A table of `count` rows in the file.
#[derive(Debug, Clone, Copy)]
struct HeaderTable {
    offset: u64,
    row: u16,
    count: u16,
}

impl HeaderTable {
    fn len(self) -> u64 {
        u64::from(self.row) * u64::from(self.count)
    }

    fn is_within(self, size: u64) -> bool {
        self.offset.checked_add(self.len()).is_some_and(|end| end <= size)
    }
}

/// The number of program headers.
pub(super) struct ProgramHeaderRange {
    pub offset: u64,
    pub len: usize,
    pub count: usize,
}

/// System, its version and padding as glibc accepts them (`elf/dl-load.c`): none, or GNU's with its first versions.
fn is_usual(head: &[u8], machine: elf::Machine) -> bool {
    const GNU: u8 = 3;
    const ARM_AEABI: u8 = 64;
    let Some(&[form, system, version, ref padding @ ..]) = head.get(6..16) else { return false };
    let is_system = matches!(system, 0 | GNU) || (system == ARM_AEABI && machine == elf::EM_ARM);
    let latest = match (system, machine) {
        (_, elf::EM_MIPS) => 5,
        (GNU, _) => 1,
        _ => 0,
    };
    form == 1 && is_system && version <= latest && padding.iter().all(|byte| *byte == 0)
}

pub(super) fn is_elf(head: &[u8]) -> bool {
    head.starts_with(&elf::ELFMAG)
}

impl ElfHeader {
    /// The header at the beginning of a file.
    pub fn read(head: &[u8]) -> Checked<Self> {
        match head.get(4).copied().map(elf::FileClass) {
            Some(elf::ELFCLASS32) => Self::of::<Elf32>(head, Class::Bits32),
            Some(elf::ELFCLASS64) => Self::of::<Elf64>(head, Class::Bits64),
            Some(_) => Err(Malformed::new("the ELF header has an unknown class")),
            None => Err(Malformed::new("the file ends inside the ELF header")),
        }
    }

    fn of<E: FileHeader<Endian = Endianness>>(head: &[u8], class: Class) -> Checked<Self> {
        require(head.len() >= size_of::<E>(), "the file ends inside the ELF header")?;
        let header = E::parse(head).map_err(|_| Malformed::new("the ELF header is invalid"))?;
        let endian = header.endian().map_err(|_| Malformed::new("the ELF header has an unknown byte order"))?;
        Ok(Self {
            class,
            endian: if endian == Endianness::Big { Endian::Big } else { Endian::Little },
            kind: header.e_type(endian),
            machine: header.e_machine(endian),
            flags: header.e_flags(endian).0,
            entry: header.e_entry(endian).into(),
            is_usual: header.e_version(endian) == 1 && is_usual(head, header.e_machine(endian)),
            table: HeaderTable {
                offset: header.e_phoff(endian).into(),
                row: header.e_phentsize(endian),
                count: header.e_phnum(endian),
            },
            sections: HeaderTable {
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
    pub fn program_headers(&self, size: u64) -> Checked<ProgramHeaderRange> {
        require(self.kind != elf::ET_REL, "an object file, not a program")?;
        require(self.kind != elf::ET_CORE, "a core dump, not a program")?;
        require(matches!(self.kind, elf::ET_EXEC | elf::ET_DYN), "the ELF header has an unknown file type")?;
        let row = match self.class {
            Class::Bits32 => size_of::<<Elf32 as FileHeader>::ProgramHeader>(),
            Class::Bits64 => size_of::<<Elf64 as FileHeader>::ProgramHeader>(),
        };
        require(self.table.count != elf::PN_XNUM, "more program headers than Linux accepts")?;
        require(self.table.count > 0, "it has no program headers")?;
        require(usize::from(self.table.row) == row, "the program headers have a wrong size")?;
        require(self.table.len() <= LARGEST_TABLE, "more program headers than Linux accepts")?;
        require(self.table.is_within(size), "the program headers are outside the file: it is truncated")?;
        require(self.sections_fit(size), "the section headers are outside the file: it is truncated")?;
        let count = usize::from(self.table.count);
        Ok(ProgramHeaderRange { offset: self.table.offset, len: row * count, count })
    }

    /// Where in the file the program headers end.
    pub fn program_headers_end(&self) -> u64 {
        self.table.offset.saturating_add(self.table.len())
    }

    pub fn has_sections(&self) -> bool {
        self.sections.offset != 0 && self.sections.count != 0
    }

    /// Nothing here reads section headers, but they are at the very end: where they are missing,
    /// so may be more.
    fn sections_fit(&self, size: u64) -> bool {
        self.sections.offset == 0 || self.sections.is_within(size)
    }
}

/// The name of the machine with this number, class and byte order.
pub(super) fn machine_name(machine: elf::Machine, class: Class, endian: Endian) -> String {
    use Class::{Bits32, Bits64};
    use Endian::{Big, Little};
    let word = match (machine, class, endian) {
        (elf::EM_X86_64, ..) => "amd64",
        (elf::EM_AARCH64, ..) => "arm64",
        (elf::EM_ARM, ..) => "arm",
        (elf::EM_386, ..) => "386",
        (elf::EM_PPC64, _, Little) => "ppc64le",
        (elf::EM_PPC64, _, Big) => "ppc64",
        (elf::EM_S390, Bits64, _) => "s390x",
        (elf::EM_RISCV, Bits64, _) => "riscv64",
        (elf::EM_LOONGARCH, Bits64, _) => "loong64",
        (elf::EM_MIPS, Bits64, Little) => "mips64le",
        (elf::EM_MIPS, Bits64, Big) => "mips64",
        (elf::EM_MIPS, Bits32, Little) => "mipsle",
        (elf::EM_MIPS, Bits32, Big) => "mips",
        _ => return format!("unknown({})", machine.0),
    };
    word.to_owned()
}

/// What the flags of an ARM file say. Go's linker sets none: its programs call no other code.
/// `.ARM.attributes` would say more, but the headers that locate it are at the end of the file.
pub(super) fn float_abi(machine: elf::Machine, flags: u32) -> Option<FloatAbi> {
    match flags & (elf::EF_ARM_ABI_FLOAT_HARD | elf::EF_ARM_ABI_FLOAT_SOFT) {
        _ if machine != elf::EM_ARM => None,
        elf::EF_ARM_ABI_FLOAT_HARD => Some(FloatAbi::Hard),
        elf::EF_ARM_ABI_FLOAT_SOFT => Some(FloatAbi::Soft),
        _ => None,
    }
}

/// One line for a person. Not an error: that a file is damaged is what was found out about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Malformed(pub String);

impl Malformed {
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

pub(super) type Checked<T> = Result<T, Malformed>;

/// Refuses what does not hold.
pub(super) fn require(holds: bool, otherwise: &str) -> Checked<()> {
    if holds { Ok(()) } else { Err(Malformed::new(otherwise)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_have_the_words_of_platforms() {
        use Class::{Bits32, Bits64};
        use Endian::{Big, Little};
        for (number, class, endian, expected) in [
            (62, Bits64, Little, "amd64"),
            (62, Bits32, Little, "amd64"),
            (183, Bits64, Little, "arm64"),
            (40, Bits32, Little, "arm"),
            (3, Bits32, Little, "386"),
            (21, Bits64, Little, "ppc64le"),
            (21, Bits64, Big, "ppc64"),
            (22, Bits64, Big, "s390x"),
            (22, Bits32, Big, "unknown(22)"),
            (243, Bits64, Little, "riscv64"),
            (243, Bits32, Little, "unknown(243)"),
            (258, Bits64, Little, "loong64"),
            (8, Bits64, Little, "mips64le"),
            (8, Bits64, Big, "mips64"),
            (8, Bits32, Little, "mipsle"),
            (8, Bits32, Big, "mips"),
            (20, Bits32, Big, "unknown(20)"),
            (0xffff, Bits64, Little, "unknown(65535)"),
        ] {
            assert_eq!(machine_name(elf::Machine(number), class, endian), expected);
        }
    }

    #[test]
    fn only_arm_has_a_float_abi_and_only_where_the_flags_agree() {
        for (machine, flags, expected) in [
            (elf::EM_ARM, 0x0500_0400, Some(FloatAbi::Hard)),
            (elf::EM_ARM, 0x0500_0202, Some(FloatAbi::Soft)),
            (elf::EM_ARM, 0x0500_0000, None),
            (elf::EM_ARM, 0x0500_0600, None),
            (elf::EM_X86_64, 0x400, None),
        ] {
            assert_eq!(float_abi(machine, flags), expected, "{flags:#x}");
        }
    }
}
