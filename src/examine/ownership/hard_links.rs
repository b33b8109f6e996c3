//! Hard links: one entry of a file carries its content, the others only name it. Where the one that
//! stays is the name and the one that leaves is the content, the content has to stay.

use std::collections::HashMap;

use super::{Ownership, Side};
use crate::layer::{Entry, EntryKind, RootPath};

/// Holds what the hard links that stay lead to. Each entry is held once, so chains and circles end.
pub(super) fn hold(entries: &[Entry], owners: &mut [Ownership]) {
    let targets = Targets::of(entries);
    let mut open: Vec<usize> = (0..entries.len()).filter(|at| stays(owners, *at)).collect();
    while let Some(at) = open.pop() {
        let Some(EntryKind::Hardlink(target)) = entries.get(at).map(|entry| &entry.kind) else { continue };
        let target = targets.find(target, at);
        if let Some((target, owner)) = target.and_then(|at| Some((at, owners.get_mut(at)?)))
            && owner.side() == Side::Leaves
        {
            *owner = Ownership::Held;
            open.push(target);
        }
    }
}

fn stays(owners: &[Ownership], at: usize) -> bool {
    owners.get(at).is_some_and(|owner| owner.side() == Side::Stays)
}

/// The entries that hard links lead to, by path and in order.
struct Targets<'a>(HashMap<&'a RootPath, Vec<usize>>);

impl<'a> Targets<'a> {
    fn of(entries: &'a [Entry]) -> Self {
        let mut targets: HashMap<&RootPath, Vec<usize>> = HashMap::new();
        for entry in entries {
            if let EntryKind::Hardlink(target) = &entry.kind {
                targets.entry(target).or_default();
            }
        }
        for (at, entry) in entries.iter().enumerate() {
            if !entry.kind.is_marker()
                && let Some(places) = targets.get_mut(&entry.path)
            {
                places.push(at);
            }
        }
        Self(targets)
    }

    /// What a link at `from` leads to: the last entry of the path before it.
    fn find(&self, target: &RootPath, from: usize) -> Option<usize> {
        let places = self.0.get(target)?;
        let before = places.partition_point(|at| *at < from);
        before.checked_sub(1).and_then(|at| places.get(at)).copied()
    }
}
