//! Layers that are damaged, mispacked or too large: what arrives is what was promised, or the error
//! says which promise was broken. Each hostile case has its benign twin.

use std::io::{self, Read};

use proptest::prelude::*;

use super::super::limits::Limits;
use super::super::scan::scan;
use super::super::testing::{TestMember, described, gzip, paths, scan_blob, sealed, tar_of, zstd};
use crate::{LayerIndex, RootPath};
use oci::error::{Error, Kind, Result};
use oci::{Compression, DiffId, Digest};

fn small() -> Vec<u8> {
    tar_of(&[TestMember::directory("etc"), TestMember::file("etc/os-release", b"ID=debian\n")])
}

fn refused(blob: &[u8]) -> Error {
    scan_blob(blob).expect_err("accepted")
}

#[test]
fn any_end_that_go_accepts_is_an_end() {
    let whole = small();
    let entries = whole.len() - 1024;
    for len in [entries, entries + 512, entries + 1024] {
        assert_eq!(scan_blob(&whole[..len]).unwrap().entries.len(), 2, "{len} bytes");
    }
    assert_eq!(scan_blob(&whole[..entries - 512 + 10]).unwrap().entries.len(), 2, "last padding missing");
    assert_eq!(scan_blob(&[whole.as_slice(), b"anything"].concat()).unwrap().entries.len(), 2, "after the end");
    for len in [entries + 1, entries - 512 + 9, entries - 512, entries - 513, 513] {
        assert_eq!(refused(&whole[..len]).kind(), Kind::Input, "{len} bytes");
    }
    let gap = [&whole[..entries], &[0; 512], &whole[..entries]].concat();
    assert!(refused(&gap).what().contains("single zero block"));
}

#[test]
fn blobs_that_are_no_tar_are_refused_and_an_empty_tar_is_a_layer() {
    for blob in [
        b"".as_slice(),
        b"\0",
        b"x",
        &[0; 511],
        &[b'x'; 511],
        &[b'x'; 512],
        &[b'x'; 5120],
        &[0; 513],
        &gzip(&gzip(&small())),
        &gzip(b"x"),
    ] {
        assert_eq!(refused(blob).kind(), Kind::Input, "{} bytes", blob.len());
    }
    for blob in [[0; 512].as_slice(), &[0; 1024], &[0; 10240], &gzip(&[0; 1024]), &gzip(b""), &zstd(&[0; 1024])] {
        assert!(scan_blob(blob).unwrap().entries.is_empty());
    }
}

#[test]
fn every_packing_gives_the_same_list_and_diff_id() {
    let tar = small();
    let (head, tail) = tar.split_at(700);
    let diff_id = DiffId(Digest::of(&tar));
    let skippable = [b"\x50\x2a\x4d\x18\x03\0\0\0abc".as_slice(), &zstd(&tar), b"\x5f\x2a\x4d\x18\x01\0\0\0x"].concat();
    for (name, blob, compression) in [
        ("plain", tar.clone(), Compression::None),
        ("gzip", gzip(&tar), Compression::Gzip),
        ("multi-member", [gzip(head), gzip(b""), gzip(tail)].concat(), Compression::Gzip),
        ("NUL padding", [gzip(&tar), vec![0; 700 << 10]].concat(), Compression::Gzip),
        ("zstd", zstd(&tar), Compression::Zstd),
        ("two zstd frames", [zstd(head), zstd(tail)].concat(), Compression::Zstd),
        ("skippable zstd frames", skippable, Compression::Zstd),
    ] {
        for stated in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let index = scan(blob.as_slice(), &described(&blob, stated), Some(&diff_id), &Limits::default()).unwrap();
            assert_eq!((paths(&index).len(), index.diff_id, index.compression), (2, diff_id, compression), "{name}");
            assert_eq!(
                (index.digest, index.size, index.unpacked),
                (Digest::of(&blob), blob.len() as u64, tar.len() as u64)
            );
            assert_eq!(index.notes.is_empty(), stated == compression, "{name}: {:?}", index.notes);
            assert_eq!(index.content(&RootPath::new("etc/os-release").unwrap()), Some(b"ID=debian\n".as_slice()));
        }
    }
}

