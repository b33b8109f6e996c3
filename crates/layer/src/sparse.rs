//! Sparse files in the old GNU and the three PAX forms. Only two things are needed of them: the
//! size a program would see, and to stay in step with the data. Their content is not read.

use super::blocks::BLOCK;
use super::header::number as field;
use super::limits::{Limits, over};
use super::pax;
use oci::error::{Error, Result};

/// The `GNU.sparse.*` records of a PAX header.
#[derive(Debug, Default)]
pub(super) struct SparseRecords {
    /// Whether there are any, known or not.
    pub(super) stated: bool,
    version: [Vec<u8>; 2],
    has_map: bool,
    name: Vec<u8>,
    size: Option<u64>,
    real_size: Option<u64>,
}

/// A sparse file of a PAX form.
pub(super) struct Sparse {
    pub(super) name: Option<Vec<u8>>,
    pub(super) real_size: Option<u64>,
    pub(super) map: MapPlace,
}

/// Where the list of data regions is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MapPlace {
    InHeader,
    BeforeData,
}

impl SparseRecords {
    pub(super) fn take(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.stated = true;
        let [major, minor] = &mut self.version;
        match key {
            b"major" => *major = value.to_vec(),
            b"minor" => *minor = value.to_vec(),
            b"map" => self.has_map = !value.is_empty(),
            b"offset" | b"numbytes" => self.has_map = true,
            b"name" => self.name = value.to_vec(),
            b"size" => self.size = pax::number(key, value)?,
            b"realsize" => self.real_size = pax::number(key, value)?,
            _ => {}
        }
        Ok(())
    }

    /// The sparse file that the records describe. An unknown version is a plain file, as in Go.
    pub(super) fn describe(self) -> Result<Option<Sparse>> {
        let [major, minor] = &self.version;
        let map = match (major.as_slice(), minor.as_slice()) {
            (b"0", b"0" | b"1") => MapPlace::InHeader,
            (b"1", b"0") => MapPlace::BeforeData,
            (b"", b"") if self.has_map => MapPlace::InHeader,
            _ => return Ok(None),
        };
        if self.name.contains(&0) {
            return Err(Error::input("name in a PAX header contains a NUL byte").fact("key", "GNU.sparse.name"));
        }
        let name = Some(self.name).filter(|name| !name.is_empty());
        Ok(Some(Sparse { name, real_size: self.size.or(self.real_size), map }))
    }
}

/// The real size that an old GNU sparse header states.
pub(super) fn old_gnu_real_size(block: &[u8; BLOCK]) -> Result<u64> {
    let size = field(&block[483..495], "real size")?;
    u64::try_from(size).map_err(|_| Error::input("sparse file has a negative size"))
}

/// Whether an old GNU sparse header, or a block of its map, is followed by (more of) the map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MapContinues {
    Follows,
    Nothing,
}

pub(super) const fn after_header(block: &[u8; BLOCK]) -> MapContinues {
    if block[482] == 0 { MapContinues::Nothing } else { MapContinues::Follows }
}

pub(super) const fn after_map_block(block: &[u8; BLOCK]) -> MapContinues {
    if block[504] == 0 { MapContinues::Nothing } else { MapContinues::Follows }
}

/// Checks the count of regions at the head of a map that precedes the data. Others read the
/// map into memory, so an impossible count is refused for them too.
pub(super) fn check_region_count(head: &[u8], limits: &Limits) -> Result<()> {
    // A region takes at least four bytes: two digits and two line feeds.
    let most = limits.metadata / 4;
    let digits = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match pax::number(b"GNU.sparse.numblocks", digits)? {
        Some(count) if count <= most => Ok(()),
        Some(_) => Err(over("sparse file has a number of regions", format!("{most} regions"))),
        None => Err(Error::input("sparse file has no list of regions")),
    }
}
