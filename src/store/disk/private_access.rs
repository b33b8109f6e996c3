//! Who else can change a directory or a file: what a cache says is believed only if nobody can but its user and root.
//!
//! The rule this file owns: every directory on the way from `/` belongs to this user or to root, and nobody else can write to
//! one that they can get to. Sticky directories, such as `/tmp`, may be on the way: nobody removes there what is not theirs.
//! A group that has nobody else in it is its user, as where each user has a group of their own and a umask of 002.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid};

use super::user_file::read_file;
use oci::error::{CommandLine, Error, Result, typed_word};

const ROOT: u32 = 0;
const STICKY: u32 = 0o1000;
/// The number that the system shows for users whom a user namespace does not have.
const UNMAPPED: u32 = 65_534;
/// Larger lists of users and groups are not read.
const LONGEST: u64 = 16 << 20;

/// The path of the directory of a cache, without links and safe to use: nobody else can put something else in its place, or
/// into it.
pub fn check_directory(path: &Path) -> Result<PathBuf> {
    let resolved =
        fs::canonicalize(path).map_err(|error| Error::io("could not examine the directory", path, &error))?;
    check_resolved(&resolved, Existing::All).map_err(|doubt| doubt.into_error(&resolved))?;
    Ok(resolved)
}

/// Refuses a directory in the cache that somebody else can change.
pub fn check_room(cache: &Path, room: &Path) -> Result<()> {
    check_resolved(room, Existing::All).map_err(|doubt| doubt.into_error(cache))
}

/// The same for a directory that may not be there yet: then nobody else can make it first.
pub fn check_place(path: &Path) -> Result<()> {
    let absolute =
        std::path::absolute(path).map_err(|error| Error::io("could not examine the directory", path, &error))?;
    // What is missing is not there to be examined; a link to nothing is an error where the directory is made.
    let there = absolute.ancestors().find_map(|at| fs::canonicalize(at).ok().map(|found| (found, at == absolute)));
    let Some((found, is_all)) = there else { return Ok(()) };
    check_resolved(&found, if is_all { Existing::All } else { Existing::Parents })
        .map_err(|doubt| doubt.into_error(&absolute))
}

/// The first directory on the way to what is made in `resolved` that somebody else could put another in the place of.
/// `resolved` has no links in it.
pub fn replaceable_directory(resolved: &Path) -> Result<Option<PathBuf>> {
    match check_resolved(resolved, Existing::Parents) {
        Ok(()) => Ok(None),
        Err(Doubt::Unknown(error)) => Err(error),
        Err(Doubt::Owner(directory, _) | Doubt::Writable(directory, _)) => Ok(Some(directory)),
    }
}

/// Whether the whole of a path is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Existing {
    All,
    Parents,
}

/// A directory that somebody else can change, and how.
enum Doubt {
    Unknown(Error),
    Owner(PathBuf, Box<Metadata>),
    Writable(PathBuf, Box<Metadata>),
}

impl Doubt {
    fn into_error(self, cache: &Path) -> Error {
        match self {
            Self::Unknown(error) => error,
            Self::Owner(directory, found) => {
                refused("the cache is in a directory that belongs to somebody else", cache, &directory, &found)
            }
            Self::Writable(directory, found) => {
                let what = "the cache is in a directory that somebody else can write to";
                let word = typed_word(&directory.display().to_string());
                let verify = CommandLine::underpin("cache").arg("verify").flag("--cache", cache.display());
                refused(what, cache, &directory, &found)
                    .hint(format!("if everything in it is yours, run `chmod go-w {word}`, and then {verify}"))
            }
        }
    }
}

fn refused(what: &str, cache: &Path, directory: &Path, found: &Metadata) -> Error {
    Error::usage(what)
        .fact("cache", cache.display())
        .fact("directory", directory.display())
        .fact("owner", format_args!("user {}, group {}", found.uid(), found.gid()))
        .fact("mode", format_args!("{:04o}", found.mode() & 0o7777))
        .hint("choose a directory of your own with --cache, or pass --no-cache")
}

