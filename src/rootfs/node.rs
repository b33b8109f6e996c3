//! What stands at a path of the root, and which entry of which layer put it there.

use crate::layer::{Entry, EntryKind};

/// An entry and where it is: the layer's number from the bottom, and its place in that layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) entry: &'a Entry,
    pub(super) layer: usize,
    pub(super) position: usize,
}

/// A file, folder, link, device or pipe. Never a marker, and never an unresolved hard link: all
/// names of a file have the same [`Node::entry`].
#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    /// `None` for a folder that no entry speaks of.
    source: Option<Source<'a>>,
    /// The entry that gave a further name to the file of `source`.
    link: Option<Source<'a>>,
    /// The layer that put this name there.
    layer: usize,
}

/// What an implied folder is.
static FOLDER: EntryKind = EntryKind::Directory;
const IMPLIED_MODE: u32 = 0o755;

impl<'a> Node<'a> {
    pub(super) const fn of(source: Source<'a>) -> Self {
        Self { source: Some(source), link: None, layer: source.layer }
    }

    /// A folder that is there only because something lies in it.
    pub(super) const fn implied(layer: usize) -> Self {
        Self { source: None, link: None, layer }
    }

    /// A further name of this file.
    pub(super) const fn linked(self, link: Source<'a>) -> Self {
        Self { source: self.source, link: Some(link), layer: link.layer }
    }

    pub(super) const fn source(&self) -> Option<Source<'a>> {
        self.source
    }

    /// The entry whose attributes and content it has; `None` for an implied folder. For a hard
    /// link it is the file that the link leads to, under the path that this file was put at.
    #[must_use]
    pub fn entry(&self) -> Option<&'a Entry> {
        self.source.map(|source| source.entry)
    }

    /// The hard link that gave it this name, where one did.
    #[must_use]
    pub fn hard_link(&self) -> Option<&'a Entry> {
        self.link.map(|link| link.entry)
    }

    /// The number of the layer, from the bottom and from 0, that put this name there.
    #[must_use]
    pub const fn layer(&self) -> usize {
        self.layer
    }

    /// The number of the layer that its content is in: a hard link may lead to a lower one.
    #[must_use]
    pub fn content_layer(&self) -> usize {
        self.source.map_or(self.layer, |source| source.layer)
    }

    /// The entry by its place: the number of its layer, and its position in that layer.
    #[must_use]
    pub fn place(&self) -> Option<(usize, usize)> {
        self.source.map(|source| (source.layer, source.position))
    }

    /// Never a hard link, whiteout or opaque mark.
    #[must_use]
    pub fn kind(&self) -> &'a EntryKind {
        self.entry().map_or(&FOLDER, |entry| &entry.kind)
    }

    #[must_use]
    pub fn is_folder(&self) -> bool {
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
