//! The user namespace of a start where underpin is not root: its own user as root, and the numbers that
//! `/etc/subuid` and `/etc/subgid` lend it as all others.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{getegid, geteuid};
use serde::{Deserialize, Serialize};

use super::runtime::find_program;
use crate::store::child_process::{self, ChildKind};
use oci::error::{Error, Kind, Result};

const LIMIT: u64 = 1 << 20;

/// A range of user or group numbers of the namespace, and where it begins outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IdRange {
    inside: u32,
    outside: u32,
    count: u32,
}

impl IdRange {
    fn covers(self, id: u64) -> bool {
        (u64::from(self.inside)..u64::from(self.inside) + u64::from(self.count)).contains(&id)
    }

    fn words(self) -> [String; 3] {
        [self.inside, self.outside, self.count].map(|number| number.to_string())
    }
}

/// The two programs that may map what was lent.
#[derive(Debug, Clone)]
struct Mappers {
    uids: PathBuf,
    gids: PathBuf,
}

/// Which users there are in it.
#[derive(Debug, Clone)]
pub(super) struct UserNamespace {
    uids: Vec<IdRange>,
    gids: Vec<IdRange>,
    mappers: Option<Mappers>,
}

impl UserNamespace {
    pub(super) fn of_this_user() -> Self {
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        let name = text("/etc/passwd").lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)?.parse::<u32>().ok()? == uid).then(|| name.to_owned())
        });
        let own = |outside| IdRange { inside: 0, outside, count: 1 };
        let lent = |file: &str| lent(&text(file), name.as_deref(), uid);
        let mappers = find_program("newuidmap").zip(find_program("newgidmap"));
        match (lent("/etc/subuid"), lent("/etc/subgid"), mappers) {
            (Some(users), Some(groups), Some((uids, gids))) => Self {
                uids: vec![own(uid), users],
                gids: vec![own(gid), groups],
                mappers: Some(Mappers { uids, gids }),
            },
            _ => Self { uids: vec![own(uid)], gids: vec![own(gid)], mappers: None },
        }
    }

    pub(super) fn covers(&self, uid: u64, gid: u64) -> bool {
        self.uids.iter().any(|range| range.covers(uid)) && self.gids.iter().any(|range| range.covers(gid))
    }

    /// The mapping of the user alone, which needs no other program.
    pub(super) fn own_only(&self) -> Option<(IdRange, IdRange)> {
        match (&self.mappers, self.uids.first(), self.gids.first()) {
            (None, Some(uid), Some(gid)) => Some((*uid, *gid)),
            _ => None,
        }
    }

    /// Maps the users of the namespace that a process has just made.
    pub(super) fn map(&self, pid: u32) -> Result<()> {
        let Some(mappers) = &self.mappers else { return Ok(()) };
        map_with(&mappers.uids, pid, &self.uids)?;
        map_with(&mappers.gids, pid, &self.gids)
    }
}

fn map_with(program: &Path, pid: u32, ranges: &[IdRange]) -> Result<()> {
    let mut command = child_process::command(program, ChildKind::IdMapper);
    command.arg(pid.to_string()).args(ranges.iter().flat_map(|range| range.words()));
    let ended = command.stdin(Stdio::null()).output();
    let ended = ended.map_err(|error| Error::io("could not map users into a namespace", program, &error))?;
    if ended.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
    Err(Error::new(Kind::Io, "could not map users into a namespace").fact("path", program.display()).cause(words))
}

fn text(path: &str) -> String {
    let mut text = String::new();
    if let Ok(file) = File::open(path) {
        let _ = file.take(LIMIT).read_to_string(&mut text);
    }
    text
}

/// The first range of the user, by name or number: `name:100000:65536`.
fn lent(file: &str, name: Option<&str>, uid: u32) -> Option<IdRange> {
    let number = uid.to_string();
    let line = file.lines().find_map(|line| {
        let (owner, range) = line.split_once(':')?;
        (Some(owner) == name || owner == number).then_some(range)
    })?;
    let (outside, count) = line.split_once(':')?;
    Some(IdRange { inside: 1, outside: outside.trim().parse().ok()?, count: count.trim().parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_that_of_the_user_by_name_or_number() {
        let file = "other:100:10\nme:200000:65536\n1001:300000:1000\n";
        let range = |outside, count| Some(IdRange { inside: 1, outside, count });
        assert_eq!(lent(file, Some("me"), 7), range(200_000, 65_536));
        assert_eq!(lent(file, None, 1001), range(300_000, 1000));
        assert_eq!(lent(file, Some("nobody"), 9), None);
    }

    #[test]
    fn a_user_is_there_if_both_numbers_are() {
        let range = |inside, count| IdRange { inside, outside: 1000, count };
        let of = UserNamespace { uids: vec![range(0, 1), range(1, 10)], gids: vec![range(0, 1)], mappers: None };
        assert!(of.covers(0, 0) && of.covers(10, 0));
        assert!(!of.covers(11, 0) && !of.covers(10, 1));
    }
}
