//! A layer that is about to be written: its entries, and where the data of each one is.

use std::collections::{HashMap, HashSet};

use layer::{Captured, Entry, EntryData, EntryKind, FileDigest, IndexedProgram, LayerContents, LayerIndex, RootPath};
use oci::Digest;

/// Entries with their data. Whatever is known of the content of a source layer's entry goes along,
/// so that the root it will be part of can be asked the same questions.
#[derive(Debug, Clone, Default)]
pub struct NewLayer {
    entries: Vec<Entry>,
    captured: Vec<Captured>,
    programs: Vec<IndexedProgram>,
    digests: Vec<FileDigest>,
    data: Vec<EntryData>,
    paths: HashSet<RootPath>,
    /// The first path of each file taken, by layer and position: further names of it are hard links.
    names: HashMap<(Digest, usize), RootPath>,
}

impl NewLayer {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries, each with its data.
    pub fn entries(&self) -> impl Iterator<Item = (&Entry, &EntryData)> {
        self.entries.iter().zip(&self.data)
    }

    #[must_use]
    pub fn has(&self, path: &RootPath) -> bool {
        self.paths.contains(path)
    }

    /// A file with this content.
    pub(super) fn add_file(&mut self, entry: Entry, content: Vec<u8>) {
        self.captured.push(Captured { entry: self.entries.len(), content: content.clone() });
        self.push(entry, EntryData::Bytes(content));
    }

    /// Something without data of its own: a directory, a link, a marker.
    pub(super) fn add(&mut self, entry: Entry) {
        self.push(entry, EntryData::None);
    }

    /// The entry at `position` of a source layer, at a path of its own.
    pub(super) fn take(&mut self, layer: &LayerIndex, position: usize, path: &RootPath) {
        let Some(entry) = layer.entries.get(position) else { return };
        if let EntryKind::File { .. } = entry.kind
            && let Some(first) = self.names.get(&(layer.digest, position))
        {
            let kind = EntryKind::Hardlink(first.clone());
            return self.add(Entry {
                xattrs: entry.xattrs.clone(),
                ..Entry::new(path.clone(), kind, entry.mode, entry.uid, entry.gid)
            });
        }
        self.names.insert((layer.digest, position), path.clone());
        let contents = LayerContents::from(layer);
        let at = self.entries.len();
        let content = contents.content(position).map(<[u8]>::to_vec);
        self.captured.extend(content.map(|content| Captured { entry: at, content }));
        self.programs.extend(contents.program(position).cloned().map(|program| IndexedProgram { entry: at, program }));
        self.digests.extend(contents.digest(position).map(|digest| FileDigest { entry: at, digest }));
        let data = match entry.kind {
            EntryKind::File { size: 1.. } => EntryData::FromLayer(layer.digest),
            _ => EntryData::None,
        };
        self.push(Entry { path: path.clone(), ..entry.clone() }, data);
    }

    fn push(&mut self, entry: Entry, data: EntryData) {
        // A marker is about lower layers: the path itself is still free.
        if !entry.kind.is_marker() {
            self.paths.insert(entry.path.clone());
        }
        self.entries.push(entry);
        self.data.push(data);
    }
}

impl<'a> From<&'a NewLayer> for LayerContents<'a> {
    fn from(layer: &'a NewLayer) -> Self {
        Self { entries: &layer.entries, captured: &layer.captured, programs: &layer.programs, digests: &layer.digests }
    }
}
