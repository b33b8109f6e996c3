//! Drafts for tests, and what becomes of them.

use std::io::{Cursor, Read as _};
use std::num::NonZeroUsize;

use super::{EntryData, LayerSpec, SourceData, SpecEntry, WriteOptions, WrittenLayer, write};
use crate::decompress::GzipMembers;
use crate::entry::{Entry, EntryKind};
use crate::index::LayerIndex;
use crate::limits::Limits;
use crate::path::RootPath;
use crate::scan::scan;
use oci::error::Result;

/// File capabilities as Linux keeps them: `cap_net_bind_service`, effective.
pub(super) const CAPABILITY: &[u8] = b"\x01\0\0\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

pub(super) fn path(text: impl AsRef<[u8]>) -> RootPath {
    RootPath::new(text).unwrap()
}

/// Anything without content.
pub(super) fn bare(at: impl AsRef<[u8]>, kind: EntryKind) -> SpecEntry {
    let mode = if kind == EntryKind::Directory { 0o755 } else { 0o644 };
    let entry =
        Entry { path: path(at), kind, mode, uid: 0, gid: 0, mtime: 0, xattrs: Vec::new(), offset: 0, sparse: false };
    SpecEntry { entry, data: EntryData::None }
}

pub(super) fn file(at: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> SpecEntry {
    let content = content.as_ref().to_vec();
    let entry = bare(at, EntryKind::File { size: content.len() as u64 }).entry;
    SpecEntry { entry, data: EntryData::Bytes(content) }
}

pub(super) fn directory(at: impl AsRef<[u8]>) -> SpecEntry {
    bare(at, EntryKind::Directory)
}

pub(super) fn symlink(at: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> SpecEntry {
    bare(at, EntryKind::Symlink(target.as_ref().to_vec()))
}

pub(super) fn hard_link(at: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> SpecEntry {
    bare(at, EntryKind::Hardlink(path(target)))
}

/// The same entry with something of it changed.
pub(super) fn with(mut spec: SpecEntry, change: impl FnOnce(&mut Entry)) -> SpecEntry {
    change(&mut spec.entry);
    spec
}

pub(super) fn xattr(spec: SpecEntry, name: &[u8], value: &[u8]) -> SpecEntry {
    with(spec, |entry| entry.xattrs.push((name.to_vec(), value.to_vec())))
}

/// Everything that a layer can have, and that readers could stumble over.
pub(super) fn everything_odd() -> Vec<SpecEntry> {
    let owned = |spec, uid, gid, mode| with(spec, |entry| (entry.uid, entry.gid, entry.mode) = (uid, gid, mode));
    let long = "l".repeat(200);
    vec![
        directory(""),
        owned(directory("usr"), 1, 2, 0o1777),
        owned(file("usr/su", b"setuid"), 65_534, 2_097_152, 0o6755),
        owned(file("usr/far", b""), 2_097_151, 4_294_967_294, 0),
        xattr(xattr(file("usr/ping", b"ping"), b"security.capability", CAPABILITY), b"user.odd", b"=\n\0\xff"),
        bare("dev/null", EntryKind::Character { major: 1, minor: 3 }),
        bare("dev/sda", EntryKind::Block { major: 2_097_151, minor: 2_097_151 }),
        bare("dev/pipe", EntryKind::Fifo),
        symlink("absolute", "/usr/su"),
        symlink("upwards", "../../etc"),
        symlink("long-link", "t/".repeat(150)),
        symlink(b"link-\xff", b"target-\xfe"),
        symlink("a".repeat(99), "b".repeat(100)),
        file("n".repeat(100), b"exactly a field"),
        file("n".repeat(101), b"one more"),
        file(format!("{}/{}", "p".repeat(155), "n".repeat(100)), b"prefix and name"),
        file(format!("{}/{}", "p".repeat(156), "n".repeat(100)), b"neither"),
        directory(format!("deep/{}", "d/".repeat(120))),
        file("ünïcode", b"utf-8"),
        file(b"bytes-\xff\xfe", b"not utf-8"),
        file([b"\xf0".as_slice(), &[b'x'; 250]].concat(), b"long and not utf-8"),
        file("spaces and\nlines = '\"\\", b""),
        file("zz/file", b"has three names"),
        hard_link("aa-first", "zz/file"),
        hard_link("zz/again", "aa-first"),
        hard_link(format!("zz/{long}"), "zz/file"),
        bare("gone", EntryKind::Whiteout),
        bare("-replaced", EntryKind::Whiteout),
        file("-replaced", b"put back"),
        directory("emptied"),
        bare("emptied", EntryKind::Opaque),
        file("emptied/new", b""),
        bare("", EntryKind::Opaque),
        file("a-b", b""),
        directory("a"),
        file("a/b", vec![b'x'; 512]),
    ]
}

pub(super) fn options(jobs: usize) -> WriteOptions {
    WriteOptions { mtime: 0, jobs: NonZeroUsize::new(jobs).unwrap() }
}

pub(super) fn written_as(spec: &LayerSpec, options: WriteOptions) -> (Vec<u8>, WrittenLayer) {
    let mut blob = Vec::new();
    let written = write(spec, &mut SourceData::new(Cursor::new(Vec::new())), options, &mut blob).unwrap();
    (blob, written)
}

pub(super) fn blob_of(entries: Vec<SpecEntry>) -> Vec<u8> {
    written_as(&LayerSpec::new(entries).unwrap(), options(1)).0
}

pub(super) fn tar_of(blob: &[u8]) -> Vec<u8> {
    let mut tar = Vec::new();
    GzipMembers::new(blob).read_to_end(&mut tar).unwrap();
    tar
}

/// The index that our own reader makes of a written layer, all promises checked.
pub(super) fn read_back(blob: &[u8], written: &WrittenLayer) -> Result<LayerIndex> {
    scan(blob, &written.descriptor(), Some(&written.diff_id), &Limits::default())
}

/// The entries of a spec without what a layer does not say of them.
pub(super) fn listed(spec: &LayerSpec) -> Vec<Entry> {
    spec.entries().iter().map(|spec| bared(&spec.entry)).collect()
}

pub(super) fn bared(entry: &Entry) -> Entry {
    Entry { offset: 0, mtime: 0, ..entry.clone() }
}