#[test]
fn damaged_streams_with_a_right_digest_are_refused() {
    let whole = gzip(&small());
    let end = whole.len();
    let flipped = |at: usize| {
        let mut blob = whole.clone();
        blob[at] ^= 1;
        blob
    };
    for (name, blob) in [
        ("CRC", flipped(end - 8)),
        ("ISIZE", flipped(end - 4)),
        ("truncated in the trailer", whole[..end - 1].to_vec()),
        ("truncated in the data", whole[..end - 20].to_vec()),
        ("garbage", [whole.clone(), b"garbage".to_vec()].concat()),
        ("garbage after padding", [whole.clone(), vec![0; 10], b"x".to_vec()].concat()),
        ("second member cut", [whole.clone(), b"\x1f\x8b".to_vec()].concat()),
        ("zstd truncated", zstd(&small())[..40].to_vec()),
        ("zstd garbage", [zstd(&small()), b"garbage".to_vec()].concat()),
        ("xz", b"\xfd7zXZ\0 and more".to_vec()),
        ("zip", b"PK\x03\x04 and more".to_vec()),
    ] {
        let error = refused(&blob);
        assert_eq!(error.kind(), Kind::Input, "{name}: {error}");
        assert!(error.facts().iter().any(|(_, value)| *value == Digest::of(&blob).to_string()), "{name}: {error}");
    }
    assert!(scan_blob(&whole).is_ok());
}

#[test]
fn a_wrong_digest_is_the_error_whatever_else_is_wrong() {
    for whole in [small(), gzip(&small()), zstd(&small())] {
        let of = described(&whole, Compression::Gzip);
        for at in 0..whole.len() {
            let mut blob = whole.clone();
            blob[at] ^= 0x10;
            let error = scan(blob.as_slice(), &of, None, &Limits::default()).unwrap_err();
            assert_eq!(error.kind(), Kind::Integrity, "byte {at}: {error}");
            let facts = error.facts();
            assert_eq!(facts[0], ("expected", of.digest.to_string()));
            assert_eq!(facts[1], ("got", Digest::of(&blob).to_string()));
        }
        for len in [0, 1, whole.len() / 2, whole.len() - 1] {
            let error = scan(&whole[..len], &of, None, &Limits::default()).unwrap_err();
            assert_eq!(error.kind(), Kind::Integrity, "cut at {len}: {error}");
        }
        let longer = [whole.as_slice(), b"\0"].concat();
        assert_eq!(scan(longer.as_slice(), &of, None, &Limits::default()).unwrap_err().kind(), Kind::Integrity);
        let endless = whole.chain(io::repeat(0));
        assert_eq!(scan(endless, &of, None, &Limits::default()).unwrap_err().kind(), Kind::Integrity);
    }
}

#[test]
fn a_long_layer_that_fails_early_is_still_read_to_its_end() {
    let long = vec![b'x'; 8 << 20];
    for blob in [long.clone(), gzip(&long).repeat(3), b"\xfd7zXZ\0".repeat(1 << 20)] {
        let of = described(&blob, Compression::None);
        assert_eq!(refused(&blob).kind(), Kind::Input);
        let mut damaged = blob.clone();
        *damaged.last_mut().unwrap() ^= 1;
        let error = scan(damaged.as_slice(), &of, None, &Limits::default()).unwrap_err();
        assert_eq!(error.kind(), Kind::Integrity, "{error}");
    }
}

#[test]
fn a_wrong_diff_id_names_both() {
    let blob = gzip(&small());
    let promised = DiffId(Digest::of(b"something else"));
    let error =
        scan(blob.as_slice(), &described(&blob, Compression::Gzip), Some(&promised), &Limits::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Integrity);
    let text = error.to_string();
    assert!(text.contains(&promised.to_string()) && text.contains(&Digest::of(&small()).to_string()), "{text}");
}

/// Yields some bytes, then the error that a registry client would put in the stream.
struct Cut<'a>(&'a [u8]);

impl Read for Cut<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.read(into)? {
            0 => Err(Error::new(Kind::Network, "connection was cut").into()),
            read => Ok(read),
        }
    }
}

#[test]
fn the_error_of_the_stream_itself_comes_out() {
    let blob = gzip(&small());
    let of = described(&blob, Compression::Gzip);
    for len in [0, 10, blob.len() - 1, blob.len()] {
        let error = scan(Cut(&blob[..len]), &of, None, &Limits::default()).unwrap_err();
        assert_eq!((error.kind(), error.what()), (Kind::Network, "connection was cut"), "after {len} bytes");
    }
    let garbage = scan(Cut(&[b'x'; 5000]), &of, None, &Limits::default()).unwrap_err();
    assert_eq!(garbage.kind(), Kind::Integrity, "longer than promised comes before the cut");
}

fn scan_within(blob: &[u8], limits: &Limits) -> Result<LayerIndex> {
    scan(blob, &described(blob, Compression::None), None, limits)
}

