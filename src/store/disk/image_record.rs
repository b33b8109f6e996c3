//! What the cache knows of one image by the name it was seen under, and the file that keeps it.
//!
//! A record is a root: what it lists is not garbage. It lists every blob by itself, so that a
//! manifest that was lost does not take along the layers it led to. The file is sealed, so that a
//! damaged one is noticed and never taken for a shorter list. Its time of modification is the time
//! of last use; the start of 1970 means never.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::atomic::{self, Temp};
use super::cache_layout::verify_command;
use super::checksummed_json::ChecksummedJson;
use super::private_access::is_own_file;
use super::regular_file::{self, Symlinks};
use super::timestamp::Timestamp;
use oci::error::{Error, Result};
use oci::{Digest, Location};

/// A record of all platforms of the largest image known has less than a hundredth of it.
pub const RECORD_LIMIT: u64 = 16 << 20;
/// With the number of this format; its files lie in `images/vN`.
const FORMAT: ChecksummedJson = ChecksummedJson("underpin image v1\n");

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRecord {
    /// The name that the image was asked for or published under, written out in full.
    pub reference: String,
    /// What the name led to when it was last seen.
    pub digest: Digest,
    pub media_type: String,
    pub first_seen: Timestamp,
    /// `None` for what was published and never read again.
    #[serde(skip)]
    pub last_use: Option<Timestamp>,
    /// The manifests of the platforms that were asked for.
    pub platforms: BTreeMap<String, Digest>,
    /// Every blob that is known to belong to the image: documents, configs, layers.
    pub parts: BTreeSet<Digest>,
}

impl ImageRecord {
    /// The name of the record's file.
    #[must_use]
    pub fn file_name(reference: &str) -> String {
        Digest::of(reference.as_bytes()).hex()
    }

    /// The record in this file, or `None` where there is none.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        let Some(section) = regular_file::open(path, Symlinks::Refused)? else { return Ok(None) };
        let damaged = || {
            Error::integrity("a record in the cache is damaged")
                .fact("path", path.display())
                .hint(format!("{} removes it; then fetch the image again", verify_command(path)))
        };
        if section.len() > RECORD_LIMIT || !is_own_file(path, section.file())? {
            return Err(damaged());
        }
        let bytes = section.bytes(RECORD_LIMIT, "the record")?;
        let mut record: Self = FORMAT.decode(&bytes).ok_or_else(damaged)?;
        let named = path.file_name().and_then(|name| name.to_str()) == Some(&Self::file_name(&record.reference));
        if !named || record.reference.parse::<Location>().is_err() {
            return Err(damaged());
        }
        let modified = section.file().metadata().and_then(|metadata| metadata.modified());
        let modified = modified.map_err(|error| Error::io("could not examine the file", path, &error))?;
        record.last_use = (modified > UNIX_EPOCH).then(|| Timestamp::of(modified));
        Ok(Some(record))
    }

    /// Puts the record into the directory, in place of what was there under its name.
    pub fn write(&self, directory: &Path) -> Result<()> {
        let path = directory.join(Self::file_name(&self.reference));
        let bytes = FORMAT.encode(self)?;
        if bytes.len() as u64 > RECORD_LIMIT {
            return Err(Error::input("an image has too many parts to be recorded").fact("image", &self.reference));
        }
        let temp = Temp::of_cache(directory)?;
        temp.write_at(&bytes, 0)?;
        temp.date(self.last_use.map_or(UNIX_EPOCH, Timestamp::time))?;
        temp.commit(&path)
    }

    /// Sets the time of last use. Best effort: a cache that is read-only stays as it is.
    pub fn touch(directory: &Path, reference: &str) {
        if let Ok(Some(section)) = regular_file::open(&directory.join(Self::file_name(reference)), Symlinks::Refused) {
            let _ = section.file().set_modified(Timestamp::now().time());
        }
    }

    /// Takes the parts of `other` in, which is a record of the same digest.
    pub fn merge(&mut self, other: &Self) {
        self.first_seen = self.first_seen.min(other.first_seen);
        self.last_use = self.last_use.max(other.last_use);
        self.platforms.extend(other.platforms.iter().map(|(platform, digest)| (platform.clone(), *digest)));
        self.parts.extend(&other.parts);
    }

    /// Whether nothing of `other`, a record of the same name, is new.
    pub fn covers(&self, other: &Self) -> bool {
        self.digest == other.digest
            && self.parts.is_superset(&other.parts)
            && other.platforms.iter().all(|(platform, digest)| self.platforms.get(platform) == Some(digest))
    }
}

/// The names of all record files in the directory.
pub fn names(directory: &Path) -> Result<Vec<String>> {
    let failed = |error| Error::io("could not list the records in the cache", directory, &error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        if !atomic::is_temp(&name) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> ImageRecord {
        ImageRecord {
            reference: "gcr.io/a/b:c".to_owned(),
            digest: Digest::of(b"top"),
            media_type: "application/vnd.oci.image.manifest.v1+json".to_owned(),
            first_seen: Timestamp::from_seconds(5),
            last_use: Some(Timestamp::from_seconds(7)),
            platforms: [("linux/amd64".to_owned(), Digest::of(b"top"))].into(),
            parts: [Digest::of(b"top"), Digest::of(b"layer")].into(),
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        for last_use in [Some(Timestamp::from_seconds(7)), None] {
            let written = ImageRecord { last_use, ..record() };
            written.write(dir.path()).unwrap();
            let path = dir.path().join(ImageRecord::file_name("gcr.io/a/b:c"));
            assert_eq!(ImageRecord::read(&path).unwrap(), Some(written));
        }
        assert_eq!(names(dir.path()).unwrap().len(), 1);
        assert_eq!(ImageRecord::read(&dir.path().join("none")).unwrap(), None);
    }

    #[test]
    fn a_damaged_record_is_an_error_and_never_a_shorter_list() {
        let dir = tempfile::tempdir().unwrap();
        record().write(dir.path()).unwrap();
        let path = dir.path().join(ImageRecord::file_name("gcr.io/a/b:c"));
        let sound = std::fs::read(&path).unwrap();
        assert!(ImageRecord::read(&path).unwrap().is_some(), "the benign twin");
        let other = dir.path().join(ImageRecord::file_name("gcr.io/a/b:d"));
        std::fs::write(&other, &sound).unwrap();
        assert!(ImageRecord::read(&other).is_err(), "under another name");
        for at in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            assert!(ImageRecord::read(&path).is_err(), "byte {at}");
            std::fs::write(&path, &sound[..at]).unwrap();
            assert!(ImageRecord::read(&path).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn merging_loses_nothing() {
        let mut one = record();
        let two = ImageRecord {
            first_seen: Timestamp::from_seconds(3),
            last_use: None,
            platforms: [("linux/arm64".to_owned(), Digest::of(b"arm"))].into(),
            parts: [Digest::of(b"arm")].into(),
            ..record()
        };
        assert!(!one.covers(&two));
        one.merge(&two);
        assert!(one.covers(&two) && one.covers(&record()));
        assert_eq!((one.first_seen, one.last_use), (Timestamp::from_seconds(3), Some(Timestamp::from_seconds(7))));
    }
}
