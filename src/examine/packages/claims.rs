//! Which package claims which entry, and whether the entry is still as the package had it.
//!
//! A file of a package has the time of the package's making. One that was written after the
//! package was installed (dpkg) or made (apk) is somebody else's work: an edited setting, or a
//! program put in the place of the package's.

use std::collections::HashMap;

use super::places::{Folder, Places};
use super::{Claim, Database, LayerPackages, Package};
use layer::{Entry, EntryKind, LayerIndex};

/// What is known about the age of a package's files.
#[derive(Debug, Clone, Copy)]
pub(super) enum Age {
    /// They are older than their installation.
    InstalledAt(i64),
    /// They are at most as young as their package.
    MadeAt(i64),
    Unknown,
}

/// Whether the age of any package's files is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ages {
    Known,
    Unknown,
}

/// The entry of a package in the list, and the age of its files.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claimant {
    package: usize,
    age: Age,
}

pub(super) struct Claims<'a> {
    layer: &'a LayerIndex,
    places: Places<'a>,
    times: Times,
    ages: Ages,
    packages: Vec<Package>,
    claims: HashMap<usize, Claim>,
    notes: Vec<String>,
}

impl<'a> Claims<'a> {
    pub(super) fn of(layer: &'a LayerIndex) -> Self {
        let (packages, claims, notes) = (Vec::new(), HashMap::new(), Vec::new());
        Self {
            layer,
            places: Places::of(layer),
            times: Times::of(&layer.entries),
            ages: Ages::Unknown,
            packages,
            claims,
            notes,
        }
    }

    pub(super) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    pub(super) fn package(&mut self, package: Package, age: Age) -> Claimant {
        if !matches!(age, Age::Unknown) {
            self.ages = Ages::Known;
        }
        self.packages.push(package);
        Claimant { package: self.packages.len() - 1, age }
    }

    /// The entry at a path that a list names, without the slash at its start.
    pub(super) fn find(&self, path: &[u8]) -> Option<usize> {
        self.places.find(path)
    }

    pub(super) fn folder(&self, path: &[u8]) -> Folder<'_, 'a> {
        self.places.folder(path)
    }

    /// Records the claim. Folders are shared by many packages; the first keeps them.
    pub(super) fn claim(&mut self, at: usize, by: Claimant) {
        let Some(entry) = self.layer.entries.get(at) else { return };
        let is_changed = entry.kind != EntryKind::Directory && self.times.is_newer(entry.mtime, by.age);
        let claim = if is_changed { Claim::Changed(by.package) } else { Claim::Owned(by.package) };
        self.claims.entry(at).or_insert(claim);
    }

    pub(super) fn finish(self) -> LayerPackages {
        let has_ages = self.ages == Ages::Known && !self.claims.is_empty();
        let changes_unseen = has_ages && matches!(self.times, Times::Flat);
        let path = |at: usize| self.layer.entries.get(at).map(|entry| entry.path.clone());
        let claims = self.claims.iter().filter_map(|(at, claim)| Some((path(*at)?, *claim))).collect();
        LayerPackages { packages: self.packages, database: Database::Read, notes: self.notes, changes_unseen, claims }
    }
}

/// What the times in a layer are worth.
enum Times {
    /// All entries have the same one: whoever packed them set it.
    Flat,
    /// Real ones; none is later than this.
    Until(i64),
}

impl Times {
    fn of(entries: &[Entry]) -> Self {
        let times = || entries.iter().filter(|entry| !entry.kind.is_marker()).map(|entry| entry.mtime);
        match (times().min(), times().max()) {
            (Some(oldest), Some(newest)) if oldest < newest => Self::Until(newest),
            _ => Self::Flat,
        }
    }

    /// Whether a file of this time cannot be as its package had it.
    fn is_newer(&self, mtime: i64, age: Age) -> bool {
        match (self, age) {
            (Self::Flat, _) | (_, Age::Unknown) => false,
            (_, Age::MadeAt(made)) => mtime > made,
            // Tools that cut times off at a moment give it to all that came later: then nothing in
            // the layer is newer than the installation, and an equal time says nothing.
            (Self::Until(newest), Age::InstalledAt(then)) => mtime > then || (mtime == then && then < *newest),
        }
    }
}
