//! Whether a file of the store is what its name promises.

use std::path::Path;

use super::cache::is_sealed_index;
use super::node_record::{NODES, NodeRecord};
use super::record::Record;
use super::regular::{self, Links};
use super::rooms::IMAGES;
use super::verified;
use crate::error::{Kind, Result};
use crate::oci::Digest;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Soundness {
    /// It is, and has so many bytes.
    Sound(u64),
    Damaged,
    /// Somebody has removed it meanwhile.
    Gone,
}

/// Reads a blob, an index or a record of the store in `root` to its end. A file that cannot be read
/// is an error: that says nothing about its bytes.
pub fn soundness(root: &Path, path: &Path) -> Result<Soundness> {
    if path.starts_with(root.join(IMAGES)) {
        return of_record(path, Record::read(path));
    }
    if path.starts_with(root.join(NODES)) {
        return of_record(path, NodeRecord::read(path));
    }
    let Some(section) = regular::open(path, Links::Refused)? else { return Ok(Soundness::Gone) };
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let sound = match (Digest::from_hex(name), version(root, path)) {
        (Ok(digest), Some(version)) => is_sealed_index(&section, &digest, version)?,
        (Ok(digest), None) => verified::hash(&mut section.reader(0))?.digest == digest,
        (Err(_), _) => false,
    };
    Ok(if sound { Soundness::Sound(section.len()) } else { Soundness::Damaged })
}

fn of_record<R>(path: &Path, read: Result<Option<R>>) -> Result<Soundness> {
    match read {
        Ok(Some(_)) => Ok(Soundness::Sound(std::fs::symlink_metadata(path).map_or(0, |data| data.len()))),
        Ok(None) => Ok(Soundness::Gone),
        Err(error) if error.kind() == Kind::Io => Err(error),
        Err(_) => Ok(Soundness::Damaged),
    }
}

/// The version of the format of an index, from the folder it lies in.
fn version(root: &Path, path: &Path) -> Option<u32> {
    let folder = path.parent()?.strip_prefix(root.join("indexes")).ok()?;
    folder.to_str()?.strip_prefix('v')?.parse().ok()
}
