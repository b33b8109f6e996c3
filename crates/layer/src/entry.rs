//! One entry of a layer, as later stages see it. Listed, never created.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::limits::{Limits, over};
use super::path::{RootPath, shown};
use oci::error::{Error, Result};

/// What a layer says about one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub path: RootPath,
    pub kind: EntryKind,
    /// Permission bits with setuid, setgid and sticky; never file-type bits.
    pub mode: u32,
    pub uid: u64,
    pub gid: u64,
    /// Whole seconds since 1970.
    pub mtime: i64,
    /// Extended attributes, sorted by name.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Where the entry's data starts in the tar stream.
    pub offset: u64,
    /// Whether the tar keeps the file without its holes: then its bytes there are not its content.
    pub sparse: bool,
}

/// What is at the path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    File {
        /// The size a program would see; a sparse file takes less in the tar.
        size: u64,
    },
    Directory,
    /// The target as written: it is resolved inside the root, never here.
    Symlink(Vec<u8>),
    Hardlink(RootPath),
    Character {
        major: u32,
        minor: u32,
    },
    Block {
        major: u32,
        minor: u32,
    },
    Fifo,
    /// Whatever lower layers have at the path is gone.
    Whiteout,
    /// Whatever lower layers have inside the directory is gone.
    Opaque,
}

impl EntryKind {
    /// Whether it is about lower layers, and puts nothing at its path.
    #[must_use]
    pub const fn is_marker(&self) -> bool {
        matches!(self, Self::Whiteout | Self::Opaque)
    }
}

impl Entry {
    /// An entry that no tar has yet.
    #[must_use]
    pub fn new(path: RootPath, kind: EntryKind, mode: u32, uid: u64, gid: u64) -> Self {
        Self { path, kind, mode, uid, gid, mtime: 0, xattrs: Vec::new(), offset: 0, sparse: false }
    }

    /// About how many bytes of memory the entry takes.
    pub(super) fn footprint(&self) -> usize {
        const ALLOCATION: usize = 16;
        let target = match &self.kind {
            EntryKind::Symlink(target) => target.len() + ALLOCATION,
            EntryKind::Hardlink(target) => target.as_bytes().len() + ALLOCATION,
            _ => 0,
        };
        let xattr = |(name, value): &(Vec<u8>, Vec<u8>)| name.len() + value.len() + 48 + 2 * ALLOCATION;
        let xattrs: usize = self.xattrs.iter().map(xattr).sum();
        size_of::<Self>() + self.path.as_bytes().len() + ALLOCATION + target + xattrs
    }
}

/// A list of entries that stays within its limits.
pub(super) struct EntryList {
    whole: &'static str,
    list: Vec<Entry>,
    footprint: usize,
}

impl EntryList {
    /// No entries yet; `whole` names in messages what they are entries of.
    pub(super) const fn of(whole: &'static str) -> Self {
        Self { whole, list: Vec::new(), footprint: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn push(&mut self, entry: Entry, limits: &Limits) -> Result<()> {
        let Self { whole, list, footprint } = self;
        if list.len() >= limits.entries {
            return Err(over(&format!("number of entries in the {whole} is"), format!("{} entries", limits.entries)));
        }
        *footprint = footprint.saturating_add(entry.footprint());
        if *footprint > limits.index {
            return Err(over(
                &format!("list of the {whole}'s entries is"),
                format!("{} bytes of memory", limits.index),
            ));
        }
        list.push(entry);
        Ok(())
    }

    pub(super) fn finish(mut self) -> Vec<Entry> {
        self.list.shrink_to_fit();
        self.list
    }
}

const CAPABILITY: &[u8] = b"security.capability";

/// Attributes by name; a later one of the same name replaces the earlier.
#[derive(Debug, Default)]
pub(super) struct Xattrs(BTreeMap<Vec<u8>, Vec<u8>>);

impl Xattrs {
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8], limits: &Limits) -> Result<()> {
        if name.is_empty() {
            return Err(Error::input("extended attribute has no name"));
        }
        if name.len() > limits.xattr_name {
            return Err(over("name of an extended attribute is", format!("{} bytes", limits.xattr_name)));
        }
        if value.len() > limits.xattr_value {
            return Err(over("value of an extended attribute is", format!("{} bytes", limits.xattr_value))
                .fact("attribute", shown(name)));
        }
        if name == CAPABILITY && !is_capability(value) {
            return Err(Error::input("security.capability does not hold file capabilities"));
        }
        self.0.insert(name.to_vec(), value.to_vec());
        Ok(())
    }

    pub(super) fn sorted(self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.0.into_iter().collect()
    }
}

/// `vfs_cap_data` of Linux: the revision in the topmost byte tells the length.
fn is_capability(value: &[u8]) -> bool {
    matches!((value.get(3), value.len()), (Some(1), 12) | (Some(2), 20) | (Some(3), 24))
}
