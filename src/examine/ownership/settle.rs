//! Hard links: one entry of a file carries its content, the others only name it. Where the one that
//! stays is the name and the one that leaves is the content, the content has to stay.

use std::collections::HashMap;

use super::{Ownership, Side};
use layer::{Entry, EntryKind, RootPath};

/// Holds what the hard links that stay lead to. Each entry is held once, so chains and circles end.
pub(super) fn hold_hard_links(entries: &[Entry], owners: &mut [Ownership]) {
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
pub(super) fn settle_directories(entries: &[Entry], owners: &mut [Ownership]) {
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
