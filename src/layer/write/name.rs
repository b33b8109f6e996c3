//! The name that an entry has in the tar, and the place in the order of entries that it gets.

use std::cmp::Ordering;

use crate::error::{Error, Result};
use crate::layer::entry::{Entry, EntryKind};
use crate::layer::path::RootPath;
use crate::layer::whiteout::{self, OPAQUE, PREFIX};

/// What stands in the tar: folders end with a slash, markers are written as file names.
pub(super) fn written(entry: &Entry) -> Result<Vec<u8>> {
    let path = entry.path.as_bytes();
    Ok(match &entry.kind {
        EntryKind::Directory if entry.path.is_root() => b"./".to_vec(),
        EntryKind::Directory => [path, b"/"].concat(),
        EntryKind::Whiteout => whiteout_of(&entry.path)?,
        EntryKind::Opaque if entry.path.is_root() => OPAQUE.to_vec(),
        EntryKind::Opaque => [path, b"/", OPAQUE].concat(),
        _ => path.to_vec(),
    })
}

fn whiteout_of(path: &RootPath) -> Result<Vec<u8>> {
    let (Some(name), Some(parent)) = (path.name(), path.parent()) else {
        return Err(Error::input("the root cannot be removed by a whiteout"));
    };
    let separator: &[u8] = if parent.is_root() { b"" } else { b"/" };
    Ok([parent.as_bytes(), separator, PREFIX, name].concat())
}

/// Refuses a name that a reader takes for something else than the entry is.
pub(super) fn check(entry: &Entry) -> Result<()> {
    let name = RootPath::new(written(entry)?)?;
    let read = whiteout::read(&name)?;
    let fits = match (&entry.kind, &read) {
        (EntryKind::Whiteout, whiteout::Name::WhiteoutOf(path))
        | (EntryKind::Opaque, whiteout::Name::OpaqueMarkIn(path)) => *path == entry.path,
        (EntryKind::Whiteout | EntryKind::Opaque, _) => false,
        (_, read) => *read == whiteout::Name::Plain,
    };
    if fits {
        Ok(())
    } else {
        Err(Error::input("name of an entry would be taken for a whiteout, or for another one").fact("name", name))
    }
}

/// By the bytes of the path, so that a folder stands before what it holds. Where one path has
/// several entries, the order is the one in which they take effect: runtimes remove what a
/// whiteout names even if the same layer has just put it there, and a folder must be there before
/// its opaque mark.
pub(super) fn order(one: &Entry, other: &Entry) -> Ordering {
    one.path.cmp(&other.path).then_with(|| rank(&one.kind).cmp(&rank(&other.kind)))
}

const fn rank(kind: &EntryKind) -> u8 {
    match kind {
        EntryKind::Whiteout => 0,
        EntryKind::Opaque => 2,
        _ => 1,
    }
}
