//! Layers for tests, with package databases in them.

use crate::examine::testing::entry;
use layer::{Captured, Entry, EntryKind, LayerIndex, RootPath};
use oci::{Compression, DiffId, Digest};

pub fn path(text: &str) -> RootPath {
    RootPath::new(text).unwrap()
}

/// A layer that grows.
#[derive(Default)]
pub struct Layer {
    entries: Vec<Entry>,
    captured: Vec<Captured>,
    mtime: i64,
}

impl Layer {
    /// What follows is of this time.
    pub fn at(self, mtime: i64) -> Self {
        Self { mtime, ..self }
    }

    fn push(mut self, at: &str, kind: EntryKind) -> Self {
        let mode = if kind == EntryKind::Directory { 0o755 } else { 0o644 };
        self.entries.push(Entry { kind, mode, mtime: self.mtime, ..entry(at) });
        self
    }

    pub fn file(mut self, at: &str, content: &[u8]) -> Self {
        self.captured.push(Captured { entry: self.entries.len(), content: content.to_vec() });
        self.push(at, EntryKind::File { size: content.len() as u64 })
    }

    /// A file whose content was not captured.
    pub fn unread(self, at: &str) -> Self {
        self.push(at, EntryKind::File { size: 1 << 40 })
    }

    pub fn folder(self, at: &str) -> Self {
        self.push(at, EntryKind::Directory)
    }

    pub fn symlink(self, at: &str, target: &str) -> Self {
        self.push(at, EntryKind::Symlink(target.as_bytes().to_vec()))
    }

    pub fn hard_link(self, at: &str, target: &str) -> Self {
        self.push(at, EntryKind::Hardlink(path(target)))
    }

    pub fn whiteout(self, at: &str) -> Self {
        self.push(at, EntryKind::Whiteout)
    }

    /// Attributes of the last entry.
    pub fn owned_by(mut self, uid: u64, mode: u32) -> Self {
        let last = self.entries.last_mut().unwrap();
        (last.uid, last.mode) = (uid, mode);
        self
    }

    /// The database of dpkg: name, version and list of each package.
    pub fn dpkg(self, packages: &[(&str, &str, &str)]) -> Self {
        let stanza = |(name, version, _): &(&str, &str, &str)| {
            format!("Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n\n")
        };
        let status: String = packages.iter().map(stanza).collect();
        let layer = self.file("var/lib/dpkg/status", status.as_bytes());
        let add = |layer: Self, (name, _, list): &(&str, &str, &str)| {
            layer.file(&format!("var/lib/dpkg/info/{name}.list"), list.as_bytes())
        };
        packages.iter().fold(layer, add)
    }

    pub fn index(&self) -> LayerIndex {
        let digest = Digest::of(b"");
        LayerIndex {
            digest,
            size: 0,
            diff_id: DiffId(digest),
            unpacked: 0,
            compression: Compression::None,
            entries: self.entries.clone(),
            captured: self.captured.clone(),
            programs: Vec::new(),
            digests: None,
            notes: Vec::new(),
        }
    }
}
