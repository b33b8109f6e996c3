//! Folders belong with what they lead to, so they are settled last, from the bottom up.

use super::{Ownership, Side};
use crate::layer::{Entry, EntryKind};

/// What lies below a folder, in the same layer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Below {
    Nothing,
    System,
    Application,
}

struct Open<'a> {
    at: usize,
    path: &'a [u8],
    below: Below,
}

/// Gives every folder what its own path and its content make of it.
pub(super) fn settle(entries: &[Entry], owners: &mut [Ownership]) {
    let mut order: Vec<(usize, &Entry)> = entries.iter().enumerate().collect();
    // Each folder directly before all that it has; of a path that is there twice, folders first.
    order.sort_by(|(_, a), (_, b)| in_tree(a).cmp(in_tree(b)).then_with(|| is_folder(b).cmp(&is_folder(a))));
    let mut open: Vec<Open<'_>> = Vec::new();
    for (at, entry) in order {
        let path = entry.path.as_bytes();
        while open.last().is_some_and(|folder| !is_inside(folder.path, path)) {
            close(&mut open, owners);
        }
        if is_folder(entry) {
            open.push(Open { at, path, below: Below::Nothing });
        } else if let (Some(folder), Some(owner)) = (open.last_mut(), owners.get(at)) {
            folder.below = folder.below.max(seen_from_above(*owner));
        }
    }
    while !open.is_empty() {
        close(&mut open, owners);
    }
}

fn is_folder(entry: &Entry) -> bool {
    entry.kind == EntryKind::Directory
}

/// The path in the order of a tree: no name comes between a folder and what it has.
fn in_tree(entry: &Entry) -> impl Iterator<Item = u8> {
    entry.path.as_bytes().iter().map(|byte| if *byte == b'/' { 0 } else { *byte })
}

fn is_inside(folder: &[u8], path: &[u8]) -> bool {
    let rest = path.strip_prefix(folder);
    folder.is_empty() && !path.is_empty() || rest.is_some_and(|rest| rest.starts_with(b"/"))
}

fn seen_from_above(owner: Ownership) -> Below {
    match owner.side() {
        Side::Stays => Below::Application,
        Side::Leaves => Below::System,
        Side::Open => Below::Nothing,
    }
}

fn close(open: &mut Vec<Open<'_>>, owners: &mut [Ownership]) {
    let Some(folder) = open.pop() else { return };
    let Some(owner) = owners.get_mut(folder.at) else { return };
    *owner = match (*owner, folder.below) {
        (Ownership::Application, Below::System) => Ownership::Hollow,
        (own, Below::Application) if own.side() == Side::Leaves => Ownership::Passage,
        (own, _) => own,
    };
    let below = folder.below.max(seen_from_above(*owner));
    if let Some(above) = open.last_mut() {
        above.below = above.below.max(below);
    }
}
