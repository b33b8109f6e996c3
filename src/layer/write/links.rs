//! Several names for one file: which of them is the file in the tar.
//!
//! A hard link can only be read after the file it leads to, so the first name in the order of the
//! tar has to be the file. Runtimes disagree on whether the attributes in a hard link's own header
//! count; all names of a file get the file's, so that it makes no difference.

use std::collections::{BTreeMap, HashMap};

use super::check;
use super::draft::{EntryData, SpecEntry};
use crate::error::{Error, Result};
use crate::layer::entry::{Entry, EntryKind};
use crate::layer::limits::{Limits, over};
use crate::layer::path::RootPath;

/// Rewrites sorted entries so that each hard link leads to the first name of its file.
pub(super) fn settle(sorted: &mut [SpecEntry]) -> Result<()> {
    let mut footprint = 0_usize;
    for (file, links) in sets(sorted)? {
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
            let Some(draft) = sorted.get_mut(at) else { continue };
            draft.entry = named(&model, &draft.entry.path, first.as_ref());
            check::records(&draft.entry).map_err(|error| error.fact("entry", &draft.entry.path))?;
            draft.data = data.take().unwrap_or(EntryData::None);
            first.get_or_insert_with(|| draft.entry.path.clone());
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
fn sets(sorted: &[SpecEntry]) -> Result<BTreeMap<usize, Vec<usize>>> {
    let is_there = |(_, draft): &(usize, &SpecEntry)| !draft.entry.kind.is_marker();
    let places = sorted.iter().enumerate().filter(is_there).map(|(at, draft)| (&draft.entry.path, at)).collect();
    let mut files = HashMap::new();
    let mut sets: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, draft) in sorted.iter().enumerate() {
        if matches!(draft.entry.kind, EntryKind::Hardlink(_)) {
            let file =
                follow(at, sorted, &places, &mut files).map_err(|error| error.fact("hard link", &draft.entry.path))?;
            sets.entry(file).or_default().push(at);
        }
    }
    Ok(sets)
}

/// The file that a hard link leads to, by way of other hard links where it must be. What was found
/// for one link is kept for all on its way, so that long chains are walked once.
fn follow(
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
        match sorted.get(at).map(|draft| &draft.entry.kind) {
            Some(EntryKind::Hardlink(target)) if trail.len() <= sorted.len() => {
                trail.push(at);
                let missing = || Error::input("hard link leads to a file that the layer does not have");
                at = *places.get(target).ok_or_else(|| missing().fact("target", target))?;
            }
            Some(EntryKind::Hardlink(_)) => return Err(Error::input("hard links lead to each other, and to no file")),
            Some(EntryKind::Directory) | None => return Err(Error::input("hard link leads to a folder")),
            Some(_) => break at,
        }
    };
    files.extend(trail.into_iter().map(|link| (link, file)));
    Ok(file)
}
