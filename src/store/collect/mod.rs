//! The store as a whole: what is in it, what is protected, and the collector of what is not.
//!
//! The policy is the kubelet's, with the list of protected images that it never got. The collector
//! works alone: whoever uses the store holds its lock, so a run in progress is never broken. It
//! stops before the first removal on any doubt: a list or a record that cannot be read.

mod automatic;
mod entry;
mod inspection;
mod inventory;
#[cfg(test)]
mod model;
mod name;
mod policy;
mod protection;
mod removal;
#[cfg(test)]
mod sample;
mod selection;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use super::Notices;
use super::disk::{LockGuard, LockMode, LockWait, has_known_version, lock_exclusive, lock_shared, sweep};
use crate::error::{Error, Result};

pub use automatic::{Limit, after_run};
pub use entry::Entry;
pub use inspection::{Checked, Damaged};
pub use inventory::{Claim, Goods, Inventory, StoredImage, versions};
pub use name::Name;
pub use policy::{Disk, Policy, Room};
pub use protection::Protection;
pub use selection::{Selection, Taken, Why, select};

use crate::store::disk::Timestamp;

/// A store that is there, and our part in its lock.
pub struct Store {
    root: PathBuf,
    mode: LockMode,
    _held: LockGuard,
}

impl Store {
    /// The store in a directory, or `None` where there is none. Nothing is made or changed.
    /// [`LockMode::Shared`] is for looking, [`LockMode::Exclusive`] for collecting.
    pub fn open(root: &Path, mode: LockMode, patience: LockWait, notices: &Notices) -> Result<Option<Self>> {
        if !root.is_dir() || !has_known_version(root)? {
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
    pub fn select(&self, protection: &Protection, policy: &Policy) -> Result<Selection> {
        self.choose(protection, policy).map(|(_, selection)| selection)
    }

    fn choose(&self, protection: &Protection, policy: &Policy) -> Result<(Inventory, Selection)> {
        let inventory = self.inventory()?;
        if let Some(error) = inventory.unreadable.first() {
            return Err(error.clone().fact("collected", "nothing"));
        }
        let wanted = policy.room.excess(inventory.total(), Disk::of(&self.root)?);
        let selection = select(&inventory, protection, policy, wanted, Timestamp::now());
        Ok((inventory, selection))
    }

    /// Collects what [`Store::select`] gives.
    pub fn collect(&self, protection: &Protection, policy: &Policy) -> Result<Selection> {
        if self.mode != LockMode::Exclusive {
            return Err(Error::usage("the store is only looked at"));
        }
        let (inventory, selection) = self.choose(protection, policy)?;
        sweep(&self.root);
        removal::remove(&removal::files(&self.root, &inventory, &selection))?;
        Ok(selection)
    }
}
