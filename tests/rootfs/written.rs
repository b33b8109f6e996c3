//! Layers that we write, as others unpack and copy them: the whole way from a spec to a disk.

use std::io::Cursor;
use std::num::NonZeroUsize;
use std::process::Command;

use layer::{
    Entry, EntryData, EntryKind, LayerSpec, Limits, RootPath, SourceData, SpecEntry, WriteOptions, WrittenLayer, write,
};
use start::rootfs::merge;

use crate::layout::Layout;
use crate::skip::{need, or_skip};
use crate::{can_run, compare, disk};

const MTIME: i64 = 1_700_000_000;

fn bare(at: impl AsRef<[u8]>, kind: EntryKind) -> SpecEntry {
    let mode = if kind == EntryKind::Directory { 0o755 } else { 0o640 };
    let path = RootPath::new(at).unwrap();
    let entry = Entry { path, kind, mode, uid: 7, gid: 8, mtime: 0, xattrs: Vec::new(), offset: 0, sparse: false };
    SpecEntry { entry, data: EntryData::None }
}

fn file(at: impl AsRef<[u8]>, content: impl Into<Vec<u8>>) -> SpecEntry {
    let content = content.into();
    let entry = bare(at, EntryKind::File { size: content.len() as u64 }).entry;
    SpecEntry { entry, data: EntryData::Bytes(content) }
}

fn written(spec: &LayerSpec, source_data: &mut SourceData<Cursor<Vec<u8>>>) -> (Vec<u8>, WrittenLayer) {
    let mut blob = Vec::new();
    let options = WriteOptions { mtime: MTIME, jobs: NonZeroUsize::new(2).unwrap() };
    let written = write(spec, source_data, options, &mut blob).unwrap();
    (blob, written)
}

fn layer(entries: Vec<SpecEntry>) -> (Vec<u8>, WrittenLayer) {
    written(&LayerSpec::new(entries).unwrap(), &mut SourceData::new(Cursor::new(Vec::new())))
}

fn lower() -> Vec<SpecEntry> {
    let folder = |at: &str| bare(at, EntryKind::Directory);
    vec![
        folder(""),
        file("gone", "gone"),
        folder("-replaced"),
        file("-replaced/old", "old"),
        folder("emptied"),
        file("emptied/old", "old"),
        folder("kept"),
        file("kept/large", vec![7; 3 << 20]),
    ]
}

fn upper() -> Vec<SpecEntry> {
    let mut owned = file("usr/su", "setuid");
    (owned.entry.mode, owned.entry.uid, owned.entry.gid) = (0o6755, 65_534, 2_097_152);
    let mut attributed = file("usr/attributed", "attributes");
    attributed.entry.xattrs = vec![(b"user.odd".to_vec(), b"=\n\0\xff".to_vec())];
    vec![
        bare("usr", EntryKind::Directory),
        owned,
        attributed,
        bare("dev/null", EntryKind::Character { major: 1, minor: 3 }),
        bare("dev/loop", EntryKind::Block { major: 7, minor: 0 }),
        bare("dev/pipe", EntryKind::Fifo),
        bare(b"link-\xff", EntryKind::Symlink(b"target-\xfe".to_vec())),
        bare("long-link", EntryKind::Symlink(b"t/".repeat(150))),
        file(format!("{}/{}", "p".repeat(155), "n".repeat(100)), "prefix and name"),
        file(format!("{}/{}", "p".repeat(156), "n".repeat(100)), "neither"),
        file("ünïcode", "utf-8"),
        file(b"bytes-\xff\xfe", "not utf-8"),
        file([b"\xf0".as_slice(), &[b'x'; 200]].concat(), "long and not utf-8"),
        file("zz/file", "has three names"),
        bare("aa-first", EntryKind::Hardlink(RootPath::new("zz/file").unwrap())),
        bare("zz/again", EntryKind::Hardlink(RootPath::new("aa-first").unwrap())),
        bare("gone", EntryKind::Whiteout),
        bare("-replaced", EntryKind::Whiteout),
        file("-replaced", "a file now"),
        bare("emptied", EntryKind::Directory),
        bare("emptied", EntryKind::Opaque),
        file("emptied/new", "new"),
    ]
}

fn check(layers: &[(Vec<u8>, WrittenLayer)]) {
    let layout = Layout::of_layers(layers);
    let indexes = layout.indexes();
    let root = merge(&indexes);
    assert!(root.issues().is_empty());
    compare("written layers", &root, &disk::unpacked(&layout.unpack().unwrap()));
}

#[test]
fn umoci_unpacks_what_was_drafted() {
    or_skip!(can_run(&["umoci"]));
    check(&[layer(lower()), layer(upper())]);
}

#[test]
fn umoci_unpacks_files_that_were_taken_out_of_another_layer() {
    or_skip!(can_run(&["umoci"]));
    let source = layer(lower().into_iter().chain([file("kept/small", "small")]).collect());
    let index = Layout::of_layers(std::slice::from_ref(&source)).indexes().remove(0);
    let kept = index.entries.into_iter().filter(|entry| entry.path.as_bytes().starts_with(b"kept"));
    let of = |entry: Entry| match entry.kind {
        EntryKind::File { .. } => SpecEntry { entry, data: EntryData::FromLayer(source.1.digest) },
        _ => SpecEntry { entry, data: EntryData::None },
    };
    let spec = LayerSpec::new(kept.map(of).collect()).unwrap();
    let mut source_data = SourceData::new(Cursor::new(Vec::new()));
    source_data.gather(&spec, source.0.as_slice(), &source.1.descriptor(), &Limits::default()).unwrap();
    let layers = [written(&spec, &mut source_data)];
    check(&layers);
    let layout = Layout::of_layers(&layers);
    let root = layout.unpack().unwrap();
    assert_eq!(std::fs::read(root.join("kept/small")).unwrap(), b"small");
    assert_eq!(std::fs::read(root.join("kept/large")).unwrap(), vec![7; 3 << 20]);
}

#[test]
fn skopeo_copies_written_layers_as_they_are() {
    or_skip!(need(&["skopeo"]));
    let layers = [layer(lower()), layer(upper())];
    let layout = Layout::of_layers(&layers);
    let out = Command::new("skopeo")
        .args([
            "copy",
            "--insecure-policy",
            &format!("oci:{}", layout.image()),
            &format!("dir:{}", layout.path("copy")),
        ])
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    for (blob, written) in &layers {
        let copied = std::path::Path::new(&layout.path("copy")).join(written.digest.hex());
        assert_eq!(&std::fs::read(copied).unwrap(), blob);
    }
}
