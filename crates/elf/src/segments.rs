//! The program headers: what is loaded where, and where interpreter, dynamic section and notes are.

use object::elf;
use object::endian::Endianness;
use object::pod;
use object::read::elf::{FileHeader, ProgramHeader};

use super::header::{Checked, Malformed, require};
use super::header::{Elf32, Elf64, ElfHeader};
use super::program::Class;

/// Linux accepts no longer interpreter name.
const LONGEST_INTERPRETER: u64 = 4096;
/// Far beyond what any linker writes.
const LARGEST_DYNAMIC: u64 = 64 << 10;
/// Of notes only the first bytes are read: Go's is alone in its segment, or among a few small ones.
const NOTE: u64 = 256;

/// A part of the file, within its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FilePart {
    pub offset: u64,
    pub len: usize,
}

/// A segment that is mapped into memory.
#[derive(Debug, Clone, Copy)]
struct LoadSegment {
    offset: u64,
    address: u64,
    in_file: u64,
    in_memory: u64,
    access: SegmentAccess,
}

/// What a program may do with a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentAccess {
    pub is_code: bool,
    pub is_writable: bool,
}

/// Bytes of the file that are loaded, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LoadedPart {
    pub offset: u64,
    pub len: u64,
    pub address: u64,
    pub access: SegmentAccess,
    /// How many bytes it takes in memory.
    pub in_memory: u64,
}

/// The program headers, checked against the size of the file and against each other.
#[derive(Debug, Clone, Default)]
pub(super) struct Segments {
    loads: Vec<LoadSegment>,
    pub interpreter: Option<FilePart>,
    pub dynamic: Option<FilePart>,
    dynamic_address: u64,
    pub notes: Vec<FilePart>,
}

/// One row, whatever its class.
struct SegmentRow {
    kind: elf::ProgramType,
    load: LoadSegment,
}

impl Segments {
    pub fn read(bytes: &[u8], count: usize, header: &ElfHeader, size: u64) -> Checked<Self> {
        let rows = match header.class {
            Class::Bits32 => rows::<Elf32>(bytes, count, header.endianness()),
            Class::Bits64 => rows::<Elf64>(bytes, count, header.endianness()),
        };
        let mut segments = Self::default();
        for row in rows? {
            segments.add(&row, size)?;
        }
        require(!segments.loads.is_empty(), "it has no loadable segment")?;
        segments.check_overlap()?;
        segments.check_dynamic_is_loaded()?;
        Ok(segments)
    }

    fn add(&mut self, row: &SegmentRow, size: u64) -> Checked<()> {
        let load = row.load;
        match row.kind {
            elf::PT_LOAD => {
                load.part(size)?;
                require(load.in_file <= load.in_memory, "a segment is larger in the file than in memory")?;
                require(load.address.checked_add(load.in_memory).is_some(), "a segment ends beyond the address space")?;
                self.loads.push(load);
            }
            elf::PT_INTERP => {
                require(self.interpreter.is_none(), "it names two interpreters")?;
                require(
                    (2..=LONGEST_INTERPRETER).contains(&load.in_file),
                    "the length of the interpreter's name is invalid",
                )?;
                self.interpreter = Some(load.part(size)?);
            }
            elf::PT_DYNAMIC => {
                require(self.dynamic.is_none(), "it has two dynamic sections")?;
                require(load.in_file <= LARGEST_DYNAMIC, "the size of the dynamic section is invalid")?;
                self.dynamic = Some(load.part(size)?);
                self.dynamic_address = load.address;
            }
            elf::PT_NOTE => {
                let first = LoadSegment { in_file: load.in_file.min(NOTE), ..load };
                self.notes.push(first.part(size)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// Two segments over the same addresses: what is in memory is then not what the file has.
    fn check_overlap(&self) -> Checked<()> {
        let mut spans: Vec<(u64, u64)> =
            self.loads.iter().map(|load| (load.address, load.address.saturating_add(load.in_memory))).collect();
        spans.retain(|(from, to)| from < to);
        spans.sort_unstable();
        let apart = spans.windows(2).all(|pair| matches!(pair, [(_, end), (next, _)] if end <= next));
        require(apart, "segments overlap in memory")
    }

    /// A loader reads the dynamic section where it is in memory, we where it is in the file.
    fn check_dynamic_is_loaded(&self) -> Checked<()> {
        let Some(dynamic) = self.dynamic else { return Ok(()) };
        let loaded = self.offset_of(self.dynamic_address) == Some(dynamic.offset);
        require(loaded, "the dynamic section is not where the loader will look for it")
    }

    /// What is loaded, in the order of the addresses.
    pub fn loaded(&self) -> Vec<LoadedPart> {
        let part = |load: &LoadSegment| LoadedPart {
            offset: load.offset,
            len: load.in_file,
            address: load.address,
            access: load.access,
            in_memory: load.in_memory,
        };
        let mut parts: Vec<LoadedPart> = self.loads.iter().map(part).collect();
        parts.sort_unstable_by_key(|part| part.address);
        parts
    }

    /// Where what is loaded at `address` is in the file, with all that follows it in its segment.
    pub fn rest_at(&self, address: u64) -> Option<FilePart> {
        self.loads.iter().find_map(|load| {
            let inside = address.checked_sub(load.address).filter(|inside| *inside < load.in_file)?;
            let len = usize::try_from(load.in_file - inside).ok()?;
            Some(FilePart { offset: load.offset.checked_add(inside)?, len })
        })
    }

    /// Where in the file the first segment ends.
    pub fn first_end(&self) -> u64 {
        let first = self.loads.iter().min_by_key(|load| load.offset);
        first.map_or(0, |load| load.offset.saturating_add(load.in_file))
    }

    /// The offset in the file of the byte that is loaded at `address`.
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        self.loads.iter().find_map(|load| {
            let inside = address.checked_sub(load.address).filter(|inside| *inside < load.in_file)?;
            load.offset.checked_add(inside)
        })
    }
}

impl LoadSegment {
    fn part(self, size: u64) -> Checked<FilePart> {
        let outside = || Malformed::new("a segment is outside the file: it is truncated");
        self.offset.checked_add(self.in_file).filter(|end| *end <= size).ok_or_else(outside)?;
        Ok(FilePart { offset: self.offset, len: usize::try_from(self.in_file).map_err(|_| outside())? })
    }
}

fn rows<E: FileHeader<Endian = Endianness>>(
    bytes: &[u8],
    count: usize,
    endian: Endianness,
) -> Checked<Vec<SegmentRow>> {
    let (rows, _) = pod::slice_from_bytes::<E::ProgramHeader>(bytes, count)
        .map_err(|()| Malformed::new("the program headers cannot be read"))?;
    Ok(rows.iter().map(|row| SegmentRow::of(row, endian)).collect())
}

impl SegmentRow {
    fn of<P: ProgramHeader<Endian = Endianness>>(row: &P, endian: Endianness) -> Self {
        let load = LoadSegment {
            offset: row.p_offset(endian).into(),
            address: row.p_vaddr(endian).into(),
            in_file: row.p_filesz(endian).into(),
            in_memory: row.p_memsz(endian).into(),
            access: SegmentAccess {
                is_code: row.p_flags(endian).0 & elf::PF_X.0 != 0,
                is_writable: row.p_flags(endian).0 & elf::PF_W.0 != 0,
            },
        };
        Self { kind: row.p_type(endian), load }
    }
}
