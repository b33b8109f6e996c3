//! The nodes of a root by name: an arena, so that no depth of folders can exhaust a stack.
//!
//! Each slot remembers in which layer it was last touched, so that a whiteout removes what lower
//! layers put there and never what its own layer does, wherever in the tar it stands.

use std::collections::BTreeMap;
use std::mem;

use super::node::Node;
use crate::layer::RootPath;

/// A place in the tree. Only the tree makes them, and what one stands for is never moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeId(usize);

pub(super) const ROOT: NodeId = NodeId(0);

#[derive(Debug)]
struct Slot<'a> {
    node: Node<'a>,
    name: &'a [u8],
    parent: NodeId,
    /// Bytes of the path.
    length: usize,
    children: BTreeMap<&'a [u8], NodeId>,
    /// The last layer that put this, or something below it. No parent was touched less recently.
    touched: usize,
    /// The last layer in which it was certain that no child is of a lower one.
    cleared: usize,
}

/// Slots that were replaced stay where they are, without a name: memory grows with the number of
/// entries, and nothing has to be searched for.
#[derive(Debug)]
pub(super) struct Tree<'a> {
    root: Slot<'a>,
    others: Vec<Slot<'a>>,
}

impl<'a> Tree<'a> {
    pub(super) const fn new() -> Self {
        let root = Slot {
            node: Node::implied(0),
            name: b"",
            parent: ROOT,
            length: 0,
            children: BTreeMap::new(),
            touched: 0,
            cleared: 0,
        };
        Self { root, others: Vec::new() }
    }

    fn slot(&self, id: NodeId) -> &Slot<'a> {
        id.0.checked_sub(1).and_then(|at| self.others.get(at)).unwrap_or(&self.root)
    }

    fn slot_mut(&mut self, id: NodeId) -> &mut Slot<'a> {
        id.0.checked_sub(1).and_then(|at| self.others.get_mut(at)).unwrap_or(&mut self.root)
    }

    pub(super) fn node(&self, id: NodeId) -> &Node<'a> {
        &self.slot(id).node
    }

    /// The root's parent is the root, as in every file system.
    pub(super) fn parent(&self, id: NodeId) -> NodeId {
        self.slot(id).parent
    }

    pub(super) fn child(&self, folder: NodeId, name: &[u8]) -> Option<NodeId> {
        self.slot(folder).children.get(name).copied()
    }

    /// Sorted by name.
    pub(super) fn children(&self, folder: NodeId) -> impl Iterator<Item = (&'a [u8], NodeId)> {
        self.slot(folder).children.iter().map(|(name, id)| (*name, *id))
    }

    /// Bytes of the path of `id`.
    pub(super) fn path_length(&self, id: NodeId) -> usize {
        self.slot(id).length
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
    pub(super) fn add(&mut self, folder: NodeId, name: &'a [u8], node: Node<'a>) -> NodeId {
        let (id, layer) = (NodeId(self.others.len() + 1), node.layer());
        let above = self.path_length(folder);
        let length = if above == 0 { name.len() } else { above + 1 + name.len() };
        let children = BTreeMap::new();
        self.others.push(Slot { node, name, parent: folder, length, children, touched: layer, cleared: layer });
        self.slot_mut(folder).children.insert(name, id);
        self.touch(folder, layer);
        id
    }

    /// Gives a folder other attributes; what lies in it stays.
    pub(super) fn replace_folder(&mut self, id: NodeId, node: Node<'a>) {
        self.slot_mut(id).node = node;
        self.touch(id, node.layer());
    }

    pub(super) fn remove(&mut self, folder: NodeId, name: &[u8]) {
        self.slot_mut(folder).children.remove(name);
    }

    /// Removes what lower layers have at a name: all of it, or what `layer` has not touched.
    pub(super) fn remove_lower(&mut self, folder: NodeId, name: &[u8], layer: usize) {
        match self.child(folder, name) {
            Some(id) if self.slot(id).touched == layer => self.clear(id, layer),
            _ => self.remove(folder, name),
        }
    }

    /// Removes what lower layers have below a folder. No slot is cleared twice in a layer, so a
    /// thousand marks for one folder cost no more than one.
    pub(super) fn clear(&mut self, folder: NodeId, layer: usize) {
        let mut open = vec![folder];
        while let Some(id) = open.pop() {
            let slot = self.slot_mut(id);
            if slot.cleared == layer {
                continue;
            }
            slot.cleared = layer;
            let mut children = mem::take(&mut slot.children);
            children.retain(|_, child| self.slot(*child).touched == layer);
            open.extend(children.values());
            self.slot_mut(id).children = children;
        }
    }

    fn touch(&mut self, id: NodeId, layer: usize) {
        let mut at = id;
        while self.slot(at).touched != layer {
            self.slot_mut(at).touched = layer;
            at = self.parent(at);
        }
    }
}
