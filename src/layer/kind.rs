//! What an entry is, and where: its path and kind, or why a container runtime would not take it.

use super::entry::EntryKind;
use super::extended::Member;
use super::limits::{Limits, over};
use super::path::{RootPath, shown};
use crate::error::{Error, Result};

/// The path that a name in the tar means.
pub(super) fn path(name: &[u8], limits: &Limits) -> Result<RootPath> {
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
pub(super) fn of(member: &Member, path: &RootPath, limits: &Limits) -> Result<EntryKind> {
    let kind = match member.typeflag {
        b'0' | b'S' => EntryKind::File { size: member.size },
        b'1' => EntryKind::Hardlink(hardlink_target(member, path, limits)?),
        b'2' => EntryKind::Symlink(symlink_target(member, path, limits)?),
        b'3' => device(member).map(|(major, minor)| EntryKind::Character { major, minor })?,
        b'4' => device(member).map(|(major, minor)| EntryKind::Block { major, minor })?,
        b'5' => EntryKind::Directory,
        b'6' => EntryKind::Fifo,
        other => {
            return Err(Error::input("entry has a type that container runtimes do not know")
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

/// Whether the target is there is for the whole root to say: it may be in a lower layer.
fn hardlink_target(member: &Member, link: &RootPath, limits: &Limits) -> Result<RootPath> {
    let target = path(&member.link, limits).map_err(|error| error.fact("hard link", link))?;
    if target.is_root() || target == *link {
        return Err(Error::input("hard link leads to a directory or to itself").fact("entry", link));
    }
    Ok(target)
}

fn symlink_target(member: &Member, link: &RootPath, limits: &Limits) -> Result<Vec<u8>> {
    if member.link.len() > limits.path {
        return Err(over("target of a symbolic link is", format!("{} bytes", limits.path)).fact("entry", link));
    }
    if member.link.is_empty() {
        return Err(Error::input("symbolic link has no target").fact("entry", link));
    }
    Ok(member.link.clone())
}

fn device(member: &Member) -> Result<(u32, u32)> {
    let number = |value: i64| {
        u32::try_from(value).map_err(|_| {
            Error::input("device has a number that Linux does not have").fact("entry", shown(&member.name))
        })
    };
    Ok((number(member.device.0)?, number(member.device.1)?))
}
