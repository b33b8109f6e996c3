//! A layer to be written: its entries, in the order in which they will stand in the tar.
//!
//! What a [`LayerSpec`] holds can be written, and reads back as the same entries; whatever could not
//! is refused when the draft is made. The order of the entries given is of no consequence.

use std::collections::BTreeSet;

use super::{check, links, name};
use crate::error::{Error, Result};
use crate::layer::entry::{Entry, EntryKind};
use crate::layer::path::RootPath;
use crate::oci::Digest;

/// One entry of a draft. Its time is not used: all entries of a layer get the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecEntry {
    pub entry: Entry,
    pub data: EntryData,
}

/// Where the content of a file comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryData {
    /// There is none: all but files, and empty files.
    None,
    Bytes(Vec<u8>),
    /// It is in this source layer, where the entry says: from its offset on, as long as its size.
    FromLayer(Digest),
}

/// Entries that make a layer: sorted, each path at most once beside its markers, nothing below
/// what is not a folder. Of several names for one file the first is the file and the others are
/// hard links to it, all with the file's own attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerSpec {
    entries: Vec<SpecEntry>,
}

impl LayerSpec {
    pub fn new(mut entries: Vec<SpecEntry>) -> Result<Self> {
        check::whole(&entries)?;
        for draft in &entries {
            check::entry(draft).map_err(|error| error.fact("entry", &draft.entry.path))?;
        }
        entries.sort_by(|one, other| name::order(&one.entry, &other.entry));
        check_duplicates(&entries)?;
        check_folders(&entries)?;
        links::settle(&mut entries)?;
        // Links have the attributes of their file now, and those take room.
        check::whole(&entries)?;
        Ok(Self { entries })
    }

    /// In the order of the tar.
    #[must_use]
    pub fn entries(&self) -> &[SpecEntry] {
        &self.entries
    }

    /// The source layers whose data has to be gathered before the draft can be written.
    #[must_use]
    pub fn sources(&self) -> BTreeSet<Digest> {
        self.entries.iter().filter_map(|draft| draft.source().map(|(layer, _)| layer)).collect()
    }
}

/// A stretch of a source layer's tar stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Stretch {
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl SpecEntry {
    /// The stretch of a source layer that is the entry's content, where there is one.
    pub(super) fn source(&self) -> Option<(Digest, Stretch)> {
        match (&self.data, &self.entry.kind) {
            (EntryData::FromLayer(layer), EntryKind::File { size: size @ 1.. }) => {
                Some((*layer, Stretch { offset: self.entry.offset, size: *size }))
            }
            _ => None,
        }
    }
}

fn check_duplicates(sorted: &[SpecEntry]) -> Result<()> {
    let same = |pair: &&[SpecEntry]| matches!(pair, [one, other] if name::order(&one.entry, &other.entry).is_eq());
    match sorted.windows(2).find(same).and_then(<[_]>::first) {
        Some(draft) => Err(Error::input("layer would have two entries for one path").fact("entry", &draft.entry.path)),
        None => Ok(()),
    }
}

/// Refuses entries below a file, link or device. What lies below a path stands together, but not
/// always right behind it: `a-b` comes between `a` and `a/b`.
fn check_folders(sorted: &[SpecEntry]) -> Result<()> {
    let mut rest = sorted;
    while let Some((SpecEntry { entry, .. }, after)) = rest.split_first() {
        rest = after;
        if entry.kind.is_marker() || entry.kind == EntryKind::Directory {
            continue;
        }
        let opaque = after.first().filter(|next| next.entry.path == entry.path);
        if let Some(below) = opaque.or_else(|| first_below(&entry.path, after)) {
            return Err(Error::input("entry lies below something that is not a folder")
                .fact("entry", &below.entry.path)
                .fact("below", &entry.path));
        }
    }
    Ok(())
}

fn first_below<'a>(path: &RootPath, sorted: &'a [SpecEntry]) -> Option<&'a SpecEntry> {
    let inside = [path.as_bytes(), b"/"].concat();
    let at = sorted.partition_point(|draft| draft.entry.path.as_bytes() < inside.as_slice());
    sorted.get(at).filter(|draft| draft.entry.path.as_bytes().starts_with(&inside))
}
