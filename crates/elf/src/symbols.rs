//! The symbols of a file as its loader reads them: definitions through the hash table, uses through the
//! relocations. So a symbol that no loader would look at is not here either.
//!
//! System V ABI (`.dynsym`, `.hash`, relocations); GNU's hash table as glibc reads it.

use std::collections::BTreeMap;

use object::elf;

use super::dynamic::{Dynamic, LoaderTables, RelocationTable};
use super::dynamic_facts::{
    BoundWhen, NameHash, SymbolDefinitions, SymbolKind, SymbolUse, VersionDefinition, VersionNeed,
};
use super::header::ElfHeader;
use super::program::{Class, Endian};
use super::segments::Segments;
use super::versions;
use super::window::Window;

/// Longer names are not kept: C++ has some of a few thousand bytes.
const LONGEST_NAME: usize = 32 << 10;
/// Bytes of all names that one file uses.
const MOST_NAMES: usize = 8 << 20;

/// Numbers in a table, in the byte order of the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableView<'a> {
    bytes: &'a [u8],
    class: Class,
    endian: Endian,
}

impl TableView<'_> {
    fn part<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.bytes.get(at..)?.first_chunk().copied()
    }

    pub fn u8(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    pub fn u16(&self, at: usize) -> Option<u16> {
        let bytes = self.part(at)?;
        Some(if self.endian == Endian::Little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    }

    pub fn u32(&self, at: usize) -> Option<u32> {
        let bytes = self.part(at)?;
        Some(if self.endian == Endian::Little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    fn u64(&self, at: usize) -> Option<u64> {
        let bytes = self.part(at)?;
        Some(if self.endian == Endian::Little { u64::from_le_bytes(bytes) } else { u64::from_be_bytes(bytes) })
    }

    /// A number as wide as an address.
    fn word(&self, at: usize) -> Option<u64> {
        match self.class {
            Class::Bits32 => self.u32(at).map(u64::from),
            Class::Bits64 => self.u64(at),
        }
    }

    fn cut(self, len: u64) -> Option<Self> {
        Some(Self { bytes: self.bytes.get(..usize::try_from(len).ok()?)?, ..self })
    }
}

/// Everything that is in tables.
#[derive(Debug, Default)]
pub(super) struct SymbolFacts {
    pub version_needs: Vec<VersionNeed>,
    pub version_definitions: Vec<VersionDefinition>,
    pub uses: Vec<SymbolUse>,
    pub defines: SymbolDefinitions,
}

/// The parts of a file that lead to its tables.
#[derive(Clone, Copy)]
pub(super) struct SymbolSource<'a> {
    pub header: &'a ElfHeader,
    pub segments: &'a Segments,
    pub dynamic: &'a Dynamic,
    pub window: &'a Window,
}

/// The tables that every symbol is looked up in.
struct SymbolReader<'a> {
    source: SymbolSource<'a>,
    names: Option<TableView<'a>>,
    symbols: Option<TableView<'a>>,
    versions: Option<TableView<'a>>,
    chains: Option<HashChains<'a>>,
}

/// The hashes of symbols in GNU's table, from the first symbol on that it has.
#[derive(Debug, Clone, Copy)]
struct HashChains<'a> {
    table: TableView<'a>,
    first: usize,
}

/// One row of the symbol table.
#[derive(Debug, Clone, Copy)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
}

const WEAK: u8 = 2;
const UNIQUE: u8 = 10;
const TLS: u8 = 6;
/// Not typed, object, function, common, TLS, IFUNC: what glibc's loader binds to.
const BOUND_TYPES: u16 = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 5 | 1 << 6 | 1 << 10;
const ABSOLUTE: u16 = 0xfff1;

impl Symbol {
    const fn binding(self) -> u8 {
        self.info >> 4
    }

    /// Seen from outside: default or protected.
    const fn is_visible(self) -> bool {
        matches!(self.other & 3, 0 | 3)
    }

    const fn kind(self) -> SymbolKind {
        match self.info & 0xf {
            0 => SymbolKind::Any,
            TLS => SymbolKind::ThreadLocal,
            _ => SymbolKind::Shared,
        }
    }

