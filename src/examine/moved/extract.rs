//! `--extract`: the program, the links that lead to it, kept paths and application data, out of all
//! layers of the source, in one new layer.

use std::collections::{BTreeMap, HashSet};

use super::super::PlatformSubject;
use super::super::base::Sureness;
use super::super::belonging::{self, Belonging, Belongings, Side};
use super::super::container::Container;
use super::super::packages::Database;
use super::super::program;
use super::folders;
use super::leaving::{Bulk, Sums, reason};
use super::new_layer::NewLayer;
use super::{Becomes, Moved, MovedLayer, Needs, source_root};
use crate::layer::{Entry, EntryKind, LayerIndex, RootPath};
use crate::rootfs::{FileNode, Root, merge};

/// What to take, by path: sorted, and each once.
pub(super) type Wanted<'r> = BTreeMap<RootPath, &'r FileNode<'r>>;

pub(super) fn extract(subject: &PlatformSubject, container: &Container, needs: &Needs<'_>) -> Moved {
    let source = source_root(subject);
    let base = merge(subject.base_layers.iter().map(AsRef::as_ref));
    let belongings: Vec<Belongings> = all_layers(subject).map(belonging::of).collect();
    let mut wanted = of_command(container, needs, &source);
    let mut notes = Vec::new();
    if tells_data(subject, &belongings) {
        wanted.extend(data(subject, &source, &belongings));
    } else {
        notes.push(
            "no package database says what belongs to the system, so only the program and --keep paths were extracted"
                .to_owned(),
        );
    }
    for path in &needs.taking.keep {
        wanted.extend(kept(&source, path));
    }
    let mut layer = NewLayer::default();
    take(&mut layer, &wanted, subject, (&base, &source));
    let layers = left_behind(subject, &belongings, &wanted);
    Moved { layers, extracted: Some(layer), notes, ..Moved::default() }
}

fn all_layers(subject: &PlatformSubject) -> impl Iterator<Item = &LayerIndex> {
    subject.old_layers.iter().chain(&subject.layers).map(AsRef::as_ref)
}

/// The program, what stands before it, and every link on the way to them.
fn of_command<'r>(container: &Container, needs: &Needs<'_>, source: &'r Root<'r>) -> Wanted<'r> {
    let first = container.command.program();
    let found = first.iter().chain(&needs.program).filter_map(|word| program::search(source, container, word));
    found.flat_map(|found| with_links(source, &found.file.path, &found.file.links)).collect()
}

fn with_links<'r>(source: &'r Root<'r>, path: &RootPath, links: &[crate::rootfs::FollowedLink]) -> Wanted<'r> {
    let paths = links.iter().map(|followed| &followed.link).chain([path]);
    paths.filter_map(|path| Some((path.clone(), source.get(path)?))).collect()
}

/// Whether application data can be told from the system's: the old base is known, or a package
/// database says what the system's is.
fn tells_data(subject: &PlatformSubject, belongings: &[Belongings]) -> bool {
    subject.old_base.sure != Sureness::Unknown && subject.old_base.layers > 0
        || belongings.iter().any(|belongings| belongings.packages.database == Database::Read)
}

/// What the application put there: nothing of the old base's layers.
fn data<'r>(subject: &PlatformSubject, source: &'r Root<'r>, belongings: &[Belongings]) -> Wanted<'r> {
    let seam = subject.old_layers.len();
    let is_own = |node: &FileNode<'_>| {
        let place = node.place().filter(|(layer, _)| *layer >= seam);
        let belonging = place.and_then(|(layer, position)| belongings.get(layer)?.entries.get(position));
        belonging.is_some_and(|belonging| belonging.side() == Side::Stays && *belonging != Belonging::Passage)
    };
    source.entries().filter(|(path, node)| is_own(node) && !is_mounted_over(path)).collect()
}

/// Runtimes mount folders of their own there, so what an image has below them is never seen. Images
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
        folders::lead(layer, path, |parent| under.get(parent).or_else(|| source.get(parent)));
        taken += 1;
        match node.place() {
            None => layer.put(folders::like(path, node)),
            Some((number, position)) => {
                layers.get(number).into_iter().for_each(|index| layer.take(index, position, path));
            }
        }
    }
    taken
}

/// Whether both are the same entry of the same layer, under whatever name.
fn is_same(there: Option<&FileNode<'_>>, node: &FileNode<'_>) -> bool {
    let (Some(there), Some(entry)) = (there.and_then(FileNode::entry), node.entry()) else { return false };
    Entry { path: entry.path.clone(), ..there.clone() } == *entry
}

/// What stays behind of each layer above the old base.
fn left_behind(subject: &PlatformSubject, belongings: &[Belongings], wanted: &Wanted<'_>) -> Vec<MovedLayer> {
    let taken: HashSet<(usize, usize)> = wanted.values().filter_map(|node| node.place()).collect();
    let seam = subject.old_layers.len();
    let above = subject.layers.iter().zip(belongings.iter().skip(seam)).enumerate();
    above
        .map(|(at, (layer, belongings))| {
            let (mut sums, mut staying) = (Sums::default(), Bulk::default());
            for (position, entry) in layer.entries.iter().enumerate() {
                if taken.contains(&(seam + at, position)) {
                    staying.add(entry);
                } else if !matches!(entry.kind, EntryKind::Directory) {
                    let belonging = belongings.entries.get(position).copied().unwrap_or(Belonging::Application);
                    let (what, is_package) = reason(belongings, belonging);
                    sums.add(what, is_package, entry);
                }
            }
            MovedLayer { becomes: Becomes::Dropped, leaving: sums.finish(), staying }
        })
        .collect()
}
