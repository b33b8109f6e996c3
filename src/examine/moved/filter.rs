//! The layers above the old base, one by one: kept, filtered or dropped.

use super::super::PlatformSubject;
use super::super::belonging::{self, Belonging, Belongings, Side};
use super::folders;
use super::leaving::{Bulk, Sums, reason};
use super::markers::still_hides;
use super::new_layer::NewLayer;
use super::{Becomes, Moved, MovedLayer};
use crate::layer::{Entry, EntryKind, LayerContents, LayerIndex, RootPath};
use crate::rootfs::{Root, merge};

/// Decides for every layer. Each is looked at on top of what becomes of those below it.
pub(super) fn layers(subject: &PlatformSubject, keep: &[RootPath]) -> Moved {
    let mut moved = Moved::default();
    let accounts = if subject.old_base.layers > 0 { AccountFiles::OfOldBase } else { AccountFiles::Own };
    for layer in &subject.layers {
        let has_markers = layer.entries.iter().any(|entry| entry.kind.is_marker());
        let below = has_markers.then(|| moved.root(subject));
        let (becomes, note) =
            Sorting { layer, belongings: &belonging::of(layer), keep, accounts }.decide(below.as_ref());
        drop(below);
        moved.notes.extend(note);
        moved.layers.push(becomes);
    }
    moved
}

/// Whose the account files of a layer are. An image that stands on nothing made its own; on an old
/// base they are that base's, with changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AccountFiles {
    OfOldBase,
    Own,
}

/// One layer, being sorted into what stays and what leaves.
struct Sorting<'a> {
    layer: &'a LayerIndex,
    belongings: &'a Belongings,
    keep: &'a [RootPath],
    accounts: AccountFiles,
}

enum Verdict {
    Stays,
    /// A folder that only leads to others.
    Leads,
    Leaves {
        what: String,
        is_package: bool,
    },
}

impl Sorting<'_> {
    fn decide(&self, below: Option<&Root<'_>>) -> (MovedLayer, Option<String>) {
        let verdicts: Vec<Verdict> =
            self.layer.entries.iter().enumerate().map(|(at, entry)| self.verdict(at, entry, below)).collect();
        if !verdicts.iter().any(|verdict| matches!(verdict, Verdict::Leaves { .. })) {
            return (MovedLayer::kept(), None);
        }
        let (mut sums, mut staying) = (Sums::default(), Bulk::default());
        for (entry, verdict) in self.layer.entries.iter().zip(&verdicts) {
            match verdict {
                Verdict::Stays => staying.add(entry),
                Verdict::Leads => {}
                Verdict::Leaves { what, is_package } => sums.add(what.clone(), *is_package, entry),
            }
        }
        if staying.entries == 0 {
            return (MovedLayer { becomes: Becomes::Dropped, leaving: sums.finish(), staying }, None);
        }
        match self.rewritten(&verdicts) {
            Ok(new) => (MovedLayer { becomes: Becomes::Filtered(new), leaving: sums.finish(), staying }, None),
            Err(why) => {
                let note =
                    format!("layer {} is kept whole, with files of the old system: {why}", self.layer.digest.short());
                (MovedLayer::kept(), Some(note))
            }
        }
    }

    fn verdict(&self, at: usize, entry: &Entry, below: Option<&Root<'_>>) -> Verdict {
        if self.keep.iter().any(|path| entry.path.is_within(path)) {
            return Verdict::Stays;
        }
        if entry.kind.is_marker() {
            if below.is_none_or(|below| still_hides(entry, below)) {
                return Verdict::Stays;
            }
            return Verdict::Leaves { what: "whiteouts of what is gone".to_owned(), is_package: false };
        }
        let belonging = self.belongings.entries.get(at).copied().unwrap_or(Belonging::Application);
        match belonging.side() {
            _ if belonging == Belonging::Account && self.accounts == AccountFiles::Own => Verdict::Stays,
            Side::Stays if belonging != Belonging::Passage => Verdict::Stays,
            _ if matches!(entry.kind, EntryKind::Directory) => Verdict::Leads,
            _ => {
                let (what, is_package) = reason(self.belongings, belonging);
                Verdict::Leaves { what, is_package }
            }
        }
    }

    /// The layer without what leaves, or why it cannot be written. Links inside the layer are
    /// resolved by merging it alone; what would need another layer for that is not touched.
    fn rewritten(&self, verdicts: &[Verdict]) -> Result<NewLayer, String> {
        let alone = merge([LayerContents::from(self.layer)]);
        if let Some(odd) = alone.issues().first() {
            return Err(odd.to_string());
        }
        // A folder that no entry speaks of has the attributes that lower layers gave it.
        let spoken_of = |path: &RootPath| alone.get(path).filter(|node| node.place().is_some());
        let stays = |position: usize| matches!(verdicts.get(position), Some(Verdict::Stays));
        let mut new = NewLayer::default();
        for (path, node) in alone.entries() {
            let Some((_, position)) = node.place().filter(|(_, position)| stays(*position)) else { continue };
            if node.entry().is_some_and(|entry| entry.sparse) {
                return Err(format!("{path} is sparse"));
            }
            folders::lead(&mut new, &path, spoken_of);
            new.take(self.layer, position, &path);
        }
        let markers = self.layer.entries.iter().enumerate();
        for (_, marker) in markers.filter(|(at, entry)| entry.kind.is_marker() && stays(*at)) {
            folders::lead(&mut new, &marker.path, spoken_of);
            new.put(marker.clone());
        }
        Ok(new)
    }
}