    /// Whether another file can be bound to it.
    fn is_definition(self) -> bool {
        let kind = self.info & 0xf;
        let has_value = self.value != 0 || self.section == ABSOLUTE || kind == TLS;
        matches!(self.binding(), 1 | WEAK | UNIQUE)
            && self.is_visible()
            && self.section != 0
            && has_value
            && BOUND_TYPES >> kind & 1 == 1
    }

    /// Whether the loader fails where nobody defines it.
    fn must_be_found(self) -> bool {
        self.section == 0 && matches!(self.binding(), 1 | UNIQUE) && self.is_visible()
    }
}

/// How the relocations of a file use a symbol.
#[derive(Debug, Clone, Copy, Default)]
struct RelocationUse {
    is_started: bool,
    is_copied: bool,
}

impl<'a> SymbolSource<'a> {
    /// `None` where something that a loader reads could not be read.
    pub fn read(self) -> Option<SymbolFacts> {
        let (dynamic, tables) = (self.dynamic, &self.dynamic.tables);
        let names = dynamic.strings.and_then(|at| self.at(at)?.cut(dynamic.strings_len?));
        let symbols = tables.symbols.and_then(|at| self.at(at));
        let versions = tables.symbol_versions.and_then(|at| self.at(at));
        let chains = tables.gnu_hash.and_then(|at| gnu_chains(self.at(at)?));
        SymbolReader { source: self, names, symbols, versions, chains }.read()
    }

    /// The bytes that are loaded at an address, as far as they are kept.
    fn at(self, address: u64) -> Option<TableView<'a>> {
        let part = self.segments.rest_at(address)?;
        let bytes = self.window.run(part.offset, part.len);
        Some(TableView { bytes, class: self.header.class, endian: self.header.endian })
    }
}

impl<'a> SymbolReader<'a> {
    fn read(&self) -> Option<SymbolFacts> {
        let tables = &self.source.dynamic.tables;
        let names = |name: u32| self.name(name).map(|name| String::from_utf8_lossy(name).into_owned());
        let version_needs =
            tables.version_needs.map_or(Some(Vec::new()), |at| versions::needs(self.at(at)?, &names))?;
        let version_definitions =
            tables.version_definitions.map_or(Some(Vec::new()), |at| versions::definitions(self.at(at)?, &names))?;
        Some(SymbolFacts {
            version_needs,
            version_definitions,
            uses: self.uses(tables)?,
            defines: self.defines(tables)?,
        })
    }

