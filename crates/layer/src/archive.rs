//! The list of a tar file on disk that is no layer: an archive in which images are kept.
//!
//! The tar rules are those of a layer. An archive is read at any place and by name, so what a
//! layer may still have, and readers would interpret differently, is refused here.

use std::io::{Read, Seek};

use super::blocks::Blocks;
use super::blocks::ByteSource;
use super::entry::{Entry, EntryList};
use super::limits::Limits;
use super::member::ParsedMember;
use super::member::{entry_kind, entry_path};
use super::path::shown;
use super::reader::{MemberReader, TarItem};
use oci::error::{Error, Result};

/// The entries of the tar that begins where `archive` does, in its order. Their data is jumped
/// over, not read. Success means: the data of each file is in the archive, as many bytes as its
/// size says, from its offset on.
///
/// Names are only names here: `.wh.a` is a file like others. A path can be there twice.
pub fn list_archive(archive: impl Read + Seek, limits: &Limits) -> Result<Vec<Entry>> {
    let mut blocks = Blocks::of_file(archive)?;
    entries(&mut blocks, limits).map_err(|error| error.fact("tar offset", blocks.offset()))
}

fn entries<T: ByteSource>(blocks: &mut Blocks<T>, limits: &Limits) -> Result<Vec<Entry>> {
    let mut tar = MemberReader::new(blocks, limits);
    let mut entries = EntryList::of("archive");
    while let Some(found) = tar.step()? {
        let TarItem::Member(member) = found else { continue };
        check(&member).map_err(|error| error.fact("entry", shown(&member.name)))?;
        let path = entry_path(&member.name, limits)?;
        let kind = entry_kind(&member, &path, limits)?;
        let offset = tar.offset();
        tar.skip(member.stored)?;
        entries.push(member.entry(path, kind, offset), limits)?;
    }
    Ok(entries.finish())
}

