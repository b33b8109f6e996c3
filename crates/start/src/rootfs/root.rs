//! The root of an image: what is at a path, in a directory, and everywhere.

use std::collections::HashMap;

use super::merge::MergeIssue;
use super::path_components::split_last;
use super::tree::FileNode;
use super::tree::{NodeId, ROOT, RootTree};
use elf::Program;
use layer::{LayerContents, RootPath};
use oci::Digest;

/// The files of an image as a container sees them, made by [`super::merge`].
#[derive(Debug)]
pub struct Root<'a> {
    pub(super) layers: Vec<LayerContents<'a>>,
    pub(super) tree: RootTree<'a>,
    pub(super) issues: Vec<MergeIssue<'a>>,
    /// Directories that no entry speaks of.
    pub(super) implied: usize,
    pub(super) directories: DirectoryCache<'a>,
}

/// Where the paths of directories led to that the layer being merged has named: a chain of links is
/// followed once and not for each of the files below it. What was remembered before a directory or a
/// link was removed, and in another layer, is not believed.
#[derive(Debug, Default)]
pub(super) struct DirectoryCache<'a> {
    known: HashMap<&'a [u8], (usize, NodeId, bool)>,
    age: usize,
}

impl<'a> DirectoryCache<'a> {
    /// The directory at a path, and whether a link of a lower layer leads to it.
    pub(super) fn get(&self, path: &[u8]) -> Option<(NodeId, bool)> {
        let (age, directory, through_lower_link) = self.known.get(path)?;
        (*age == self.age).then_some((*directory, *through_lower_link))
    }

    pub(super) fn insert(&mut self, path: &'a [u8], directory: NodeId, through_lower_link: bool) {
        self.known.insert(path, (self.age, directory, through_lower_link));
    }

    /// Costs the same however much is remembered.
    pub(super) const fn forget(&mut self) {
        self.age += 1;
    }
}

/// With nothing in it.
impl Default for Root<'_> {
    fn default() -> Self {
        let (layers, issues, directories) = (Vec::new(), Vec::new(), DirectoryCache::default());
        Self { layers, tree: RootTree::new(), issues, implied: 0, directories }
    }
}