    fn at(&self, address: u64) -> Option<TableView<'a>> {
        self.source.at(address)
    }

    fn name(&self, name: u32) -> Option<&'a [u8]> {
        let text = self.names?.bytes.get(usize::try_from(name).ok()?..)?;
        let end = memchr::memchr(0, text).filter(|end| *end <= LONGEST_NAME)?;
        text.get(..end)
    }

    fn defines(&self, tables: &LoaderTables) -> Option<SymbolDefinitions> {
        // A loader reads it without asking whether it is there.
        let symbols = self.symbols?;
        let hashed = match (tables.gnu_hash, tables.hash) {
            (Some(hash), _) => gnu_hashed(self.at(hash)?)?,
            // There entries are as wide as addresses, which no other machine does.
            (None, Some(_)) if self.source.header.machine == elf::EM_S390 => return None,
            (None, Some(hash)) => 1..usize::try_from(self.at(hash)?.u32(4)?).ok()?,
            (None, None) => match tables.mips_symbols {
                Some(count) => 1..usize::try_from(count).ok()?,
                None => 0..0,
            },
        };
        // A count that the file does not have would otherwise be believed.
        if hashed.end > symbols.bytes.len() / row_len(symbols.class) {
            return None;
        }
        let mut found = Vec::new();
        for at in hashed {
            let symbol = symbol(symbols, at)?;
            if symbol.is_definition() {
                let name = self.name(symbol.name)?;
                if self.is_reached(at, name) {
                    let is_local = symbol.kind() == SymbolKind::ThreadLocal;
                    let mark = if is_local { SymbolDefinitions::THREAD_LOCAL } else { 0 };
                    let version = self.version(tables, at)?;
                    if version & SymbolDefinitions::THREAD_LOCAL != 0 {
                        return None;
                    }
                    found.push((NameHash::of(name), version | mark));
                }
            }
        }
        Some(SymbolDefinitions::new(found.into_iter()))
    }

    /// Whether who looks for a name in the hash table comes to this symbol. A name that was changed afterwards is
    /// there, and is not found.
    fn is_reached(&self, at: usize, name: &[u8]) -> bool {
        let Some(chains) = self.chains else { return true };
        let hash = at.checked_sub(chains.first).and_then(|row| chains.table.u32(row.checked_mul(4)?));
        hash.is_some_and(|hash| hash | 1 == gnu_hash(name) | 1)
    }

    /// The raw version of a symbol; 1, the one without a name, where the file has no versions.
    fn version(&self, tables: &LoaderTables, symbol: usize) -> Option<u16> {
        match tables.symbol_versions {
            Some(_) => self.versions?.u16(symbol.checked_mul(2)?),
            None => Some(1),
        }
    }

    fn uses(&self, tables: &LoaderTables) -> Option<Vec<SymbolUse>> {
        let mut used: BTreeMap<usize, RelocationUse> = BTreeMap::new();
        self.relocations(tables.with_addend, Addend::Stored, BoundWhen::Started, &mut used)?;
        self.relocations(tables.without_addend, Addend::InPlace, BoundWhen::Started, &mut used)?;
        let addend = if tables.calls_kind == Some(7) { Addend::Stored } else { Addend::InPlace };
        self.relocations(tables.calls, addend, BoundWhen::Called, &mut used)?;
        for at in 1..tables.mips_symbols.map_or(0, |count| usize::try_from(count).unwrap_or(usize::MAX)) {
            self.symbol(at)?;
            used.entry(at).or_default().is_started = true;
        }
        let mut found = Vec::new();
        let mut len = 0_usize;
        for (at, by) in used {
            let symbol = self.symbol(at)?;
            let is_lost = || symbol.is_definition() && !self.is_reached(at, self.name(symbol.name).unwrap_or_default());
            if symbol.must_be_found() || (symbol.binding() != WEAK && (by.is_copied || is_lost())) {
                let name = self.name(symbol.name)?;
                len = len.saturating_add(name.len());
                let version = self.version(tables, at)? & 0x7fff;
                let bound = if by.is_started { BoundWhen::Started } else { BoundWhen::Called };
                let name = String::from_utf8_lossy(name).into_owned();
                found.push(SymbolUse { name, version, bound, is_copied: by.is_copied, kind: symbol.kind() });
            }
        }
        (len <= MOST_NAMES).then_some(found)
    }

    fn symbol(&self, at: usize) -> Option<Symbol> {
        symbol(self.symbols?, at)
    }

    fn relocations(
        &self,
        table: RelocationTable,
        addend: Addend,
        bound: BoundWhen,
        used: &mut BTreeMap<usize, RelocationUse>,
    ) -> Option<()> {
        let Some(address) = table.address.filter(|_| table.len > 0) else { return Some(()) };
        let rows = self.at(address)?.cut(table.len)?;
        let word = if rows.class == Class::Bits64 { 8 } else { 4 };
        let row = word * if addend == Addend::Stored { 3 } else { 2 };
        let copy = copy_relocation(self.source.header.machine);
        for at in (0..rows.bytes.len() / row).map(|number| number * row) {
            let (symbol, kind) = self.relocated(rows, at + word)?;
            if symbol != 0 && kind != 0 {
                let by = used.entry(symbol).or_default();
                by.is_started |= bound == BoundWhen::Started;
                by.is_copied |= kind == copy;
            }
        }
        Some(())
    }

    /// The symbol and the kind of a relocation.
    fn relocated(&self, rows: TableView<'_>, at: usize) -> Option<(usize, u32)> {
        let info = rows.word(at)?;
        let (symbol, kind) = match (rows.class, self.source.header.machine, rows.endian) {
            (Class::Bits32, ..) => (info >> 8, info & 0xff),
            // There it is a number of 32 bits and four of 8, each in the order of the file.
            (Class::Bits64, elf::EM_MIPS, Endian::Little) => (info & 0xffff_ffff, info >> 56),
            (Class::Bits64, elf::EM_MIPS, Endian::Big) => (info >> 32, info & 0xff),
            (Class::Bits64, ..) => (info >> 32, info & 0xffff_ffff),
        };
        Some((usize::try_from(symbol).ok()?, u32::try_from(kind).ok()?))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Addend {
    Stored,
    InPlace,
}

const fn row_len(class: Class) -> usize {
    match class {
        Class::Bits32 => 16,
        Class::Bits64 => 24,
    }
}

fn symbol(symbols: TableView<'_>, at: usize) -> Option<Symbol> {
    let row = at.checked_mul(row_len(symbols.class))?;
    let (info, other, section, value) = match symbols.class {
        Class::Bits32 => (12, 13, 14, 4),
        Class::Bits64 => (4, 5, 6, 8),
    };
    Some(Symbol {
        name: symbols.u32(row)?,
        info: symbols.u8(row.checked_add(info)?)?,
        other: symbols.u8(row + other)?,
        section: symbols.u16(row + section)?,
        value: symbols.word(row + value)?,
    })
}

fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)))
}

