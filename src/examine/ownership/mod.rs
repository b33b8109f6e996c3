//! Whom each entry of a layer belongs to: the application, or the operating system it was built on.
//!
//! An entry is the system's only with proof from the same layer: a package database written there that
//! claims it, a file that a package manager keeps for itself, or one that a package's installation
//! must have made. A layer in which no package manager was at work is the application's, account files
//! aside. What is kept without need is only large, what is dropped without proof is lost.

pub(super) mod generated;
pub(super) mod paths;
mod settle;
#[cfg(test)]
mod tests;

use self::generated::Generated;
use super::packages::{self, Claim, Database, LayerPackages};
use layer::{Entry, EntryKind, LayerIndex, RootPath};

/// Whom an entry belongs to, and why. Numbers are those of a package in its layer's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ownership {
    Application,
    /// A package has a file there, but this one was written after the package was installed.
    Changed(usize),
    /// The system's, but a hard link of the application has its content here.
    Held,
    /// A folder of the system on the way to something of the application.
    Passage,
    Package(usize),
    Database,
    Cache,
    Log,
    Settings,
    LoaderCache,
    /// Made when a package was installed, and listed by none.
    Generated,
    /// A folder that every system has.
    Standard,
    /// A folder with nothing in it but the system's.
    Hollow,
    /// Users and groups. What becomes of them is decided with the accounts.
    Account,
    /// A whiteout or opaque mark. What becomes of it is decided with the lower layers.
    Marker,
}

/// On which side of the move an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Stays,
    Leaves,
    /// Not to be decided from the layer alone.
    Open,
}

impl Ownership {
    #[must_use]
    pub const fn side(self) -> Side {
        match self {
            Self::Application | Self::Changed(_) | Self::Held | Self::Passage => Side::Stays,
            Self::Account | Self::Marker => Side::Open,
            Self::Package(_)
            | Self::Database
            | Self::Cache
            | Self::Log
            | Self::Settings
            | Self::LoaderCache
            | Self::Generated
            | Self::Standard
            | Self::Hollow => Side::Leaves,
        }
    }
}

/// The owners of a layer.
#[derive(Debug)]
pub struct LayerOwnership {
    /// One for each entry of the layer, in its order.
    pub entries: Vec<Ownership>,
    pub packages: LayerPackages,
}

impl LayerOwnership {
    /// A owner in the words of a report.
    #[must_use]
    pub fn word(&self, owner: Ownership) -> String {
        let name = |at: usize| self.packages.packages.get(at).map_or("", |package| package.name.as_str());
        match owner {
            Ownership::Application => "application",
            Ownership::Changed(package) => return format!("changed file of package {}", name(package)),
            Ownership::Held => "content of a hard link that the application has",
            Ownership::Passage => "directory on the way to the application",
            Ownership::Package(package) => return format!("package {}", name(package)),
            Ownership::Database => "package database",
            Ownership::Cache => "package cache",
            Ownership::Log => "log of a package manager",
            Ownership::Settings => "settings of a package manager",
            Ownership::LoaderCache => "loader cache",
            Ownership::Generated => "made by the installation of a package",
            Ownership::Standard => "directory of every system",
            Ownership::Hollow => "directory of the system's files",
            Ownership::Account => "account file",
            Ownership::Marker => "whiteout",
        }
        .to_owned()
    }
}

/// Whom the entries of `layer` belong to.
#[must_use]
pub fn of(layer: &LayerIndex) -> LayerOwnership {
    let packages = packages::of(layer);
    let generated = (packages.database == Database::Read).then(|| Generated::of(layer, &packages));
    let alone = |entry: &Entry| alone(entry, &packages, generated.as_ref());
    let entries = layer.entries.iter();
    let mut entries: Vec<Ownership> =
        if was_managed(layer, &packages) { entries.map(alone).collect() } else { entries.map(untouched).collect() };
    settle::hold_hard_links(&layer.entries, &mut entries);
    settle::settle_directories(&layer.entries, &mut entries);
    LayerOwnership { entries, packages }
}

/// Whether a package manager was at work: it wrote its database, or left a file of its own.
fn was_managed(layer: &LayerIndex, packages: &LayerPackages) -> bool {
    let is_trace = |entry: &Entry| {
        let is_file = !entry.kind.is_marker() && entry.kind != EntryKind::Directory;
        is_file && matches!(paths::written(entry), Some(Ownership::Database | Ownership::Cache))
    };
    packages.database != Database::Untouched || layer.entries.iter().any(is_trace)
}

/// Whether the path is the directory of a package database, or inside it.
#[must_use]
pub fn is_in_database(path: &RootPath) -> bool {
    paths::is_in_database(path)
}

/// Whom an entry belongs to where no package manager was at work.
fn untouched(entry: &Entry) -> Ownership {
    match entry.kind {
        _ if entry.kind.is_marker() => Ownership::Marker,
        EntryKind::Directory if paths::is_standard(entry) => Ownership::Standard,
        _ if paths::is_account(entry.path.as_bytes()) => Ownership::Account,
        _ => Ownership::Application,
    }
}

/// Whom an entry belongs to when it is looked at alone: folders are not yet known to lead anywhere.
fn alone(entry: &Entry, packages: &LayerPackages, generated: Option<&Generated<'_>>) -> Ownership {
    if entry.kind.is_marker() {
        return Ownership::Marker;
    }
    if paths::is_account(entry.path.as_bytes()) {
        return Ownership::Account;
    }
    if let Some(written) = paths::written(entry) {
        return written;
    }
    let is_folder = entry.kind == EntryKind::Directory;
    match packages.claim(&entry.path) {
        _ if !is_folder && generated.is_some_and(|generated| generated.is_trusted(entry)) => Ownership::Application,
        Some(Claim::Owned(package)) => Ownership::Package(package),
        _ if is_folder && paths::is_standard(entry) => Ownership::Standard,
        _ if generated.is_some_and(|generated| generated.has(entry)) => Ownership::Generated,
        Some(Claim::Changed(package)) => Ownership::Changed(package),
        None => Ownership::Application,
    }
}
