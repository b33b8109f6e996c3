//! What the `cache` commands show of the cache: its images, what a collection took or would take, and
//! what is damaged.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use bytesize::ByteSize;
use serde::Serialize;

use crate::store::disk::Timestamp;
use crate::store::gc::{GcSelection, Inventory, Protection, RemovalReason, RemovedImage, StoredImage, VerifiedFiles};
use oci::error::printable;

#[derive(Debug, Serialize)]
pub struct CacheListing {
    pub schema: &'static str,
    pub cache: String,
    pub images: Vec<ListedImage>,
    pub loose: Loose,
    pub total: u64,
    #[serde(skip)]
    now: Timestamp,
}

#[derive(Debug, Serialize)]
pub struct ListedImage {
    pub reference: String,
    pub digest: String,
    pub platforms: BTreeMap<String, String>,
    /// What the cache has of it, shared or not.
    pub size: u64,
    /// What would be freed by removing only this image.
    pub own: u64,
    pub shared: u64,
    /// Seconds since 1970.
    pub first_seen: u64,
    pub last_use: Option<u64>,
    pub protected_by: Vec<String>,
}

/// Blobs that no image uses.
#[derive(Debug, Default, Serialize)]
pub struct Loose {
    pub blobs: usize,
    pub bytes: u64,
}

impl CacheListing {
    #[must_use]
    pub fn new(root: &Path, inventory: &Inventory, protection: &Protection) -> Self {
        let holders = inventory.holders();
        let list = |image: &StoredImage| {
            let (mut own, mut shared) = (image.bytes, 0);
            for part in &image.parts {
                let bytes = inventory.contents.get(part).map_or(0, |contents| contents.bytes);
                *(if holders.get(part) == Some(&1) { &mut own } else { &mut shared }) += bytes;
            }
            ListedImage {
                reference: image.reference.clone(),
                digest: image.digest.to_string(),
                platforms: image.platforms.iter().map(|(name, digest)| (name.clone(), digest.to_string())).collect(),
                size: own + shared,
                own,
                shared,
                first_seen: image.first_seen.seconds(),
                last_use: image.last_use.map(Timestamp::seconds),
                protected_by: protection.entries_for(image),
            }
        };
        let mut images: Vec<ListedImage> = inventory.images.iter().map(list).collect();
        images.sort_by(|one, two| one.reference.cmp(&two.reference));
        let loose = inventory.contents.iter().filter(|(digest, _)| !holders.contains_key(digest));
        let loose = loose.fold(Loose::default(), |sum, (_, contents)| Loose {
            blobs: sum.blobs + 1,
            bytes: sum.bytes + contents.bytes,
        });
        let (schema, cache) = ("underpin.cache-ls/v1", root.display().to_string());
        Self { schema, cache, images, loose, total: inventory.total(), now: Timestamp::now() }
    }

    /// The listing as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        for image in &self.images {
            let _ = writeln!(out, "{}", printable(&image.reference));
            let _ = writeln!(out, "  digest     {}", image.digest);
            if !image.platforms.is_empty() {
                let names: Vec<&str> = image.platforms.keys().map(String::as_str).collect();
                let _ = writeln!(out, "  platforms  {}", printable(&names.join(", ")));
            }
            let (own, shared) = (ByteSize(image.own), ByteSize(image.shared));
            let _ = writeln!(out, "  size       {} ({own} own, {shared} shared)", ByteSize(image.size));
            let used = image.last_use.map_or_else(|| "never used".to_owned(), |at| format!("used {}", self.ago(at)));
            let _ = writeln!(out, "  age        first seen {}, {used}", self.ago(image.first_seen));
            for entry in &image.protected_by {
                let _ = writeln!(out, "  protected  by {}", printable(entry));
            }
        }
        let loose = format!("{} in {} blobs that no image uses", ByteSize(self.loose.bytes), self.loose.blobs);
        let _ = writeln!(out, "{} images, {}, of which {loose}", self.images.len(), ByteSize(self.total));
        out
    }

    fn ago(&self, seconds: u64) -> String {
        ago(self.now, seconds)
    }
}

/// How long ago something was that happened so many seconds after the start of 1970.
pub(super) fn ago(now: Timestamp, at: u64) -> String {
    let seconds = now.seconds().saturating_sub(at);
    match seconds {
        0..=119 => format!("{seconds} s ago"),
        120..=7_199 => format!("{} min ago", seconds / 60),
        7_200..=172_799 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

/// What one entry protects. The list of them is all that `cache match --json` prints.
#[derive(Debug, Serialize)]
pub struct EntryMatches {
    pub entry: String,
    pub images: Vec<String>,
}

impl EntryMatches {
    #[must_use]
    pub fn all(inventory: &Inventory, protection: &Protection) -> Vec<Self> {
        let matched = |entry: &crate::store::gc::ProtectedEntry| {
            let images = inventory.images.iter().filter(|image| entry.protects(image));
            let mut images: Vec<String> = images.map(|image| image.reference.clone()).collect();
            images.sort();
            Self { entry: entry.to_string(), images }
        };
        protection.entries().iter().map(matched).collect()
    }

    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = format!("{}\n", printable(&self.entry));
        for image in &self.images {
            let _ = writeln!(out, "  {}", printable(image));
        }
        out
    }
}

/// Whether it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    Collected,
    DryRun,
}

