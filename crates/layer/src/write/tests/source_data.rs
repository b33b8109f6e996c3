//! Content on its way out of source layers, whole and damaged ones.

use std::io::Cursor;

use super::super::testing::{blob_of, options, path, with};
use super::super::{EntryData, LayerSpec, SourceData, SpecEntry, write};
use crate::entry::{Entry, EntryKind};
use crate::limits::Limits;
use crate::scan::scan;
use crate::testing::{self, TestMember, described, scan_blob};
use oci::error::{Kind, Result};
use oci::{Compression, Descriptor};

/// A source layer, compressed in each way, with the spec of all its files.
fn sources() -> impl Iterator<Item = (Vec<u8>, Descriptor, Vec<SpecEntry>)> {
    let large: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 7).to_le_bytes()[0]).collect();
    let tar = testing::tar_of(&[
        TestMember::file("z", b"last name, first in the tar"),
        TestMember::file("empty", b""),
        TestMember::directory("d"),
        TestMember::file("d/large", &large),
        TestMember::file("unwanted", b"stays where it is"),
        TestMember::file("a", b"first name"),
        TestMember::hardlink("0", "d/large"),
    ]);
    [
        (Compression::None, tar.clone()),
        (Compression::Gzip, testing::gzip(&tar)),
        (Compression::Zstd, testing::zstd(&tar)),
    ]
    .map(|(compression, blob)| {
        let of = described(&blob, compression);
        let index = scan(blob.as_slice(), &of, None, &Limits::default()).unwrap();
        let wanted = index.entries.into_iter().filter(|entry| entry.path != path("unwanted"));
        let data = |kind: &EntryKind| match kind {
            EntryKind::File { .. } => EntryData::FromLayer(of.digest),
            _ => EntryData::None,
        };
        let entries = wanted.map(|entry| SpecEntry { data: data(&entry.kind), entry }).collect();
        (blob, of, entries)
    })
    .into_iter()
}

/// The same entries with their content in memory.
fn at_hand(tar: &[u8], entries: &[SpecEntry]) -> Vec<SpecEntry> {
    let content = |entry: &Entry| match entry.kind {
        EntryKind::File { size } => {
            let start = usize::try_from(entry.offset).unwrap();
            EntryData::Bytes(tar[start..start + usize::try_from(size).unwrap()].to_vec())
        }
        _ => EntryData::None,
    };
    entries.iter().map(|spec| SpecEntry { data: content(&spec.entry), ..spec.clone() }).collect()
}

#[test]
fn content_comes_out_of_source_layers_as_it_went_in() {
    let mut blobs = Vec::new();
    for (blob, of, entries) in sources() {
        let spec = LayerSpec::new(entries.clone()).unwrap();
        assert_eq!(spec.sources().into_iter().collect::<Vec<_>>(), [of.digest]);
        let mut source_data = SourceData::new(Cursor::new(Vec::new()));
        source_data.gather(&spec, blob.as_slice(), &of, &Limits::default()).unwrap();
        let mut copied = Vec::new();
        write(&spec, &mut source_data, options(2), &mut copied).unwrap();
        blobs.push(copied);
    }
    let (tar, _, entries) = sources().next().unwrap();
    blobs.push(blob_of(at_hand(&tar, &entries)));
    assert!(blobs.windows(2).all(|pair| pair[0] == pair[1]));
    let index = scan_blob(&blobs[0]).unwrap();
    assert_eq!(index.entries[0].kind, EntryKind::File { size: 3_000_000 });
}

#[test]
fn several_layers_and_several_specs_share_one_scratch_space() {
    let all: Vec<_> = sources().collect();
    let moved =
        |(number, spec): (usize, &SpecEntry)| with(spec.clone(), |entry| entry.path = path(format!("{number}")));
    let files: Vec<&SpecEntry> =
        all.iter().flat_map(|(_, _, entries)| entries).filter(|spec| spec.data != EntryData::None).collect();
    let spec = LayerSpec::new(files.iter().copied().enumerate().map(moved).collect()).unwrap();
    let mut source_data = SourceData::new(Cursor::new(Vec::new()));
    for (blob, of, _) in &all {
        source_data.gather(&spec, blob.as_slice(), of, &Limits::default()).unwrap();
    }
    let mut copied = Vec::new();
    write(&spec, &mut source_data, options(1), &mut copied).unwrap();
    let whole: Vec<SpecEntry> = at_hand(&all[0].0, &files.iter().copied().enumerate().map(moved).collect::<Vec<_>>());
    assert_eq!(copied, blob_of(whole));
    let part = LayerSpec::new(all[1].2.clone()).unwrap();
    assert!(write(&part, &mut source_data, options(1), Vec::new()).is_ok());
}

fn gather_from(blob: &[u8], of: &Descriptor, spec: &LayerSpec) -> Result<()> {
    SourceData::new(Cursor::new(Vec::new())).gather(spec, blob, of, &Limits::default())
}

#[test]
fn a_damaged_source_layer_is_refused_wherever_the_damage_is() {
    for (blob, of, entries) in sources() {
        let spec = LayerSpec::new(entries.clone()).unwrap();
        let early = LayerSpec::new(entries.into_iter().filter(|spec| spec.entry.path == path("z")).collect()).unwrap();
        for spec in [&spec, &early] {
            gather_from(&blob, &of, spec).unwrap();
            for at in [0, 600, blob.len() / 2, blob.len() - 1] {
                let mut damaged = blob.clone();
                damaged[at] ^= 1;
                assert_eq!(gather_from(&damaged, &of, spec).unwrap_err().kind(), Kind::Integrity, "byte {at}");
            }
            for cut in [&blob[..blob.len() - 1], &[blob.as_slice(), b"\0"].concat()] {
                assert_eq!(gather_from(cut, &of, spec).unwrap_err().kind(), Kind::Integrity);
            }
        }
    }
}

#[test]
fn what_was_not_gathered_is_not_written() {
    let (blob, of, entries) = sources().next().unwrap();
    let spec = LayerSpec::new(entries).unwrap();
    let mut source_data = SourceData::new(Cursor::new(Vec::new()));
    let mut damaged = blob.clone();
    damaged[9999] ^= 1;
    source_data.gather(&spec, damaged.as_slice(), &of, &Limits::default()).unwrap_err();
    let error = write(&spec, &mut source_data, options(1), Vec::new()).unwrap_err();
    assert!(error.what().contains("not gathered"), "{error}");
    source_data.gather(&spec, blob.as_slice(), &of, &Limits::default()).unwrap();
    assert!(write(&spec, &mut source_data, options(1), Vec::new()).is_ok(), "after a failure it can be done again");
}

#[test]
fn stretches_that_no_layer_has_are_refused() {
    let (blob, of, entries) = sources().next().unwrap();
    let changed = |change: fn(&mut Entry)| {
        let of_z = |spec: &SpecEntry| spec.entry.path == path("z");
        let entries = entries.iter().map(|spec| if of_z(spec) { with(spec.clone(), change) } else { spec.clone() });
        LayerSpec::new(entries.collect()).and_then(|spec| gather_from(&blob, &of, &spec))
    };
    changed(|_| {}).unwrap();
    let beyond = changed(|entry| entry.offset = 1 << 40).unwrap_err();
    assert!(beyond.what().contains("ends before"), "{beyond}");
    let overlapping = changed(|entry| entry.kind = EntryKind::File { size: 3000 }).unwrap_err();
    assert!(overlapping.what().contains("same bytes"), "{overlapping}");
    assert!(changed(|entry| entry.offset = u64::MAX).is_err());
}