impl<'a> Root<'a> {
    /// What is at exactly this path. Links in its directory are followed, one in its own place is not.
    #[must_use]
    pub fn get(&self, path: &RootPath) -> Option<&FileNode<'a>> {
        let Some((directory, name)) = split_last(path.as_bytes()) else {
            return Some(self.tree.node(ROOT));
        };
        let directory = self.walk(directory).ok()?.at;
        self.tree.child(directory, name).map(|id| self.tree.node(id))
    }

    /// The content of a file, where its layer's index has it.
    #[must_use]
    pub fn content(&self, node: &FileNode<'a>) -> Option<&'a [u8]> {
        let source = node.source()?;
        self.layers.get(source.layer())?.content(source.position())
    }

    /// What is known of a file that is a program or a script; `None` for plain data.
    #[must_use]
    pub fn program(&self, node: &FileNode<'a>) -> Option<&'a Program> {
        let source = node.source()?;
        self.layers.get(source.layer())?.program(source.position())
    }

    /// The SHA-256 of a file's content, where it was taken or the content is known.
    #[must_use]
    pub fn file_digest(&self, node: &FileNode<'a>) -> Option<Digest> {
        let source = node.source()?;
        let layer = self.layers.get(source.layer())?;
        layer.digest(source.position()).or_else(|| layer.content(source.position()).map(Digest::of))
    }

    /// The entries that runtimes do not take or do not agree about, in the order of the layers.
    #[must_use]
    pub fn issues(&self) -> &[MergeIssue<'a>] {
        &self.issues
    }
}

/// One item in the listing of a directory: a child itself, or what is below it.
#[derive(Clone, Copy)]
enum ListingStep<'a> {
    Child(&'a [u8], NodeId),
    Below(&'a [u8], NodeId),
}

impl<'a> ListingStep<'a> {
    /// What all paths of this stop begin with, seen from the directory. `a-b` comes before `a/b`, so
    /// a directory's children need not follow it at once.
    fn key(&self) -> impl Iterator<Item = u8> + use<'a> {
        let (name, slash): (&[u8], &[u8]) = match self {
            Self::Child(name, _) => (name, b""),
            Self::Below(name, _) => (name, b"/"),
        };
        name.iter().chain(slash).copied()
    }
}

impl<'a> Root<'a> {
    /// Every path below the root, sorted by bytes. The root itself is not among them.
    pub fn entries(&self) -> impl Iterator<Item = (RootPath, &FileNode<'a>)> {
        let mut open = vec![stops(&self.tree, ROOT)];
        std::iter::from_fn(move || {
            loop {
                match open.last_mut()?.next() {
                    None => drop(open.pop()),
                    Some(ListingStep::Below(_, directory)) => open.push(stops(&self.tree, directory)),
                    Some(ListingStep::Child(_, id)) => return Some((self.tree.path(id), self.tree.node(id))),
                }
            }
        })
    }

    /// The names in the directory that a path resolves to, sorted by bytes; none if it is no directory.
    pub fn directory(&self, path: &RootPath) -> impl Iterator<Item = (&'a [u8], &FileNode<'a>)> {
        let directory = self.walk(path.as_bytes()).ok().map(|walked| walked.at);
        directory.into_iter().flat_map(|at| self.tree.children(at)).map(|(name, id)| (name, self.tree.node(id)))
    }
}

fn stops<'a>(tree: &RootTree<'a>, directory: NodeId) -> std::vec::IntoIter<ListingStep<'a>> {
    let mut stops: Vec<ListingStep<'a>> = Vec::new();
    for (name, id) in tree.children(directory) {
        stops.push(ListingStep::Child(name, id));
        if tree.node(id).is_directory() {
            stops.push(ListingStep::Below(name, id));
        }
    }
    // Nearly sorted already, which the sort makes use of.
    stops.sort_by(|one, other| one.key().cmp(other.key()));
    stops.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rootfs::merge;
    use crate::rootfs::testing::{file, layer, path, symlink};

    #[test]
    fn paths_are_sorted_by_bytes_whatever_the_order_of_entries() {
        let names = ["a/b", "a-b", "a/c/d", "a/c-", "a0", "b/\u{e4}", "A", "a/b-/x", "a/b/y"];
        let layers = [layer(names.iter().filter(|name| **name != "a/b").map(file))];
        let root = merge(&layers);
        let listed: Vec<RootPath> = root.entries().map(|(path, _)| path).collect();
        assert!(listed.is_sorted(), "{listed:?}");
        assert_eq!(listed.len(), 13);
        assert!(names.iter().all(|name| listed.contains(&path(name))), "{listed:?}");
    }

    #[test]
    fn a_directory_lists_its_names_also_through_a_link() {
        let layers = [layer([file("d/b"), file("d/a/x"), symlink("l", "d"), file("f")])];
        let root = merge(&layers);
        for (asked, names) in
            [("d", vec!["a", "b"]), ("l", vec!["a", "b"]), ("", vec!["d", "f", "l"]), ("d/a", vec!["x"])]
        {
            let listed: Vec<&[u8]> = root.directory(&path(asked)).map(|(name, _)| name).collect();
            assert_eq!(listed, names.iter().map(|name| name.as_bytes()).collect::<Vec<_>>(), "{asked}");
        }
        assert_eq!(root.directory(&path("f")).count() + root.directory(&path("none")).count(), 0);
    }

    #[test]
    fn the_deepest_directory_are_listed_without_recursion() {
        let layers = [layer([file("d/".repeat(1000) + "x")])];
        let root = merge(&layers);
        assert_eq!(root.entries().count(), 1001);
    }
}
