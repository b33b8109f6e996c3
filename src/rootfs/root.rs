//! The root itself, and the plainest questions to it.

use super::node::Node;
use super::odd::Odd;
use super::steps::split_last;
use super::tree::Tree;
use crate::elf::Program;
use crate::layer::{Contents, RootPath};

/// The files of an image as a container sees them, made by [`super::merge`].
#[derive(Debug)]
pub struct Root<'a> {
    pub(super) layers: Vec<Contents<'a>>,
    pub(super) tree: Tree<'a>,
    pub(super) odd: Vec<Odd<'a>>,
}

impl<'a> Root<'a> {
    /// What is at exactly this path. Links in its folder are followed, one in its own place is not.
    #[must_use]
    pub fn get(&self, path: &RootPath) -> Option<&Node<'a>> {
        let Some((folder, name)) = split_last(path.as_bytes()) else {
            return Some(self.tree.node(super::tree::ROOT));
        };
        let folder = self.walk(folder).ok()?.at;
        self.tree.child(folder, name).map(|id| self.tree.node(id))
    }

    /// The content of a file, where its layer's index has it.
    #[must_use]
    pub fn content(&self, node: &Node<'a>) -> Option<&'a [u8]> {
        let source = node.source()?;
        self.layers.get(source.layer)?.content(source.position)
    }

    /// What is known of a file that is a program or a script; `None` for plain data.
    #[must_use]
    pub fn program(&self, node: &Node<'a>) -> Option<&'a Program> {
        let source = node.source()?;
        self.layers.get(source.layer)?.program(source.position)
    }

    /// The entries that runtimes do not take or do not agree about, in the order of the layers.
    #[must_use]
    pub fn odd(&self) -> &[Odd<'a>] {
        &self.odd
    }
}
