//! A layer to be written: its entries, in the order of the tar.
//!
//! What a [`LayerSpec`] holds can be written, and reads back as the same entries; whatever could not
//! is refused when the spec is made. The order of the entries given does not matter.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::check;
use super::ustar::tar_order;
use crate::contents::DataRange;
use crate::entry::{Entry, EntryKind};
use crate::limits::{Limits, over};
use crate::path::RootPath;
use oci::Digest;
use oci::error::{Error, Result};

/// One entry of a spec. Its time is not used: all entries of a layer get the same.
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
/// what is not a directory. Of several names for one file the first is the file and the others are
/// hard links to it, all with the file's own attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerSpec {
    entries: Vec<SpecEntry>,
}

impl LayerSpec {
    pub fn new(mut entries: Vec<SpecEntry>) -> Result<Self> {
        check::whole(&entries)?;
        for spec in &entries {
            check::entry(spec).map_err(|error| error.fact("entry", &spec.entry.path))?;
        }
        entries.sort_by(|one, other| tar_order(&one.entry, &other.entry));
        check_duplicates(&entries)?;
        check_directories(&entries)?;
        resolve_hard_links(&mut entries)?;
        // Links have the attributes of their file now, and those take room.
        check::whole(&entries)?;
        Ok(Self { entries })
    }

    /// In the order of the tar.
    #[must_use]
    pub fn entries(&self) -> &[SpecEntry] {
        &self.entries
    }

    /// The source layers whose data has to be gathered before the spec can be written.
    #[must_use]
    pub fn sources(&self) -> BTreeSet<Digest> {
        self.entries.iter().filter_map(|spec| spec.source().map(|(layer, _)| layer)).collect()
    }
}

impl SpecEntry {
    /// The range of a source layer that is the entry's content, where there is one.
    pub(super) fn source(&self) -> Option<(Digest, DataRange)> {
        match (&self.data, &self.entry.kind) {
            (EntryData::FromLayer(layer), EntryKind::File { size: size @ 1.. }) => {
                Some((*layer, DataRange { offset: self.entry.offset, size: *size }))
            }
            _ => None,
        }
    }
}

fn check_duplicates(sorted: &[SpecEntry]) -> Result<()> {
    let same = |pair: &&[SpecEntry]| matches!(pair, [one, other] if tar_order(&one.entry, &other.entry).is_eq());
    match sorted.windows(2).find(same).and_then(<[_]>::first) {
        Some(spec) => Err(Error::input("layer would have two entries for one path").fact("entry", &spec.entry.path)),
        None => Ok(()),
    }
}

/// Refuses entries below a file, link or device. What is below a path is adjacent, but not
/// always right behind it: `a-b` comes between `a` and `a/b`.
fn check_directories(sorted: &[SpecEntry]) -> Result<()> {
    let mut rest = sorted;
    while let Some((SpecEntry { entry, .. }, after)) = rest.split_first() {
        rest = after;
        if entry.kind.is_marker() || entry.kind == EntryKind::Directory {
            continue;
        }
        let opaque = after.first().filter(|next| next.entry.path == entry.path);
        if let Some(below) = opaque.or_else(|| first_below(&entry.path, after)) {
            return Err(Error::input("entry is below something that is not a directory")
                .fact("entry", &below.entry.path)
                .fact("below", &entry.path));
        }
    }
    Ok(())
}

fn first_below<'a>(path: &RootPath, sorted: &'a [SpecEntry]) -> Option<&'a SpecEntry> {
    let inside = [path.as_bytes(), b"/"].concat();
    let at = sorted.partition_point(|spec| spec.entry.path.as_bytes() < inside.as_slice());
    sorted.get(at).filter(|spec| spec.entry.path.as_bytes().starts_with(&inside))
}

/// Rewrites sorted entries so that each hard link points to the first name of its file.
fn resolve_hard_links(sorted: &mut [SpecEntry]) -> Result<()> {
    let mut footprint = 0_usize;
    for (file, links) in hard_link_sets(sorted)? {
        let Some(SpecEntry { entry, data }) = sorted.get_mut(file) else { continue };
        footprint = footprint.saturating_add(entry.footprint().saturating_mul(links.len()));
        let limit = Limits::default().index;
        if footprint > limit {
            return Err(over("list of the layer's hard links is", format!("{limit} bytes of memory")));
        }
        let (model, mut data) = (entry.clone(), Some(std::mem::replace(data, EntryData::None)));
        let mut names: Vec<usize> = links.into_iter().chain([file]).collect();
        names.sort_unstable();
        let mut first: Option<RootPath> = None;
        for at in names {
            let Some(spec) = sorted.get_mut(at) else { continue };
            spec.entry = named(&model, &spec.entry.path, first.as_ref());
            check::records(&spec.entry).map_err(|error| error.fact("entry", &spec.entry.path))?;
            spec.data = data.take().unwrap_or(EntryData::None);
            first.get_or_insert_with(|| spec.entry.path.clone());
        }
    }
    Ok(())
}

/// The file under another name: itself where that is the first, else a link to the first.
fn named(model: &Entry, path: &RootPath, first: Option<&RootPath>) -> Entry {
    let kind = first.map_or_else(|| model.kind.clone(), |first| EntryKind::Hardlink(first.clone()));
    Entry { path: path.clone(), kind, sparse: model.sparse && first.is_none(), ..model.clone() }
}

/// The hard links of each file that has some, by their places in the list.
fn hard_link_sets(sorted: &[SpecEntry]) -> Result<BTreeMap<usize, Vec<usize>>> {
    let is_there = |(_, spec): &(usize, &SpecEntry)| !spec.entry.kind.is_marker();
    let places = sorted.iter().enumerate().filter(is_there).map(|(at, spec)| (&spec.entry.path, at)).collect();
    let mut files = HashMap::new();
    let mut sets: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, spec) in sorted.iter().enumerate() {
        if matches!(spec.entry.kind, EntryKind::Hardlink(_)) {
            let file = linked_file(at, sorted, &places, &mut files)
                .map_err(|error| error.fact("hard link", &spec.entry.path))?;
            sets.entry(file).or_default().push(at);
        }
    }
    Ok(sets)
}

/// The file that a hard link points to, by way of other hard links where it must be. What was found
/// for one link is kept for all on its way, so that long chains are walked once.
fn linked_file(
    link: usize,
    sorted: &[SpecEntry],
    places: &HashMap<&RootPath, usize>,
    files: &mut HashMap<usize, usize>,
) -> Result<usize> {
    let mut trail = Vec::new();
    let mut at = link;
    let file = loop {
        if let Some(file) = files.get(&at) {
            break *file;
        }
        match sorted.get(at).map(|spec| &spec.entry.kind) {
            Some(EntryKind::Hardlink(target)) if trail.len() <= sorted.len() => {
                trail.push(at);
                let missing = || Error::input("hard link to a file that the layer does not have");
                at = *places.get(target).ok_or_else(|| missing().fact("target", target))?;
            }
            Some(EntryKind::Hardlink(_)) => {
                return Err(Error::input("hard links point at each other and not at a file"));
            }
            Some(EntryKind::Directory) | None => return Err(Error::input("hard link to a directory")),
            Some(_) => break at,
        }
    };
    files.extend(trail.into_iter().map(|link| (link, file)));
    Ok(file)
}
