//! Hostile tars, each beside a benign twin, so that refusing everything would fail here, too.

use super::super::RootPath;
use super::super::entry::EntryKind;
use super::super::testing::{TestMember, index_of, paths, scan_members, tar_of};
use oci::error::Kind;

/// What must be refused, and what differs from it only in that and must pass.
type Case = (&'static str, Vec<TestMember>, Vec<TestMember>);

fn check(cases: Vec<Case>) {
    for (row, hostile, twin) in cases {
        match scan_members(&hostile) {
            Ok(index) => panic!("{row}: accepted as {:?}", paths(&index)),
            Err(error) => assert_eq!(error.kind(), Kind::Input, "{row}: {error}"),
        }
        if let Err(error) = scan_members(&twin) {
            panic!("{row}: the twin is refused: {error}");
        }
    }
}

fn file() -> TestMember {
    TestMember::file("a", b"1234")
}

/// A PAX header with a path of `len` bytes.
fn long(len: usize) -> TestMember {
    TestMember::pax(&[("path", vec![b'n'; len].as_slice())])
}

fn global(key: &str) -> TestMember {
    TestMember { typeflag: b'g', ..TestMember::pax(&[(key, b"512")]) }
}

#[test]
fn refuses_headers_that_readers_disagree_about() {
    let gnu_name = |name: &[u8]| TestMember::new(b'L', "x", name).gnu();
    let hiding = |size: &[u8]| {
        let data = tar_of(&[TestMember::file("smuggled", b"")])[..512].to_vec();
        vec![TestMember::pax(&[("size", size)]), TestMember { data, ..file().sized(0) }]
    };
    check(vec![
        ("more hidden than there is", hiding(b"2048"), hiding(b"512")),
        ("PAX and GNU differ", vec![long(3), gnu_name(b"oth\0"), file()], vec![long(3), gnu_name(b"nnn\0"), file()]),
        ("GNU and PAX differ", vec![gnu_name(b"oth\0"), long(3), file()], vec![gnu_name(b"nnn\0"), long(3), file()]),
        ("two GNU names", vec![gnu_name(b"b"), gnu_name(b"b"), file()], vec![gnu_name(b"b"), file()]),
        ("two PAX headers", vec![long(3), long(3), file()], vec![long(3), file(), long(3), file()]),
        ("global size", vec![global("size"), file()], vec![global("comment"), file()]),
        ("global path", vec![global("path"), file()], vec![global("uid"), file()]),
        ("global between", vec![long(3), global("comment"), file()], vec![global("comment"), long(3), file()]),
        ("dangling PAX header", vec![file(), long(3)], vec![long(3), file()]),
        ("unknown type", vec![TestMember::new(b'Z', "a", b"")], vec![TestMember::new(0, "a", b"")]),
        ("volume label", vec![TestMember::new(b'V', "a", b"").gnu()], vec![TestMember::new(b'0', "a", b"").gnu()]),
    ]);
}

#[test]
fn refuses_names_that_lead_elsewhere() {
    let gnu_name = |len: usize| TestMember::new(b'L', "x", &vec![b'n'; len]).gnu();
    let pax_path = |path: &[u8]| vec![TestMember::pax(&[("path", path)]), file()];
    check(vec![
        ("dot dot", vec![TestMember::file("a/../b", b"")], vec![TestMember::file("a/./b", b"")]),
        ("only dot dot", vec![TestMember::file("..", b"")], vec![TestMember::file("...", b"")]),
        ("root as a file", vec![TestMember::file(".", b"")], vec![TestMember::directory(".")]),
        ("no name", vec![TestMember::file("", b"")], vec![TestMember::directory("")]),
        ("root as a symlink", vec![TestMember::symlink("/", "etc")], vec![TestMember::directory("/")]),
        ("dot slash as a symlink", vec![TestMember::symlink("./", "etc")], vec![TestMember::symlink("./e", "etc")]),
        ("NUL in a PAX path", pax_path(b"a\0b"), pax_path(b"a b")),
        ("path too long", vec![long(4097), file()], vec![long(4096), file()]),
        ("name of a MiB", vec![gnu_name(1 << 20), file()], vec![gnu_name(200), file()]),
        ("hard link to itself", vec![TestMember::hardlink("a", "./a")], vec![TestMember::hardlink("a", "b")]),
        ("hard link to the root", vec![TestMember::hardlink("a", "/")], vec![TestMember::hardlink("a", "/b")]),
        ("hard link upwards", vec![TestMember::hardlink("a", "../../b")], vec![TestMember::hardlink("a", "b")]),
        ("symlink without target", vec![TestMember::symlink("a", "")], vec![TestMember::symlink("a", "/")]),
        ("bare whiteout", vec![TestMember::file("a/.wh.", b"")], vec![TestMember::file("a/.wh.b", b"content")]),
        ("whiteout of dot", vec![TestMember::file(".wh..", b"")], vec![TestMember::file(".wh..wh..opq", b"")]),
        ("whiteout of dot dot", vec![TestMember::file("a/.wh...", b"")], vec![TestMember::file("a/.wh....", b"")]),
    ]);
}

#[test]
fn refuses_numbers_that_cannot_be() {
    let sized = |field: &[u8]| vec![TestMember { size: field.to_vec(), ..file() }];
    let with_pax = |size: &[u8], field: &[u8]| {
        vec![TestMember::pax(&[("size", size)]), TestMember { size: field.to_vec(), ..file() }]
    };
    let owned = |field: &[u8]| vec![file().patched(108, field)];
    let device = |field: &[u8]| vec![TestMember::new(b'3', "a", b"").patched(329, field)];
    let link_with = |data: &[u8]| TestMember { link: b"b".to_vec(), ..TestMember::new(b'2', "a", data) };
    check(vec![
        ("octal garbage", sized(b"0000000004z\0"), sized(b"      00004\0")),
        ("negative size", sized(&[0xff; 12]), sized(b"\x80\0\0\0\0\0\0\0\0\0\0\x04")),
        ("size 2^63", sized(b"\x80\0\0\0\x80\0\0\0\0\0\0\0"), sized(b"00000000004\0")),
        ("size over the limit", sized(b"\x80\0\0\0\0\0\x01\0\0\0\0\0"), sized(b"4          \0")),
        ("negative under a PAX size", with_pax(b"4", &[0xff; 12]), with_pax(b"4", &[0; 12])),
        ("PAX size 2^63", with_pax(b"9223372036854775808", b"00000000004\0"), with_pax(b"4", b"00000000004\0")),
        ("negative user", owned(&[0xff; 8]), owned(b"\x80\0\0\x01\0\0\0\0")),
        ("device number", device(&[0xff; 8]), device(b"0000005\0")),
        (
            "directory with data",
            vec![TestMember::new(b'5', "a", b"data"), file()],
            vec![TestMember::directory("a").sized(4), file()],
        ),
        ("symlink with data", vec![link_with(b"data"), file()], vec![link_with(b"").sized(4), file()]),
        (
            "FIFO with data",
            vec![TestMember::new(b'6', "a", b"data"), file()],
            vec![TestMember::new(b'6', "a", b"").sized(4), file()],
        ),
    ]);
}

#[test]
fn refuses_sparse_maps_without_measure() {
    let regions = |count: &str| {
        let sparse = [("GNU.sparse.major", b"1".as_slice()), ("GNU.sparse.minor", b"0"), ("GNU.sparse.realsize", b"9")];
        vec![TestMember::pax(&sparse), TestMember::file("a", format!("{count}\n0\n0\n").as_bytes())]
    };
    let in_header = |regions: usize| {
        let map = vec!["0,0"; regions].join(",");
        vec![TestMember::pax(&[("GNU.sparse.map", map.as_bytes())]), file()]
    };
    let real_size = |size: &[u8]| {
        let sparse = [("GNU.sparse.map", b"0,1".as_slice()), ("GNU.sparse.size", size)];
        vec![TestMember::pax(&sparse), TestMember::file("a", b"x")]
    };
    let old = |map_blocks: usize| {
        let mut map = vec![0; map_blocks * 512];
        map.chunks_mut(512).rev().skip(1).for_each(|block| block[504] = 1);
        let header =
            TestMember::new(b'S', "a", &map).sized(0).gnu().patched(482, b"\x01").patched(483, b"00000000011\0");
        vec![header, file()]
    };
    check(vec![
        ("PAX 1.0 map", regions("10000000"), regions("1")),
        ("PAX 1.0 map that is none", regions("x"), regions("1")),
        ("PAX 0.1 map", in_header(1_000_000), in_header(10)),
        ("old GNU map", old(2049), old(2)),
        (
            "old GNU without GNU magic",
            vec![TestMember::new(b'S', "a", b"")],
            vec![TestMember::new(b'S', "a", b"").gnu()],
        ),
        ("real size 2^60", real_size(b"1152921504606846976"), real_size(b"1048576")),
    ]);
}

#[test]
fn refuses_attributes_that_no_file_can_have() {
    let xattr = |name: &str, value: &[u8]| vec![TestMember::pax(&[(&format!("SCHILY.xattr.{name}"), value)]), file()];
    let capability = |len: usize| xattr("security.capability", &[b"\x01\0\0\x02".as_slice(), &vec![0; len]].concat());
    check(vec![
        ("metadata too large", xattr("a", &vec![b'v'; 2 << 20]), xattr("a", b"v")),
        ("no name", xattr("", b"v"), xattr("n", b"v")),
        ("long name", xattr(&"n".repeat(64 << 10), b"v"), xattr(&"n".repeat(255), b"v")),
        ("long value", xattr("n", &vec![0; (64 << 10) + 1]), xattr("n", &vec![0; 64 << 10])),
        ("capability", capability(3), capability(16)),
    ]);
}

#[test]
fn pax_size_overrules_the_header_in_both_directions() {
    let inner = tar_of(&[TestMember::file("smuggled", b"")]);
    let size = inner.len().to_string();
    let hidden = TestMember { data: inner.clone(), ..TestMember::file("a", b"").sized(0) };
    let index = index_of(&[TestMember::pax(&[("size", size.as_bytes())]), hidden, TestMember::file("b", b"")]);
    assert_eq!(paths(&index), ["/a", "/b"], "the PAX size hides what is inside");
    assert_eq!(index.entries[0].kind, EntryKind::File { size: inner.len() as u64 });

    let shown = TestMember::file("a", b"").sized(512);
    let index = index_of(&[TestMember::pax(&[("size", b"0")]), shown, TestMember::file("b", b"")]);
    assert_eq!(paths(&index), ["/a", "/b"], "the PAX size shows what the header hid");
    assert_eq!(index.entries[0].kind, EntryKind::File { size: 0 });

    let long = TestMember::new(b'L', "x", b"long\0").gnu();
    let index = index_of(&[
        TestMember::pax(&[("size", b"4")]),
        long,
        TestMember::file("a", b"data"),
        TestMember::file("b", b""),
    ]);
    assert_eq!(paths(&index), ["/long", "/b"], "the size is the entry's, not the long name's");
}

#[test]
fn lists_what_is_odd_but_harmless() {
    let uid = TestMember::pax(&[("uid", b"4294967296"), ("SCHILY.xattr.user.b", b"2"), ("SCHILY.xattr.user.a", b"1")]);
    let index = index_of(&[
        uid,
        TestMember::file("setuid", b"").patched(100, b"0104755\0"),
        TestMember::new(b'3', "dev/null", b"").patched(329, b"0000001\0").patched(337, b"0000003\0"),
        TestMember::new(b'4', "dev/sda", b"").patched(329, b"0000010\0"),
        TestMember::new(b'6', "fifo", b""),
        TestMember::file(b"non-utf8-\xff", b""),
        TestMember::file("a", b"1"),
        TestMember::file("./a", b"22"),
        TestMember::file("A", b"333"),
        TestMember::new(0, "v7dir/", b""),
        TestMember::symlink("escape", "../../../../etc/passwd"),
        TestMember::file("d/kept", b""),
        TestMember::file("d/.wh..wh..opq", b"ignored"),
        TestMember::file("d/.wh.gone", b"ignored, too"),
        TestMember::directory(".wh..wh.plnk"),
        TestMember::file(".wh..wh.plnk/1.2", b"skipped"),
    ]);
    let at = |path: &str| index.find(&RootPath::new(path).unwrap()).unwrap();
    assert_eq!((at("setuid").mode, at("setuid").uid), (0o4755, 1 << 32));
    assert_eq!(at("setuid").xattrs, [(b"user.a".to_vec(), b"1".to_vec()), (b"user.b".to_vec(), b"2".to_vec())]);
    assert_eq!(at("dev/null").kind, EntryKind::Character { major: 1, minor: 3 });
    assert_eq!(at("dev/sda").kind, EntryKind::Block { major: 8, minor: 0 });
    assert_eq!(at("fifo").kind, EntryKind::Fifo);
    assert_eq!(at("a").kind, EntryKind::File { size: 2 }, "the last wins");
    assert_eq!(at("A").kind, EntryKind::File { size: 3 });
    assert_eq!(at("v7dir").kind, EntryKind::Directory);
    assert_eq!(at("escape").kind, EntryKind::Symlink(b"../../../../etc/passwd".to_vec()), "kept as written");
    assert!(index.find(&RootPath::new(b"non-utf8-\xff").unwrap()).is_some());
    let markers: Vec<_> = index
        .entries
        .iter()
        .filter(|entry| entry.kind.is_marker())
        .map(|entry| (entry.path.to_string(), &entry.kind))
        .collect();
    assert_eq!(markers, [("/d".to_owned(), &EntryKind::Opaque), ("/d/gone".to_owned(), &EntryKind::Whiteout)]);
    assert_eq!(
        index.notes,
        [
            "/a appears more than once; the last one counts",
            "/.wh..wh.plnk is aufs metadata and is skipped (and 1 more like it)",
        ]
    );
}

#[test]
fn sparse_files_keep_their_real_size_and_the_walk_stays_in_step() {
    let v1 = [
        ("GNU.sparse.major", b"1".as_slice()),
        ("GNU.sparse.minor", b"0"),
        ("GNU.sparse.name", b"etc/passwd"),
        ("GNU.sparse.realsize", b"1000000"),
    ];
    let mut map = b"1\n0\n4\n".to_vec();
    map.resize(512, 0);
    map.extend(b"data");
    let old = TestMember::new(b'S', "old", &[&[0; 504], b"\x01".as_slice(), &[0; 7], &[0; 512], b"data"].concat())
        .sized(4)
        .gnu()
        .patched(482, b"\x01")
        .patched(483, b"00000002000\0");
    let index = index_of(&[
        TestMember::pax(&v1),
        TestMember::file("GNUSparseFile.0/x", &map),
        old,
        TestMember::file("next", b""),
    ]);
    assert_eq!(paths(&index), ["/etc/passwd", "/old", "/next"]);
    assert_eq!(index.entries[0].kind, EntryKind::File { size: 1_000_000 });
    assert_eq!(index.entries[1].kind, EntryKind::File { size: 1024 });
    assert!(index.captured.is_empty(), "a sparse file's stored bytes are not its content");
}
