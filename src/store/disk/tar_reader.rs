//! The members of a tar file by name: one pass over the headers, then any member at once.
//!
//! Nothing is unpacked, and `layer` says what a tar means. Names that occur twice and members
//! that an archive of images has no use for are refused, whatever a tar program would do. A name has
//! one spelling, and none leads out of the archive.

use std::collections::BTreeMap;
use std::path::Path;

use super::layout_reader::LayoutFiles;
use super::regular_file::{self, Section, Symlinks};
use layer::{self, Entry, EntryKind, Limits, RootPath};
use oci::error::{Error, Result};

const ENTRY_LIMIT: usize = 100_000;
/// Bytes of memory that the list of the members may take.
const LIST_LIMIT: usize = 32 << 20;

/// Members that decide which image is read. They must be files.
const DECISIVE: [&str; 3] = ["index.json", "oci-layout", "manifest.json"];

#[derive(Debug)]
pub struct TarReader {
    members: BTreeMap<String, TarMember>,
}

#[derive(Debug, Clone)]
pub enum TarMember {
    File(Section),
    Directory,
    /// A symbolic link and its target as written.
    Symlink(String),
    Other,
}

impl TarReader {
    /// Reads the headers of the file at `path`; `None` where there is no file.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        let Some(whole) = regular_file::open(path, Symlinks::Followed)? else { return Ok(None) };
        Self::read(&whole).map(Some).map_err(|error| error.fact("archive", path.display()))
    }

    fn read(whole: &Section) -> Result<Self> {
        check_packing(whole)?;
        let mut members = BTreeMap::new();
        for entry in layer::list_archive(whole.reader(0), &limits())? {
            let name = member_name(&entry.path);
            let member = TarMember::of(&entry, whole)?;
            insert(&mut members, name.clone(), member).map_err(|error| error.fact("member", name))?;
        }
        Ok(Self { members })
    }

    pub fn members(&self) -> impl Iterator<Item = (&str, &TarMember)> {
        self.members.iter().map(|(name, member)| (name.as_str(), member))
    }

    /// The file `name`, also when it is a link to a file beside it: `docker save` before version
    /// 25 writes the second of two equal layers so. A link to a link is not followed.
    pub fn open_linked(&self, name: &str) -> Result<Option<Section>> {
        let name = canonical(name)?;
        match self.members.get(&name) {
            Some(TarMember::Symlink(target)) => self.open(&linked(&name, target)?),
            _ => self.open(&name),
        }
    }
}

impl LayoutFiles for TarReader {
    fn open(&self, name: &str) -> Result<Option<Section>> {
        match self.members.get(&canonical(name)?) {
            None => Ok(None),
            Some(TarMember::File(section)) => Ok(Some(section.clone())),
            Some(TarMember::Directory | TarMember::Symlink(_) | TarMember::Other) => {
                Err(Error::input("a member of the archive is not a regular file").fact("member", name))
            }
        }
    }
}

impl TarMember {
    fn of(entry: &Entry, whole: &Section) -> Result<Self> {
        Ok(match &entry.kind {
            EntryKind::File { size } => Self::File(whole.part(entry.offset, *size).ok_or_else(cut_off)?),
            EntryKind::Directory => Self::Directory,
            EntryKind::Symlink(target) => Self::Symlink(String::from_utf8_lossy(target).into_owned()),
            EntryKind::Hardlink(_)
            | EntryKind::Character { .. }
            | EntryKind::Block { .. }
            | EntryKind::Fifo
            | EntryKind::Whiteout
            | EntryKind::Opaque => Self::Other,
        })
    }
}

/// How much of an archive is listed. It may be as long as it likes, for it is not read.
fn limits() -> Limits {
    Limits { unpacked: u64::MAX, entries: ENTRY_LIMIT, index: LIST_LIMIT, ..Limits::default() }
}

fn insert(members: &mut BTreeMap<String, TarMember>, name: String, member: TarMember) -> Result<()> {
    if matches!(member, TarMember::Symlink(_) | TarMember::Other) && is_decisive(&name) {
        return Err(Error::input("a member of the archive that must be a regular file is a link or a device"));
    }
    let is_directory = matches!(member, TarMember::Directory);
    match members.insert(name, member) {
        None => Ok(()),
        Some(TarMember::Directory) if is_directory => Ok(()),
        Some(_) => Err(Error::input("a name occurs twice in the archive")),
    }
}

