//! What specs refuse, and what is in the bytes of a layer.

mod golden_digests;
mod other_readers;
mod random_specs;
mod source_data;

use std::io::{Cursor, Write as _};

use super::testing::{
    CAPABILITY, bare, bared, blob_of, directory, everything_odd, file, hard_link, listed, options, path, read_back,
    symlink, tar_of, with, written_as, xattr,
};
use super::{EntryData, LayerSpec, SourceData, SpecEntry, WriteOptions, write};
use crate::entry::{Entry, EntryKind};
use crate::limits::Limits;
use oci::Digest;
use oci::error::{Error, Kind};

/// Rows: what is refused, by which words, and a twin that differs in that only.
#[test]
fn refuses_specs_that_would_not_read_back_as_they_are() {
    let device = |major| bare("d", EntryKind::Character { major, minor: 0 });
    let sized = |size| with(file("a", b"1234"), |entry| entry.kind = EntryKind::File { size });
    let of = |sparse| SpecEntry {
        data: EntryData::FromLayer(Digest::of(b"")),
        ..with(file("a", b""), |entry| entry.sparse = sparse)
    };
    let mode = |mode| with(file("a", b""), |entry| entry.mode = mode);
    let uid = |uid| with(file("a", b""), |entry| entry.uid = uid);
    let whiteout = |at: &str| bare(at, EntryKind::Whiteout);
    let unsorted = |first: &[u8], second: &[u8]| xattr(xattr(file("a", b""), first, b"1"), second, b"1");
    for (words, refused, twin) in [
        ("two entries", vec![file("a", b""), directory("a")], vec![file("a", b""), whiteout("a")]),
        ("two entries", vec![whiteout("a"), whiteout("a")], vec![whiteout("a"), whiteout("b")]),
        (
            "below",
            vec![file("a", b""), file("a-b", b""), file("a/b", b"")],
            vec![directory("a"), file("a-b", b""), file("a/b", b"")],
        ),
        ("below", vec![symlink("a", "b"), directory("a/b/c")], vec![symlink("a", "b"), directory("ab/c")]),
        (
            "below",
            vec![file("a", b""), bare("a", EntryKind::Opaque)],
            vec![directory("a"), bare("a", EntryKind::Opaque)],
        ),
        ("below", vec![file("a", b""), whiteout("a/b")], vec![whiteout("a"), file("a/b", b"")]),
        ("does not have", vec![hard_link("a", "b")], vec![hard_link("a", "b"), file("b", b"")]),
        ("does not have", vec![hard_link("a", "b"), whiteout("b")], vec![hard_link("a", "b"), symlink("b", "c")]),
        ("directory", vec![hard_link("a", "b"), directory("b")], vec![hard_link("a", "b"), bare("b", EntryKind::Fifo)]),
        (
            "each other",
            vec![hard_link("a", "b"), hard_link("b", "a")],
            vec![hard_link("a", "b"), hard_link("b", "c"), file("c", b"")],
        ),
        ("each other", vec![hard_link("a", "a")], vec![file("a", b"")]),
        ("root", vec![file("", b"")], vec![directory("")]),
        ("root", vec![whiteout("")], vec![bare("", EntryKind::Opaque)]),
        ("whiteout", vec![file(".wh.a", b"")], vec![file(".wha", b"")]),
        ("whiteout", vec![directory("a/.wh..wh..opq")], vec![directory("a/wh..wh..opq")]),
        ("whiteout", vec![whiteout(".wh.a")], vec![whiteout("wh.a")]),
        ("whiteout", vec![file(".wh.a/b", b"")], vec![file("wh.a/b", b"")]),
        ("Linux", vec![device(2_097_152)], vec![device(2_097_151)]),
        ("target", vec![symlink("a", "")], vec![symlink("a", ".")]),
        ("target", vec![symlink("a", b"a\0b")], vec![symlink("a", b"a\x01b")]),
        ("target", vec![symlink("a", "t".repeat(4097))], vec![symlink("a", "t".repeat(4096))]),
        ("path", vec![file("n".repeat(4097), b"")], vec![file("n".repeat(4096), b"")]),
        ("path", vec![whiteout(&"n".repeat(4093))], vec![whiteout(&"n".repeat(4092))]),
        ("deep", vec![directory("d/".repeat(1025))], vec![directory("d/".repeat(1024))]),
        ("mode", vec![mode(0o10_000)], vec![mode(0o7777)]),
        ("owner", vec![uid(1 << 63)], vec![uid((1 << 63) - 1)]),
        ("attribute", vec![xattr(file("a", b""), b"user.=", b"1")], vec![xattr(file("a", b""), b"user.", b"=")]),
        ("attribute", vec![xattr(file("a", b""), b"user.\0", b"1")], vec![xattr(file("a", b""), b"user.a", b"\0")]),
        ("attribute", vec![xattr(file("a", b""), b"user.a", b"")], vec![xattr(file("a", b""), b"user.a", b"1")]),
        (
            "capab",
            vec![xattr(file("a", b""), b"security.capability", b"1")],
            vec![xattr(file("a", b""), b"security.capability", CAPABILITY)],
        ),
        ("sorted", vec![unsorted(b"user.b", b"user.a")], vec![unsorted(b"user.a", b"user.b")]),
        ("sorted", vec![unsorted(b"user.a", b"user.a")], vec![unsorted(b"user.a", b"user.aa")]),
        ("size", vec![sized(5)], vec![sized(4)]),
        ("size", vec![bare("a", EntryKind::File { size: 1 })], vec![bare("a", EntryKind::File { size: 0 })]),
        ("only files", vec![SpecEntry { data: EntryData::Bytes(vec![1]), ..directory("a") }], vec![directory("a")]),
        ("sparse", vec![of(true)], vec![of(false)]),
        ("uncompressed", vec![huge(64 << 30)], vec![huge(63 << 30)]),
    ] {
        let error = LayerSpec::new(refused).expect_err(words);
        assert_eq!(error.kind(), Kind::Input, "{words}: {error}");
        assert!(error.what().contains(words), "{words}: {error}");
        if let Err(error) = LayerSpec::new(twin) {
            panic!("{words}: the twin is refused: {error}");
        }
    }
}