#[derive(Debug, Serialize)]
pub struct CacheCollection {
    pub schema: &'static str,
    pub cache: String,
    pub dry_run: bool,
    pub removed: Vec<Removed>,
    pub loose: Loose,
    pub freed: u64,
    /// How much had to be removed.
    pub wanted: u64,
    /// How much of that must be kept.
    pub shortfall: u64,
    pub kept: KeptImages,
}

#[derive(Debug, Serialize)]
pub struct Removed {
    pub reference: String,
    pub digest: String,
    pub bytes: u64,
    pub why: RemovalReason,
}

#[derive(Debug, Serialize)]
pub struct KeptImages {
    pub protected: usize,
    pub young: usize,
}

impl Removed {
    #[must_use]
    pub fn of(taken: &RemovedImage) -> Self {
        let (reference, digest) = (taken.reference.clone(), taken.digest.to_string());
        Self { reference, digest, bytes: taken.bytes, why: taken.why }
    }
}

impl CacheCollection {
    #[must_use]
    pub fn new(root: &Path, selection: &GcSelection, done: Done) -> Self {
        let bytes = selection.loose.iter().map(|(_, bytes)| bytes).sum();
        Self {
            schema: "underpin.cache-gc/v1",
            cache: root.display().to_string(),
            dry_run: done == Done::DryRun,
            removed: selection.images.iter().map(Removed::of).collect(),
            loose: Loose { blobs: selection.loose.len(), bytes },
            freed: selection.freed,
            wanted: selection.wanted,
            shortfall: selection.shortfall(),
            kept: KeptImages { protected: selection.protected, young: selection.young },
        }
    }

    /// The collection as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let word = if self.dry_run { "would remove" } else { "removed" };
        for removed in &self.removed {
            let (name, size) = (printable(&removed.reference), ByteSize(removed.bytes));
            let _ = writeln!(out, "{word}  {name}  {size} ({})", removed.why.word());
        }
        if self.loose.blobs > 0 {
            let _ =
                writeln!(out, "{word}  {} blobs that no image uses  {}", self.loose.blobs, ByteSize(self.loose.bytes));
        }
        let freed = if self.dry_run { "would free" } else { "freed" };
        let kept = format!("kept {} protected, {} too young", self.kept.protected, self.kept.young);
        let _ = writeln!(out, "{freed} {}; {kept}", ByteSize(self.freed));
        out
    }

    /// A warning, where less was freed than was asked for.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        (self.shortfall > 0).then(|| {
            let (wanted, short) = (ByteSize(self.wanted), ByteSize(self.shortfall));
            format!("could not free {short} of {wanted}: {} images are protected", self.kept.protected)
        })
    }
}

#[derive(Debug, Serialize)]
pub struct CacheCheck {
    pub schema: &'static str,
    pub cache: String,
    pub checked: usize,
    pub bytes: u64,
    pub damaged: Vec<DamagedFile>,
    /// Indexes whose layers are not in the cache, so that nobody can say whether they are right.
    pub underived: usize,
}

#[derive(Debug, Serialize)]
pub struct DamagedFile {
    pub path: String,
    /// Images that it belongs to, to be fetched again.
    pub images: Vec<String>,
    pub removed: bool,
}

impl CacheCheck {
    #[must_use]
    pub fn new(root: &Path, checked: &VerifiedFiles) -> Self {
        let damaged = checked.damaged.iter().map(|damaged| DamagedFile {
            path: damaged.path.display().to_string(),
            images: damaged.images.clone(),
            removed: damaged.removed,
        });
        Self {
            schema: "underpin.cache-verify/v1",
            cache: root.display().to_string(),
            checked: checked.files,
            bytes: checked.bytes,
            damaged: damaged.collect(),
            underived: checked.underived,
        }
    }

    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = format!("verified {} files, {}, ", self.checked, ByteSize(self.bytes));
        let _ = match self.damaged.len() {
            0 => writeln!(out, "all intact"),
            damaged => writeln!(out, "{damaged} damaged"),
        };
        if self.underived > 0 {
            let indexes = if self.underived == 1 { "index" } else { "indexes" };
            let why =
                "could not be derived again: the layer is not in the cache, or another version of underpin wrote it";
            let _ = writeln!(out, "  {} {indexes} {why}", self.underived);
        }
        for damaged in &self.damaged {
            let word = if damaged.removed { "removed" } else { "could not be removed" };
            let _ = writeln!(out, "  {}  {word}", printable(&damaged.path));
            for image in &damaged.images {
                let _ = writeln!(out, "    fetch again  {}", printable(image));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_a_unit_that_fits() {
        for (seconds, said) in
            [(0, "0 s ago"), (119, "119 s ago"), (120, "2 min ago"), (7200, "2 h ago"), (172_800, "2 days ago")]
        {
            assert_eq!(ago(Timestamp::from_seconds(1_000_000), 1_000_000 - seconds), said);
        }
    }
}
