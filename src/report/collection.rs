//! What a collection took, or would take: the same model for both.

use std::fmt::Write as _;
use std::path::Path;

use bytesize::ByteSize;
use serde::Serialize;

use super::store::Loose;
use crate::error::printable;
use crate::store::collect::{Selection, Taken, Why};

/// Whether it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    Collected,
    DryRun,
}

#[derive(Debug, Serialize)]
pub struct Collection {
    pub schema: &'static str,
    pub cache: String,
    pub dry_run: bool,
    pub removed: Vec<Removed>,
    pub loose: Loose,
    pub freed: u64,
    /// How much had to go to make room.
    pub wanted: u64,
    /// How much of that may not go.
    pub shortfall: u64,
    pub kept: KeptImages,
}

#[derive(Debug, Serialize)]
pub struct Removed {
    pub reference: String,
    pub digest: String,
    pub bytes: u64,
    pub why: &'static str,
}

#[derive(Debug, Serialize)]
pub struct KeptImages {
    pub protected: usize,
    pub young: usize,
}

impl Removed {
    #[must_use]
    pub fn of(taken: &Taken) -> Self {
        let why = match taken.why {
            Why::Age => "age",
            Why::Room => "room",
        };
        let (reference, digest) = (taken.reference.clone(), taken.digest.to_string());
        Self { reference, digest, bytes: taken.bytes, why }
    }
}

impl Collection {
    #[must_use]
    pub fn new(root: &Path, selection: &Selection, done: Done) -> Self {
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

    /// The collection for people.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let word = if self.dry_run { "would remove" } else { "removed" };
        for removed in &self.removed {
            let (name, size) = (printable(&removed.reference), ByteSize(removed.bytes));
            let _ = writeln!(out, "{word}  {name}  {size} ({})", removed.why);
        }
        if self.loose.blobs > 0 {
            let _ =
                writeln!(out, "{word}  {} blobs that no image holds  {}", self.loose.blobs, ByteSize(self.loose.bytes));
        }
        let freed = if self.dry_run { "would free" } else { "freed" };
        let kept = format!("kept {} protected, {} too young", self.kept.protected, self.kept.young);
        let _ = writeln!(out, "{freed} {}; {kept}", ByteSize(self.freed));
        out
    }

    /// Said where there is less room than was asked for.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        (self.shortfall > 0).then(|| {
            let (wanted, short) = (ByteSize(self.wanted), ByteSize(self.shortfall));
            format!("{wanted} should go, {short} of it may not: {} images are protected", self.kept.protected)
        })
    }
}
