//! What a dynamic loader reads of a program or a shared object, as far as it decides whether it can be started.
//!
//! The rule it owns: what could not be read makes the facts incomplete, never the file harmless. Kept in the
//! index of a layer, so symbols that a file defines are kept as a part of the SHA-256 of their names: 8 bytes
//! in place of 30 on average. Two of a million names share them with a probability of 1 : 30 million; whoever
//! makes two names that do must write both the file that needs the one and the file that has the other, and
//! could as well have given the symbol its right name.

use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// What the loader reads of one file. Names that cannot be read make it incomplete.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DynamicFacts {
    pub soname: Option<String>,
    /// Directories for the libraries of this file and of those that it loads.
    pub rpath: Option<String>,
    /// Directories for the libraries of this file alone.
    pub runpath: Option<String>,
    pub flags: LinkFlags,
    pub version_needs: Vec<VersionNeed>,
    pub version_definitions: Vec<VersionDefinition>,
    /// Symbols that must be found for it to start, or when it calls them.
    pub uses: Vec<SymbolUse>,
    pub defines: SymbolDefinitions,
    pub abi: Option<AbiNote>,
    /// The levels of x86-64 without which the loader refuses it, one bit each from the baseline on.
    pub isa_needed: u32,
    /// What it says of itself if it is a loader.
    pub loader: Option<LoaderFacts>,
    /// The build of glibc that it is a part of: `Debian GLIBC 2.36-9+deb12u14`, `2.36`.
    pub glibc_release: Option<String>,
    /// False where a table or a name could not be read, or a limit was reached: then nothing is proven.
    pub complete: bool,
}

/// What the linker asks of the loader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkFlags(u16);

impl LinkFlags {
    /// All symbols are bound before it starts.
    pub const BIND_NOW: Self = Self(1);
    /// The default directories are not searched for its libraries.
    pub const NO_DEFAULT_DIRECTORIES: Self = Self(1 << 1);
    /// It is a program, and no other program can load it.
    pub const PIE: Self = Self(1 << 2);
    pub const STATIC_TLS: Self = Self(1 << 3);
    /// Its relative relocations are packed, which loaders before 2022 do not know.
    pub const PACKED_RELATIVE: Self = Self(1 << 4);
    /// Its symbols have versions.
    pub const VERSIONED: Self = Self(1 << 5);
    /// It stands before other libraries (`DT_FILTER`).
    pub const FILTER: Self = Self(1 << 6);
    /// It is at a fixed address, so that no other program can load it.
    pub const FIXED: Self = Self(1 << 7);
    /// Its header is one that glibc's loader does not accept of a library.
    pub const ODD_HEADER: Self = Self(1 << 8);
    /// Programs may not copy its protected data (`GNU_PROPERTY_1_NEEDED`).
    pub const NO_COPIES: Self = Self(1 << 9);

    #[must_use]
    pub const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    pub(super) fn of(flags: &[(Self, bool)]) -> Self {
        Self(flags.iter().filter(|(_, is_set)| *is_set).fold(0, |bits, (flag, _)| bits | flag.0))
    }
}

/// A file of which certain versions are needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionNeed {
    pub file: String,
    pub versions: Vec<NeededVersion>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeededVersion {
    pub name: String,
    /// The number that symbols of this version have in this file.
    pub index: u16,
    /// The loader does without.
    pub is_weak: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionDefinition {
    pub name: String,
    pub index: u16,
    /// The name of the file itself, which is no version of a symbol.
    pub is_base: bool,
}

/// A symbol that a file uses and does not define, or defines only to copy it from where it is (`copies`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SymbolUse {
    pub name: String,
    /// The index of its version; below 2 for none.
    pub version: u16,
    pub bound: BoundWhen,
    /// Its bytes are copied into the program, so that the program itself does not count as where it is.
    pub is_copied: bool,
    pub kind: SymbolKind,
}

/// What a file takes a symbol for that it uses. One that every thread has its own of is found and read in another way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SymbolKind {
    /// The file does not say.
    #[default]
    Any,
    Shared,
    ThreadLocal,
}

/// When a loader that binds lazily looks for a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoundWhen {
    Started,
    /// When it is called first.
    Called,
}

/// `NT_GNU_ABI_TAG`: the system and its oldest kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbiNote {
    /// 0 is Linux.
    pub system: u32,
    pub kernel: [u32; 3],
}

/// A dynamic loader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoaderFacts {
    pub kind: LoaderKind,
    /// The directories that it was built to search.
    pub directories: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoaderKind {
    Glibc,
    /// With the name of the machine in `/etc/ld-musl-NAME.path`.
    Musl(String),
}

/// The first bytes of the SHA-256 of a symbol's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameHash(pub [u8; HASH]);

const HASH: usize = 8;
const RECORD: usize = HASH + 2;

