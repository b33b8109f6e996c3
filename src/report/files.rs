//! The files of a layer as a tree for people: bounded, whatever the layer holds.
//!
//! The largest directories are opened until there are as many rows as were asked for; what is not shown is counted in
//! the directory that it is in. Sums are always of everything.

use std::collections::{BinaryHeap, HashMap};

use layer::{Entry, EntryKind, RootPath, shown};

/// How many files of each layer a report lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FileListing {
    #[default]
    None,
    Rows(usize),
}

impl FileListing {
    /// Rows of all layers of all images together, more or less: what a browser shows at once.
    pub const PAGE: usize = 20_000;
    const LARGEST: usize = 2000;
    const SMALLEST: usize = 20;
    /// As many layers as an image has on average, times its platforms.
    const LAYERS: usize = 16;

    /// Fewer for each layer, the more images a page has.
    #[must_use]
    pub fn for_images(images: usize) -> Self {
        let share = Self::PAGE / (images.max(1) * Self::LAYERS);
        Self::Rows(if images <= 1 { Self::LARGEST } else { share.clamp(Self::SMALLEST, Self::LARGEST) })
    }

    /// The tree of a layer, where one is asked for.
    pub fn tree<'e>(self, entries: impl Iterator<Item = &'e Entry>) -> Option<FileTree> {
        match self {
            Self::None => None,
            Self::Rows(rows) => Some(FileTree::new(entries, rows)),
        }
    }
}

/// Directories deeper than this are not opened.
const DEPTH: usize = 40;
/// Of one directory so many are shown: the largest.
const CHILDREN: usize = 200;
/// A name is cut here.
const NAME: usize = 120;

/// A directory or a file, and what is below it.
#[derive(Debug, PartialEq, Eq)]
pub struct FileTree {
    pub name: String,
    pub kind: TreeKind,
    /// Of everything below it, shown or not.
    pub entries: usize,
    pub bytes: u64,
    /// The largest first.
    pub children: Vec<FileTree>,
    /// Below it, and not shown.
    pub hidden_entries: usize,
    pub hidden_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeKind {
    Directory,
    File,
    /// A symbolic or hard link, and where it leads.
    Link(String),
    /// A device or a pipe.
    Special,
    /// What a lower layer has there is gone.
    Removed,
}

impl FileTree {
    /// The tree of `entries` with at most so many rows.
    pub fn new<'e>(entries: impl Iterator<Item = &'e Entry>, rows: usize) -> Self {
        let mut nodes = TreeNodes::new(entries);
        nodes.choose(rows);
        nodes.tree(0)
    }

    /// How many rows it has below its root.
    #[must_use]
    pub fn rows(&self) -> usize {
        if self.children.is_empty() {
            return 0;
        }
        let more = usize::from(self.hidden_entries > 0);
        self.children.iter().fold(self.children.len() + more, |sum, child| sum + child.rows())
    }
}

/// A path on its way into the tree.
struct TreeNode<'e> {
    name: &'e [u8],
    parent: usize,
    kind: TreeKind,
    /// Of everything below it, and of itself.
    bytes: u64,
    /// Everything below it.
    entries: usize,
    children: Vec<usize>,
    is_open: bool,
}

impl<'e> TreeNode<'e> {
    const fn directory(name: &'e [u8], parent: usize) -> Self {
        Self { name, parent, kind: TreeKind::Directory, bytes: 0, entries: 0, children: Vec::new(), is_open: false }
    }
}

/// Parents come before their children.
struct TreeNodes<'e> {
    nodes: Vec<TreeNode<'e>>,
    by_path: HashMap<&'e [u8], usize>,
}

impl<'e> TreeNodes<'e> {
    fn new(entries: impl Iterator<Item = &'e Entry>) -> Self {
        let mut nodes = Self { nodes: vec![TreeNode::directory(b"", 0)], by_path: HashMap::new() };
        entries.filter(|entry| !entry.path.is_root()).for_each(|entry| nodes.add(entry));
        nodes.sum_up();
        nodes
    }

    fn add(&mut self, entry: &'e Entry) {
        let (path, mut at, mut end) = (entry.path.as_bytes(), 0, 0);
        for name in entry.path.components().take(DEPTH) {
            end += name.len() + usize::from(end > 0);
            at = self.child(at, name, path.get(..end).unwrap_or(path));
        }
        let (kind, bytes) = kind_and_size(&entry.kind);
        let Some(node) = self.nodes.get_mut(at) else { return };
        if end == path.len() {
            // Of two entries of one path the last counts.
            (node.kind, node.bytes) = (kind, bytes);
        } else {
            node.entries += 1;
            node.bytes = node.bytes.saturating_add(bytes);
        }
    }

    fn child(&mut self, parent: usize, name: &'e [u8], path: &'e [u8]) -> usize {
        if let Some(at) = self.by_path.get(path) {
            return *at;
        }
        let at = self.nodes.len();
        self.nodes.push(TreeNode::directory(name, parent));
        self.by_path.insert(path, at);
        if let Some(parent) = self.nodes.get_mut(parent) {
            parent.children.push(at);
        }
        at
    }

    fn sum_up(&mut self) {
        for at in (1..self.nodes.len()).rev() {
            let (bytes, entries) = self.weight(at);
            let parent = self.nodes.get(at).map_or(0, |node| node.parent);
            if let Some(parent) = self.nodes.get_mut(parent) {
                parent.bytes = parent.bytes.saturating_add(bytes);
                parent.entries += entries + 1;
            }
        }
    }

    fn weight(&self, at: usize) -> (u64, usize) {
        self.nodes.get(at).map_or((0, 0), |node| (node.bytes, node.entries))
    }