fn gnu_chains(table: TableView<'_>) -> Option<HashChains<'_>> {
    let number = |at| table.u32(at).and_then(|number| usize::try_from(number).ok());
    let word = if table.class == Class::Bits64 { 8 } else { 4 };
    let at = number(8)?.checked_mul(word)?.checked_add(number(0)?.checked_mul(4)?)?.checked_add(16)?;
    Some(HashChains { table: TableView { bytes: table.bytes.get(at..)?, ..table }, first: number(4)? })
}

/// The symbols that GNU's hash table leads to: from its first to the end of the last chain.
fn gnu_hashed(table: TableView<'_>) -> Option<std::ops::Range<usize>> {
    let number = |at| table.u32(at).and_then(|number| usize::try_from(number).ok());
    let (buckets, first, bloom) = (number(0)?, number(4)?, number(8)?);
    let word = if table.class == Class::Bits64 { 8 } else { 4 };
    let buckets_at = bloom.checked_mul(word)?.checked_add(16)?;
    let chains_at = buckets.checked_mul(4)?.checked_add(buckets_at)?;
    let heads = table.bytes.get(buckets_at..chains_at)?;
    let heads = TableView { bytes: heads, ..table };
    let last = (0..buckets).filter_map(|bucket| heads.u32(bucket * 4)).max().unwrap_or(0);
    let mut last = usize::try_from(last).ok()?;
    if last < first {
        return Some(0..0);
    }
    loop {
        let chain = table.u32((last - first).checked_mul(4)?.checked_add(chains_at)?)?;
        last += 1;
        if chain & 1 == 1 {
            return Some(first..last);
        }
    }
}

/// The relocation that copies what a library has into the program. A number that no relocation has where the
/// machine has none.
const fn copy_relocation(machine: elf::Machine) -> u32 {
    match machine {
        elf::EM_X86_64 | elf::EM_386 => 5,
        elf::EM_AARCH64 => 1024,
        elf::EM_ARM => 20,
        elf::EM_PPC64 => 19,
        elf::EM_S390 => 9,
        elf::EM_RISCV | elf::EM_LOONGARCH => 4,
        elf::EM_MIPS => 126,
        _ => u32::MAX,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::DynamicFacts;
    use crate::testing::{BASE, DYN, FORMS, TestElf, probe};

    const STRINGS: &[u8] = b"\0f\0g\0V1\0liba.so\0";

    /// Numbers one behind the other, each with its width.
    fn numbers(file: &TestElf, fields: &[(u64, usize)]) -> Vec<u8> {
        let number = |(value, len): &(u64, usize)| match file.endian {
            Endian::Little => value.to_le_bytes()[..*len].to_vec(),
            Endian::Big => value.to_be_bytes()[8 - len..].to_vec(),
        };
        fields.iter().flat_map(number).collect()
    }

    fn row(file: &TestElf, name: u64, info: u64, section: u64, value: u64) -> Vec<u8> {
        match file.class {
            Class::Bits32 => numbers(file, &[(name, 4), (value, 4), (0, 4), (info, 1), (0, 1), (section, 2)]),
            Class::Bits64 => numbers(file, &[(name, 4), (info, 1), (0, 1), (section, 2), (value, 8), (0, 8)]),
        }
    }

    /// A library that calls `f` of version V1 of liba.so, and has `g`.
    fn library(class: Class, endian: Endian) -> TestElf {
        let mut file = TestElf { class, endian, entry: 0, ..TestElf::new(DYN) };
        let word = file.word(0).len();
        let info = if class == Class::Bits64 { 1 << 32 | 7 } else { 1 << 8 | 7 };
        let tables = [
            STRINGS.to_vec(),
            [row(&file, 0, 0, 0, 0), row(&file, 1, 0x12, 0, 0), row(&file, 3, 0x11, 1, 64)].concat(),
            numbers(&file, &[(1, 4), (3, 4), (1, 4), (0, 4), (0, 4), (0, 4)]),
            numbers(&file, &[(0, 2), (2, 2), (1, 2)]),
            numbers(&file, &[(1, 2), (1, 2), (8, 4), (16, 4), (0, 4), (0, 4), (0, 2), (2, 2), (5, 4), (0, 4)]),
            numbers(&file, &[(64, word), (info, word), (0, word)]),
        ];
        let tags = [5, 6, 4, 0x6fff_fff0, 0x6fff_fffe, 23];
        let known = [(10, STRINGS.len() as u64), (2, tables[5].len() as u64), (20, 7)];
        file.tags = tags.iter().map(|tag| (*tag, 0)).chain(known).collect();
        let mut address = BASE + file.tail_offset();
        for (at, table) in tables.iter().enumerate() {
            file.tags[at].1 = address;
            address += table.len() as u64;
        }
        file.tail = [tables.concat(), vec![0; 64]].concat();
        file
    }

    fn facts(file: &TestElf) -> DynamicFacts {
        probe(&file.build()).dynamic.unwrap().as_ref().clone()
    }

    #[test]
    fn symbols_and_versions_are_read_in_every_class_and_byte_order() {
        for (class, endian) in FORMS {
            let facts = facts(&library(class, endian));
            assert!(facts.complete, "{class:?} {endian:?}");
            let used = SymbolUse {
                name: "f".to_owned(),
                version: 2,
                bound: BoundWhen::Called,
                is_copied: false,
                kind: SymbolKind::Shared,
            };
            assert_eq!(facts.uses, [used]);
            assert_eq!(facts.defines.versions(NameHash::of(b"g")).collect::<Vec<_>>(), [1]);
            assert_eq!(facts.defines.count(), 1);
            let [need] = facts.version_needs.as_slice() else { panic!("{facts:?}") };
            assert_eq!(
                (need.file.as_str(), need.versions[0].name.as_str(), need.versions[0].index),
                ("liba.so", "V1", 2)
            );
        }
    }

    #[test]
    fn a_table_that_is_not_there_makes_the_facts_incomplete() {
        for tag in [5, 6, 4, 0x6fff_fff0, 0x6fff_fffe, 23] {
            let mut file = library(Class::Bits64, Endian::Little);
            file.tags.iter_mut().filter(|(known, _)| *known == tag).for_each(|(_, value)| *value = BASE << 8);
            assert!(!facts(&file).complete, "{tag:#x}");
        }
        for (tag, value) in [(10, 3), (2, 1 << 40)] {
            let mut file = library(Class::Bits64, Endian::Little);
            file.tags.iter_mut().filter(|(known, _)| *known == tag).for_each(|(_, len)| *len = value);
            assert!(!facts(&file).complete, "{tag:#x}");
        }
    }

    proptest! {
        #[test]
        fn whatever_the_bytes_are_they_give_an_answer(changes in proptest::collection::vec((0_usize..600, any::<u8>()), 1..8)) {
            let mut bytes = library(Class::Bits64, Endian::Little).build();
            for (at, byte) in changes {
                let len = bytes.len();
                bytes[64 + at % (len - 64)] = byte;
            }
            let program = probe(&bytes);
            prop_assert!(program.dynamic.is_none_or(|facts| facts.uses.len() <= 8));
        }
    }
}
