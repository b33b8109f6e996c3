//! Layers for tests, entry by entry.

use super::root::Root;
use layer::{Captured, Entry, EntryKind, LayerIndex, RootPath};
use oci::{Compression, DiffId, Digest};

pub(super) fn path(text: impl AsRef<[u8]>) -> RootPath {
    RootPath::new(text).unwrap()
}

pub(super) fn entry(at: impl AsRef<[u8]>, kind: EntryKind) -> Entry {
    let mode = if kind == EntryKind::Directory { 0o755 } else { 0o644 };
    Entry { path: path(at), kind, mode, uid: 0, gid: 0, mtime: 0, xattrs: Vec::new(), offset: 0, sparse: false }
}

pub(super) fn file(at: impl AsRef<[u8]>) -> Entry {
    entry(at, EntryKind::File { size: 1 })
}

pub(super) fn program(at: &str) -> Entry {
    Entry { mode: 0o755, ..file(at) }
}

pub(super) fn directory(at: &str) -> Entry {
    entry(at, EntryKind::Directory)
}

pub(super) fn symlink(at: &str, target: impl AsRef<[u8]>) -> Entry {
    entry(at, EntryKind::Symlink(target.as_ref().to_vec()))
}

pub(super) fn hard_link(at: &str, target: &str) -> Entry {
    entry(at, EntryKind::Hardlink(path(target)))
}

pub(super) fn whiteout(at: &str) -> Entry {
    entry(at, EntryKind::Whiteout)
}

pub(super) fn opaque(at: &str) -> Entry {
    entry(at, EntryKind::Opaque)
}

pub(super) fn layer(entries: impl IntoIterator<Item = Entry>) -> LayerIndex {
    let entries: Vec<Entry> = entries.into_iter().collect();
    let digest = Digest::of(b"");
    // As if every file had been captured, with its place as its content.
    let captured = (0..entries.len()).map(|entry| Captured { entry, content: entry.to_string().into_bytes() });
    LayerIndex {
        digest,
        size: 0,
        diff_id: DiffId(digest),
        unpacked: 0,
        compression: Compression::None,
        programs: Vec::new(),
        captured: captured.collect(),
        entries,
        digests: None,
        notes: Vec::new(),
    }
}

/// A root in one line: its paths with what is there and the layer it is from. A directory ends in a
/// slash, an implied one in two.
pub(super) fn shown(root: &Root<'_>) -> String {
    let line = |(path, node): (RootPath, &super::FileNode<'_>)| {
        let what = match node.kind() {
            EntryKind::Directory if node.entry().is_none() => "//".to_owned(),
            EntryKind::Directory => "/".to_owned(),
            EntryKind::Symlink(target) => format!("->{}", String::from_utf8_lossy(target)),
            _ => String::new(),
        };
        let content =
            if node.content_layer() == node.layer() { String::new() } else { format!("<{}", node.content_layer()) };
        format!("{}{what}:{}{content}", path.to_string().trim_start_matches('/'), node.layer())
    };
    root.entries().map(line).collect::<Vec<_>>().join(" ")
}
