//! The members of a tar file by name: one pass over the headers, then any member at once.
//!
//! Nothing is unpacked. Names that lead out of the archive, names that stand twice and members
//! that an archive of images has no use for are refused, whatever a tar program would do.

use std::collections::BTreeMap;
use std::path::Path;

use super::member_name::{canonical, linked};
use super::regular::{self, Links};
use super::section::Section;
use super::shelf::Files;
use super::tar_header::{BLOCK, Block, Extended, Sort};
use crate::error::{Error, Result};

const ENTRY_LIMIT: usize = 100_000;
const EXTENDED_LIMIT: u64 = 1 << 20;
/// All names together, so that the map stays small.
const NAMES_LIMIT: usize = 16 << 20;

/// Members that decide which image is read. They must be files.
const DECISIVE: [&str; 3] = ["index.json", "oci-layout", "manifest.json"];

#[derive(Debug)]
pub struct Tarball {
    members: BTreeMap<String, Member>,
}

#[derive(Debug, Clone)]
pub enum Member {
    File(Section),
    Folder,
    /// A symbolic link and its target as written.
    Symlink(String),
    Other,
}

impl Tarball {
    /// Reads the headers of the file at `path`; `None` where there is no file.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        let Some(whole) = regular::open(path, Links::Followed)? else { return Ok(None) };
        Self::read(whole).map(Some).map_err(|error| error.fact("archive", path.display()))
    }

    fn read(whole: Section) -> Result<Self> {
        check_packing(&whole)?;
        let mut walk = Walk { whole, at: 0, entries: 0, names: 0, members: BTreeMap::new() };
        while walk.entry()? == Step::More {}
        Ok(Self { members: walk.members })
    }

    pub fn members(&self) -> impl Iterator<Item = (&str, &Member)> {
        self.members.iter().map(|(name, member)| (name.as_str(), member))
    }

    /// The file `name`, also when it is a link to a file beside it: `docker save` before version
    /// 25 writes the second of two equal layers so. A link to a link is not followed.
    pub fn open_linked(&self, name: &str) -> Result<Option<Section>> {
        let name = canonical(name.as_bytes())?;
        match self.members.get(&name) {
            Some(Member::Symlink(target)) => self.open(&linked(&name, target)?),
            _ => self.open(&name),
        }
    }
}

impl Files for Tarball {
    fn open(&self, name: &str) -> Result<Option<Section>> {
        match self.members.get(&canonical(name.as_bytes())?) {
            None => Ok(None),
            Some(Member::File(section)) => Ok(Some(section.clone())),
            Some(Member::Folder | Member::Symlink(_) | Member::Other) => {
                Err(Error::input("a member of the archive is not a regular file").fact("member", name))
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    More,
    End,
}

struct Walk {
    whole: Section,
    at: u64,
    entries: usize,
    names: usize,
    members: BTreeMap<String, Member>,
}

impl Walk {
    /// Reads one member with the extended headers before it.
    fn entry(&mut self) -> Result<Step> {
        let mut extended = Extended::default();
        let mut before = Vec::new();
        loop {
            let Some(block) = self.block()? else {
                return if before.is_empty() { Ok(Step::End) } else { Err(cut_off()) };
            };
            let sort = block.sort()?;
            if before.contains(&sort) || (!before.is_empty() && [Sort::Pax, Sort::PaxGlobal].contains(&sort)) {
                return Err(Error::input("an entry of the tar file has several extended headers of one kind"));
            }
            match sort {
                Sort::Pax => extended = Extended::read(&self.extension(&block)?)?,
                Sort::PaxGlobal => self.check_global(&block)?,
                Sort::LongName => set_once(&mut extended.path, until_nul(self.extension(&block)?))?,
                Sort::LongLink => set_once(&mut extended.link, until_nul(self.extension(&block)?))?,
                _ => return self.member(&block, sort, extended),
            }
            if sort != Sort::PaxGlobal {
                before.push(sort);
            }
        }
    }

    /// The next header block, or `None` at the end of the archive.
    fn block(&mut self) -> Result<Option<Block>> {
        if self.at == self.whole.len() {
            return Ok(None);
        }
        self.entries += 1;
        if self.entries > ENTRY_LIMIT {
            return Err(Error::input(format!("the tar file has more than {ENTRY_LIMIT} entries")));
        }
        let block = Block::read(&self.raw_block()?)?;
        if block.is_none() && self.at < self.whole.len() && Block::read(&self.raw_block()?)?.is_some() {
            return Err(Error::input("the tar file is damaged: it goes on after its end"));
        }
        Ok(block)
    }

    fn raw_block(&mut self) -> Result<[u8; 512]> {
        let bytes = self.take(BLOCK)?.bytes(BLOCK, "the header")?;
        <[u8; 512]>::try_from(bytes).map_err(|_| cut_off())
    }

    /// The next `len` bytes; steps over them and the padding.
    fn take(&mut self, len: u64) -> Result<Section> {
        let section = self.whole.part(self.at, len).ok_or_else(cut_off)?;
        let padded = len.checked_next_multiple_of(BLOCK).ok_or_else(cut_off)?;
        // The padding of the last member may be missing; no byte of it counts.
        self.at = (self.at + padded).min(self.whole.len());
        Ok(section)
    }

    fn extension(&mut self, block: &Block) -> Result<Vec<u8>> {
        let size = block.size()?;
        self.take(size)?.bytes(EXTENDED_LIMIT, "an extended header of the tar file")
    }

    /// GNU tar applies global headers, Go does not: only such as change nothing are let through.
    fn check_global(&mut self, block: &Block) -> Result<()> {
        if Extended::read(&self.extension(block)?)?.is_empty() {
            return Ok(());
        }
        Err(Error::input("the tar file has a global header that changes names or sizes"))
    }

    fn member(&mut self, block: &Block, sort: Sort, extended: Extended) -> Result<Step> {
        let size = extended.size.map_or_else(|| block.size(), Ok)?;
        if matches!(sort, Sort::Folder | Sort::Symlink) && size != 0 {
            return Err(Error::input("the tar file has a folder or link with bytes of its own"));
        }
        let name = extended.path.unwrap_or_else(|| block.name());
        let member = match sort {
            Sort::File => Member::File(self.take(size)?),
            Sort::Folder => Member::Folder,
            Sort::Symlink => {
                let target = extended.link.unwrap_or_else(|| block.link());
                Member::Symlink(String::from_utf8_lossy(&target).into_owned())
            }
            _ => {
                self.take(size)?;
                Member::Other
            }
        };
        self.insert(&name, member).map_err(|error| error.fact("member", String::from_utf8_lossy(&name)))?;
        Ok(Step::More)
    }

    fn insert(&mut self, raw: &[u8], member: Member) -> Result<()> {
        let name = canonical(raw)?;
        if matches!(member, Member::File(_)) && raw.ends_with(b"/") {
            return Err(Error::input("the archive has a file with the name of a folder"));
        }
        if matches!(member, Member::Symlink(_) | Member::Other) && is_decisive(&name) {
            return Err(Error::input("a member of the archive that must be a regular file is a link or a device"));
        }
        self.names += name.len();
        if self.names > NAMES_LIMIT {
            return Err(Error::input("the names in the archive are too long"));
        }
        let is_folder = matches!(member, Member::Folder);
        match self.members.insert(name, member) {
            None => Ok(()),
            Some(Member::Folder) if is_folder => Ok(()),
            Some(_) => Err(Error::input("a name stands twice in the archive")),
        }
    }
}

fn is_decisive(name: &str) -> bool {
    DECISIVE.contains(&name) || name == "blobs" || name.starts_with("blobs/")
}

fn set_once(field: &mut Option<Vec<u8>>, value: Vec<u8>) -> Result<()> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::input("an entry of the tar file has two long names")),
    }
}

