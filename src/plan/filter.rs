//! The layers above the old base, one by one: kept, filtered or dropped.

use std::sync::Arc;

use super::added as directories;
use super::layers::{Becomes, Bulk, Layers, OwnLayer, Sums, reason};
use super::new_layer::NewLayer;
use crate::examine::ownership::{Ownership, Side};
use crate::examine::{Facts, LayerFacts, PlatformSubject};
use crate::layer::{Entry, EntryKind, LayerContents, RootPath};
use crate::rootfs::{Root, merge};

/// Decides for every layer. Each is looked at on top of what becomes of those below it.
pub(super) fn layers(subject: &PlatformSubject, facts: &Facts, keep: &[RootPath]) -> Layers {
    let mut layers = Layers::default();
    let accounts = if subject.old_base.layers > 0 { AccountFiles::OfOldBase } else { AccountFiles::Own };
    for layer in &facts.layers {
        let has_markers = layer.index.entries.iter().any(|entry| entry.kind.is_marker());
        let below = has_markers.then(|| layers.root(subject));
        let (own, note) = Sorting { layer, keep, accounts }.decide(below.as_ref());
        drop(below);
        layers.notes.extend(note);
        layers.own.push(own);
    }
    layers
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
    fn decide(&self, below: Option<&Root<'_>>) -> (OwnLayer, Option<String>) {
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

    fn decision(&self, at: usize, entry: &Entry, below: Option<&Root<'_>>) -> EntryDecision {
        if self.keep.iter().any(|path| entry.path.is_within(path)) {
            return EntryDecision::Stays;
        }
        if entry.kind.is_marker() {
            if below.is_none_or(|below| still_hides(entry, below)) {
                return EntryDecision::Stays;
            }
            return EntryDecision::Leaves { what: "whiteouts of what is gone".to_owned(), is_package: false };
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
