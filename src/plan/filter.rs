//! The layers above the old base, one by one: kept, filtered or dropped.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::added as directories;
use super::layers::{Becomes, Bulk, Layers, OwnLayer, Roots, Sums, reason};
use super::new_layer::NewLayer;
use super::rebase_options::RebaseOptions;
use crate::examine::ownership::{self, Ownership, Side};
use crate::examine::packages::Package;
use crate::examine::{Facts, LayerFacts, PlatformSubject};
use crate::process::LeavingPackage;
use layer::{Entry, EntryKind, LayerContents, RootPath};
use start::rootfs::{Root, merge};

/// Decides for every layer. Each is looked at on top of what becomes of those below it: one root that
/// grows, layer by layer, as far as there are markers to be held against it.
pub(super) fn layers(subject: &PlatformSubject, facts: &Facts, options: &RebaseOptions, drop: &[RootPath]) -> Layers {
    let keep = &options.keep;
    let accounts = if subject.old_base.layers > 0 { AccountFiles::OfOldBase } else { AccountFiles::Own };
    let has_markers = |layer: &LayerFacts| layer.index.entries.iter().any(|entry| entry.kind.is_marker());
    let marked = facts.layers.iter().rposition(has_markers).map_or(0, |at| at + 1);
    let decided: Vec<OnceCell<(OwnLayer, Option<String>)>> = facts.layers.iter().map(|_| OnceCell::new()).collect();
    let mut below = if marked > 0 { merge(subject.base_layers.iter().map(AsRef::as_ref)) } else { Root::default() };
    for (at, (layer, slot)) in facts.layers.iter().zip(&decided).enumerate() {
        let (own, _) = slot.get_or_init(|| Sorting { layer, keep, drop, accounts }.decide(&below));
        if let Some(contents) = own.contents().filter(|_| at + 1 < marked) {
            below.add_layer(contents);
        }
    }
    std::mem::drop(below);
    let (own, notes): (Vec<OwnLayer>, Vec<Option<String>>) =
        decided.into_iter().filter_map(OnceCell::into_inner).unzip();
    Layers { own, notes: notes.into_iter().flatten().collect(), ..Layers::default() }
}

impl Layers {
    /// The packages of the source's layers above the old base that do not go along, by name. Files that
    /// a later layer removed or replaced, and those that the new root has at the same path, do not count.
    #[must_use]
    pub fn leaving_packages(&self, facts: &Facts, roots: &Roots<'_>) -> Vec<LeavingPackage> {
        let mut leaving: BTreeMap<(&str, &str), Vec<RootPath>> = BTreeMap::new();
        for (at, (layer, own)) in facts.layers.iter().zip(&self.own).enumerate() {
            if matches!(own.becomes, Becomes::Kept) {
                continue;
            }
            for (package, path) in packaged(layer) {
                let is_visible =
                    roots.source().get(path).is_some_and(|node| node.layer() == facts.old_layers.len() + at);
                if is_visible && roots.rebased.get(path).is_none() {
                    leaving.entry((&package.name, &package.version)).or_default().push(path.clone());
                }
            }
        }
        let package = |((name, version), files): ((&str, &str), _)| LeavingPackage {
            name: name.to_owned(),
            version: version.to_owned(),
            files,
        };
        leaving.into_iter().map(package).collect()
    }
}

/// The files of a layer that are a package's.
fn packaged(layer: &LayerFacts) -> impl Iterator<Item = (&Package, &RootPath)> {
    let owners = layer.owners();
    layer.index.entries.iter().zip(&owners.entries).filter_map(|(entry, owner)| match owner {
        Ownership::Package(package) if entry.kind != EntryKind::Directory => {
            Some((owners.packages.packages.get(*package)?, &entry.path))
        }
        _ => None,
    })
}

/// Whose the account files of a layer are. An image that is based on nothing made its own; on an old
/// base they are that base's, with changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AccountFiles {
    OfOldBase,
    Own,
}

/// One layer, being sorted into what stays and what leaves.
struct Sorting<'a> {
    layer: &'a LayerFacts,
    keep: &'a [RootPath],
    drop: &'a [RootPath],
    accounts: AccountFiles,
}

enum EntryDecision {
    Stays,
    /// A directory that only leads to others.
    Leads,
    Leaves {
        what: String,
        is_package: bool,
    },
}

