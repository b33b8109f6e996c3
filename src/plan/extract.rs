//! `--extract`: the program, the links that lead to it, kept paths and application data, out of all
//! layers of the source, in one new layer.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::added as directories;
use super::layers::{Becomes, Bulk, Layers, Needs, OwnLayer, Sums, reason, source_root};
use super::new_layer::NewLayer;
use crate::examine::base::{Sureness, UnreadDatabase, holds_system, unproven_files};
use crate::examine::ownership::{Ownership, Side};
use crate::examine::packages::Database;
use crate::examine::{Facts, LayerFacts, PlatformSubject};
use crate::process::search;
use layer::{Entry, EntryKind, LayerIndex, RootPath};
use start::rootfs::{FileNode, Root, merge};

/// What to take, by path: sorted, and each once.
pub(super) type Wanted<'r> = BTreeMap<RootPath, &'r FileNode<'r>>;

pub(super) fn extract(subject: &PlatformSubject, facts: &Facts, needs: &Needs<'_>) -> Layers {
    let source = source_root(subject);
    let base = merge(subject.base_layers.iter().map(AsRef::as_ref));
    let mut wanted = of_command(needs, &source);
    let tells_data = tells_data(subject, facts);
    if tells_data {
        wanted.extend(data(facts, &source));
    }
    wanted.retain(|path, _| !needs.options.drop.iter().any(|dropped| path.is_within(dropped)));
    for path in &needs.options.keep {
        wanted.extend(kept(&source, path));
    }
    let left_unknown = if tells_data { Vec::new() } else { unknown_files(facts, &source, &wanted) };
    let mut layer = NewLayer::default();
    take(&mut layer, &wanted, subject, (&base, &source));
    let own = left_behind(facts, &wanted);
    Layers { own, extracted: Some(Arc::new(layer)), left_unknown, ..Layers::default() }
}

pub(super) fn all_layers(subject: &PlatformSubject) -> impl Iterator<Item = &LayerIndex> {
    subject.old_layers.iter().chain(&subject.layers).map(AsRef::as_ref)
}

/// The program, what stands before it, and every link on the way to them.
fn of_command<'r>(needs: &Needs<'_>, source: &'r Root<'r>) -> Wanted<'r> {
    let first = needs.container.command.program();
    let found = first.iter().chain(&needs.program).filter_map(|word| search(source, needs.container, word));
    found.flat_map(|found| with_links(source, &found.file.path, &found.file.links)).collect()
}

fn with_links<'r>(source: &'r Root<'r>, path: &RootPath, links: &[start::rootfs::FollowedLink]) -> Wanted<'r> {
    let paths = links.iter().map(|followed| &followed.link).chain([path]);
    paths.filter_map(|path| Some((path.clone(), source.get(path)?))).collect()
}

/// Whether application data can be told from the system's: the old base is known, a package database
/// says what the system's is, or there is no system.
fn tells_data(subject: &PlatformSubject, facts: &Facts) -> bool {
    let layers = || facts.old_layers.iter().chain(&facts.layers);
    subject.old_base.sure != Sureness::Unknown && subject.old_base.layers > 0
        || layers().any(|layer| layer.owners().packages.database == Database::Read)
        || !layers().any(|layer| holds_system(&layer.index))
}

/// What is left behind of an image without a package database, and may be the application's.
fn unknown_files(facts: &Facts, source: &Root<'_>, wanted: &Wanted<'_>) -> Vec<RootPath> {
    let left = unproven_files(&facts.layers, source, UnreadDatabase::Unknown).into_iter().map(|(_, path)| path);
    left.filter(|path| !wanted.contains_key(path) && !is_mounted_over(path)).collect()
}

/// What the application put there: nothing of the old base's layers.
fn data<'r>(facts: &Facts, source: &'r Root<'r>) -> Wanted<'r> {
    let below = facts.old_layers.len();
    let is_own = |node: &FileNode<'_>| {
        let place = node.place().and_then(|(layer, position)| Some((layer.checked_sub(below)?, position)));
        let owner = place.and_then(|(layer, position)| facts.layers.get(layer)?.owners().entries.get(position));
        owner.is_some_and(|owner| owner.side() == Side::Stays && *owner != Ownership::Passage)
    };
    source.entries().filter(|(path, node)| is_own(node) && !is_mounted_over(path)).collect()
}

/// Runtimes mount directories of their own there, so what an image has below them is never seen. Images
/// that were made of a whole machine have device files there, which not everyone can unpack.
fn is_mounted_over(path: &RootPath) -> bool {
    matches!(path.components().next(), Some(b"dev" | b"proc" | b"sys"))
}

/// A path that the user wants along: all links that lead to it, and everything below it.
pub(super) fn kept<'r>(source: &'r Root<'r>, path: &RootPath) -> Wanted<'r> {
    match source.resolve(path) {
        Ok(found) => {
            let mut wanted = with_links(source, &found.path, &found.links);
            wanted.extend(source.entries().filter(|(inner, _)| inner.is_within(&found.path)));
            wanted
        }
        // A link that leads nowhere can still be wanted.
        Err(_) => source.get(path).map(|node| (path.clone(), node)).into_iter().collect(),
    }
}

/// Puts what is wanted into the layer, unless `under` has the very same; says how much was put.
pub(super) fn take(
    layer: &mut NewLayer,
    wanted: &Wanted<'_>,
    subject: &PlatformSubject,
    (under, source): (&Root<'_>, &Root<'_>),
) -> usize {
    let layers: Vec<&LayerIndex> = all_layers(subject).collect();
    let mut taken = 0;
    for (path, node) in wanted {
        if layer.has(path) || is_same(under.get(path), node) {
            continue;
        }
        directories::lead(layer, path, |parent| under.get(parent).or_else(|| source.get(parent)));
        taken += 1;
        match node.place() {
            None => layer.add(directories::like(path, node)),
            Some((number, position)) => {
                layers.get(number).into_iter().for_each(|index| layer.take(index, position, path));
            }
        }
    }
    taken
}

/// Whether both are the same entry of the same layer, under whatever name.
pub(super) fn is_same(there: Option<&FileNode<'_>>, node: &FileNode<'_>) -> bool {
    let (Some(there), Some(entry)) = (there.and_then(FileNode::entry), node.entry()) else { return false };
    Entry { path: entry.path.clone(), ..there.clone() } == *entry
}

/// What stays behind of each layer above the old base.
fn left_behind(facts: &Facts, wanted: &Wanted<'_>) -> Vec<OwnLayer> {
    let taken: HashSet<(usize, usize)> = wanted.values().filter_map(|node| node.place()).collect();
    let below = facts.old_layers.len();
    let dropped = |(at, layer): (usize, &LayerFacts)| {
        let (mut sums, mut staying) = (Sums::default(), Bulk::default());
        for (position, entry) in layer.index.entries.iter().enumerate() {
            if taken.contains(&(below + at, position)) {
                staying.add(entry);
            } else if !matches!(entry.kind, EntryKind::Directory) {
                let owner = layer.owners().entries.get(position).copied().unwrap_or(Ownership::Application);
                let (what, is_package) = reason(layer.owners(), owner);
                sums.add(what, is_package, entry);
            }
        }
        OwnLayer::new(layer, Becomes::Dropped, sums.finish(), staying)
    };
    facts.layers.iter().enumerate().map(dropped).collect()
}
