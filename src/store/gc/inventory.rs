//! What is in the cache: images by their records, and the files that their parts are.
//!
//! Nothing is changed and no link is followed. Files whose names are not the cache's own are not
//! seen here, so no file of somebody else can be collected.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::protection::{ImageName, texts_of};
use crate::store::disk::{IMAGES, ImageRecord, Timestamp, record_files, resolved_location};
use oci::error::{Error, Result};
use oci::{Digest, Location};

#[derive(Debug, Default)]
pub struct Inventory {
    pub images: Vec<StoredImage>,
    /// What there is by digest, whoever it belongs to.
    pub contents: BTreeMap<Digest, StoredContent>,
    /// Records that cannot be read: what they refer to is unknown.
    pub unreadable: Vec<Error>,
}

/// An image that the cache has a record of, or that a node has.
#[derive(Debug, Clone)]
pub struct StoredImage {
    /// What it is called in reports, and what its record is found by.
    pub reference: String,
    pub digest: Digest,
    /// All that it is called; any of them can protect it.
    pub names: Vec<ImageName>,
    pub platforms: BTreeMap<String, Digest>,
    pub first_seen: Timestamp,
    pub last_use: Option<Timestamp>,
    /// What belongs to it, whether it is there or not.
    pub parts: BTreeSet<Digest>,
    /// The length of the record itself.
    pub bytes: u64,
    /// Why it stays without being protected.
    pub hold: Option<HoldReason>,
}

/// What else than an entry keeps an image. Only a node has such claims: in the cache, who uses an
/// image holds the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldReason {
    InUse,
    Pinned,
}

impl StoredImage {
    /// The image of a record that has `bytes`.
    pub fn new(record: ImageRecord, bytes: u64) -> Result<Self> {
        let ImageRecord { reference, digest, platforms, first_seen, last_use, parts, media_type: _ } = record;
        let location: Location = reference.parse()?;
        let name = ImageName {
            texts: std::iter::once(reference.clone()).chain(texts_of(&location, Some(digest))).collect(),
            location: Some(resolved_location(&location)),
            digests: std::iter::once(digest).chain(platforms.values().copied()).collect(),
        };
        let names = vec![name];
        Ok(Self { reference, digest, names, platforms, first_seen, last_use, parts, bytes, hold: None })
    }
}

/// What there is of one digest: in the cache a blob, a part of it, and indexes.
#[derive(Debug, Clone)]
pub struct StoredContent {
    /// None where the digest is an image on a node.
    pub files: Vec<PathBuf>,
    pub bytes: u64,
    /// The last time that one of them was used.
    pub touched: Timestamp,
}

impl Inventory {
    /// Looks through the directory of a cache. The caller holds its lock.
    pub fn take(root: &Path) -> Result<Self> {
        let mut inventory = Self::default();
        inventory.add_images(root)?;
        inventory.add_goods(&root.join("blobs/sha256"))?;
        inventory.add_goods(&root.join("partial"))?;
        for directory in versions(&root.join("indexes"))? {
            inventory.add_goods(&directory)?;
        }
        Ok(inventory)
    }

    /// How many bytes the cache has.
    #[must_use]
    pub fn total(&self) -> u64 {
        let records = self.images.iter().map(|image| image.bytes);
        self.contents.values().map(|contents| contents.bytes).chain(records).sum()
    }

    /// By how many images each digest is held that is there.
    #[must_use]
    pub fn holders(&self) -> HashMap<Digest, usize> {
        let mut holders = HashMap::new();
        for part in self.images.iter().flat_map(|image| &image.parts) {
            if self.contents.contains_key(part) {
                *holders.entry(*part).or_default() += 1;
            }
        }
        holders
    }

    fn add_images(&mut self, root: &Path) -> Result<()> {
        let directory = root.join(IMAGES);
        for newer in versions(&root.join("images"))?.into_iter().filter(|version| *version != directory) {
            self.unreadable.push(
                Error::input("the cache has records of another version of underpin")
                    .fact("path", newer.display())
                    .hint("run `cache gc` with the newest underpin that uses this cache"),
            );
        }
        if !directory.is_dir() {
            return Ok(());
        }
        for name in record_files(&directory)? {
            let path = directory.join(name);
            match read_image(&path) {
                Ok(image) => self.images.extend(image),
                Err(error) => self.unreadable.push(error),
            }
        }
        Ok(())
    }

    fn add_goods(&mut self, directory: &Path) -> Result<()> {
        for (name, metadata) in listed(directory)? {
            let Ok(digest) = Digest::from_hex(&name) else { continue };
            if !metadata.is_file() {
                continue;
            }
            let modified = metadata.modified().map_or_else(|_| Timestamp::now(), Timestamp::of);
            let contents =
                self.contents.entry(digest).or_insert(StoredContent { files: Vec::new(), bytes: 0, touched: modified });
            contents.files.push(directory.join(name));
            contents.bytes += metadata.len();
            contents.touched = contents.touched.max(modified);
        }
        Ok(())
    }
}

fn read_image(path: &Path) -> Result<Option<StoredImage>> {
    let Some(record) = ImageRecord::read(path)? else { return Ok(None) };
    let bytes = fs::symlink_metadata(path).map_or(0, |metadata| metadata.len());
    StoredImage::new(record, bytes).map(Some)
}

/// The directories `vN` in a directory.
pub fn versions(directory: &Path) -> Result<Vec<PathBuf>> {
    let is_version =
        |name: &str| name.strip_prefix('v').is_some_and(|number| number.parse::<u32>().is_ok() && !number.is_empty());
    let all = listed(directory)?.into_iter();
    Ok(all.filter(|(name, data)| data.is_dir() && is_version(name)).map(|(name, _)| directory.join(name)).collect())
}

/// Names and what they are, in order; nothing where there is no directory.
fn listed(directory: &Path) -> Result<Vec<(String, fs::Metadata)>> {
    let failed = |error: io::Error| Error::io("could not list the cache", directory, &error);
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut listed = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        match entry.metadata() {
            Ok(metadata) => listed.push((entry.file_name().to_string_lossy().into_owned(), metadata)),
            // Others may be at work beside us, and finish or discard what they have.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
    }
    listed.sort_by(|one, two| one.0.cmp(&two.0));
    Ok(listed)
}