fn is_decisive(name: &str) -> bool {
    DECISIVE.contains(&name) || name == "blobs" || name.starts_with("blobs/")
}

fn cut_off() -> Error {
    Error::input("the tar file is truncated")
}

/// Compressed archives cannot be read at any place; their name is told.
fn check_packing(whole: &Section) -> Result<()> {
    let len = whole.len().min(6);
    let head = whole.part(0, len).ok_or_else(cut_off)?.bytes(6, "the archive")?;
    let (packing, unpack) = if head.starts_with(&[0x1f, 0x8b]) {
        ("gzip", "gunzip it first")
    } else if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        ("zstd", "run `unzstd` on it first")
    } else if head.starts_with(&[0xfd, b'7', b'z', b'X', b'Z']) {
        ("xz", "run `unxz` on it first")
    } else if head.starts_with(b"BZh") {
        ("bzip2", "bunzip2 it first")
    } else {
        return Ok(());
    };
    Err(Error::input(format!("the archive is compressed with {packing}")).hint(unpack))
}

/// The name of a member. Bytes that are not UTF-8 are replaced: no document can name such a
/// member, so it is never looked for.
fn member_name(path: &RootPath) -> String {
    String::from_utf8_lossy(path.as_bytes()).into_owned()
}

/// A name that a document gives, in its one spelling: no `.`, no empty parts, nothing that leads
/// out.
pub fn canonical(name: &str) -> Result<String> {
    if name.starts_with('/') {
        return Err(Error::input("a name in the archive is absolute").fact("name", name));
    }
    RootPath::new(name).map(|path| member_name(&path))
}