/// A file in a source layer.
fn huge(size: u64) -> SpecEntry {
    SpecEntry { data: EntryData::FromLayer(Digest::of(b"source")), ..bare("huge", EntryKind::File { size }) }
}

#[test]
fn many_links_to_a_file_with_large_attributes_are_refused_and_few_are_not() {
    let large = xattr(file("a", b""), b"user.a", &vec![1; 60 << 10]);
    let linked = |links: usize| {
        let links = (0..links).map(|number| hard_link(format!("l{number}"), "a"));
        LayerSpec::new([large.clone()].into_iter().chain(links).collect())
    };
    assert!(linked(5000).unwrap_err().what().contains("hard links"));
    assert_eq!(linked(50).unwrap().entries().len(), 51);
}

#[test]
fn a_layer_reads_back_as_its_spec() {
    let spec = LayerSpec::new(everything_odd()).unwrap();
    let (blob, written) = written_as(&spec, options(1));
    let index = read_back(&blob, &written).unwrap();
    assert_eq!(index.entries.iter().map(bared).collect::<Vec<_>>(), listed(&spec));
    assert_eq!((index.size, index.unpacked), (written.size, written.unpacked));
    assert_eq!(index.notes, Vec::<String>::new());
}

fn names(entries: Vec<SpecEntry>) -> Vec<String> {
    let tar = tar_of(&blob_of(entries));
    let entries = crate::list_archive(Cursor::new(tar), &Limits::default()).unwrap();
    entries.iter().map(|entry| entry.path.to_string()).collect()
}

#[test]
fn directories_come_before_what_they_hold_and_markers_where_they_take_effect() {
    let whiteout = |at: &str| bare(at, EntryKind::Whiteout);
    let opaque = |at: &str| bare(at, EntryKind::Opaque);
    for (entries, expected) in [
        (vec![file("a/b", b""), file("a-b", b""), directory("a")], vec!["/a", "/a-b", "/a/b"]),
        (vec![file("-a", b""), whiteout("-a")], vec!["/.wh.-a", "/-a"]),
        (
            vec![file("d/!", b""), opaque("d"), directory("d"), whiteout("d")],
            vec!["/.wh.d", "/d", "/d/.wh..wh..opq", "/d/!"],
        ),
        (vec![file("!", b""), opaque(""), directory("")], vec!["/", "/.wh..wh..opq", "/!"]),
    ] {
        assert_eq!(names(entries), expected);
    }
}

#[test]
fn the_first_name_of_a_file_is_the_file_and_all_have_its_attributes() {
    let model = with(xattr(file("m", b"content"), b"security.capability", CAPABILITY), |entry| {
        (entry.mode, entry.uid, entry.gid) = (0o4755, 7, 8);
    });
    for (links, first, others) in [
        (vec![hard_link("z", "m")], "m", vec!["z"]),
        (vec![hard_link("a", "m")], "a", vec!["m"]),
        (vec![hard_link("z", "b"), hard_link("b", "m"), hard_link("a", "z")], "a", vec!["b", "m", "z"]),
    ] {
        let spec = LayerSpec::new([model.clone()].into_iter().chain(links).collect()).unwrap();
        let (blob, written) = written_as(&spec, options(1));
        let index = read_back(&blob, &written).unwrap();
        let expected = |at: &str, kind| Entry { path: path(at), kind, ..model.entry.clone() };
        let links = others.iter().map(|at| expected(at, EntryKind::Hardlink(path(first))));
        let all: Vec<Entry> = [expected(first, EntryKind::File { size: 7 })].into_iter().chain(links).collect();
        assert_eq!(index.entries.iter().map(bared).collect::<Vec<_>>(), all);
        assert!(tar_of(&blob).windows(7).any(|part| part == b"content"));
    }
}

