//! The nodes of a root by name: an arena, so that no depth of directories can exhaust a stack.
//!
//! Each slot remembers in which layer it was last touched, so that a whiteout removes what lower
//! layers put there and never what its own layer does, wherever in the tar it is.

use std::collections::BTreeMap;
use std::mem;

use layer::{Entry, EntryKind, RootPath};

/// A number of layers, entries or bytes: an image with many entries has as many of each, and no layer has
/// more than four billion.
type Count = u32;

fn narrow(count: usize) -> Count {
    Count::try_from(count).unwrap_or(Count::MAX)
}

fn wide(count: Count) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// An entry and where it is: the layer's number from the bottom, and its place in that layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntrySource<'a> {
    pub(super) entry: &'a Entry,
    layer: Count,
    position: Count,
}

impl<'a> EntrySource<'a> {
    pub(super) fn new(entry: &'a Entry, layer: usize, position: usize) -> Self {
        Self { entry, layer: narrow(layer), position: narrow(position) }
    }

    pub(super) fn layer(&self) -> usize {
        wide(self.layer)
    }

    pub(super) fn position(&self) -> usize {
        wide(self.position)
    }
}

/// A file, directory, link, device or pipe. Never a marker, and never an unresolved hard link: all
/// names of a file have the same [`FileNode::entry`].
#[derive(Debug, Clone, Copy)]
pub struct FileNode<'a> {
    /// `None` for a directory without an entry of its own.
    source: Option<EntrySource<'a>>,
    /// The entry that gave a further name to the file of `source`.
    link: Option<&'a Entry>,
    /// The layer that put this name there.
    layer: Count,
}

/// What an implied directory is.
static DIRECTORY: EntryKind = EntryKind::Directory;
const IMPLIED_MODE: u32 = 0o755;

impl<'a> FileNode<'a> {
    pub(super) const fn of(source: EntrySource<'a>) -> Self {
        Self { source: Some(source), link: None, layer: source.layer }
    }

    /// A directory that exists only because something is in it.
    pub(super) fn implied(layer: usize) -> Self {
        Self { source: None, link: None, layer: narrow(layer) }
    }

    /// A further name of this file.
    pub(super) const fn linked(self, link: EntrySource<'a>) -> Self {
        Self { source: self.source, link: Some(link.entry), layer: link.layer }
    }

    pub(super) const fn source(&self) -> Option<EntrySource<'a>> {
        self.source
    }

    /// The entry whose attributes and content it has; `None` for an implied directory. For a hard
    /// link it is the file that the link points to, under the path that this file was put at.
    #[must_use]
    pub fn entry(&self) -> Option<&'a Entry> {
        self.source.map(|source| source.entry)
    }

    /// The hard link that gave it this name, where one did.
    #[must_use]
    pub fn hard_link(&self) -> Option<&'a Entry> {
        self.link
    }

    /// The number of the layer, from the bottom and from 0, that put this name there.
    #[must_use]
    pub fn layer(&self) -> usize {
        wide(self.layer)
    }

    /// The number of the layer that its content is in: a hard link may point to a lower one.
    #[must_use]
    pub fn content_layer(&self) -> usize {
        self.source.map_or_else(|| self.layer(), |source| source.layer())
    }

    /// The entry by its place: the number of its layer, and its position in that layer.
    #[must_use]
    pub fn place(&self) -> Option<(usize, usize)> {
        self.source.map(|source| (source.layer(), source.position()))
    }

    /// Never a hard link, whiteout or opaque mark.
    #[must_use]
    pub fn kind(&self) -> &'a EntryKind {
        self.entry().map_or(&DIRECTORY, |entry| &entry.kind)
    }

    #[must_use]
    pub fn is_directory(&self) -> bool {
        matches!(self.kind(), EntryKind::Directory)
    }

    /// Permission bits with setuid, setgid and sticky.
    #[must_use]
    pub fn mode(&self) -> u32 {
        self.entry().map_or(IMPLIED_MODE, |entry| entry.mode)
    }

    #[must_use]
    pub fn uid(&self) -> u64 {
        self.entry().map_or(0, |entry| entry.uid)
    }

    #[must_use]
    pub fn gid(&self) -> u64 {
        self.entry().map_or(0, |entry| entry.gid)
    }
}

/// A place in the tree. Only the tree makes them, and what one refers to is never moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeId(Count);

pub(super) const ROOT: NodeId = NodeId(0);

#[derive(Debug)]
struct TreeSlot<'a> {
    node: FileNode<'a>,
    name: &'a [u8],
    parent: NodeId,
    /// Bytes of the path.
    length: Count,
    /// The last layer that put this, or something below it. No parent was touched less recently.
    touched: Count,
    /// The last layer in which it was certain that no child is of a lower one.
    cleared: Count,
    /// Most slots have none, and a word is less than an empty map.
    children: Option<Box<Children<'a>>>,
}

