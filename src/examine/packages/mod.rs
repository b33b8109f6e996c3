//! The packages that were written in a layer, and which of its entries are theirs.
//!
//! An entry is a package's when a package database *written in the same layer* says so: dpkg
//! rewrites a package's list, apk its whole database, whenever it writes a package's files. So a
//! file that was copied over a package's in another layer stays the application's. One that was
//! changed in the same layer shows it by its time, see [`Claim::Changed`].
//!
//! Everything is read from the layer's index. A database that cannot be read says nothing.

mod apk;
mod claims;
mod comparison;
mod dpkg;
mod installed;
mod places;
#[cfg(test)]
pub(super) mod testing;

use std::collections::HashMap;

use self::claims::Claims;
pub use self::comparison::{ChangedPackage, PackageChanges};
pub use self::installed::{InstalledPackage, InstalledPackages, RootPackage, RootPackages};
use self::places::Files;
pub(super) use self::places::MERGED;
use layer::{LayerIndex, RootPath};

/// A package as its manager knows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Package {
    pub name: String,
    pub version: String,
    pub manager: Manager,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Manager {
    Dpkg,
    Apk,
}

impl Manager {
    /// The word of reports.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Dpkg => "dpkg",
            Self::Apk => "apk",
        }
    }
}

/// What a package database says of an entry; the number is the package's in its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The package's own.
    Owned(usize),
    /// The package has a file there, but this one is newer than the package: somebody wrote it.
    Changed(usize),
}

/// Whether a package manager was at work in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Database {
    /// No package database was written.
    Untouched,
    Read,
    /// One was written that could not be read, so nothing is known.
    Unreadable,
}

/// The packages written in one layer.
#[derive(Debug)]
pub struct LayerPackages {
    pub packages: Vec<Package>,
    pub database: Database,
    /// Why packages cannot be told from the application, one line each.
    pub notes: Vec<String>,
    /// All entries have the same time, so a file that was changed after its package was installed looks like the package's.
    pub changes_unseen: bool,
    claims: HashMap<RootPath, Claim>,
}

impl LayerPackages {
    /// The package that an entry of the layer belongs to, unless it was changed afterwards.
    #[must_use]
    pub fn owner(&self, path: &RootPath) -> Option<&Package> {
        match self.claim(path) {
            Some(Claim::Owned(package)) => self.packages.get(package),
            _ => None,
        }
    }

    #[must_use]
    pub fn claim(&self, path: &RootPath) -> Option<Claim> {
        self.claims.get(path).copied()
    }

    fn nothing(database: Database, notes: Vec<String>) -> Self {
        Self { packages: Vec::new(), database, notes, changes_unseen: false, claims: HashMap::new() }
    }
}

/// Reads the package databases that were written in `layer`.
#[must_use]
pub fn of(layer: &LayerIndex) -> LayerPackages {
    let files = Files::of(layer);
    if files.is_empty() {
        return LayerPackages::nothing(Database::Untouched, Vec::new());
    }
    if let Some(note) = unreadable(&files) {
        return LayerPackages::nothing(Database::Unreadable, vec![note]);
    }
    let mut claims = Claims::of(layer);
    dpkg::read(&files, &mut claims);
    apk::read(&files, &mut claims);
    claims.finish()
}

fn unreadable(files: &Files<'_>) -> Option<String> {
    let mut unreadable = files.unreadable();
    let first = unreadable.next()?;
    let more = match unreadable.count() {
        0 => String::new(),
        count => format!(" (and {count} more like it)"),
    };
    Some(format!("{first} cannot be read, so no file of the layer counts as a package's{more}"))
}

#[cfg(test)]
mod tests {
    use super::testing::{Layer, path};
    use super::*;

    #[test]
    fn a_layer_without_a_database_has_no_packages() {
        let packages = of(&Layer::default().file("usr/bin/curl", b"x").index());
        assert_eq!((packages.database, packages.packages.len()), (Database::Untouched, 0));
        assert_eq!(packages.owner(&path("usr/bin/curl")), None);
    }

    #[test]
    fn a_database_that_was_not_captured_or_is_of_rpm_says_nothing() {
        let dpkg = || Layer::default().dpkg(&[("curl", "1.0", "/usr/bin/curl")]).file("usr/bin/curl", b"x");
        assert_eq!(of(&dpkg().index()).database, Database::Read);
        for layer in [
            dpkg().unread("var/lib/dpkg/info/other.list"),
            dpkg().unread("lib/apk/db/installed"),
            dpkg().unread("var/lib/rpm/rpmdb.sqlite"),
            dpkg().unread("lib/apk/db/installed").unread("var/lib/rpm/Packages"),
        ] {
            let packages = of(&layer.index());
            assert_eq!(packages.database, Database::Unreadable);
            assert_eq!((packages.owner(&path("usr/bin/curl")), packages.notes.len()), (None, 1), "{packages:?}");
        }
    }
}
