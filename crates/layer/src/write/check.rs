//! What a layer may not have: refused here, so that writing cannot fail on it.
//!
//! The limits are the reader's own. What is written is read again, by underpin and by others.

use super::layer_spec::{EntryData, SpecEntry};
use super::ustar::{check_name, tar_name};
use crate::entry::Xattrs;
use crate::entry::{Entry, EntryKind};
use crate::limits::{Limits, over};
use crate::member::entry_path;
use crate::path::RootPath;
use oci::error::{Error, Result};

/// The largest device number that seven octal digits hold. Linux has none that is larger.
const DEVICE: u32 = 0o777_7777;

/// Room for the records of one entry beside its names and attributes.
const OTHER_RECORDS: usize = 512;

/// Checks what only all entries together show.
pub(super) fn whole(entries: &[SpecEntry]) -> Result<()> {
    let limits = Limits::default();
    if entries.len() > limits.entries {
        return Err(over("number of entries in the layer is", format!("{} entries", limits.entries)));
    }
    let footprint = entries.iter().fold(0_usize, |sum, spec| sum.saturating_add(spec.entry.footprint()));
    if footprint > limits.index {
        return Err(over("list of the layer's entries is", format!("{} bytes of memory", limits.index)));
    }
    // Headers and padding take at most as much as the list itself and two blocks for each entry.
    let headers = (footprint as u64).saturating_add(entries.len() as u64 * 2048 + 1024);
    let total = entries.iter().fold(headers, |sum, spec| sum.saturating_add(size(&spec.entry)));
    if total > limits.unpacked {
        return Err(over("uncompressed layer is", format!("{} bytes", limits.unpacked)));
    }
    Ok(())
}

fn size(entry: &Entry) -> u64 {
    match entry.kind {
        EntryKind::File { size } => size,
        _ => 0,
    }
}

/// Checks one entry for itself.
pub(super) fn entry(spec: &SpecEntry) -> Result<()> {
    let SpecEntry { entry, data } = spec;
    kind_of(entry)?;
    attributes(entry)?;
    records(entry)?;
    check_name(entry)?;
    content(entry, data)
}

fn kind_of(entry: &Entry) -> Result<()> {
    let limits = Limits::default();
    entry_path(&tar_name(entry)?, &limits)?;
    match &entry.kind {
        EntryKind::Directory | EntryKind::Opaque => Ok(()),
        _ if entry.path.is_root() => Err(Error::input("the root can only be a directory")),
        EntryKind::Symlink(target) => symlink(target, &limits),
        EntryKind::Hardlink(target) => entry_path(target.as_bytes(), &limits).map(|_: RootPath| ()),
        EntryKind::Character { major, minor } | EntryKind::Block { major, minor } if *major.max(minor) > DEVICE => {
            Err(Error::input("device number is out of range for Linux"))
        }
        _ => Ok(()),
    }
}

fn symlink(target: &[u8], limits: &Limits) -> Result<()> {
    if target.is_empty() || target.contains(&0) {
        return Err(Error::input("symbolic link has no target, or one with a NUL byte"));
    }
    if target.len() > limits.path {
        return Err(over("target of a symbolic link is", format!("{} bytes", limits.path)));
    }
    Ok(())
}

fn attributes(entry: &Entry) -> Result<()> {
    if entry.mode > 0o7777 {
        return Err(Error::input("mode has bits beyond the permission bits").fact("mode", format!("{:o}", entry.mode)));
    }
    if i64::try_from(entry.uid.max(entry.gid)).is_err() {
        return Err(Error::input("owner id is too large for a tar"));
    }
    let mut seen = Xattrs::default();
    for (name, value) in &entry.xattrs {
        // PAX cuts records at the first `=`, and reads an empty value as absent.
        if name.contains(&0) || name.contains(&b'=') || value.is_empty() {
            return Err(
                Error::input("extended attribute cannot be stored in a tar").fact("attribute", crate::shown(name))
            );
        }
        seen.insert(name, value, &Limits::default())?;
    }
    if seen.sorted() == entry.xattrs { Ok(()) } else { Err(Error::input("extended attributes are not sorted")) }
}

/// Checks that the records of one entry stay within what a reader accepts.
pub(super) fn records(entry: &Entry) -> Result<()> {
    let limit = Limits::default().metadata;
    if (entry.footprint() + OTHER_RECORDS) as u64 > limit {
        return Err(over("metadata of one entry is", format!("{limit} bytes")));
    }
    Ok(())
}

fn content(entry: &Entry, data: &EntryData) -> Result<()> {
    let EntryKind::File { size } = entry.kind else {
        return match data {
            EntryData::None => Ok(()),
            _ => Err(Error::input("only files can have content")),
        };
    };
    let fits = match data {
        EntryData::None => size == 0,
        EntryData::Bytes(bytes) => bytes.len() as u64 == size,
        EntryData::FromLayer(_) if entry.sparse => {
            return Err(Error::input("file is stored sparse in its layer, so its stored bytes are not its content"));
        }
        EntryData::FromLayer(_) => entry.offset.checked_add(size).is_some(),
    };
    if fits { Ok(()) } else { Err(Error::input("content of a file does not have the size stated")) }
}
