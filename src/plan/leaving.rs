//! What stays behind, summed up for people.

use std::collections::BTreeMap;

use crate::examine::ownership::{LayerOwnership, Ownership};
use crate::layer::{Entry, EntryKind};

/// How much there is of something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bulk {
    pub entries: usize,
    pub bytes: u64,
}

/// Part of a layer that does not go along, by reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaving {
    /// Such as `package curl 7.88.1-10` or `package database`.
    pub what: String,
    /// Whether it is a package: those are counted.
    pub is_package: bool,
    pub bulk: Bulk,
}

impl Bulk {
    pub(super) fn add(&mut self, entry: &Entry) {
        self.entries += 1;
        if let EntryKind::File { size, .. } = entry.kind {
            self.bytes = self.bytes.saturating_add(size);
        }
    }
}

/// Why an entry stays behind, and whether that is a package.
pub(super) fn reason(owners: &LayerOwnership, owner: Ownership) -> (String, bool) {
    match owner {
        Ownership::Package(at) => {
            let package = owners.packages.packages.get(at);
            let named = package.map(|package| format!("package {} {}", package.name, package.version));
            (named.unwrap_or_default(), true)
        }
        other => (owners.word(other), false),
    }
}

/// A sum for each reason.
#[derive(Default)]
pub(super) struct Sums(BTreeMap<(bool, String), Bulk>);

impl Sums {
    pub(super) fn add(&mut self, what: String, is_package: bool, entry: &Entry) {
        // Packages first: `false` sorts before `true`.
        self.0.entry((!is_package, what)).or_default().add(entry);
    }

    pub(super) fn finish(self) -> Vec<Leaving> {
        let leaving = |((other, what), bulk): ((bool, String), Bulk)| Leaving { what, is_package: !other, bulk };
        self.0.into_iter().map(leaving).collect()
    }
}
