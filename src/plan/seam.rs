//! What does not fit where the application meets its new base.

use super::layers::{Layers, Roots};
use crate::examine::base::{UnreadDatabase, unproven_files};
use crate::examine::{Facts, PlatformSubject};
use crate::process::is_seen;
use layer::{EntryKind, LayerContents, RootPath};
use start::rootfs::{FileNode, Root, merge};

/// The places where the two touch. Paths are sorted.
#[derive(Debug, Clone, Default)]
pub struct Seam {
    /// Files of the application that take the place of the new base's.
    pub shadowed: Vec<String>,
    /// Files of the new base that a whiteout of the application removes.
    pub removed: Vec<String>,
    /// Links that lead nowhere in the rebased root.
    pub dangling: Vec<Dangling>,
    /// Entries that some runtimes read differently.
    pub odd: Vec<String>,
    /// Entries with which no runtime can go on.
    pub broken: Vec<String>,
    /// Files of an old base that is a guess, which may be the application's and which the result lacks; each with the
    /// number of its layer, from 0.
    pub unproven: Vec<(usize, RootPath)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dangling {
    pub link: String,
    pub target: String,
    /// Whether it led somewhere in the source.
    pub led: bool,
    /// Whether that was something that can be executed.
    pub led_to_program: bool,
}

#[must_use]
pub fn look(subject: &PlatformSubject, facts: &Facts, layers: &Layers, roots: &Roots<'_>) -> Seam {
    let base = merge(subject.base_layers.iter().map(AsRef::as_ref));
    let from = subject.base_layers.len();
    let (shadowed, removed) = touched(layers, &base);
    let odd = |applied: bool| {
        let odd = roots.rebased.issues().iter().filter(|odd| odd.layer >= from && odd.kind.is_applied() == applied);
        odd.map(ToString::to_string).collect::<Vec<_>>()
    };
    let dangling = dangling(layers.above_base(), &roots.rebased, roots.source());
    let unproven = if subject.old_base.is_guess() { unproven(facts, roots, from) } else { Vec::new() };
    Seam { shadowed, removed, dangling, odd: odd(true), broken: odd(false), unproven }
}

fn unproven(facts: &Facts, roots: &Roots<'_>, base: usize) -> Vec<(usize, RootPath)> {
    let mut files = unproven_files(&facts.old_layers, roots.source(), UnreadDatabase::OfBase);
    files.retain(|(_, path)| !is_still_there(path, roots, base));
    files
}

/// Whether the result has the file all the same: it was brought along, or the new base has its like.
fn is_still_there(path: &RootPath, roots: &Roots<'_>, base: usize) -> bool {
    let (Some(there), Some(was)) = (roots.rebased.get(path), roots.source().get(path)) else { return false };
    let looks = |node: &FileNode<'_>| (node.mode(), node.uid(), node.gid(), node.entry().map(|entry| entry.mtime));
    there.layer() >= base || (there.kind() == was.kind() && looks(there) == looks(was))
}

fn touched(layers: &Layers, base: &Root<'_>) -> (Vec<String>, Vec<String>) {
    let (mut shadowed, mut removed) = (Vec::new(), Vec::new());
    for entry in layers.brought().flat_map(|layer| layer.entries) {
        let there = base.get(&entry.path);
        match &entry.kind {
            EntryKind::Whiteout if there.is_some() => removed.push(entry.path.to_string()),
            EntryKind::Opaque if base.directory(&entry.path).next().is_some() => removed.push(entry.path.to_string()),
            EntryKind::Whiteout | EntryKind::Opaque => {}
            EntryKind::Directory if there.is_none_or(FileNode::is_directory) => {}
            _ if there.is_some() => shadowed.push(entry.path.to_string()),
            _ => {}
        }
    }
    for paths in [&mut shadowed, &mut removed] {
        paths.sort();
        paths.dedup();
    }
    (shadowed, removed)
}

fn dangling<'a>(own: impl Iterator<Item = LayerContents<'a>>, rebased: &Root<'_>, source: &Root<'_>) -> Vec<Dangling> {
    let links = own.flat_map(|layer| layer.entries).filter_map(|entry| match &entry.kind {
        EntryKind::Symlink(target) if is_seen(rebased, entry) => Some((&entry.path, target)),
        _ => None,
    });
    let dangling = links.filter(|(path, _)| rebased.resolve(path).is_err()).map(|(path, target)| Dangling {
        link: path.to_string(),
        target: layer::shown(target),
        led: source.resolve(path).is_ok(),
        led_to_program: source.resolve(path).is_ok_and(|found| is_program(found.node)),
    });
    let mut dangling: Vec<Dangling> = dangling.collect();
    dangling.sort_by(|one, other| one.link.cmp(&other.link));
    dangling
}

fn is_program(node: &FileNode<'_>) -> bool {
    matches!(node.kind(), EntryKind::File { .. }) && node.mode() & 0o111 != 0
}