fn check_resolved(resolved: &Path, existing: Existing) -> std::result::Result<(), Doubt> {
    let reader = Reader::of_this_process();
    // Whether anybody else gets this far.
    let mut is_open = true;
    let mut directories: Vec<&Path> = resolved.ancestors().collect();
    directories.reverse();
    for directory in directories {
        let found = fs::symlink_metadata(directory)
            .map_err(|error| Doubt::Unknown(Error::io("could not examine the directory", directory, &error)))?;
        let is_parent = existing == Existing::Parents || directory != resolved;
        if !reader.trusts_owner(found.uid(), is_parent) {
            return Err(Doubt::Owner(directory.to_owned(), Box::new(found)));
        }
        let is_safe = is_parent && found.mode() & STICKY != 0;
        if is_open && !is_safe && reader.others_write(directory, &found) {
            return Err(Doubt::Writable(directory.to_owned(), Box::new(found)));
        }
        is_open &= lets_others_in(&found);
    }
    Ok(())
}

/// Whether somebody else than its owner can get to what is in the directory. The bits of the group count for a list of
/// access rights, too.
fn lets_others_in(found: &Metadata) -> bool {
    found.mode() & 0o011 != 0
}

/// Whether what a file of the cache says is this user's or root's word.
pub fn is_own_file(path: &Path, file: &File) -> Result<bool> {
    let failed = |error: io::Error| Error::io("could not examine the file", path, &error);
    let found = file.metadata().map_err(failed)?;
    let reader = Reader::of_this_process();
    if !reader.trusts_owner(found.uid(), false) {
        return Ok(false);
    }
    // Nobody gets to it in a directory that is closed.
    let is_open =
        || path.ancestors().skip(1).all(|at| fs::symlink_metadata(at).is_ok_and(|found| lets_others_in(&found)));
    Ok(!(reader.others_write(path, &found) && is_open()))
}

/// The user whom the cache is for.
struct Reader {
    user: u32,
    group: u32,
}

impl Reader {
    fn of_this_process() -> Self {
        Self { user: geteuid().as_raw(), group: getegid().as_raw() }
    }

    /// Root is trusted by everybody. In a user namespace root's directories, such as `/`, belong to nobody.
    fn trusts_owner(&self, owner: u32, is_parent: bool) -> bool {
        owner == self.user || owner == ROOT || (is_parent && owner == UNMAPPED && has_unmapped_users())
    }

    fn others_write(&self, path: &Path, found: &Metadata) -> bool {
        let group_writes = found.mode() & 0o020 != 0;
        found.mode() & 0o002 != 0 || (group_writes && (has_access_list(path) || !self.is_alone_in(found.gid())))
    }

    /// Whether the group has nobody in it but this user and root.
    fn is_alone_in(&self, group: u32) -> bool {
        let read =
            |path: &str| read_file(Path::new(path), LONGEST).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let (Ok(users), Ok(groups)) = (read("/etc/passwd"), read("/etc/group")) else { return false };
        self.is_only_member(group, &users, &groups)
    }

    /// The same, by the lists of users and of groups.
    fn is_only_member(&self, group: u32, users: &str, groups: &str) -> bool {
        let field = |line: &str, at: usize| line.split(':').nth(at).unwrap_or_default().to_owned();
        let number = |line: &str, at: usize| field(line, at).parse::<u32>().ok();
        let is_trusted = |user: Option<u32>| user.is_some_and(|user| user == self.user || user == ROOT);
        let Some(listed) = groups.lines().find(|line| number(line, 2) == Some(group)) else {
            // A group that only a directory service knows: by convention it is the user's own if it has the same number.
            return group == self.user && group == self.group;
        };
        let user_named =
            |name: &str| users.lines().find(|line| field(line, 0) == name).and_then(|line| number(line, 2));
        let members = field(listed, 3);
        let mut members = members.split(',').map(str::trim).filter(|name| !name.is_empty());
        let mut of_group = users.lines().filter(|line| number(line, 3) == Some(group));
        members.all(|name| is_trusted(user_named(name))) && of_group.all(|line| is_trusted(number(line, 2)))
    }
}

/// Whether other users and groups than those of the file are named in its access rights.
fn has_access_list(path: &Path) -> bool {
    rustix::fs::lgetxattr_query(path, "system.posix_acl_access").is_ok_and(|length| length > 0)
}

