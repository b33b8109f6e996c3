//! Random specs: what is written reads back, and nothing but the spec decides the bytes.

use std::num::NonZeroUsize;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::gzip::GzipWriter;
use super::super::testing::{bare, bared, file, listed, options, path, read_back, tar_of, with, written_as};
use super::super::{EntryData, LayerSpec, SpecEntry};
use super::golden_digests::prose;
use crate::entry::EntryKind;

/// Names that meet each other often, and now and then any bytes of any length.
fn name() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![1..=b'.', b'0'..=255];
    prop_oneof![
        8 => prop::sample::select(vec!["a", "a-", "b", "b!", "c"]).prop_map(|name| name.as_bytes().to_vec()),
        1 => vec(byte, 1..300),
    ]
}

fn place() -> impl Strategy<Value = Vec<u8>> {
    vec(name(), 1..4).prop_map(|names| names.join(&b'/'))
}

fn kind() -> impl Strategy<Value = EntryKind> {
    prop_oneof![
        4 => Just(EntryKind::File { size: 0 }),
        4 => Just(EntryKind::Directory),
        1 => vec(1..=255_u8, 1..300).prop_map(EntryKind::Symlink),
        3 => place().prop_filter_map("no path", |target| {
            crate::RootPath::new(target).ok().map(EntryKind::Hardlink)
        }),
        1 => (0..1_u32 << 21, 0..1_u32 << 21).prop_map(|(major, minor)| EntryKind::Character { major, minor }),
        1 => (0..1_u32 << 21, 0..1_u32 << 21).prop_map(|(major, minor)| EntryKind::Block { major, minor }),
        1 => Just(EntryKind::Fifo),
        1 => Just(EntryKind::Whiteout),
        1 => Just(EntryKind::Opaque),
    ]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 2_097_150..2_097_154_u64, 0..1_u64 << 63]
}

fn entry() -> impl Strategy<Value = SpecEntry> {
    let xattrs = prop::collection::btree_map("user\\.[a-z]{1,20}", vec(any::<u8>(), 1..50), 0..3);
    let place = place().prop_filter("a path", |place| crate::RootPath::new(place).is_ok());
    let content = vec(any::<u8>(), 0..1200);
    (place, kind(), content, 0..=0o7777_u32, number(), number(), xattrs).prop_map(
        |(at, kind, content, mode, uid, gid, xattrs)| {
            let spec = if matches!(kind, EntryKind::File { .. }) { file(at, content) } else { bare(at, kind) };
            with(spec, |entry| {
                (entry.mode, entry.uid, entry.gid) = (mode, uid, gid);
                entry.xattrs = xattrs.into_iter().map(|(name, value)| (name.into_bytes(), value)).collect();
            })
        },
    )
}

/// As many of the entries as go together.
fn entries() -> impl Strategy<Value = Vec<SpecEntry>> {
    vec(entry(), 0..16).prop_map(|candidates| {
        let mut entries: Vec<SpecEntry> = Vec::new();
        for candidate in candidates {
            entries.push(candidate);
            if LayerSpec::new(entries.clone()).is_err() {
                entries.pop();
            }
        }
        entries
    })
}

proptest! {
    #[test]
    fn specs_read_back_with_their_content(entries in entries()) {
        let spec = LayerSpec::new(entries).unwrap();
        let (blob, written) = written_as(&spec, options(1));
        let index = read_back(&blob, &written).unwrap();
        prop_assert_eq!(index.entries.iter().map(bared).collect::<Vec<_>>(), listed(&spec));
        let tar = tar_of(&blob);
        for (read, spec) in index.entries.iter().zip(spec.entries()) {
            if let EntryData::Bytes(content) = &spec.data {
                let start = usize::try_from(read.offset).unwrap();
                prop_assert_eq!(&tar[start..start + content.len()], content.as_slice());
            }
        }
    }

    #[test]
    fn the_order_of_the_entries_given_does_not_matter(
        (entries, shuffled) in entries().prop_flat_map(|entries| (Just(entries.clone()), Just(entries).prop_shuffle()))
    ) {
        let (one, other) = (LayerSpec::new(entries).unwrap(), LayerSpec::new(shuffled).unwrap());
        prop_assert_eq!(written_as(&one, options(1)), written_as(&other, options(1)));
    }

    #[test]
    fn a_draft_of_what_was_read_is_the_same_spec(entries in entries()) {
        let spec = LayerSpec::new(entries).unwrap();
        prop_assert_eq!(LayerSpec::new(spec.entries().to_vec()).unwrap(), spec);
    }
}

/// A stream of three and a half blocks, fed in pieces of `piece` bytes.
fn packed(piece: usize, jobs: usize) -> Vec<u8> {
    let bytes = prose((3 << 20) + (1 << 19));
    let mut out = Vec::new();
    std::thread::scope(|scope| {
        let mut packer = GzipWriter::new(&mut out, scope, NonZeroUsize::new(jobs).unwrap()).unwrap();
        for piece in bytes.chunks(piece) {
            packer.feed(piece).unwrap();
        }
        packer.finish().unwrap();
    });
    out
}

#[test]
fn neither_threads_nor_the_size_of_pieces_change_the_bytes() {
    let once = packed(usize::MAX, 1);
    for (piece, jobs) in [(511, 1), (1 << 20, 2), ((1 << 20) + 1, 3), (100_003, 8), (usize::MAX, 100)] {
        assert!(packed(piece, jobs) == once, "pieces of {piece} bytes on {jobs} threads");
    }
    assert_eq!(tar_of(&once), prose((3 << 20) + (1 << 19)));
}

#[test]
fn neither_threads_nor_their_number_change_a_layer() {
    let entries = (0..40).map(|number| file(format!("d/{number}"), prose(123_457 + number))).collect();
    let spec = LayerSpec::new(entries).unwrap();
    let once = written_as(&spec, options(1));
    for jobs in [2, 3, 7, 64] {
        assert!(written_as(&spec, options(jobs)) == once, "{jobs} threads");
    }
    assert_eq!(spec.entries()[0].entry.path, path("d/0"));
}