fn until_nul(mut name: Vec<u8>) -> Vec<u8> {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    name.truncate(end);
    name
}

fn cut_off() -> Error {
    Error::input("the tar file is cut off")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use crate::store::disk::sample::Packer;

    fn read(bytes: &[u8]) -> Result<Tarball> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        std::fs::write(&path, bytes).unwrap();
        Tarball::open(&path).map(Option::unwrap)
    }

    fn text(tar: &Tarball, name: &str) -> Option<String> {
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
        let bytes = Packer::new()
            .folder("./")
            .file("./index.json", b"index")
            .file("a//b/./c", b"plain")
            .entry(b'L', "././@LongLink", format!("{long}\0").as_bytes())
            .file("short", b"gnu")
            .entry(b'g', "pax_global_header", &pax(&[("comment", "a commit")]))
            .entry(b'x', "pax", &pax(&[("mtime", "1.5"), ("path", "pax/name"), ("size", "3")]))
            .sized(b'0', "ignored", 0, b"pax")
            .folder("a/")
            .folder("a/")
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
        assert!(tar.open("a").is_err(), "a folder is not a file");
    }

    /// Each row adds one hostile thing to a good archive; without it the archive is fine.
    #[test]
    fn refuses_hostile_archives() {
        let good = || Packer::new().file("index.json", b"index").file("blobs/sha256/x", b"blob");
        assert!(read(&good().finish()).is_ok());
        let huge = "9".repeat(19);
        let rows: Vec<(&str, Vec<u8>)> = vec![
            ("leads out", good().file("../index.json", b"x").finish()),
            ("leads out in the middle", good().file("a/../b", b"x").finish()),
            ("absolute", good().file("/etc/passwd", b"x").finish()),
            ("index.json twice", good().file("index.json", b"other").finish()),
            ("index.json twice, spelt differently", good().file("./index.json", b"index").finish()),
            ("blob twice", good().file("blobs//sha256/x", b"blub").finish()),
            ("file and folder of one name", good().folder("index.json").finish()),
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
            ("folder with bytes", good().sized(b'5', "a/", 512, &[0; 512]).finish()),
            ("folder name for a file", good().entry(b'x', "p", &pax(&[("path", "a/")])).file("a", b"").finish()),
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
    fn a_compressed_archive_is_told_what_to_do() {
        let error = read(&[0x1f, 0x8b, 8, 0]).unwrap_err();
        assert!(error.to_string().contains("gunzip it first"), "{error}");
    }

    #[test]
    fn refuses_more_entries_than_any_image_needs() {
        let mut packer = Packer::new();
        for at in 0..=ENTRY_LIMIT {
            packer = packer.file(&format!("{at}"), b"");
        }
        assert_eq!(read(&packer.finish()).unwrap_err().kind(), Kind::Input);
    }

    #[test]
    fn one_link_is_followed_and_no_second_one() {
        let tar = read(
            &Packer::new()
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
            let mut bytes = Packer::new()
                .entry(b'x', "p", &pax(&[("path", "long"), ("size", "3")]))
                .file("a", b"abc")
                .finish();
            bytes[at] = byte;
            bytes.truncate(cut);
            let _ = read(&bytes);
        }
    }
}