/// Whether this process is in a namespace that does not have all users.
fn has_unmapped_users() -> bool {
    let map = read_file(Path::new("/proc/self/uid_map"), LONGEST).unwrap_or_default();
    let map = String::from_utf8_lossy(&map);
    map.split_whitespace().collect::<Vec<_>>() != ["0", "0", "4294967295"]
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_directory_that_somebody_else_can_write_to_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (outer, cache) = (dir.path().join("outer"), dir.path().join("outer/cache"));
        fs::create_dir_all(&cache).unwrap();
        // The directory itself, one on the way; what is behind a closed door; what is sticky.
        for (outer_mode, mode, is_trusted) in [
            (0o755, 0o755, true),
            (0o755, 0o700, true),
            (0o755, 0o777, false),
            (0o755, 0o757, false),
            (0o755, 0o1777, false),
            (0o777, 0o700, false),
            (0o1777, 0o700, true),
            (0o700, 0o777, true),
        ] {
            // A temporary directory is closed itself.
            set_mode(dir.path(), 0o755);
            set_mode(&outer, outer_mode);
            set_mode(&cache, mode);
            let checked = check_directory(&cache);
            assert_eq!(checked.is_ok(), is_trusted, "{outer_mode:o} {mode:o}: {checked:?}");
            assert_eq!(check_place(&cache).is_ok(), is_trusted, "{outer_mode:o} {mode:o}");
            if outer_mode == 0o755 {
                let can_be_made = mode != 0o777 && mode != 0o757;
                assert_eq!(check_place(&cache.join("new/one")).is_ok(), can_be_made, "{mode:o}");
            }
        }
    }

    #[test]
    fn the_refusal_names_the_directory_its_owner_and_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        set_mode(dir.path(), 0o777);
        let text = check_directory(dir.path()).unwrap_err().to_string();
        for part in
            ["somebody else can write", "0777", &format!("user {}", geteuid().as_raw()), "--no-cache", "chmod go-w"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains(dir.path().to_str().unwrap()), "{text}");
    }

    #[test]
    fn a_link_is_followed_once_and_what_it_leads_to_counts() {
        let dir = tempfile::tempdir().unwrap();
        set_mode(dir.path(), 0o755);
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert_eq!(check_directory(&link).unwrap(), fs::canonicalize(&real).unwrap());
        set_mode(&real, 0o777);
        assert!(check_directory(&link).is_err() && check_place(&link).is_err());
    }

    #[test]
    fn a_group_of_ones_own_is_the_user() {
        let reader = Reader { user: 1000, group: 1000 };
        let users =
            "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbob:x:1001:100::/home/bob:/bin/sh\n";
        let groups =
            "root:x:0:\nann:x:1000:\nusers:x:100:\nteam:x:200:ann,bob\nsolo:x:300:ann,root\nghost:x:400:ann,gone\n";
        for (group, expected) in
            [(1000, true), (0, true), (100, false), (200, false), (300, true), (400, false), (5000, false)]
        {
            assert_eq!(reader.is_only_member(group, users, groups), expected, "{group}");
        }
        // Nobody here knows the user, as in a container with any number.
        assert!(reader.is_only_member(1000, "", "") && !reader.is_only_member(1001, "", ""));
        let guest = Reader { user: 1000, group: 500 };
        assert!(!guest.is_only_member(1000, "", "") && !guest.is_only_member(500, "", ""));
        assert!(!reader.is_only_member(100, users, groups), "the group of somebody else's account");
    }

    #[test]
    fn owners_are_trusted_if_they_are_the_user_or_root() {
        let reader = Reader { user: 1000, group: 1000 };
        assert!(reader.trusts_owner(1000, false) && reader.trusts_owner(0, false) && !reader.trusts_owner(1001, true));
        assert!(!reader.trusts_owner(UNMAPPED, false), "never the cache itself");
        let root = Reader { user: 0, group: 0 };
        assert!(!root.trusts_owner(1000, false) && !root.trusts_owner(1000, true), "root does not believe a user");
    }
}