type Children<'a> = BTreeMap<&'a [u8], NodeId>;

/// Slots that were replaced stay where they are, without a name: memory grows with the number of
/// entries, and nothing has to be searched for.
#[derive(Debug)]
pub(super) struct RootTree<'a> {
    root: TreeSlot<'a>,
    others: Vec<TreeSlot<'a>>,
}

impl<'a> RootTree<'a> {
    pub(super) const fn new() -> Self {
        let root = TreeSlot {
            node: FileNode { source: None, link: None, layer: 0 },
            name: b"",
            parent: ROOT,
            length: 0,
            children: None,
            touched: 0,
            cleared: 0,
        };
        Self { root, others: Vec::new() }
    }

    fn slot(&self, id: NodeId) -> &TreeSlot<'a> {
        id.0.checked_sub(1).and_then(|at| self.others.get(wide(at))).unwrap_or(&self.root)
    }

    fn slot_mut(&mut self, id: NodeId) -> &mut TreeSlot<'a> {
        id.0.checked_sub(1).and_then(|at| self.others.get_mut(wide(at))).unwrap_or(&mut self.root)
    }

    pub(super) fn node(&self, id: NodeId) -> &FileNode<'a> {
        &self.slot(id).node
    }

    /// The root's parent is the root, as in every file system.
    pub(super) fn parent(&self, id: NodeId) -> NodeId {
        self.slot(id).parent
    }

    pub(super) fn child(&self, directory: NodeId, name: &[u8]) -> Option<NodeId> {
        self.slot(directory).children.as_ref()?.get(name).copied()
    }

    /// Sorted by name.
    pub(super) fn children(&self, directory: NodeId) -> impl Iterator<Item = (&'a [u8], NodeId)> {
        self.slot(directory).children.iter().flat_map(|children| children.iter()).map(|(name, id)| (*name, *id))
    }

    /// Bytes of the path of `id`.
    pub(super) fn path_length(&self, id: NodeId) -> usize {
        wide(self.slot(id).length)
    }

    pub(super) fn path(&self, id: NodeId) -> RootPath {
        let mut names = Vec::new();
        let mut at = id;
        while at != ROOT {
            names.push(self.slot(at).name);
            at = self.parent(at);
        }
        names.reverse();
        // Cannot fail: names come from paths, and `merge` lets no other bytes in.
        RootPath::new(names.join(b"/".as_slice())).unwrap_or_default()
    }

    /// Puts a node at a name, with nothing below it. What was there has to be removed before.
    pub(super) fn add(&mut self, directory: NodeId, name: &'a [u8], node: FileNode<'a>) -> NodeId {
        let (id, layer) = (NodeId(narrow(self.others.len() + 1)), node.layer);
        let above = self.path_length(directory);
        let length = narrow(if above == 0 { name.len() } else { above + 1 + name.len() });
        let slot = TreeSlot { node, name, parent: directory, length, children: None, touched: layer, cleared: layer };
        self.others.push(slot);
        self.slot_mut(directory).children.get_or_insert_default().insert(name, id);
        self.touch(directory, layer);
        id
    }

    /// Gives a directory other attributes; its content stays.
    pub(super) fn replace_directory(&mut self, id: NodeId, node: FileNode<'a>) {
        self.slot_mut(id).node = node;
        self.touch(id, node.layer);
    }

    pub(super) fn remove(&mut self, directory: NodeId, name: &[u8]) {
        if let Some(children) = &mut self.slot_mut(directory).children {
            children.remove(name);
        }
    }

    /// Removes what lower layers have at a name: all of it, or what `layer` has not touched.
    pub(super) fn remove_lower(&mut self, directory: NodeId, name: &[u8], layer: usize) {
        match self.child(directory, name) {
            Some(id) if wide(self.slot(id).touched) == layer => self.clear(id, layer),
            _ => self.remove(directory, name),
        }
    }

    /// Removes what lower layers have below a directory. No slot is cleared twice in a layer, so a
    /// thousand marks for one directory cost no more than one.
    pub(super) fn clear(&mut self, directory: NodeId, layer: usize) {
        let layer = narrow(layer);
        let mut open = vec![directory];
        while let Some(id) = open.pop() {
            let slot = self.slot_mut(id);
            if slot.cleared == layer {
                continue;
            }
            slot.cleared = layer;
            let Some(mut children) = mem::take(&mut slot.children) else { continue };
            children.retain(|_, child| self.slot(*child).touched == layer);
            open.extend(children.values());
            self.slot_mut(id).children = Some(children);
        }
    }

    fn touch(&mut self, id: NodeId, layer: Count) {
        let mut at = id;
        while self.slot(at).touched != layer {
            self.slot_mut(at).touched = layer;
            at = self.parent(at);
        }
    }
}
