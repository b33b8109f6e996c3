//! The index of a layer: all that later stages, and later runs, need to know of it.
//!
//! Its bytes are kept in the cache: a magic number, a version, the index as `postcard` writes it, and the
//! digest of that. Bytes that are not exactly that are refused, and so count as a miss.

use serde::{Deserialize, Serialize};

use super::capture::Captured;
use super::entry::Entry;
use super::path::RootPath;
use elf::{Linkage, Probe, Program};
use oci::error::{Error, Result};
use oci::{Compression, DiffId, Digest};

const MARK: &[u8; 4] = b"UPLI";
/// Magic number and version.
const HEAD: usize = 8;

/// A layer that was read to its end; digest, size and diff id were checked against its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerIndex {
    /// The digest of the layer as stored in a registry.
    pub digest: Digest,
    /// Its size as stored in a registry.
    pub size: u64,
    pub diff_id: DiffId,
    /// The bytes of its tar stream.
    pub unpacked: u64,
    /// How it is really compressed, whatever its media type says.
    pub compression: Compression,
    /// In the order of the tar. A path can be there twice; see [`LayerIndex::find`].
    pub entries: Vec<Entry>,
    pub captured: Vec<Captured>,
    pub programs: Vec<IndexedProgram>,
    /// In the order of the entries; `None` where they were not asked for.
    pub digests: Option<Vec<FileDigest>>,
    /// What a person should know of the layer, one line each.
    pub notes: Vec<String>,
}

impl LayerIndex {
    /// Raised whenever the index of the same layer would have other bytes.
    pub const VERSION: u32 = 10;

    /// What this layer puts at `path`. Of several entries the last counts, as it does when a
    /// runtime unpacks them. Whiteouts are about lower layers and put nothing there.
    #[must_use]
    pub fn find(&self, path: &RootPath) -> Option<&Entry> {
        self.position(path).and_then(|at| self.entries.get(at))
    }

    /// The captured content of the file that this layer puts at `path`.
    #[must_use]
    pub fn content(&self, path: &RootPath) -> Option<&[u8]> {
        let at = self.position(path)?;
        self.captured.iter().find(|captured| captured.entry == at).map(|captured| captured.content.as_slice())
    }

    fn position(&self, path: &RootPath) -> Option<usize> {
        self.entries.iter().rposition(|entry| entry.path == *path && !entry.kind.is_marker())
    }

    /// Whether it says what `derived` says, which is of the same bytes under a media type that is not known: what the
    /// descriptor of a layer claimed about its compression is in a note, and nowhere else.
    #[must_use]
    pub fn agrees_with(&self, derived: &Self) -> bool {
        let notes = match self.notes.split_first() {
            Some((first, rest))
                if self.notes.len() > derived.notes.len() && first.contains(", but its media type is ") =>
            {
                rest
            }
            _ => &self.notes,
        };
        let without_notes = |index: &Self| Self { notes: Vec::new(), ..index.clone() };
        notes == derived.notes && without_notes(self) == without_notes(derived)
    }

    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = [MARK.as_slice(), &Self::VERSION.to_le_bytes()].concat();
        // Writing to memory cannot fail; were it to, the bytes would be refused as not an index.
        let mut bytes = postcard::to_extend(self, head).unwrap_or_default();
        let digest = Digest::of(bytes.get(HEAD..).unwrap_or_default());
        bytes.extend_from_slice(digest.hex().as_bytes());
        bytes
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let refuse = |why: &str| Error::input("not the index of a layer").cause(why);
        let rest = bytes.strip_prefix(MARK).ok_or_else(|| refuse("it does not begin as one"))?;
        let (version, rest) = rest.split_first_chunk::<4>().ok_or_else(|| refuse("it has no version"))?;
        if u32::from_le_bytes(*version) != Self::VERSION {
            return Err(refuse("it was written by another version of underpin"));
        }
        let (body, hex) = rest.split_last_chunk::<64>().ok_or_else(|| refuse("it has no digest"))?;
        if Digest::of(body).hex().as_bytes() != hex {
            return Err(refuse("its digest does not fit"));
        }
        let (index, rest) = postcard::take_from_bytes::<Self>(body).map_err(|error| refuse(&error.to_string()))?;
        let is_listed = |captured: &Captured| captured.entry < index.entries.len();
        if !rest.is_empty() || !index.captured.iter().all(is_listed) {
            return Err(refuse("its parts do not fit together"));
        }
        Ok(index)
    }
}

#[derive(Debug, Clone, Copy)]
pub struct LayerContents<'a> {
    pub entries: &'a [Entry],
    /// In the order of the entries, as `programs` are: both are searched often.
    pub captured: &'a [Captured],
    pub programs: &'a [IndexedProgram],
    pub digests: &'a [FileDigest],
}

impl<'a> From<&'a LayerIndex> for LayerContents<'a> {
    fn from(index: &'a LayerIndex) -> Self {
        Self {
            entries: &index.entries,
            captured: &index.captured,
            programs: &index.programs,
            digests: index.digests.as_deref().unwrap_or_default(),
        }
    }
}