fn check(member: &ParsedMember) -> Result<()> {
    if member.sparse.is_some() || member.sparse_records {
        return Err(
            Error::input("archive has a sparse entry, which is not supported").hint("pack it again without --sparse")
        );
    }
    if member.idle_size {
        return Err(Error::input("archive has a directory, link or device with data of its own"));
    }
    if member.name.starts_with(b"/") {
        return Err(Error::input("archive has an entry with an absolute path"));
    }
    if member.typeflag == b'0' && member.name.ends_with(b"/") {
        return Err(Error::input("archive has a file whose name ends with a slash"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{self, Cursor, SeekFrom};
    use std::os::unix::fs::FileExt as _;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::{TestMember, scan_blob, tar_of};
    use crate::tests::other_readers::mixed;
    use crate::{EntryKind, RootPath};
    use oci::error::Kind;

    fn list_bytes(tar: &[u8]) -> Result<Vec<Entry>> {
        list_archive(Cursor::new(tar), &Limits::default())
    }

    /// A file that counts the bytes read of it, and fails at a byte.
    struct Watched<R> {
        file: R,
        read: u64,
        broken_at: u64,
    }

    impl<R: Read + Seek> Read for Watched<R> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.file.stream_position()? >= self.broken_at {
                return Err(Error::new(Kind::Io, "the disk is broken").into());
            }
            let read = self.file.read(into)?;
            self.read += read as u64;
            Ok(read)
        }
    }

    impl<R: Seek> Seek for Watched<R> {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.file.seek(to)
        }
    }

    #[test]
    fn a_large_file_is_jumped_over() {
        let large = 5_u64 << 30;
        let head =
            TestMember { size: format!("{large:011o}\0").into_bytes(), ..TestMember::file("large", b"") }.header();
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&head, 0).unwrap();
        file.write_all_at(&tar_of(&[TestMember::file("small", b"data")]), 512 + large).unwrap();
        let mut watched = Watched { file, read: 0, broken_at: u64::MAX };
        let entries = list_archive(&mut watched, &Limits::default()).unwrap();
        let found: Vec<_> = entries.iter().map(|entry| (entry.path.to_string(), &entry.kind, entry.offset)).collect();
        assert_eq!(
            found,
            [
                ("/large".to_owned(), &EntryKind::File { size: large }, 512),
                ("/small".to_owned(), &EntryKind::File { size: 4 }, 512 + large + 512),
            ]
        );
        assert!(watched.read < 16 << 10, "{} bytes were read", watched.read);
        watched.file.set_len(512 + large - 1).unwrap();
        assert!(list_archive(watched, &Limits::default()).unwrap_err().what().contains("ends inside the data"));
    }

    #[test]
    fn the_error_of_the_file_itself_comes_out() {
        let tar = tar_of(&[TestMember::file("a", &vec![b'x'; 100 << 10]), TestMember::file("b", b"")]);
        let watched = |broken_at| Watched { file: Cursor::new(&tar), read: 0, broken_at };
        for broken_at in [0, 512 + (100 << 10)] {
            let error = list_archive(watched(broken_at), &Limits::default()).unwrap_err();
            assert_eq!((error.kind(), error.what()), (Kind::Io, "the disk is broken"), "at {broken_at}");
        }
        assert_eq!(list_archive(watched(u64::MAX), &Limits::default()).unwrap().len(), 2);
    }

    #[test]
    fn whiteouts_have_no_meaning_in_an_archive() {
        let names = ["blobs/.wh.a", ".wh..wh..opq", ".wh.", ".wh...", ".wh.d/below", ".wh..wh.plnk/1.2"];
        let entries = list_bytes(&tar_of(&names.map(|name| TestMember::file(name, b"data")))).unwrap();
        let expected = names.map(|name| (RootPath::new(name).unwrap(), EntryKind::File { size: 4 }));
        assert_eq!(entries.into_iter().map(|entry| (entry.path, entry.kind)).collect::<Vec<_>>(), expected);
    }

    /// Rows: what is refused, by which words, and its twin that must pass.
    #[test]
    fn refuses_what_readers_would_find_elsewhere() {
        let sparse = |records: &[(&str, &[u8])]| vec![TestMember::pax(records), TestMember::file("a", b"1\n0\n4\n")];
        let named = |typeflag: u8, name: &str| vec![TestMember::new(typeflag, name, b"")];
        let plain = || sparse(&[("mtime", b"1")]);
        let sized = |typeflag: u8, size: usize| {
            vec![TestMember { link: b"b".to_vec(), ..TestMember::new(typeflag, "a", b"").sized(size) }]
        };
        for (words, hostile, twin) in [
            ("sparse", vec![TestMember::new(b'S', "a", b"").gnu()], vec![TestMember::new(b'0', "a", b"").gnu()]),
            ("sparse", sparse(&[("GNU.sparse.major", b"1"), ("GNU.sparse.minor", b"0")]), plain()),
            ("sparse", sparse(&[("GNU.sparse.map", b"0,1")]), plain()),
            ("sparse", sparse(&[("GNU.sparse.major", b"1")]), plain()),
            ("sparse", sparse(&[("GNU.sparse.name", b"index.json")]), plain()),
            ("sparse", sparse(&[("GNU.sparse.unknown", b"1")]), plain()),
            ("data of its own", sized(b'5', 512), sized(b'5', 0)),
            ("data of its own", sized(b'1', 512), sized(b'1', 0)),
            ("data of its own", sized(b'2', 512), sized(b'2', 0)),
            ("data of its own", sized(b'3', 512), sized(b'3', 0)),
            ("absolute", named(b'0', "/a"), named(b'0', "./a")),
            ("absolute", named(b'5', "/"), named(b'5', "./")),
            ("ends with a slash", named(b'0', "a/"), named(0, "a/")),
            ("`..`", named(b'0', "a/../b"), named(b'0', "a/..b")),
            ("root", named(b'0', "./."), named(b'5', "./.")),
            ("type", named(b'7', "a"), named(b'6', "a")),
        ] {
            let error = list_bytes(&tar_of(&hostile)).expect_err(words);
            assert_eq!(error.kind(), Kind::Input, "{error}");
            assert!(error.what().contains(words), "{words}: {error}");
            list_bytes(&tar_of(&twin)).unwrap_or_else(|error| panic!("{words}: the twin is refused: {error}"));
        }
    }

    #[test]
    fn limits_of_the_list_name_the_archive() {
        let tar = tar_of(&[TestMember::file("a", b""), TestMember::file("b", b"")]);
        let limits = |entries, index| Limits { entries, index, ..Limits::default() };
        assert_eq!(list_archive(Cursor::new(&tar), &limits(2, 1000)).unwrap().len(), 2);
        for limits in [limits(1, 1000), limits(2, 100)] {
            assert!(list_archive(Cursor::new(&tar), &limits).unwrap_err().what().contains("archive"));
        }
    }

    /// What a scan lists of the same bytes; they are none of a whiteout.
    fn check_against_scan(tar: &[u8]) -> bool {
        let Ok(entries) = list_bytes(tar) else { return false };
        assert_eq!(entries, scan_blob(tar).unwrap().entries);
        true
    }

    #[test]
    fn what_is_accepted_of_ambiguous_tars_a_scan_lists_the_same_way() {
        let mut random = fastrand::Rng::with_seed(62518);
        let accepted = (0..600).filter(|_| check_against_scan(&tar_of(&mixed(&mut random)))).count();
        assert!((50..600).contains(&accepted), "{accepted} of 600 say little");
    }

    proptest! {
        #[test]
        fn damaged_archives_are_refused_or_listed_as_a_scan_does(at in 1_usize..4096, byte: u8, cut in 1_usize..4200) {
            let long = TestMember::new(b'L', "x", b"long/name\0").gnu();
            let pax = TestMember::pax(&[("path", b"pax/name"), ("size", b"3")]);
            let mut tar = tar_of(&[pax, TestMember::file("a", b"abc"), long, TestMember::file("b", &[b'b'; 600])]);
            if let Some(place) = tar.get_mut(at) {
                *place = byte;
            }
            tar.truncate(cut);
            check_against_scan(&tar);
        }
    }
}
