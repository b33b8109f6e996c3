//! One member of a tar: its header merged with what comes before it, PAX records and GNU long names.
//! The one place that decides how many bytes of data a member has, and which path and kind its
//! entry gets, or why a container runtime would not accept it.

use super::blocks::BLOCK;
use super::entry::{Entry, EntryKind};
use super::header::{TarFormat, TarHeader};
use super::limits::{Limits, over};
use super::path::{RootPath, shown};
use super::pax::PaxRecords;
use super::sparse::{self, MapPlace, Sparse};
use oci::error::{Error, Result};

/// Extended headers that wait for their entry. Archive readers disagree about what it means to
/// have one kind twice, or two kinds that differ; so both are refused.
#[derive(Debug, Default)]
pub(super) struct ExtendedHeaders {
    records: Option<PaxRecords>,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    bytes: u64,
}

/// An entry with everything that is said about it.
#[derive(Debug)]
pub(super) struct ParsedMember {
    pub(super) typeflag: u8,
    pub(super) name: Vec<u8>,
    pub(super) link: Vec<u8>,
    /// Bytes of data in the tar.
    pub(super) stored: u64,
    /// The size a program would see.
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) uid: u64,
    pub(super) gid: u64,
    pub(super) mtime: i64,
    pub(super) device: (i64, i64),
    pub(super) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) sparse: Option<SparseForm>,
    /// Whether there are PAX records of a sparse file, also where Go reads it as a plain one.
    pub(super) sparse_records: bool,
    /// Whether a size was stated for a type that has no data.
    pub(super) idle_size: bool,
}

/// The forms in which a sparse file can be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SparseForm {
    OldGnu,
    Pax(MapPlace),
}

impl ExtendedHeaders {
    pub(super) const fn is_empty(&self) -> bool {
        self.records.is_none() && self.long_name.is_none() && self.long_link.is_none()
    }

    /// Counts `bytes` more of metadata for the entry to come.
    pub(super) fn count(&mut self, bytes: u64, limits: &Limits) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > limits.metadata {
            return Err(over("metadata of one entry is", format!("{} bytes", limits.metadata)));
        }
        Ok(())
    }

    pub(super) fn add_records(&mut self, records: PaxRecords) -> Result<()> {
        match self.records.replace(records) {
            None => Ok(()),
            Some(_) => Err(twice("PAX header")),
        }
    }

    pub(super) fn add_long_name(&mut self, name: Vec<u8>) -> Result<()> {
        match self.long_name.replace(name) {
            None => Ok(()),
            Some(_) => Err(twice("long name")),
        }
    }

    pub(super) fn add_long_link(&mut self, link: Vec<u8>) -> Result<()> {
        match self.long_link.replace(link) {
            None => Ok(()),
            Some(_) => Err(twice("long link target")),
        }
    }

    /// The entry that `header` begins.
    pub(super) fn apply(self, header: TarHeader, block: &[u8; BLOCK]) -> Result<ParsedMember> {
        let records = self.records.unwrap_or_default();
        let sparse_records = records.sparse.stated;
        let sparse = records.sparse.describe()?;
        let stored_as = sparse.as_ref().and_then(|sparse| sparse.name.clone());
        let name = prevailing(header.name, records.path, self.long_name)?;
        let name = stored_as.unwrap_or(name);
        let typeflag = effective_type(header.typeflag, &name);
        if !has_no_data(header.typeflag) {
            // Go refuses this before it looks at PAX records.
            positive(header.size, "size")?;
        }
        // A PAX size overrules the header's for every type, whichever of the two is zero.
        let stated = records.size.or_else(|| u64::try_from(header.size).ok()).unwrap_or(0);
        let stored = if has_no_data(typeflag) { 0 } else { stated };
        let (size, sparse) = match typeflag {
            b'S' => old_gnu_sparse(header.format, block)?,
            _ => pax_sparse(sparse, typeflag, stored)?,
        };
        Ok(ParsedMember {
            typeflag,
            name,
            link: prevailing(header.link, records.linkpath, self.long_link)?,
            stored,
            size,
            mode: permissions(header.mode)?,
            uid: records.uid.map_or_else(|| positive(header.uid, "user id"), Ok)?,
            gid: records.gid.map_or_else(|| positive(header.gid, "group id"), Ok)?,
            mtime: records.mtime.unwrap_or(header.mtime),
            device: (header.major, header.minor),
            xattrs: records.xattrs.sorted(),
            sparse,
            sparse_records,
            idle_size: stated != stored,
        })
    }
}

impl ParsedMember {
    /// The entry of the list that the member becomes, once it is known where and what it is.
    pub(super) fn entry(self, path: RootPath, kind: EntryKind, offset: u64) -> Entry {
        let Self { mode, uid, gid, mtime, xattrs, sparse, .. } = self;
        Entry { path, kind, mode, uid, gid, mtime, xattrs, offset, sparse: sparse.is_some() }
    }
}

/// The size that a program would see, and how the file is stored.
type StoredSize = (u64, Option<SparseForm>);