impl<'a> LayerContents<'a> {
    /// The content of the entry at this position, where it was captured.
    #[must_use]
    pub fn content(&self, position: usize) -> Option<&'a [u8]> {
        let at = self.captured.binary_search_by_key(&position, |captured| captured.entry).ok()?;
        self.captured.get(at).map(|captured| captured.content.as_slice())
    }

    /// The digest of the file at this position, where it was taken.
    #[must_use]
    pub fn digest(&self, position: usize) -> Option<Digest> {
        let at = self.digests.binary_search_by_key(&position, |taken| taken.entry).ok()?;
        self.digests.get(at).map(|taken| taken.digest)
    }

    /// What was found out about the entry at this position, where it is a program or a script.
    #[must_use]
    pub fn program(&self, position: usize) -> Option<&'a elf::Program> {
        let at = self.programs.binary_search_by_key(&position, |inspected| inspected.entry).ok()?;
        self.programs.get(at).map(|inspected| &inspected.program)
    }
}

/// The SHA-256 of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDigest {
    /// The entry's place in the layer's list.
    pub entry: usize,
    pub digest: Digest,
}

/// Whether the digest of each file is taken. It takes as long as that of the whole layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum FileDigests {
    #[default]
    LeftOut,
    Wanted,
}

/// A file that is a program, a script, or looks like a program and is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexedProgram {
    /// The entry's place in the layer's list.
    pub entry: usize,
    pub program: Program,
}

impl IndexedProgram {
    /// `None` for plain data: most files of most layers, and nothing to say about them.
    pub(super) fn new(entry: usize, probe: Probe) -> Option<Self> {
        let program = probe.finish();
        let is_data = program.linkage == Linkage::Other && program.notes.is_empty();
        (!is_data).then_some(Self { entry, program })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{TestMember, index_of};

    fn rich() -> LayerIndex {
        index_of(&[
            TestMember::directory("etc"),
            TestMember::file("etc/passwd", b"root:x:0:0::/:\n"),
            TestMember::symlink("bin", "usr/bin"),
            TestMember::hardlink("b", "etc/passwd"),
            TestMember::file("etc/passwd", b"other\n"),
            TestMember::file("etc/.wh.shadow", b""),
            TestMember::file("etc/.wh.passwd", b""),
        ])
    }

    /// An index with a valid frame around whatever `body` is.
    fn framed(body: &[u8]) -> Vec<u8> {
        [MARK.as_slice(), &LayerIndex::VERSION.to_le_bytes(), body, Digest::of(body).hex().as_bytes()].concat()
    }

    #[test]
    fn bytes_come_back_as_the_same_index() {
        let index = rich();
        assert_eq!(LayerIndex::from_bytes(&index.to_bytes()).unwrap(), index);
    }

    #[test]
    fn the_last_entry_of_a_path_counts_and_whiteouts_put_nothing_there() {
        let index = rich();
        let passwd = RootPath::new("etc/passwd").unwrap();
        assert_eq!(index.content(&passwd), Some(b"other\n".as_slice()));
        assert_eq!(index.find(&passwd).unwrap().kind, crate::EntryKind::File { size: 6 });
        assert_eq!(index.find(&RootPath::new("etc/shadow").unwrap()), None);
        assert!(
            index.notes.iter().any(|note| note.contains("/etc/passwd appears more than once")),
            "{:?}",
            index.notes
        );
    }

    #[test]
    fn a_larger_later_file_hides_the_content_of_the_earlier() {
        let index = index_of(&[
            TestMember::file("etc/passwd", b"first\n"),
            TestMember::file("etc/passwd", &vec![b'x'; 300 << 10]),
        ]);
        assert_eq!(index.content(&RootPath::new("etc/passwd").unwrap()), None);
        assert!(index.notes.iter().any(|note| note.contains("too large")), "{:?}", index.notes);
    }

    #[test]
    fn refuses_bytes_with_any_byte_changed_or_missing() {
        let bytes = rich().to_bytes();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x20;
            assert!(LayerIndex::from_bytes(&damaged).is_err(), "byte {at}");
            assert!(LayerIndex::from_bytes(&bytes[..at]).is_err(), "cut at {at}");
        }
        assert!(LayerIndex::from_bytes(&[bytes.as_slice(), b"\0"].concat()).is_err());
    }

    #[test]
    fn refuses_content_of_an_entry_that_is_not_there() {
        let mut index = rich();
        index.captured[0].entry = index.entries.len();
        assert!(LayerIndex::from_bytes(&index.to_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn hostile_bodies_are_an_error_or_an_index(body in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = LayerIndex::from_bytes(&framed(&body));
        }

        #[test]
        fn changed_bodies_never_panic(at in 0_usize..2000, byte in any::<u8>()) {
            let mut body = postcard::to_stdvec(&rich()).unwrap();
            let len = body.len();
            body[at % len] = byte;
            if let Ok(index) = LayerIndex::from_bytes(&framed(&body)) {
                prop_assert!(index.entries.iter().all(|entry| RootPath::new(entry.path.as_bytes()).is_ok()));
            }
        }
    }
}
