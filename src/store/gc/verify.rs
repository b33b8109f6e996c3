//! Verifies everything in the cache: blobs by their digests, indexes and records by their checksums.
//! What is damaged is removed; it counts as missing, and is fetched again when it is wanted.

use std::fs;
use std::path::{Path, PathBuf};

use super::LockedCache;
use crate::error::Result;
use crate::oci::Digest;
use crate::store::Notices;
use crate::store::disk::{FileState, IMAGES, LockMode, LockWait, NODES, file_state, lock_directory, record_files};

/// What the verification saw.
#[derive(Debug, Default)]
pub struct VerifiedFiles {
    pub files: usize,
    pub bytes: u64,
    pub damaged: Vec<DamagedCacheFile>,
}

#[derive(Debug)]
pub struct DamagedCacheFile {
    pub path: PathBuf,
    /// The images that it belongs to: to be fetched again.
    pub images: Vec<String>,
    pub removed: bool,
}

impl LockedCache {
    /// Reads every byte of the cache.
    pub fn verify(&self, notices: &Notices) -> Result<VerifiedFiles> {
        let inventory = self.inventory()?;
        let mut checked = VerifiedFiles::default();
        for (digest, contents) in &inventory.contents {
            for path in contents.files.iter().filter(|path| !is_partial(path)) {
                let holders = inventory.images.iter().filter(|image| image.parts.contains(digest));
                self.check(path, &mut checked, || holders.map(|image| image.reference.clone()).collect())?;
            }
        }
        for records in [IMAGES, NODES].map(|directory| self.root.join(directory)) {
            if !records.is_dir() {
                continue;
            }
            // A record that is being replaced while we look is not damaged.
            let _alone = lock_directory(&records, LockMode::Exclusive, LockWait::default(), notices)?;
            for name in record_files(&records)? {
                self.check(&records.join(name), &mut checked, Vec::new)?;
            }
        }
        Ok(checked)
    }

    fn check(&self, path: &Path, checked: &mut VerifiedFiles, images: impl FnOnce() -> Vec<String>) -> Result<()> {
        match file_state(&self.root, path)? {
            FileState::Sound(bytes) => {
                checked.files += 1;
                checked.bytes += bytes;
            }
            FileState::Damaged => {
                checked.files += 1;
                let removed = fs::remove_file(path).is_ok();
                checked.damaged.push(DamagedCacheFile { path: path.to_owned(), images: images(), removed });
            }
            FileState::Gone => {}
        }
        Ok(())
    }
}

/// Half a blob cannot be verified; whoever resumes it will.
fn is_partial(path: &Path) -> bool {
    path.parent().is_some_and(|directory| directory.ends_with("partial"))
        && path.file_name().and_then(|name| name.to_str()).is_some_and(|name| Digest::from_hex(name).is_ok())
}
