//! The collection after a run, where a size is configured. It gives way at once when others hold the
//! store, and never changes how the run ended.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::policy::{Policy, Room};
use super::protection::Protection;
use super::{LockMode, LockWait, Notices, Store};
use crate::error::{Kind, Result};
use crate::store::disk::line;

/// How large the store may grow by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    pub max_size: u64,
    pub protect: Vec<String>,
    pub protect_files: Vec<PathBuf>,
}

/// Collects down to the limit, where the store has more.
pub fn after_run(root: &Path, limit: &Limit, notices: &Notices) {
    match collect(root, limit, notices) {
        Ok(0) => {}
        Ok(freed) => notices.detail(format!("collected {freed} bytes from the store")),
        Err(error) if error.kind() == Kind::Lock => notices.detail("the store is in use and was not collected"),
        Err(error) => notices.warn(format!("the store was not collected: {}", line(&error))),
    }
}

fn collect(root: &Path, limit: &Limit, notices: &Notices) -> Result<u64> {
    let at_once = LockWait { speak: Duration::MAX, stop: Duration::ZERO };
    let protection = Protection::read(&limit.protect, &limit.protect_files)?;
    let policy = Policy { room: Room::Size(limit.max_size), min_age: Duration::ZERO, max_age: None };
    let Some(store) = Store::open(root, LockMode::Exclusive, at_once, notices)? else { return Ok(0) };
    let selection = store.collect(&protection, &policy)?;
    if selection.shortfall() > 0 {
        notices.warn(format!(
            "the store is {} bytes larger than configured: the rest is protected",
            selection.shortfall()
        ));
    }
    Ok(selection.freed)
}
