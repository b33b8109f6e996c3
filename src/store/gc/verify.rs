//! Verifies everything in the cache: blobs by their digests, indexes and records by their checksums, and indexes by the layers
//! that they are of. What is damaged is removed; it counts as missing, and is fetched again when it is wanted.

use std::fs;
use std::path::{Path, PathBuf};

use super::LockedCache;
use super::inventory::StoredContent;
use crate::store::Notices;
use crate::store::disk::{
    FileState, IMAGES, LockMode, LockWait, NODES, Symlinks, file_state, lock_directory, open_regular, read_index,
    record_files,
};
use layer::{self, FileDigests, LayerIndex, Limits};
use oci::error::{Kind, Result};
use oci::{Descriptor, Digest, MediaType};

/// What the verification saw.
#[derive(Debug, Default)]
pub struct VerifiedFiles {
    pub files: usize,
    pub bytes: u64,
    pub damaged: Vec<DamagedCacheFile>,
    /// Indexes of layers that the cache does not have, or of another version of underpin: what they say is not known to be
    /// true.
    pub underived: usize,
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
                let holders = || holders.map(|image| image.reference.clone()).collect();
                self.check(path, &mut checked, holders, |path| self.derive_index(path, contents))?;
            }
        }
        for records in [IMAGES, NODES].map(|directory| self.root.join(directory)) {
            if !records.is_dir() {
                continue;
            }
            // A record that is being replaced while we look is not damaged.
            let _alone = lock_directory(&records, LockMode::Exclusive, LockWait::default(), notices)?;
            for name in record_files(&records)? {
                self.check(&records.join(name), &mut checked, Vec::new, |_| Ok(Derivation::Same))?;
            }
        }
        Ok(checked)
    }

    fn check(
        &self,
        path: &Path,
        checked: &mut VerifiedFiles,
        images: impl FnOnce() -> Vec<String>,
        derive: impl FnOnce(&Path) -> Result<Derivation>,
    ) -> Result<()> {
        let (bytes, derivation) = match file_state(&self.root, path)? {
            FileState::Gone => return Ok(()),
            FileState::Sound(bytes) => (bytes, derive(path)?),
            FileState::Damaged => (0, Derivation::Other),
        };
        checked.files += 1;
        if derivation == Derivation::Other {
            let removed = fs::remove_file(path).is_ok();
            checked.damaged.push(DamagedCacheFile { path: path.to_owned(), images: images(), removed });
        } else {
            checked.bytes += bytes;
            checked.underived += usize::from(derivation == Derivation::Impossible);
        }
        Ok(())
    }

    /// Reads the layer again that an index is of.
    fn derive_index(&self, path: &Path, contents: &StoredContent) -> Result<Derivation> {
        if !path.starts_with(self.root.join("indexes")) {
            return Ok(Derivation::Same);
        }
        let Some((digest, version, bytes)) = read_index(&self.root, path)? else { return Ok(Derivation::Other) };
        if version != LayerIndex::VERSION {
            return Ok(Derivation::Impossible);
        }
        let Ok(kept) = LayerIndex::from_bytes(&bytes) else { return Ok(Derivation::Other) };
        let layer = contents.files.iter().find(|file| file.starts_with(self.root.join("blobs")));
        let layer = layer.map(|file| open_regular(file, Symlinks::Refused)).transpose()?.flatten();
        let Some(layer) = layer else { return Ok(Derivation::Impossible) };
        let file_digests = if kept.digests.is_some() { FileDigests::Wanted } else { FileDigests::LeftOut };
        let of = Descriptor::new(MediaType::oci_config(), digest, layer.len());
        match layer::scan(layer.reader(0), &of, None, &Limits { file_digests, ..Limits::default() }) {
            Ok(derived) if kept.agrees_with(&derived) => Ok(Derivation::Same),
            Err(error) if error.kind() == Kind::Io => Err(error),
            // The layer itself is damaged, and removed for that.
            Err(error) if error.kind() == Kind::Integrity => Ok(Derivation::Impossible),
            Ok(_) | Err(_) => Ok(Derivation::Other),
        }
    }
}

/// Whether what a file says follows from what it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Derivation {
    Same,
    Other,
    /// What it is about is not there.
    Impossible,
}

/// Half a blob cannot be verified; whoever resumes it will.
fn is_partial(path: &Path) -> bool {
    path.parent().is_some_and(|directory| directory.ends_with("partial"))
        && path.file_name().and_then(|name| name.to_str()).is_some_and(|name| Digest::from_hex(name).is_ok())
}
