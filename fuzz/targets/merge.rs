//! Any stack of small layers makes the root that the straightforward model makes of it, and paths
//! lead to the same places.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
// The model is compiled into this program, too, and finds the tool's types here.
use layer;
use layer::{Entry, EntryKind, LayerIndex, RootPath};
use oci::{Compression, DiffId, Digest};
use start::rootfs::{Root, merge};

#[path = "../../crates/start/src/rootfs/tests/model.rs"]
mod model;

use model::{Item, PathNames, modelled, names, text};

const NAMES: [&str; 8] = ["a", "b", "c", "a-", "a", "b", "..", "."];

fuzz_target!(|data: &[u8]| {
    let layers: Vec<LayerIndex> = data.split(|byte| *byte == 0xff).take(6).map(layer_of).collect();
    let (root, model) = (merge(&layers), modelled(&layers));
    assert_eq!(items(&root), model.items);
    assert_eq!(root.issues().iter().filter(|odd| !odd.kind.is_applied()).count(), model.unapplied);
    assert!(root.entries().map(|(path, _)| path).is_sorted());
    let asked = ["a", "a/b", "b/c", "c/a-/b", "a/b/c"];
    for asked in asked {
        let ours = root.resolve(&path(asked)).ok().map(|resolved| names(&text(&resolved.path)));
        assert_eq!(ours, model.resolve(&names(asked), &mut 0), "{asked}");
    }
});

/// Three bytes are an entry: its kind, its path, its target.
fn layer_of(bytes: &[u8]) -> LayerIndex {
    let entries = bytes.chunks_exact(3).take(24).enumerate().map(|(position, bytes)| entry(bytes, position as u64));
    let digest = Digest::of(b"");
    LayerIndex {
        digest,
        size: 0,
        diff_id: DiffId(digest),
        unpacked: 0,
        compression: Compression::None,
        entries: entries.collect(),
        captured: Vec::new(),
        programs: Vec::new(),
        digests: None,
        notes: Vec::new(),
    }
}

fn entry(bytes: &[u8], offset: u64) -> Entry {
    let kind = match bytes[0] % 8 {
        0 => EntryKind::File { size: 1 },
        1 | 2 => EntryKind::Directory,
        3 | 4 => EntryKind::Symlink(written(bytes[2], 8, bytes[0] & 8 != 0).into_bytes()),
        5 => EntryKind::Hardlink(path(&written(bytes[2], 4, false))),
        6 => EntryKind::Whiteout,
        _ => EntryKind::Opaque,
    };
    let path = path(&written(bytes[1], 4, false));
    Entry { offset, ..Entry::new(path, kind, 0o755, 0, 0) }
}

/// One to three of the first `of` names; two bits say how many.
fn written(byte: u8, of: usize, absolute: bool) -> String {
    let byte = usize::from(byte);
    let picks = [byte, byte >> 2, byte >> 4].map(|pick| NAMES[pick % of]);
    let slash = if absolute { "/" } else { "" };
    format!("{slash}{}", picks[..1 + (byte >> 6) % 3].join("/"))
}

fn path(text: &str) -> RootPath {
    RootPath::new(text).unwrap_or_else(|_| RootPath::root())
}

/// The root in the model's terms. An entry's offset holds its position in the layer.
fn items(root: &Root<'_>) -> BTreeMap<PathNames, Item> {
    let from = |node: &start::rootfs::FileNode<'_>| {
        let position = usize::try_from(node.entry()?.offset).ok()?;
        Some((node.content_layer(), position))
    };
    root.entries()
        .map(|(path, node)| (names(&text(&path)), Item { from: from(node), kind: node.kind().clone() }))
        .collect()
}