#[test]
fn pax_records_are_written_only_where_they_are_needed() {
    let pax = |spec: SpecEntry, mtime: i64| {
        let tar = tar_of(&written_as(&LayerSpec::new(vec![spec]).unwrap(), WriteOptions { mtime, ..options(1) }).0);
        (tar[156] == b'x').then(|| String::from_utf8_lossy(&tar[512..1024]).trim_end_matches('\0').to_owned())
    };
    let owned = |uid, gid| with(file("a", b""), |entry| (entry.uid, entry.gid) = (uid, gid));
    for (spec, mtime, expected) in [
        (file("a", b""), 0, None),
        (file("ü", b""), 8_589_934_591, None),
        (file(b"\xff", b""), 0, None),
        (owned(2_097_151, 2_097_151), 0, None),
        (owned(2_097_152, 0), 0, Some("15 uid=2097152\n")),
        (owned(0, 2_097_152), 0, Some("15 gid=2097152\n")),
        (file("a", b""), 8_589_934_592, Some("20 mtime=8589934592\n")),
        (file("a", b""), -1, Some("12 mtime=-1\n")),
        (xattr(owned(0, 1 << 40), b"user.a", b"b"), 0, Some("25 SCHILY.xattr.user.a=b\n21 gid=1099511627776\n")),
        (symlink("a", "t".repeat(100)), 0, None),
    ] {
        assert_eq!(pax(spec.clone(), mtime).as_deref(), expected, "{spec:?}");
    }
}

#[test]
fn every_entry_gets_the_time_given() {
    let spec = LayerSpec::new(vec![with(file("a", b""), |entry| entry.mtime = 77), directory("b")]).unwrap();
    for mtime in [0, 1, 1_700_000_000, 8_589_934_592, i64::MAX, -1, -i64::MAX] {
        let (blob, written) = written_as(&spec, WriteOptions { mtime, ..options(1) });
        let index = read_back(&blob, &written).unwrap();
        assert!(index.entries.iter().all(|entry| entry.mtime == mtime), "{mtime}");
    }
    let mut nowhere = SourceData::new(Cursor::new(Vec::new()));
    assert!(write(&spec, &mut nowhere, WriteOptions { mtime: i64::MIN, ..options(1) }, Vec::new()).is_err());
}

#[test]
fn a_small_tar_is_stored_and_a_larger_one_compressed() {
    // One header, the content, two zero blocks.
    let around = 3 * 512;
    for (len, stored) in [(0, true), ((256 << 10) - around, true), ((256 << 10) - around + 1, false), (3 << 20, false)]
    {
        let blob = blob_of(vec![file("a", vec![0; len])]);
        assert_eq!(blob[..10], *b"\x1f\x8b\x08\0\0\0\0\0\0\xff", "{len}");
        assert_eq!(blob.len() > len, stored, "{len} bytes became {}", blob.len());
        let tar = tar_of(&blob);
        assert_eq!(tar.len(), len.next_multiple_of(512) + around);
        assert!(tar.ends_with(&[0; 1024]));
    }
}

#[test]
fn an_empty_spec_is_an_empty_layer() {
    let (blob, written) = written_as(&LayerSpec::new(Vec::new()).unwrap(), options(1));
    assert_eq!(tar_of(&blob), [0; 1024]);
    assert_eq!(read_back(&blob, &written).unwrap().entries, []);
}

/// Takes some bytes, then fails.
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0 == 0 {
            return Err(Error::new(Kind::Io, "the disk is full").into());
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_wherever_it_strikes() {
    let spec = LayerSpec::new(vec![file("a", golden_digests::prose(5 << 20))]).unwrap();
    let size = usize::try_from(written_as(&spec, options(1)).1.size).unwrap();
    for room in [0, 5, 10, 1 << 20, size - 1] {
        for jobs in [1, 3] {
            let mut nothing = SourceData::new(Cursor::new(Vec::new()));
            let error = write(&spec, &mut nothing, options(jobs), Full(room)).unwrap_err();
            assert_eq!(error.what(), "the disk is full", "{room}");
        }
    }
    let mut enough = Full(size);
    write(&spec, &mut SourceData::new(Cursor::new(Vec::new())), options(1), enough.by_ref()).unwrap();
    assert_eq!(enough.0, 0);
}