/// The name that the link `from` leads to.
pub fn linked(from: &str, target: &str) -> Result<String> {
    let outside = || Error::input("a link in the archive points outside of it").fact("member", from).fact("to", target);
    if target.starts_with('/') {
        return Err(outside());
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop().ok_or_else(outside)?),
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::disk::testing::TarBuilder;
    use oci::error::Kind;

    fn read(bytes: &[u8]) -> Result<TarReader> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        std::fs::write(&path, bytes).unwrap();
        TarReader::open(&path).map(Option::unwrap)
    }

    fn text(tar: &TarReader, name: &str) -> Option<String> {
        let bytes = tar.open(name).unwrap()?.bytes(1 << 20, "x").unwrap();
        Some(String::from_utf8(bytes).unwrap())
    }

    fn pax(records: &[(&str, &str)]) -> Vec<u8> {
        let line = |key: &str, value: &str| {
            let body = key.len() + value.len() + 3;
            let len = (body..body + 9).find(|len| body + len.to_string().len() == *len).unwrap();
            format!("{len} {key}={value}\n")
        };
        records.iter().flat_map(|(key, value)| line(key, value).into_bytes()).collect()
    }

    #[test]
    fn finds_members_under_every_way_to_write_a_name() {
        let long = format!("{}/file", "d".repeat(300));
        let bytes = TarBuilder::new()
            .directory("./")
            .file("./index.json", b"index")
            .file("a//b/./c", b"plain")
            .entry(b'L', "././@LongLink", format!("{long}\0").as_bytes())
            .file("short", b"gnu")
            .entry(b'g', "pax_global_header", &pax(&[("comment", "a commit")]))
            .entry(b'x', "pax", &pax(&[("mtime", "1.5"), ("path", "pax/name"), ("size", "3")]))
            .sized(b'0', "ignored", 0, b"pax")
            .directory("a/")
            .directory("a/")
            .finish();
        let tar = read(&bytes).unwrap();
        for (name, expected) in [
            ("index.json", Some("index")),
            ("./index.json", Some("index")),
            ("a/b/c", Some("plain")),
            (&long, Some("gnu")),
            ("pax/name", Some("pax")),
            ("short", None),
            ("ignored", None),
        ] {
            assert_eq!(text(&tar, name).as_deref(), expected, "{name}");
        }
        assert!(tar.open("a").is_err(), "a directory is not a file");
    }

    /// Each row adds one hostile thing to a good archive; without it the archive is fine.
    #[test]
    fn refuses_hostile_archives() {
        let good = || TarBuilder::new().file("index.json", b"index").file("blobs/sha256/x", b"blob");
        assert!(read(&good().finish()).is_ok());
        let huge = "9".repeat(19);
        let rows: Vec<(&str, Vec<u8>)> = vec![
            ("leads out", good().file("../index.json", b"x").finish()),
            ("leads out in the middle", good().file("a/../b", b"x").finish()),
            ("absolute", good().file("/etc/passwd", b"x").finish()),
            ("index.json twice", good().file("index.json", b"other").finish()),
            ("index.json twice, spelt differently", good().file("./index.json", b"index").finish()),
            ("blob twice", good().file("blobs//sha256/x", b"blub").finish()),
            ("file and directory of one name", good().directory("index.json").finish()),
            ("blob is a link", good().link(b'2', "blobs/sha256/y", "/etc/passwd").finish()),
            ("blob is a hard link", good().link(b'1', "blobs/sha256/y", "blobs/sha256/x").finish()),
            ("blobs is a link", good().link(b'2', "blobs", "elsewhere").finish()),
            ("manifest.json is a FIFO", good().entry(b'6', "manifest.json", b"").finish()),
            ("oci-layout is a device", good().entry(b'3', "oci-layout", b"").finish()),
            ("sparse", good().entry(b'S', "a", b"").finish()),
            ("pax sparse", good().entry(b'x', "p", &pax(&[("GNU.sparse.major", "1")])).file("a", b"").finish()),
            (
                "two pax headers",
                good().entry(b'x', "p", &pax(&[("path", "a")])).entry(b'x', "p", b"").file("a", b"").finish(),
            ),
            ("pax before a long name", {
                good().entry(b'x', "p", &pax(&[("path", "a")])).entry(b'L', "l", b"b\0").file("c", b"").finish()
            }),
            ("global size", good().entry(b'g', "g", &pax(&[("size", "1")])).file("a", b"").finish()),
            ("pax size beyond the end", good().entry(b'x', "p", &pax(&[("size", &huge)])).file("a", b"").finish()),
            ("size beyond the end", good().sized(b'0', "a", 1 << 33, b"").finish()),
            ("directory with bytes", good().sized(b'5', "a/", 512, &[0; 512]).finish()),
            ("directory name for a file", good().entry(b'x', "p", &pax(&[("path", "a/")])).file("a", b"").finish()),
            ("NUL in a name", good().entry(b'x', "p", &pax(&[("path", "a\0b")])).file("a", b"").finish()),
            ("long name", good().entry(b'L', "l", &[b'a'; 5000]).file("a", b"").finish()),
            ("huge extended header", good().entry(b'x', "p", &vec![b'a'; 2 << 20]).file("a", b"").finish()),
            ("extended header at the end", good().entry(b'x', "p", b"").finish()),
            ("goes on after its end", [good().unfinished(), vec![0; 512], good().finish()].concat()),
            ("bad checksum", {
                let mut bytes = good().finish();
                bytes[0] = b'I';
                bytes
            }),
            ("cut in a header", good().finish()[..1100].to_vec()),
            ("cut in a member", good().finish()[..514].to_vec()),
            ("negative size", good().raw_size("a", [0xff; 12]).finish()),
            ("size that is no number", good().raw_size("a", *b"000000000x0\0").finish()),
            ("gzip", vec![0x1f, 0x8b, 8, 0, 0, 0]),
            ("text", vec![b'x'; 1024]),
        ];
        for (name, bytes) in rows {
            let error = read(&bytes).map(|_| ()).expect_err(name);
            assert_eq!(error.kind(), Kind::Input, "{name}: {error}");
        }
    }

    #[test]
    fn refuses_pax_records_that_cannot_be_read() {
        let with = |records: &[u8]| read(&TarBuilder::new().entry(b'x', "p", records).file("a", b"abc").finish());
        for bad in [
            &b"10 size=-7\n"[..],
            b"10 size=+7\n",
            b"29 size=99999999999999999999\n",
            b"99 path=x\n",
            b"0 path=x\n",
            b"x",
            b"9 path=x ",
            b"25 GNU.sparse.realsize=1\n",
        ] {
            assert_eq!(with(bad).unwrap_err().kind(), Kind::Input, "{}", String::from_utf8_lossy(bad));
        }
        // The comment holds a line that looks like a record of its own.
        let tar = with(b"25 comment=\n12 path=evil\n13 path=good\n9 size=3\n").unwrap();
        assert_eq!((text(&tar, "good").as_deref(), text(&tar, "evil")), (Some("abc"), None));
    }

    #[test]
    fn repeated_and_empty_pax_records_mean_what_they_mean_in_a_layer() {
        let records = b"9 size=1\n9 size=3\n8 path=\n";
        let tar = read(&TarBuilder::new().entry(b'x', "p", records).file("a", b"abc").file("b", b"").finish()).unwrap();
        assert_eq!(text(&tar, "a").as_deref(), Some("abc"));
        assert!(text(&tar, "b").is_some());
    }

    #[test]
    fn a_name_like_a_whiteout_hides_nothing() {
        let tar =
            read(&TarBuilder::new().file("index.json", b"index").file(".wh.index.json", b"other").finish()).unwrap();
        assert_eq!(text(&tar, "index.json").as_deref(), Some("index"));
        assert_eq!(text(&tar, ".wh.index.json").as_deref(), Some("other"));
        let bad = TarBuilder::new().link(b'2', "blobs/.wh.x", "elsewhere").finish();
        assert_eq!(read(&bad).unwrap_err().kind(), Kind::Input, "no link among the blobs, whatever its name");
    }

    #[test]
    fn a_compressed_archive_is_told_what_to_do() {
        let error = read(&[0x1f, 0x8b, 8, 0]).unwrap_err();
        assert!(error.to_string().contains("gunzip it first"), "{error}");
    }

    #[test]
    fn refuses_more_entries_than_any_image_needs() {
        let mut packer = TarBuilder::new();
        for at in 0..ENTRY_LIMIT {
            packer = packer.file(&format!("{at}"), b"");
        }
        let most = packer.unfinished();
        assert_eq!(read(&most).unwrap().members().count(), ENTRY_LIMIT);
        let error = read(&[most, TarBuilder::new().file("more", b"").finish()].concat()).unwrap_err();
        assert!(error.kind() == Kind::Input && error.what().contains("number of entries"), "{error}");
    }

    #[test]
    fn one_link_is_followed_and_no_second_one() {
        let tar = read(
            &TarBuilder::new()
                .file("one/layer.tar", b"layer")
                .link(b'2', "two/layer.tar", "../one/layer.tar")
                .link(b'2', "three/layer.tar", "../two/layer.tar")
                .link(b'2', "four/layer.tar", "../four/layer.tar")
                .link(b'2', "five/layer.tar", "../../one/layer.tar")
                .link(b'2', "six/layer.tar", "/one/layer.tar")
                .link(b'2', "seven/layer.tar", "../none")
                .finish(),
        )
        .unwrap();
        for name in ["one/layer.tar", "two/layer.tar"] {
            assert_eq!(tar.open_linked(name).unwrap().unwrap().len(), 5);
        }
        for name in ["three/layer.tar", "four/layer.tar", "five/layer.tar", "six/layer.tar", "../one/layer.tar"] {
            assert_eq!(tar.open_linked(name).unwrap_err().kind(), Kind::Input, "{name}");
        }
        assert!(tar.open_linked("seven/layer.tar").unwrap().is_none());
        assert!(tar.open("two/layer.tar").is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(at in 0usize..2048, byte: u8, cut in 0usize..2600) {
            let mut bytes = TarBuilder::new()
                .entry(b'x', "p", &pax(&[("path", "long"), ("size", "3")]))
                .file("a", b"abc")
                .finish();
            bytes[at] = byte;
            bytes.truncate(cut);
            let _ = read(&bytes);
        }
    }

    #[test]
    fn a_name_has_one_spelling_or_none() {
        for (raw, expected) in [
            ("a/b", Some("a/b")),
            ("./a//b/./", Some("a/b")),
            ("./", Some("")),
            ("a..b/...", Some("a..b/...")),
            ("..", None),
            ("../a", None),
            ("a/../b", None),
            ("/a", None),
            ("a\0b", None),
        ] {
            assert_eq!(canonical(raw).ok().as_deref(), expected, "{raw:?}");
        }
    }

    #[test]
    fn a_link_stays_inside_or_leads_nowhere() {
        for (from, target, expected) in [
            ("a/b", "c", Some("a/c")),
            ("a/b", "../c", Some("c")),
            ("a/b", "./../x/./y", Some("x/y")),
            ("b", "../c", None),
            ("a/b", "../../c", None),
            ("a/b", "/c", None),
        ] {
            assert_eq!(linked(from, target).ok().as_deref(), expected, "{from} -> {target}");
        }
    }
}