    /// Opens the heaviest directories first.
    fn choose(&mut self, rows: usize) {
        let mut left = rows;
        let mut waiting = BinaryHeap::from([(self.weight(0), std::cmp::Reverse(0))]);
        while let Some((_, std::cmp::Reverse(at))) = waiting.pop() {
            let Some(node) = self.nodes.get(at) else { continue };
            // The last row says how many are not shown.
            if node.children.is_empty() || left < node.children.len().min(CHILDREN).min(8) + 1 {
                continue;
            }
            let mut children = node.children.clone();
            children.sort_by_key(|child| {
                let name = self.nodes.get(*child).map_or(b"".as_slice(), |node| node.name);
                (std::cmp::Reverse(self.weight(*child)), name)
            });
            children.truncate(CHILDREN.min(left - 1));
            left -= children.len() + 1;
            waiting.extend(children.iter().map(|child| (self.weight(*child), std::cmp::Reverse(*child))));
            if let Some(node) = self.nodes.get_mut(at) {
                node.children = children;
                node.is_open = true;
            }
        }
    }

    /// The chosen part, from `at` down; never deeper than [`DEPTH`].
    fn tree(&self, at: usize) -> FileTree {
        let Some(node) = self.nodes.get(at) else { return FileTree::removed() };
        let children: Vec<FileTree> =
            node.children.iter().filter(|_| node.is_open).map(|child| self.tree(*child)).collect();
        let below = children.iter().fold(0, |sum, child| sum + child.entries + 1);
        let bytes = children.iter().fold(0_u64, |sum, child| sum.saturating_add(child.bytes));
        let own = if node.kind == TreeKind::Directory { 0 } else { node.bytes };
        FileTree {
            name: cut(shown(node.name)),
            kind: node.kind.clone(),
            entries: node.entries,
            bytes: node.bytes,
            hidden_entries: node.entries.saturating_sub(below),
            hidden_bytes: node.bytes.saturating_sub(bytes).saturating_sub(own),
            children,
        }
    }
}

impl FileTree {
    const fn removed() -> Self {
        Self {
            name: String::new(),
            kind: TreeKind::Removed,
            entries: 0,
            bytes: 0,
            children: Vec::new(),
            hidden_entries: 0,
            hidden_bytes: 0,
        }
    }
}

fn kind_and_size(kind: &EntryKind) -> (TreeKind, u64) {
    let link = |target: &RootPath| TreeKind::Link(cut(target.to_string()));
    match kind {
        EntryKind::File { size } => (TreeKind::File, *size),
        EntryKind::Directory | EntryKind::Opaque => (TreeKind::Directory, 0),
        EntryKind::Symlink(target) => (TreeKind::Link(cut(shown(target))), 0),
        EntryKind::Hardlink(target) => (link(target), 0),
        EntryKind::Character { .. } | EntryKind::Block { .. } | EntryKind::Fifo => (TreeKind::Special, 0),
        EntryKind::Whiteout => (TreeKind::Removed, 0),
    }
}

fn cut(name: String) -> String {
    match name.char_indices().nth(NAME) {
        Some((at, _)) => format!("{}…", name.get(..at).unwrap_or_default()),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, size: u64) -> Entry {
        Entry::new(RootPath::new(path).unwrap(), EntryKind::File { size }, 0o644, 0, 0)
    }

    fn names(tree: &FileTree) -> Vec<&str> {
        tree.children.iter().map(|child| child.name.as_str()).collect()
    }

    #[test]
    fn sums_are_of_everything_and_the_largest_comes_first() {
        let entries = [
            file("usr/bin/a", 10),
            file("usr/lib/b", 90),
            file("etc/c", 1),
            Entry::new(RootPath::new("bin").unwrap(), EntryKind::Symlink(b"usr/bin".to_vec()), 0o777, 0, 0),
            Entry::new(RootPath::new("etc/d").unwrap(), EntryKind::Whiteout, 0, 0, 0),
        ];
        let tree = FileTree::new(entries.iter(), 100);
        assert_eq!((tree.entries, tree.bytes, tree.hidden_entries), (9, 101, 0), "{tree:#?}");
        assert_eq!(names(&tree), ["usr", "etc", "bin"]);
        assert_eq!(names(&tree.children[0]), ["lib", "bin"]);
        assert_eq!(tree.children[2].kind, TreeKind::Link("usr/bin".to_owned()));
        assert_eq!(tree.children[1].children[1].kind, TreeKind::Removed);
    }

    #[test]
    fn a_layer_of_any_size_gives_no_more_rows_than_were_asked_for() {
        let many: Vec<Entry> = (0..20_000).map(|at| file(&format!("d{}/e{}/f{at}", at % 7, at % 400), at)).collect();
        let deep = file(&"x/".repeat(2000), 5);
        let entries: Vec<Entry> = many.into_iter().chain([deep]).collect();
        let total: u64 = (0..20_000).sum::<u64>() + 5;
        for rows in [0, 1, 20, 500, 2000] {
            let tree = FileTree::new(entries.iter(), rows);
            assert!(tree.rows() <= rows, "{} of {rows}", tree.rows());
            assert_eq!(tree.bytes, total);
            let shown = tree.children.iter().map(|child| child.bytes).sum::<u64>();
            assert_eq!(shown + tree.hidden_bytes, total, "{rows}");
        }
    }

    #[test]
    fn many_images_share_a_page() {
        assert_eq!(FileListing::for_images(1), FileListing::Rows(2000));
        assert_eq!(FileListing::for_images(10), FileListing::Rows(125));
        assert_eq!(FileListing::for_images(4000), FileListing::Rows(20));
    }
}
