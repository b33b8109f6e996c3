//! Directories that a container cannot start without: made where the rebased root lacks them, with the
//! attributes they had in the source.

use super::new_layer::NewLayer;
use crate::layer::{Entry, EntryKind, RootPath};
use crate::rootfs::{FileNode, Root};

/// Who a directory belongs to where the source does not say.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Owner {
    pub(super) uid: u64,
    pub(super) gid: u64,
}

/// Whether a path leads to a directory.
pub(super) enum Way {
    There,
    /// It would, if these were made, outermost first.
    Missing(Vec<RootPath>),
    /// It cannot: why.
    Blocked(String),
}

/// Where `path` leads in `root`. What is missing can be made unless a link stands in the way.
pub(super) fn way(root: &Root<'_>, path: &RootPath) -> Way {
    match root.resolve(path) {
        Ok(found) if found.node.is_directory() => Way::There,
        Ok(_) => Way::Blocked(format!("{path} is not a directory")),
        Err(lost) => missing(root, path).map_or_else(|| Way::Blocked(lost.to_string()), Way::Missing),
    }
}

/// The directories that are missing of a path on which no link dangles.
fn missing(root: &Root<'_>, path: &RootPath) -> Option<Vec<RootPath>> {
    let mut missing = Vec::new();
    let mut at = path.clone();
    while root.get(&at).is_none() {
        missing.push(at.clone());
        at = at.parent()?;
    }
    missing.reverse();
    root.resolve(&at).ok().filter(|found| found.node.is_directory()).map(|_| missing)
}

/// Puts the missing directories into the layer. The last one belongs to `owner` unless the source knows better.
pub(super) fn make(layer: &mut NewLayer, missing: &[RootPath], source: &Root<'_>, owner: Owner) {
    let last = missing.len().saturating_sub(1);
    for (at, path) in missing.iter().enumerate() {
        if layer.has(path) {
            continue;
        }
        let known = source.resolve(path).ok().filter(|found| found.node.is_directory());
        let owner = if at == last { owner } else { Owner::default() };
        layer.add(known.map_or_else(|| directory(path, 0o755, owner), |found| like(path, found.node)));
    }
}

/// The directories that lead to `path`, as `known` has them: a layer that says nothing about them would
/// leave their attributes to the runtime.
pub(super) fn lead<'n>(layer: &mut NewLayer, path: &RootPath, known: impl Fn(&RootPath) -> Option<&'n FileNode<'n>>) {
    let parents: Vec<RootPath> = std::iter::successors(path.parent(), RootPath::parent).collect();
    for parent in parents.into_iter().rev().filter(|parent| !parent.is_root()) {
        if let Some(node) = known(&parent).filter(|node| node.is_directory() && !layer.has(&parent)) {
            let entry = like(&parent, node);
            layer.add(entry);
        }
    }
}

pub(super) fn like(path: &RootPath, node: &FileNode<'_>) -> Entry {
    let xattrs = node.entry().map(|entry| entry.xattrs.clone()).unwrap_or_default();
    Entry { xattrs, ..directory(path, node.mode(), Owner { uid: node.uid(), gid: node.gid() }) }
}

fn directory(path: &RootPath, mode: u32, owner: Owner) -> Entry {
    Entry::new(path.clone(), EntryKind::Directory, mode, owner.uid, owner.gid)
}
