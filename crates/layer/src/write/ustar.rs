//! The header of an entry: a ustar block, and before it a PAX header where ustar cannot say it.
//!
//! Numeric owners, no names of users or groups, the same bytes for the same entry. Names are
//! written as they are, also where they are not UTF-8: runtimes read bytes, not characters.

use std::cmp::Ordering;
use std::ops::Range;

use crate::blocks::BLOCK;
use crate::entry::{Entry, EntryKind};
use crate::path::RootPath;
use crate::pax::PaxWriter;
use crate::whiteout::{self, OPAQUE};
use oci::error::{Error, Result};

const NAME: Range<usize> = 0..100;
const MODE: Range<usize> = 100..108;
const UID: Range<usize> = 108..116;
const GID: Range<usize> = 116..124;
const SIZE: Range<usize> = 124..136;
const MTIME: Range<usize> = 136..148;
const CHECKSUM: Range<usize> = 148..156;
const TYPE: Range<usize> = 156..157;
const LINK: Range<usize> = 157..257;
const MAGIC_AND_VERSION: Range<usize> = 257..265;
const MAJOR: Range<usize> = 329..337;
const MINOR: Range<usize> = 337..345;
const PREFIX: Range<usize> = 345..500;

/// The name of every PAX header; only readers that do not know PAX show it.
const PAX_NAME: &[u8] = b"././@PaxHeader";

/// All header blocks of an entry.
pub(super) fn header_blocks(entry: &Entry, mtime: i64) -> Result<Vec<u8>> {
    let mut records = PaxWriter::default();
    let mut block = HeaderBlock::new(typeflag(&entry.kind));
    block.name(&tar_name(entry)?, &mut records)?;
    block.link(link(&entry.kind), &mut records)?;
    block.number(MODE, entry.mode.into())?;
    block.number_or_record(UID, entry.uid, "uid", &mut records)?;
    block.number_or_record(GID, entry.gid, "gid", &mut records)?;
    block.number_or_record(SIZE, data_size(&entry.kind), "size", &mut records)?;
    block.time(mtime, &mut records)?;
    let (major, minor) = device(&entry.kind);
    block.number(MAJOR, major.into())?;
    block.number(MINOR, minor.into())?;
    for (name, value) in &entry.xattrs {
        records.xattr(name, value);
    }
    let mut blocks = pax_header(&records.to_bytes())?;
    blocks.extend_from_slice(&block.sealed()?);
    Ok(blocks)
}

/// The header that carries PAX records, with them; nothing where there are none.
fn pax_header(records: &[u8]) -> Result<Vec<u8>> {
    if records.is_empty() {
        return Ok(Vec::new());
    }
    let mut block = HeaderBlock::new(b'x');
    block.write(NAME, PAX_NAME)?;
    block.number(MODE, 0o644)?;
    for field in [UID, GID, MTIME, MAJOR, MINOR] {
        block.number(field, 0)?;
    }
    block.number(SIZE, records.len() as u64)?;
    let mut bytes = block.sealed()?.to_vec();
    bytes.extend_from_slice(records);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    Ok(bytes)
}

const fn typeflag(kind: &EntryKind) -> u8 {
    match kind {
        EntryKind::File { .. } | EntryKind::Whiteout | EntryKind::Opaque => b'0',
        EntryKind::Hardlink(_) => b'1',
        EntryKind::Symlink(_) => b'2',
        EntryKind::Character { .. } => b'3',
        EntryKind::Block { .. } => b'4',
        EntryKind::Directory => b'5',
        EntryKind::Fifo => b'6',
    }
}

fn link(kind: &EntryKind) -> &[u8] {
    match kind {
        EntryKind::Hardlink(target) => target.as_bytes(),
        EntryKind::Symlink(target) => target,
        _ => b"",
    }
}

/// Bytes of data behind the header.
pub(super) const fn data_size(kind: &EntryKind) -> u64 {
    match kind {
        EntryKind::File { size } => *size,
        _ => 0,
    }
}

const fn device(kind: &EntryKind) -> (u32, u32) {
    match kind {
        EntryKind::Character { major, minor } | EntryKind::Block { major, minor } => (*major, *minor),
        _ => (0, 0),
    }
}