#[test]
fn every_limit_is_named_and_what_reaches_it_exactly_passes() {
    let file = |name: &str| TestMember::file(name, b"");
    let three = tar_of(&[file("a/b/c"), file("b"), file("c")]);
    let size = three.len() as u64;
    let limits = Limits::default;
    for (what, passes, fails) in [
        ("uncompressed", Limits { unpacked: size, ..limits() }, Limits { unpacked: size - 1, ..limits() }),
        ("number of entries", Limits { entries: 3, ..limits() }, Limits { entries: 2, ..limits() }),
        ("list of the layer", Limits { index: 3000, ..limits() }, Limits { index: 300, ..limits() }),
        ("deep", Limits { depth: 3, ..limits() }, Limits { depth: 2, ..limits() }),
        ("path", Limits { path: 5, ..limits() }, Limits { path: 4, ..limits() }),
    ] {
        for blob in [three.clone(), gzip(&three), zstd(&three)] {
            scan_within(&blob, &passes).unwrap_or_else(|error| panic!("{what}: {error}"));
            let error = scan_within(&blob, &fails).unwrap_err();
            assert!(error.what().contains(what) && error.facts()[0].0 == "limit", "{error}");
        }
    }
    let trailing = [three, vec![1; 100]].concat();
    assert!(scan_within(&trailing, &Limits { trailer: 100, ..limits() }).is_ok());
    let error = scan_within(&trailing, &Limits { trailer: 99, ..limits() }).unwrap_err();
    assert!(error.what().contains("after the end"), "{error}");
}

/// One frame with one raw block, and a window of 2 to the power of `window_log`.
fn zstd_frame(window_log: u8, content: &[u8]) -> Vec<u8> {
    let block = u32::try_from(content.len()).unwrap() << 3 | 1;
    [b"\x28\xb5\x2f\xfd\0".as_slice(), &[(window_log - 10) << 3], &block.to_le_bytes()[..3], content].concat()
}

#[test]
fn bombs_end_early_at_a_limit() {
    let zeros = vec![0; 64 << 20];
    let file_of_zeros = {
        let header = TestMember { size: b"\x80\0\0\0\0\0\x01\0\0\0\0\0".to_vec(), ..TestMember::file("zeros", b"") };
        [header.header().to_vec(), zeros.clone()].concat()
    };
    for (row, limit, bomb, twin) in [
        ("10 GiB of zeros", "after the end of its tar", gzip(&zeros).repeat(160), gzip(&zeros[..1 << 20])),
        ("a file of 1 TiB", "entry is over", gzip(&file_of_zeros), gzip(&small())),
        ("zstd", "after the end of its tar", zstd(&zeros).repeat(2000), zstd(&zeros[..1 << 20])),
        ("zstd window of 4 GiB", "zstd", zstd_frame(32, &small()), zstd_frame(27, &small())),
    ] {
        let error = refused(&bomb);
        assert!(error.what().contains(limit), "{row}: {error}");
        assert!(error.facts().iter().all(|(name, value)| *name != "tar offset" || value.len() < 9), "{row}: {error}");
        assert!(scan_blob(&twin).is_ok(), "{row}");
    }
}

fn rich() -> Vec<u8> {
    tar_of(&[
        TestMember::directory("./"),
        TestMember::pax(&[("path", b"etc/passwd"), ("size", b"5"), ("mtime", b"1.5"), ("SCHILY.xattr.user.a", b"b")]),
        TestMember::file("x", b"root\n"),
        TestMember::new(b'L', "././@LongLink", &[b'l'; 150]).gnu(),
        TestMember::file("l", b"long").gnu(),
        TestMember::pax(&[("GNU.sparse.major", b"1"), ("GNU.sparse.minor", b"0"), ("GNU.sparse.realsize", b"99")]),
        TestMember::file("sparse", b"1\n0\n4\ndata"),
        TestMember::new(b'S', "old", &[0; 512]).sized(0).gnu().patched(482, b"\x01").patched(483, b"00000002000\0"),
        TestMember::symlink("a", "b"),
        TestMember::hardlink("b", "etc/passwd"),
        TestMember::file("etc/.wh.shadow", b""),
        TestMember::new(b'3', "dev/null", b""),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn scan_never_panics_on_a_changed_tar(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        reseal in any::<bool>(),
    ) {
        let mut tar = rich();
        for (at, byte) in changes {
            let at = at.index(tar.len());
            tar[at] = byte;
            // With the checksum mended, a change gets past the first check.
            if reseal {
                let block = at / 512 * 512;
                let mended = sealed(tar[block..block + 512].try_into().unwrap());
                tar[block..block + 512].copy_from_slice(&mended);
            }
        }
        if cut.index(4) == 0 {
            tar.truncate(cut.index(tar.len()));
        }
        if let Ok(index) = scan_blob(&tar) {
            prop_assert_eq!(index.diff_id.0, Digest::of(&tar));
            prop_assert_eq!(LayerIndex::from_bytes(&index.to_bytes()).unwrap(), index);
        }
    }

    #[test]
    fn scan_never_panics_on_changed_packed_bytes(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        pack in prop::sample::select(vec![gzip(&rich()), zstd(&rich())]),
    ) {
        let mut blob = pack;
        for (at, byte) in changes {
            let at = at.index(blob.len());
            blob[at] = byte;
        }
        let _ = scan_blob(&blob);
    }
}
