//! An image that was seen under a name, on its way into the records of the cache.
//!
//! A tag that leads elsewhere than it did takes over its record; the image it led to before keeps
//! one under its digest, so that it ages like any other and is not lost at once.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::image_record::ImageRecord;
use super::lock::{self, LockMode, LockWait};
use super::place::resolved_location;
use super::timestamp::Timestamp;
use crate::store::Notices;
use oci::error::Result;
use oci::{Digest, Location, MediaType};

/// Held by the thread that changes a record.
static WRITER: Mutex<()> = Mutex::new(());

/// What an image was wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageAccess {
    Read,
    /// Published; nobody has used it yet.
    Written,
}

/// A name and what it led to.
#[derive(Debug, Clone)]
pub struct ImageUse<'a> {
    pub location: &'a Location,
    pub digest: Digest,
    pub media_type: &'a MediaType,
    pub platforms: Vec<(String, Digest)>,
    pub parts: Vec<Digest>,
    pub used: ImageAccess,
}

impl ImageUse<'_> {
    /// Keeps what was seen in the directory of records, and yields the record as it is now. What is known already costs
    /// no write.
    pub(super) fn keep(&self, directory: &Path, notices: &Notices) -> Result<ImageRecord> {
        let seen = self.record();
        let path = directory.join(ImageRecord::file_name(&seen.reference));
        if let Some(known) = ImageRecord::read(&path)?.filter(|known| known.covers(&seen)) {
            self.touch(directory, &seen.reference);
            return Ok(known);
        }
        // Threads queue here; to wait for the lock means to look again and again.
        let _turn = WRITER.lock().unwrap_or_else(PoisonError::into_inner);
        // Two processes that see two platforms of one image must not lose each other's.
        let _alone = lock::directory(directory, LockMode::Exclusive, LockWait::default(), notices)?;
        let record = match ImageRecord::read(&path)? {
            Some(known) if known.digest == seen.digest => join(known, &seen),
            Some(known) => {
                self.retire(directory, known)?;
                seen
            }
            None => seen,
        };
        record.write(directory)?;
        Ok(record)
    }

    fn record(&self) -> ImageRecord {
        let now = Timestamp::now();
        ImageRecord {
            reference: full_name(self.location),
            digest: self.digest,
            media_type: self.media_type.as_str().to_owned(),
            first_seen: now,
            last_use: (self.used == ImageAccess::Read).then_some(now),
            platforms: self.platforms.iter().cloned().collect(),
            parts: self.parts.iter().copied().chain([self.digest]).collect(),
        }
    }

    fn touch(&self, directory: &Path, reference: &str) {
        if self.used == ImageAccess::Read {
            ImageRecord::touch(directory, reference);
        }
    }

    /// The image that the name led to until now gets a name by digest.
    fn retire(&self, directory: &Path, known: ImageRecord) -> Result<()> {
        let reference = resolved_location(self.location).by_digest(known.digest);
        let older = ImageRecord { reference, ..known };
        match ImageRecord::read(&directory.join(ImageRecord::file_name(&older.reference)))? {
            Some(there) => join(there, &older).write(directory),
            None => older.write(directory),
        }
    }
}

fn join(mut known: ImageRecord, seen: &ImageRecord) -> ImageRecord {
    known.merge(seen);
    known
}

/// The name under which a location is recorded: paths are absolute and without links, so that it means the same
/// wherever it is read and however it was written.
pub fn full_name(location: &Location) -> String {
    resolved_location(location).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::disk::image_record::names;

    fn see(directory: &Path, name: &str, digest: &[u8], parts: &[&[u8]], used: ImageAccess) {
        let (location, media_type) = (name.parse().unwrap(), MediaType::oci_index());
        let digest = Digest::of(digest);
        let parts = parts.iter().map(|part| Digest::of(part)).collect();
        let platforms = Vec::new();
        let sighting = ImageUse { location: &location, digest, media_type: &media_type, platforms, parts, used };
        sighting.keep(directory, &Notices::silent()).unwrap();
    }

    fn read(directory: &Path, name: &str) -> ImageRecord {
        ImageRecord::read(&directory.join(ImageRecord::file_name(name))).unwrap().unwrap()
    }

    #[test]
    fn parts_add_up_while_the_digest_stays() {
        let dir = tempfile::tempdir().unwrap();
        see(dir.path(), "gcr.io/a/b", b"1", &[b"amd64"], ImageAccess::Written);
        assert_eq!(read(dir.path(), "gcr.io/a/b:latest").last_use, None, "published and never used");
        see(dir.path(), "gcr.io/a/b", b"1", &[b"arm64"], ImageAccess::Read);
        let record = read(dir.path(), "gcr.io/a/b:latest");
        assert_eq!(record.parts.len(), 3);
        assert!(record.last_use.is_some_and(|used| used >= record.first_seen));
        see(dir.path(), "gcr.io/a/b", b"1", &[], ImageAccess::Written);
        assert_eq!(read(dir.path(), "gcr.io/a/b:latest"), record, "to publish it again is no use");
    }

    #[test]
    fn a_tag_that_moves_leaves_the_older_image_under_its_digest() {
        let dir = tempfile::tempdir().unwrap();
        see(dir.path(), "gcr.io/a/b:c", b"1", &[b"one"], ImageAccess::Read);
        let before = read(dir.path(), "gcr.io/a/b:c");
        see(dir.path(), "gcr.io/a/b:c", b"2", &[b"two"], ImageAccess::Read);
        assert_eq!(read(dir.path(), "gcr.io/a/b:c").digest, Digest::of(b"2"));
        let older = format!("gcr.io/a/b@{}", Digest::of(b"1"));
        assert_eq!(read(dir.path(), &older), ImageRecord { reference: older, ..before });
        // And back again: both stay known.
        see(dir.path(), "gcr.io/a/b:c", b"1", &[b"one"], ImageAccess::Read);
        assert_eq!(names(dir.path()).unwrap().len(), 3);
    }

    #[test]
    fn paths_are_recorded_in_full() {
        assert_eq!(full_name(&"oci:/a/b:c".parse().unwrap()), "oci:/a/b:c");
        let here = std::env::current_dir().unwrap();
        assert_eq!(full_name(&"oci:b:c".parse().unwrap()), format!("oci:{}:c", here.join("b").display()));
        assert_eq!(full_name(&"debian".parse().unwrap()), "docker.io/library/debian:latest");
    }

    #[test]
    fn many_at_once_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for number in 0_u8..8 {
                let directory = dir.path();
                scope.spawn(move || see(directory, "gcr.io/a/b", b"1", &[&[number]], ImageAccess::Read));
            }
        });
        assert_eq!(read(dir.path(), "gcr.io/a/b:latest").parts.len(), 9);
    }
}