/// One header block in the making.
struct HeaderBlock([u8; BLOCK]);

impl HeaderBlock {
    fn new(typeflag: u8) -> Self {
        let mut block = Self([0; BLOCK]);
        for (place, bytes) in [(TYPE, [typeflag].as_slice()), (MAGIC_AND_VERSION, b"ustar\x0000")] {
            // Cannot fail: both fit.
            let _ = block.write(place, bytes);
        }
        block
    }

    /// Writes `bytes` at the start of a field; what does not fit is a mistake of the caller's.
    fn write(&mut self, field: Range<usize>, bytes: &[u8]) -> Result<()> {
        match self.0.get_mut(field).and_then(|field| field.get_mut(..bytes.len())) {
            Some(place) => {
                place.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(Error::input("value does not fit into a tar header")),
        }
    }

    /// Octal digits that fill the field but for the NUL at its end.
    fn number(&mut self, field: Range<usize>, value: u64) -> Result<()> {
        let width = field.len() - 1;
        self.write(field, format!("{value:0width$o}\0").as_bytes())
    }

    /// The number, or zero and a record where the field is too small for it.
    fn number_or_record(
        &mut self,
        field: Range<usize>,
        value: u64,
        key: &'static str,
        records: &mut PaxWriter,
    ) -> Result<()> {
        if value < most(&field) {
            return self.number(field, value);
        }
        records.text(key, value.to_string().as_bytes());
        self.number(field, 0)
    }

    fn time(&mut self, mtime: i64, records: &mut PaxWriter) -> Result<()> {
        if let Ok(mtime) = u64::try_from(mtime) {
            return self.number_or_record(MTIME, mtime, "mtime", records);
        }
        records.text("mtime", mtime.to_string().as_bytes());
        self.number(MTIME, 0)
    }

    fn name(&mut self, name: &[u8], records: &mut PaxWriter) -> Result<()> {
        if let Some((prefix, name)) = split(name) {
            self.write(PREFIX, prefix)?;
            return self.write(NAME, name);
        }
        records.text("path", name);
        self.write(NAME, name.get(..NAME.len()).unwrap_or(name))
    }

    fn link(&mut self, link: &[u8], records: &mut PaxWriter) -> Result<()> {
        if link.len() > LINK.len() {
            records.text("linkpath", link);
        }
        self.write(LINK, link.get(..LINK.len()).unwrap_or(link))
    }

    /// The block with its checksum, which counts its own field as spaces.
    fn sealed(mut self) -> Result<[u8; BLOCK]> {
        self.write(CHECKSUM, b"        ")?;
        let sum: u64 = self.0.iter().copied().map(u64::from).sum();
        self.write(CHECKSUM, format!("{sum:06o}\0 ").as_bytes())?;
        Ok(self.0)
    }
}

/// The first number that is too large for a field.
fn most(field: &Range<usize>) -> u64 {
    1_u64.checked_shl(u32::try_from((field.len() - 1) * 3).unwrap_or(u32::MAX)).unwrap_or(u64::MAX)
}

/// A name as prefix and rest, with the longest prefix that ustar holds; `None` where no slash
/// is where one would have to be.
fn split(name: &[u8]) -> Option<(&[u8], &[u8])> {
    if name.len() <= NAME.len() {
        return Some((b"", name));
    }
    // The slash at the end of a directory's name is no place to cut.
    let inner = name.strip_suffix(b"/").unwrap_or(name);
    let window = inner.get(..inner.len().min(PREFIX.len() + 1))?;
    let at = window.iter().rposition(|byte| *byte == b'/').filter(|at| *at > 0)?;
    let (prefix, rest) = (name.get(..at)?, name.get(at + 1..)?);
    (rest.len() <= NAME.len()).then_some((prefix, rest))
}

/// The name in the tar: directories end with a slash, markers are written as file names.
pub(super) fn tar_name(entry: &Entry) -> Result<Vec<u8>> {
    let path = entry.path.as_bytes();
    Ok(match &entry.kind {
        EntryKind::Directory if entry.path.is_root() => b"./".to_vec(),
        EntryKind::Directory => [path, b"/"].concat(),
        EntryKind::Whiteout => whiteout_of(&entry.path)?,
        EntryKind::Opaque if entry.path.is_root() => OPAQUE.to_vec(),
        EntryKind::Opaque => [path, b"/", OPAQUE].concat(),
        _ => path.to_vec(),
    })
}

fn whiteout_of(path: &RootPath) -> Result<Vec<u8>> {
    let (Some(name), Some(parent)) = (path.name(), path.parent()) else {
        return Err(Error::input("the root cannot be removed by a whiteout"));
    };
    let separator: &[u8] = if parent.is_root() { b"" } else { b"/" };
    Ok([parent.as_bytes(), separator, whiteout::PREFIX, name].concat())
}

/// Refuses a name that a reader takes for something else than the entry is.
pub(super) fn check_name(entry: &Entry) -> Result<()> {
    let name = RootPath::new(tar_name(entry)?)?;
    let read = whiteout::read(&name)?;
    let fits = match (&entry.kind, &read) {
        (EntryKind::Whiteout, whiteout::Name::WhiteoutOf(path))
        | (EntryKind::Opaque, whiteout::Name::OpaqueMarkIn(path)) => *path == entry.path,
        (EntryKind::Whiteout | EntryKind::Opaque, _) => false,
        (_, read) => *read == whiteout::Name::Plain,
    };
    if fits {
        Ok(())
    } else {
        Err(Error::input("entry's name would be read as a whiteout, or as another one").fact("name", name))
    }
}

/// By the bytes of the path, so that a directory comes before what it holds. Where one path has
/// several entries, the order is the one in which they take effect: runtimes remove what a
/// whiteout names even if the same layer has just put it there, and a directory must be there before
/// its opaque mark.
pub(super) fn tar_order(one: &Entry, other: &Entry) -> Ordering {
    one.path.cmp(&other.path).then_with(|| rank(&one.kind).cmp(&rank(&other.kind)))
}

const fn rank(kind: &EntryKind) -> u8 {
    match kind {
        EntryKind::Whiteout => 0,
        EntryKind::Opaque => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;
    use crate::limits::Limits;
    use crate::write::testing::bare;

    #[test]
    fn sizes_from_8_gib_on_stand_in_a_record() {
        let limit = 8_u64 << 30;
        for (size, blocks) in [(limit - 1, 1), (limit, 3)] {
            let kind = EntryKind::File { size };
            let header = header_blocks(&bare("a", kind.clone()).entry, 0).unwrap();
            assert_eq!(header.len(), blocks * BLOCK);
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(&header, 0).unwrap();
            file.set_len(header.len() as u64 + size.next_multiple_of(512) + 1024).unwrap();
            let entries = crate::list_archive(file, &Limits::default()).unwrap();
            assert_eq!(entries.into_iter().map(|entry| entry.kind).collect::<Vec<_>>(), [kind]);
        }
    }

    #[test]
    fn long_names_are_cut_at_a_slash_where_one_fits() {
        let long = |prefix: usize, name: usize| [vec![b'p'; prefix], vec![b'/'], vec![b'n'; name]].concat();
        for (name, parts) in [
            (vec![b'n'; 100], Some((0, 100))),
            (vec![b'n'; 101], None),
            (long(1, 100), Some((1, 100))),
            (long(155, 100), Some((155, 100))),
            (long(156, 100), None),
            (long(155, 101), None),
            ([long(40, 60), b"/".to_vec()].concat(), Some((40, 61))),
            ([vec![b'n'; 100], b"/".to_vec()].concat(), None),
            ([long(155, 99), b"/".to_vec()].concat(), Some((155, 100))),
            ([long(155, 100), b"/".to_vec()].concat(), None),
            (b"d/".repeat(100), Some((155, 44))),
        ] {
            let lengths = split(&name).map(|(prefix, rest)| (prefix.len(), rest.len()));
            assert_eq!(lengths, parts, "{}", name.escape_ascii());
        }
    }
}