impl Sorting<'_> {
    fn decide(&self, below: &Root<'_>) -> (OwnLayer, Option<String>) {
        let entries = self.layer.index.entries.iter();
        let decisions: Vec<EntryDecision> =
            entries.clone().enumerate().map(|(at, entry)| self.decision(at, entry, below)).collect();
        if !decisions.iter().any(|decision| matches!(decision, EntryDecision::Leaves { .. })) {
            return (OwnLayer::kept(self.layer), None);
        }
        let (mut sums, mut staying) = (Sums::default(), Bulk::default());
        for (entry, decision) in entries.zip(&decisions) {
            match decision {
                EntryDecision::Stays => staying.add(entry),
                EntryDecision::Leads => {}
                EntryDecision::Leaves { what, is_package } => sums.add(what.clone(), *is_package, entry),
            }
        }
        if staying.entries == 0 {
            return (OwnLayer::new(self.layer, Becomes::Dropped, sums.finish(), staying), None);
        }
        match self.rewritten(&decisions) {
            Ok(new) => (OwnLayer::new(self.layer, Becomes::Filtered(Arc::new(new)), sums.finish(), staying), None),
            Err(why) => {
                let digest = self.layer.index.digest.short();
                let note = format!("layer {digest} is kept whole, with files of the old system: {why}");
                (OwnLayer::kept(self.layer), Some(note))
            }
        }
    }

    fn decision(&self, at: usize, entry: &Entry, below: &Root<'_>) -> EntryDecision {
        if self.keep.iter().any(|path| entry.path.is_within(path)) {
            return EntryDecision::Stays;
        }
        if entry.kind.is_marker() {
            // The image removed its old base's, to be smaller; that of the new base says what is there now, and
            // scanners read it.
            if ownership::is_in_database(&entry.path) {
                return EntryDecision::Leaves { what: "whiteouts of a package database".to_owned(), is_package: false };
            }
            if still_hides(entry, below) {
                return EntryDecision::Stays;
            }
            return EntryDecision::Leaves { what: "whiteouts of what is gone".to_owned(), is_package: false };
        }
        if self.drop.iter().any(|path| entry.path.is_within(path)) {
            return EntryDecision::Leaves { what: "left out by --drop".to_owned(), is_package: false };
        }
        let owner = self.layer.owners().entries.get(at).copied().unwrap_or(Ownership::Application);
        match owner.side() {
            _ if owner == Ownership::Account && self.accounts == AccountFiles::Own => EntryDecision::Stays,
            Side::Stays if owner != Ownership::Passage => EntryDecision::Stays,
            _ if matches!(entry.kind, EntryKind::Directory) => EntryDecision::Leads,
            _ => {
                let (what, is_package) = reason(self.layer.owners(), owner);
                EntryDecision::Leaves { what, is_package }
            }
        }
    }

    /// The layer without what leaves, or why it cannot be written. Links inside the layer are
    /// resolved by merging it alone; what would need another layer for that is not touched.
    fn rewritten(&self, decisions: &[EntryDecision]) -> Result<NewLayer, String> {
        let alone = merge([LayerContents::from(self.layer.index.as_ref())]);
        if let Some(odd) = alone.issues().first() {
            return Err(odd.to_string());
        }
        // A directory that no entry speaks of has the attributes that lower layers gave it.
        let spoken_of = |path: &RootPath| alone.get(path).filter(|node| node.place().is_some());
        let stays = |position: usize| matches!(decisions.get(position), Some(EntryDecision::Stays));
        let mut new = NewLayer::default();
        for (path, node) in alone.entries() {
            let Some((_, position)) = node.place().filter(|(_, position)| stays(*position)) else { continue };
            if node.entry().is_some_and(|entry| entry.sparse) {
                return Err(format!("{path} is sparse"));
            }
            directories::lead(&mut new, &path, spoken_of);
            new.take(&self.layer.index, position, &path);
        }
        let markers = self.layer.index.entries.iter().enumerate();
        for (_, marker) in markers.filter(|(at, entry)| entry.kind.is_marker() && stays(*at)) {
            directories::lead(&mut new, &marker.path, spoken_of);
            new.add(marker.clone());
        }
        Ok(new)
    }
}

/// Whether the marker still hides something of what lies below its layer. One whose files are gone
/// with the old base says nothing any more, and some runtimes make directories for it.
fn still_hides(marker: &Entry, below: &Root<'_>) -> bool {
    match marker.kind {
        EntryKind::Whiteout => below.get(&marker.path).is_some(),
        EntryKind::Opaque => below.directory(&marker.path).next().is_some(),
        _ => true,
    }
}