fn old_gnu_sparse(format: TarFormat, block: &[u8; BLOCK]) -> Result<StoredSize> {
    if format != TarFormat::Gnu {
        return Err(Error::input("sparse file has no GNU header"));
    }
    Ok((sparse::old_gnu_real_size(block)?, Some(SparseForm::OldGnu)))
}

fn pax_sparse(sparse: Option<Sparse>, typeflag: u8, stored: u64) -> Result<StoredSize> {
    match sparse {
        Some(_) if has_no_data(typeflag) => Err(Error::input("sparse records for an entry that has no data")),
        Some(sparse) => Ok((sparse.real_size.unwrap_or(stored), Some(SparseForm::Pax(sparse.map)))),
        None => Ok((stored, None)),
    }
}

/// The types whose data Go takes to be absent, whatever size their header states.
const fn has_no_data(typeflag: u8) -> bool {
    matches!(typeflag, b'1'..=b'6')
}

/// V7 had no type for directories: there a file whose name ends in `/` is one.
fn effective_type(typeflag: u8, name: &[u8]) -> u8 {
    match typeflag {
        0 if name.ends_with(b"/") => b'5',
        0 => b'0',
        other => other,
    }
}

/// The name that counts: GNU's long one, else PAX's, else the header's.
fn prevailing(own: Vec<u8>, pax: Option<Vec<u8>>, gnu: Option<Vec<u8>>) -> Result<Vec<u8>> {
    let gnu = gnu.filter(|name| !name.is_empty());
    match (gnu, pax) {
        (Some(gnu), Some(pax)) if gnu != pax => Err(Error::input("PAX and GNU headers of one entry disagree")
            .fact("PAX", shown(&pax))
            .fact("GNU", shown(&gnu))),
        (Some(name), _) | (None, Some(name)) => Ok(name),
        (None, None) => Ok(own),
    }
}

pub(super) fn positive(value: i64, what: &str) -> Result<u64> {
    u64::try_from(value).map_err(|_| Error::input(format!("tar header has a negative {what}")).fact("value", value))
}

fn permissions(mode: i64) -> Result<u32> {
    let mode = positive(mode, "mode")?;
    // Cannot fail: twelve bits are left.
    Ok(u32::try_from(mode & 0o7777).unwrap_or_default())
}

fn twice(what: &str) -> Error {
    Error::input(format!("entry has more than one {what}"))
}

/// The path that a name in the tar means.
pub(super) fn entry_path(name: &[u8], limits: &Limits) -> Result<RootPath> {
    if name.len() > limits.path {
        return Err(over("path of an entry is", format!("{} bytes", limits.path)).fact("entry", shown(name)));
    }
    let path = RootPath::new(name)?;
    if path.components().count() > limits.depth {
        return Err(over("path of an entry is deep", format!("{} components", limits.depth)).fact("entry", path));
    }
    Ok(path)
}

/// The kind of an entry. Types that runtimes refuse are refused by name.
pub(super) fn entry_kind(member: &ParsedMember, path: &RootPath, limits: &Limits) -> Result<EntryKind> {
    let kind = match member.typeflag {
        b'0' | b'S' => EntryKind::File { size: member.size },
        b'1' => EntryKind::Hardlink(hardlink_target(member, path, limits)?),
        b'2' => EntryKind::Symlink(symlink_target(member, path, limits)?),
        b'3' => device(member).map(|(major, minor)| EntryKind::Character { major, minor })?,
        b'4' => device(member).map(|(major, minor)| EntryKind::Block { major, minor })?,
        b'5' => EntryKind::Directory,
        b'6' => EntryKind::Fifo,
        other => {
            return Err(Error::input("entry type is not supported by container runtimes")
                .fact("entry", path)
                .fact("type", format!("'{}'", other.escape_ascii())));
        }
    };
    // A link in the root's place would send every later layer elsewhere (CVE-2021-29136).
    if path.is_root() && kind != EntryKind::Directory {
        return Err(Error::input("the root can only be a directory").fact("entry", shown(&member.name)));
    }
    Ok(kind)
}

/// Whether the target exists is decided for the whole root: it may be in a lower layer.
fn hardlink_target(member: &ParsedMember, link: &RootPath, limits: &Limits) -> Result<RootPath> {
    let target = entry_path(&member.link, limits).map_err(|error| error.fact("hard link", link))?;
    if target.is_root() || target == *link {
        return Err(Error::input("hard link to a directory or to itself").fact("entry", link));
    }
    Ok(target)
}

fn symlink_target(member: &ParsedMember, link: &RootPath, limits: &Limits) -> Result<Vec<u8>> {
    if member.link.len() > limits.path {
        return Err(over("target of a symbolic link is", format!("{} bytes", limits.path)).fact("entry", link));
    }
    if member.link.is_empty() {
        return Err(Error::input("symbolic link has no target").fact("entry", link));
    }
    Ok(member.link.clone())
}

fn device(member: &ParsedMember) -> Result<(u32, u32)> {
    let number = |value: i64| {
        u32::try_from(value)
            .map_err(|_| Error::input("device number is out of range for Linux").fact("entry", shown(&member.name)))
    };
    Ok((number(member.device.0)?, number(member.device.1)?))
}