impl NameHash {
    #[must_use]
    pub fn of(name: &[u8]) -> Self {
        let digest = Sha256::digest(name);
        let mut hash = [0; HASH];
        hash.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
        Self(hash)
    }
}

/// The symbols that a file defines: the hash of the name and the raw version (bit 15: not the default one; bit 14, which
/// no version has: thread-local) of each, as sorted records, in which they are found without being taken apart.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SymbolDefinitions(Vec<u8>);

impl SymbolDefinitions {
    /// The bit of a version that says that the symbol is thread-local.
    pub const THREAD_LOCAL: u16 = 0x4000;

    pub fn new(symbols: impl Iterator<Item = (NameHash, u16)>) -> Self {
        let mut records: Vec<[u8; RECORD]> = symbols.map(|(hash, version)| record(hash, version)).collect();
        records.sort_unstable();
        records.dedup();
        Self(records.concat())
    }

    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len() / RECORD
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (NameHash, u16)> + '_ {
        self.records().iter().map(split)
    }

    /// The versions in which a symbol is defined.
    pub fn versions(&self, hash: NameHash) -> impl Iterator<Item = u16> + '_ {
        let records = self.records();
        let from = records.partition_point(|record| split(record).0 < hash);
        let there = records.get(from..).unwrap_or_default();
        there.iter().map(split).take_while(move |(other, _)| *other == hash).map(|(_, version)| version)
    }

    fn records(&self) -> &[[u8; RECORD]] {
        self.0.as_chunks().0
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

fn record(NameHash(hash): NameHash, version: u16) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    let bytes = hash.into_iter().chain(version.to_be_bytes());
    record.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    record
}

fn split(record: &[u8; RECORD]) -> (NameHash, u16) {
    let [hash @ .., high, low] = *record;
    (NameHash(hash), u16::from_be_bytes([high, low]))
}

impl fmt::Debug for SymbolDefinitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} symbols", self.count())
    }
}

impl Serialize for SymbolDefinitions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for SymbolDefinitions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(RecordsVisitor)
    }
}

struct RecordsVisitor;

impl Visitor<'_> for RecordsVisitor {
    type Value = SymbolDefinitions;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("records of symbols")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<SymbolDefinitions, E> {
        let (records, rest) = bytes.as_chunks::<RECORD>();
        if !rest.is_empty() || !records.is_sorted() {
            return Err(E::custom("records of symbols are not whole and sorted"));
        }
        Ok(SymbolDefinitions(bytes.to_vec()))
    }
}

impl DynamicFacts {
    /// About how many bytes the symbols and versions take.
    pub fn byte_len(&self) -> usize {
        let uses = self.uses.iter().map(|symbol| symbol.name.len() + size_of::<SymbolUse>());
        let needs = self.version_needs.iter().flat_map(|need| &need.versions).map(|version| version.name.len());
        let defined = self.version_definitions.iter().map(|version| version.name.len());
        self.defines.len() + uses.chain(needs).chain(defined).sum::<usize>()
    }

    /// These facts without symbols and versions: nothing is proven by it any more.
    #[must_use]
    pub fn without_symbols(&self) -> Self {
        Self {
            version_needs: Vec::new(),
            version_definitions: Vec::new(),
            uses: Vec::new(),
            defines: SymbolDefinitions::default(),
            complete: false,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_found_in_all_their_versions_and_others_are_not() {
        let hash = |name: &str| NameHash::of(name.as_bytes());
        let symbols = [("b", 2), ("a", 1), ("b", 0x8003), ("c", 0), ("b", 2)];
        let table = SymbolDefinitions::new(symbols.iter().map(|(name, version)| (hash(name), *version)));
        for (name, versions) in [("a", vec![1]), ("b", vec![2, 0x8003]), ("c", vec![0]), ("d", vec![])] {
            assert_eq!(table.versions(hash(name)).collect::<Vec<_>>(), versions, "{name}");
        }
        assert_eq!((table.count(), table.iter().count()), (4, 4));
        let bytes = postcard::to_stdvec(&table).unwrap();
        assert_eq!(bytes.len(), 1 + 4 * RECORD);
        assert_eq!(postcard::from_bytes::<SymbolDefinitions>(&bytes).unwrap(), table);
    }

    #[test]
    fn records_that_are_cut_or_not_sorted_are_refused() {
        let table = SymbolDefinitions::new((0..9_u8).map(|name| (NameHash::of(&[name]), 1)));
        let swapped: Vec<u8> = table.records().iter().rev().flatten().copied().collect();
        for wrong in [table.0[..15].to_vec(), swapped] {
            let bytes = postcard::to_stdvec(&SymbolDefinitions(wrong)).unwrap();
            assert!(postcard::from_bytes::<SymbolDefinitions>(&bytes).is_err());
        }
    }
}
