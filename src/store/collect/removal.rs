//! Takes away from the store what was selected.
//!
//! Records go first and durably, so that at no moment, not even after a power cut, a record leads
//! to what was collected. A removal that is broken off leaves blobs that no image holds: the next
//! one takes them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::inventory::Inventory;
use super::selection::Selection;
use crate::error::{Error, Result};
use crate::store::disk::{IMAGES, ImageRecord, sync_directory};

/// The files that a selection means: the records of the images, then the rest.
pub fn files(root: &Path, inventory: &Inventory, selection: &Selection) -> [Vec<PathBuf>; 2] {
    let record = |reference: &str| root.join(IMAGES).join(ImageRecord::file_name(reference));
    let records = selection.images.iter().map(|taken| record(&taken.reference)).collect();
    let goods = selection.goods.iter().filter_map(|digest| inventory.goods.get(digest));
    [records, goods.flat_map(|goods| goods.files.iter().cloned()).collect()]
}

/// Removes the files, one list after the other. The caller holds the store alone.
pub fn remove(files: &[Vec<PathBuf>; 2]) -> Result<()> {
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
        Err(error) => Err(Error::io("could not remove a file of the store", path, &error)),
    }
}
