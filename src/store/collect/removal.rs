//! Takes away what was selected.
//!
//! Records go first and durably, so that at no moment, not even after a power cut, a record leads
//! to what was collected. A removal that is broken off leaves blobs that no image holds: the next
//! one takes them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use super::selection::Selection;
use crate::error::{Error, Result};
use crate::store::disk::sync_folder;

/// Removes everything that was selected. The caller holds the store alone.
pub fn remove(selection: &Selection) -> Result<()> {
    for files in [&selection.records, &selection.files] {
        let mut folders = BTreeSet::new();
        for file in files {
            remove_file(file)?;
            folders.extend(file.parent());
        }
        folders.into_iter().try_for_each(sync_folder)?;
    }
    Ok(())
}

fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io("could not remove a file of the store", path, &error)),
    }
}
