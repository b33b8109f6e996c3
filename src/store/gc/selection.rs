//! What a collection would take, and in which order. Pure: the dry run is the real one.
//!
//! Never-used images go first, then those least recently used, ties by when they were first seen.
//! What no image holds counts as never used. A blob goes when the last image that holds it goes, and
//! only then it counts as freed.

use std::collections::{HashMap, HashSet};

use super::inventory::{HoldReason, Inventory, StoredImage};
use super::policy::GcPolicy;
use super::protection::Protection;
use crate::store::disk::Timestamp;
use oci::Digest;

/// Why something goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovalReason {
    Age,
    Space,
}

impl RemovalReason {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Space => "room",
        }
    }
}

/// What goes.
#[derive(Debug, Default)]
pub struct GcSelection {
    pub images: Vec<RemovedImage>,
    /// Blobs that no image holds, and their bytes.
    pub loose: Vec<(Digest, u64)>,
    /// Everything that goes with the last image that held it, or was held by none.
    pub contents: Vec<Digest>,
    pub freed: u64,
    /// How much had to be freed to make room.
    pub wanted: u64,
    pub protected: usize,
    pub in_use: usize,
    pub pinned: usize,
    pub young: usize,
}

impl GcSelection {
    /// How much is wanted and may not be taken.
    #[must_use]
    pub fn shortfall(&self) -> u64 {
        self.wanted.saturating_sub(self.freed)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedImage {
    pub reference: String,
    pub digest: Digest,
    /// What this one frees, at its turn.
    pub bytes: u64,
    pub why: RemovalReason,
}

/// What may go, as one thing.
#[derive(Clone, Copy)]
enum RemovalUnit<'a> {
    Image(&'a StoredImage),
    Loose(Digest),
}

struct Candidate<'a> {
    unit: RemovalUnit<'a>,
    last_use: Option<Timestamp>,
    first_seen: Timestamp,
}

impl<'a> Candidate<'a> {
    fn image(&self) -> Option<&'a StoredImage> {
        match self.unit {
            RemovalUnit::Image(image) => Some(image),
            RemovalUnit::Loose(_) => None,
        }
    }

    fn is_too_old(&self, policy: &GcPolicy, now: Timestamp) -> bool {
        policy.max_age.is_some_and(|most| now.since(self.last_use.unwrap_or(self.first_seen)) > most)
    }

    fn is_too_young(&self, policy: &GcPolicy, now: Timestamp) -> bool {
        now.since(self.first_seen) < policy.min_age
    }
}

/// Chooses what goes to free `wanted` bytes, and what is too old.
#[must_use]
pub fn select(
    inventory: &Inventory,
    protection: &Protection,
    policy: &GcPolicy,
    wanted: u64,
    now: Timestamp,
) -> GcSelection {
    let holders = inventory.holders();
    let (protected, rest): (Vec<_>, Vec<_>) = inventory.images.iter().partition(|image| protection.covers(image));
    let (claimed, free): (Vec<_>, Vec<_>) = rest.into_iter().partition(|image| image.hold.is_some());
    let candidates = in_order(inventory, &free, &holders);
    let (old, rest): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|one| one.is_too_old(policy, now));
    let (young, rest): (Vec<_>, Vec<_>) = rest.into_iter().partition(|one| one.is_too_young(policy, now));
    let young: Vec<&StoredImage> = young.iter().filter_map(Candidate::image).collect();
    let staying: HashSet<Digest> =
        protected.iter().chain(&claimed).chain(&young).flat_map(|it| it.parts.iter().copied()).collect();

    let selection = GcSelection {
        wanted,
        protected: protected.len(),
        in_use: count(&claimed, HoldReason::InUse),
        pinned: count(&claimed, HoldReason::Pinned),
        young: young.len(),
        ..GcSelection::default()
    };
    let mut taking = Taking { inventory, holders, selection };
    for one in &old {
        taking.take(one.unit, RemovalReason::Age);
    }
    for one in &rest {
        if taking.selection.freed >= wanted {
            break;
        }
        if taking.could_free(one.unit, &staying) {
            taking.take(one.unit, RemovalReason::Space);
        }
    }
    taking.selection
}

fn count(claimed: &[&StoredImage], hold: HoldReason) -> usize {
    claimed.iter().filter(|image| image.hold == Some(hold)).count()
}

fn in_order<'a>(
    inventory: &Inventory,
    free: &[&'a StoredImage],
    holders: &HashMap<Digest, usize>,
) -> Vec<Candidate<'a>> {
    let images = free.iter().map(|image| Candidate {
        unit: RemovalUnit::Image(image),
        last_use: image.last_use,
        first_seen: image.first_seen,
    });
    let loose =
        inventory.contents.iter().filter(|(digest, _)| !holders.contains_key(digest)).map(|(digest, contents)| {
            Candidate { unit: RemovalUnit::Loose(*digest), last_use: None, first_seen: contents.touched }
        });
    let mut candidates: Vec<Candidate<'a>> = loose.chain(images).collect();
    // Stable: equals stay in the order of their digests and of their records' names.
    candidates.sort_by_key(|one| (one.last_use, one.first_seen));
    candidates
}

struct Taking<'a> {
    inventory: &'a Inventory,
    holders: HashMap<Digest, usize>,
    selection: GcSelection,
}

impl Taking<'_> {
    /// Whether anything of it could go at all, sooner or later. An image of which others that stay
    /// hold everything is left alone: to forget it would free nothing.
    fn could_free(&self, unit: RemovalUnit<'_>, staying: &HashSet<Digest>) -> bool {
        let RemovalUnit::Image(image) = unit else { return true };
        image.parts.iter().any(|part| self.inventory.contents.contains_key(part) && !staying.contains(part))
            || !image.parts.iter().any(|part| self.inventory.contents.contains_key(part))
    }

    fn take(&mut self, unit: RemovalUnit<'_>, why: RemovalReason) {
        match unit {
            RemovalUnit::Loose(digest) => {
                let bytes = self.remove(digest);
                self.selection.loose.push((digest, bytes));
                self.selection.freed += bytes;
            }
            RemovalUnit::Image(image) => {
                let bytes = image.bytes + image.parts.iter().map(|part| self.let_go(*part)).sum::<u64>();
                self.selection.freed += bytes;
                let (reference, digest) = (image.reference.clone(), image.digest);
                self.selection.images.push(RemovedImage { reference, digest, bytes, why });
            }
        }
    }

    /// One reference less; what no image refers to any more is removed.
    fn let_go(&mut self, part: Digest) -> u64 {
        match self.holders.get_mut(&part) {
            Some(1) => {
                self.holders.remove(&part);
                self.remove(part)
            }
            Some(count) => {
                *count -= 1;
                0
            }
            None => 0,
        }
    }

    fn remove(&mut self, digest: Digest) -> u64 {
        let Some(contents) = self.inventory.contents.get(&digest) else { return 0 };
        self.selection.contents.push(digest);
        contents.bytes
    }
}
