//! Everything in a root, and everything in one folder of it.

use super::node::Node;
use super::root::Root;
use super::tree::{NodeId, ROOT, Tree};
use crate::layer::RootPath;

/// One item on the way through a folder: a child itself, or what lies below it.
#[derive(Clone, Copy)]
enum Stop<'a> {
    Child(&'a [u8], NodeId),
    Below(&'a [u8], NodeId),
}

impl<'a> Stop<'a> {
    /// What all paths of this stop begin with, seen from the folder. `a-b` comes before `a/b`, so
    /// a folder's children need not follow it at once.
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
    pub fn entries(&self) -> impl Iterator<Item = (RootPath, &Node<'a>)> {
        let mut open = vec![stops(&self.tree, ROOT)];
        std::iter::from_fn(move || {
            loop {
                match open.last_mut()?.next() {
                    None => drop(open.pop()),
                    Some(Stop::Below(_, folder)) => open.push(stops(&self.tree, folder)),
                    Some(Stop::Child(_, id)) => return Some((self.tree.path(id), self.tree.node(id))),
                }
            }
        })
    }

    /// The names in the folder that a path leads to, sorted by bytes; none if it leads to no folder.
    pub fn folder(&self, path: &RootPath) -> impl Iterator<Item = (&'a [u8], &Node<'a>)> {
        let folder = self.walk(path.as_bytes()).ok().map(|walked| walked.at);
        folder.into_iter().flat_map(|at| self.tree.children(at)).map(|(name, id)| (name, self.tree.node(id)))
    }
}

fn stops<'a>(tree: &Tree<'a>, folder: NodeId) -> std::vec::IntoIter<Stop<'a>> {
    let mut stops: Vec<Stop<'a>> = Vec::new();
    for (name, id) in tree.children(folder) {
        stops.push(Stop::Child(name, id));
        if tree.node(id).is_folder() {
            stops.push(Stop::Below(name, id));
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
    use crate::rootfs::sample::{file, layer, path, symlink};

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
    fn a_folder_lists_its_names_also_through_a_link() {
        let layers = [layer([file("d/b"), file("d/a/x"), symlink("l", "d"), file("f")])];
        let root = merge(&layers);
        for (asked, names) in
            [("d", vec!["a", "b"]), ("l", vec!["a", "b"]), ("", vec!["d", "f", "l"]), ("d/a", vec!["x"])]
        {
            let listed: Vec<&[u8]> = root.folder(&path(asked)).map(|(name, _)| name).collect();
            assert_eq!(listed, names.iter().map(|name| name.as_bytes()).collect::<Vec<_>>(), "{asked}");
        }
        assert_eq!(root.folder(&path("f")).count() + root.folder(&path("none")).count(), 0);
    }

    #[test]
    fn the_deepest_folders_are_listed_without_recursion() {
        let layers = [layer([file("d/".repeat(1000) + "x")])];
        let root = merge(&layers);
        assert_eq!(root.entries().count(), 1001);
    }
}
