//! Garbage collection of the cache: what is in it, what is protected, and what is removed.
//!
//! The policy is the kubelet's, with the list of protected images that it never got. The collector
//! works alone: whoever uses the cache holds its lock, so a run in progress is never broken. It
//! stops before the first removal on any doubt: a list or a record that cannot be read.

mod inventory;
mod policy;
mod protection;
mod selection;
mod verify;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use inventory::{HoldReason, Inventory, StoredContent, StoredImage, versions};
pub use policy::{DiskSpace, GcPolicy, GcTarget};
pub use protection::{ImageName, ProtectedEntry, Protection};
pub use selection::{GcSelection, RemovalReason, RemovedImage, select};
pub use verify::{DamagedCacheFile, VerifiedFiles};

use super::Notices;
use super::disk::{
    IMAGES, ImageRecord, LockGuard, LockMode, LockWait, Timestamp, check_cache, has_known_version, line,
    lock_exclusive, lock_shared, sweep, sync_directory,
};
use oci::error::{Error, Kind, Result};

/// A cache that exists, and our part in its lock.
pub struct LockedCache {
    root: PathBuf,
    mode: LockMode,
    _held: LockGuard,
}

impl LockedCache {
    /// The cache in a directory, or `None` where there is none. Nothing is made or changed.
    /// [`LockMode::Shared`] is for looking, [`LockMode::Exclusive`] for collecting.
    pub fn open(root: &Path, mode: LockMode, patience: LockWait, notices: &Notices) -> Result<Option<Self>> {
        if !root.is_dir() {
            return Ok(None);
        }
        let root = &check_cache(root)?;
        if !has_known_version(root)? {
            return Ok(None);
        }
        let held = match mode {
            LockMode::Shared => lock_shared(root, notices)?,
            LockMode::Exclusive => lock_exclusive(root, patience, notices)?,
        };
        Ok(Some(Self { root: root.to_owned(), mode, _held: held }))
    }

    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn inventory(&self) -> Result<Inventory> {
        Inventory::take(&self.root)
    }

    /// What a collection would take now.
    pub fn select(&self, protection: &Protection, policy: &GcPolicy) -> Result<GcSelection> {
        self.choose(protection, policy).map(|(_, selection)| selection)
    }

    fn choose(&self, protection: &Protection, policy: &GcPolicy) -> Result<(Inventory, GcSelection)> {
        let inventory = self.inventory()?;
        if let Some(error) = inventory.unreadable.first() {
            return Err(error.clone().fact("collected", "nothing"));
        }
        let wanted = policy.target.excess(inventory.total(), DiskSpace::of(&self.root)?);
        let selection = select(&inventory, protection, policy, wanted, Timestamp::now());
        Ok((inventory, selection))
    }

    /// Collects what [`LockedCache::select`] gives.
    pub fn collect(&self, protection: &Protection, policy: &GcPolicy) -> Result<GcSelection> {
        if self.mode != LockMode::Exclusive {
            return Err(Error::usage("the cache is open for reading only"));
        }
        let (inventory, selection) = self.choose(protection, policy)?;
        sweep(&self.root);
        remove(&files_of(&self.root, &inventory, &selection))?;
        Ok(selection)
    }
}

// Removal: records go first and durably, so that at no moment, not even after a power cut, a record
// leads to what was collected. A removal that is broken off leaves blobs that no image holds: the
// next one takes them.

/// The files that a selection means: the records of the images, then the rest.
fn files_of(root: &Path, inventory: &Inventory, selection: &GcSelection) -> [Vec<PathBuf>; 2] {
    let record = |reference: &str| root.join(IMAGES).join(ImageRecord::file_name(reference));
    let records = selection.images.iter().map(|taken| record(&taken.reference)).collect();
    let contents = selection.contents.iter().filter_map(|digest| inventory.contents.get(digest));
    [records, contents.flat_map(|contents| contents.files.iter().cloned()).collect()]
}

/// Removes the files, one list after the other. The caller holds the cache alone.
fn remove(files: &[Vec<PathBuf>; 2]) -> Result<()> {
    for files in files {
        let mut directories = BTreeSet::new();
        for file in files {
            remove_file(file)?;
            directories.extend(file.parent());
        }
        directories.into_iter().try_for_each(sync_directory)?;
    }
    Ok(())
}

fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io("could not remove a file from the cache", path, &error)),
    }
}

// The collection after a run, where a size is configured. It gives way at once when others hold the
// cache, and never changes how the run ended.

/// How large the cache may grow by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheLimit {
    pub max_size: u64,
    pub protect: Vec<String>,
    pub protect_files: Vec<PathBuf>,
}

/// Collects down to the limit, where the cache has more.
pub fn after_run(root: &Path, limit: &CacheLimit, notices: &Notices) {
    match collect_down_to(root, limit, notices) {
        Ok(0) => {}
        Ok(freed) => notices.detail(format!("collected {freed} bytes from the cache")),
        Err(error) if error.kind() == Kind::Lock => notices.detail("the cache is in use and was not collected"),
        Err(error) => notices.warn(format!("the cache was not collected: {}", line(&error))),
    }
}

fn collect_down_to(root: &Path, limit: &CacheLimit, notices: &Notices) -> Result<u64> {
    let at_once = LockWait { speak: Duration::MAX, stop: Duration::ZERO };
    let protection = Protection::read(&limit.protect, &limit.protect_files)?;
    let policy = GcPolicy { target: GcTarget::Size(limit.max_size), min_age: Duration::ZERO, max_age: None };
    let Some(store) = LockedCache::open(root, LockMode::Exclusive, at_once, notices)? else { return Ok(0) };
    let selection = store.collect(&protection, &policy)?;
    if selection.shortfall() > 0 {
        notices.warn(format!(
            "the cache is {} bytes larger than configured: the rest is protected",
            selection.shortfall()
        ));
    }
    Ok(selection.freed)
}
