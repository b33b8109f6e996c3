//! The account files of a root, and whom `User` of a config means there: as runc and containerd look it
//! up (`moby/sys/user`, `GetExecUser`).
//!
//! What is surprising, and followed here: a number is looked up too, and gets the primary group, the
//! groups and the home of the first line with that number; without a line its group is 0. An empty
//! `User` is the number 0. With a group given, the groups that list the user are left out. A number in a
//! line that cannot be read is 0, and one that no user can have keeps the process from starting. So does a
//! file that is there and cannot be read; where only its content is not known here, that is not guessed.

use std::collections::BTreeSet;

use layer::RootPath;
use start::rootfs::{Credentials, Root};

/// Which of the two files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    Passwd,
    Group,
}

impl Which {
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Passwd => "/etc/passwd",
            Self::Group => "/etc/group",
        }
    }
}

/// The content of an account file.
#[derive(Debug, Clone, Default)]
pub struct AccountFile {
    content: Vec<u8>,
    /// It is there, and what it says is not known.
    pub unreadable: bool,
}

/// One account: `name:x:id:…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountLine<'a>(pub &'a [u8]);

impl AccountFile {
    /// As the root has it; empty where it is missing.
    #[must_use]
    pub fn of(root: &Root<'_>, which: Which) -> Self {
        let path = RootPath::new(which.path()).ok();
        let Some(file) = path.as_ref().and_then(|path| root.resolve(path).ok()) else { return Self::default() };
        match root.content(file.node) {
            Some(content) => Self { content: content.to_vec(), unreadable: false },
            None => Self { content: Vec::new(), unreadable: true },
        }
    }

    pub fn lines(&self) -> impl Iterator<Item = AccountLine<'_>> {
        let lines = self.content.split(|byte| *byte == b'\n');
        lines.map(|line| AccountLine(line.trim_ascii())).filter(|line| !line.0.is_empty())
    }

    #[must_use]
    pub fn named(&self, name: &[u8]) -> Option<AccountLine<'_>> {
        self.lines().find(|line| line.name() == name)
    }

    #[must_use]
    pub fn numbered(&self, id: u64) -> Option<AccountLine<'_>> {
        self.lines().find(|line| line.id() == id)
    }

    /// Adds a line at the end.
    pub fn add(&mut self, line: &[u8]) {
        if !self.content.is_empty() && !self.content.ends_with(b"\n") {
            self.content.push(b'\n');
        }
        self.content.extend_from_slice(line);
        self.content.push(b'\n');
    }

    /// Adds a member to the first group of this name.
    pub fn add_member(&mut self, group: &[u8], member: &[u8]) {
        let mut lines: Vec<Vec<u8>> = self.content.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        if let Some(line) = lines.iter_mut().find(|line| AccountLine(line).name() == group) {
            if AccountLine(line).members().next().is_some() {
                line.push(b',');
            }
            line.extend_from_slice(member);
        }
        self.content = lines.join(b"\n".as_slice());
    }

    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.content
    }
}

impl<'a> AccountLine<'a> {
    #[must_use]
    pub fn name(self) -> &'a [u8] {
        self.field(0)
    }

    #[must_use]
    pub fn id(self) -> u64 {
        number(self.field(2))
    }

    /// The primary group of a user.
    #[must_use]
    pub fn group_id(self) -> u64 {
        number(self.field(3))
    }

    #[must_use]
    pub fn home(self) -> &'a [u8] {
        self.field(5)
    }

    /// The members of a group.
    pub fn members(self) -> impl Iterator<Item = &'a [u8]> {
        self.field(3).split(|byte| *byte == b',').filter(|member| !member.is_empty())
    }

    /// The group's line with these members only.
    #[must_use]
    pub fn with_members(self, members: &[u8]) -> Vec<u8> {
        let fields: Vec<&[u8]> = self.0.split(|byte| *byte == b':').take(3).chain([members]).collect();
        fields.join(b":".as_slice())
    }

    fn field(self, at: usize) -> &'a [u8] {
        self.0.split(|byte| *byte == b':').nth(at).unwrap_or_default()
    }
}

/// A number as Go's `Atoi` reads it: 0 for what is none. One that nobody can have is larger than all others.
fn number(field: &[u8]) -> u64 {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    match std::str::from_utf8(field).unwrap_or_default().parse::<i64>() {
        Ok(number) => u64::try_from(number).unwrap_or(u64::MAX),
        Err(error) if matches!(error.kind(), NegOverflow | PosOverflow) => u64::MAX,
        Err(_) => 0,
    }
}

/// Both files of a root.
#[derive(Debug, Clone, Default)]
pub struct Accounts {
    pub passwd: AccountFile,
    pub group: AccountFile,
}

impl Accounts {
    #[must_use]
    pub fn of(root: &Root<'_>) -> Self {
        Self { passwd: AccountFile::of(root, Which::Passwd), group: AccountFile::of(root, Which::Group) }
    }
}

/// Whom a process runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name of the line that decided, where there is one.
    pub name: Option<String>,
    pub credentials: Credentials,
    /// What a runtime sets `HOME` to, unless the image does.
    pub home: String,
}

/// A user or group that the root does not have, or that no number can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownAccount {
    pub name: String,
    pub which: Which,
}

/// `User`, taken apart. Empty parts are not set.
#[derive(Debug, Clone, Copy)]
pub struct UserText<'a> {
    pub user: &'a str,
    pub group: &'a str,
}

impl<'a> UserText<'a> {
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        let (user, group) = text.split_once(':').unwrap_or((text, ""));
        Self { user, group }
    }
}

/// The number that a part of `User` is.
pub fn as_number(part: &str) -> Option<i64> {
    part.parse::<i64>().ok()
}

/// A name, and so to be found in an account file.
#[must_use]
pub fn is_name(part: &str) -> bool {
    !part.is_empty() && as_number(part).is_none()
}

/// The largest number that a runtime takes from a config.
const LARGEST: i64 = i32::MAX as i64;
/// The largest that the kernel takes; a runtime does not look at those of account files.
const LARGEST_OF_LINE: u64 = u32::MAX as u64 - 1;

/// Whom `user` means in a root with these accounts.
pub fn identify(user: &str, accounts: &Accounts) -> Result<Identity, UnknownAccount> {
    let UserText { user, group } = UserText::new(user);
    let line = match (user, as_number(user)) {
        ("", _) => accounts.passwd.numbered(0),
        (_, Some(id)) => u64::try_from(id).ok().and_then(|id| accounts.passwd.numbered(id)),
        (name, None) => accounts.passwd.named(name.as_bytes()),
    };
    let unknown = |name: &str, which| UnknownAccount { name: name.to_owned(), which };
    if accounts.passwd.unreadable {
        return Err(unknown(if user.is_empty() { "0" } else { user }, Which::Passwd));
    }
    let (uid, mut gid) = match line {
        Some(line) => (line.id(), line.group_id()),
        None if user.is_empty() => (0, 0),
        None => (checked(user).ok_or_else(|| unknown(user, Which::Passwd))?, 0),
    };
    let mut groups = Vec::new();
    if accounts.group.unreadable && (line.is_some() || !group.is_empty()) {
        return Err(unknown(if group.is_empty() { user } else { group }, Which::Group));
    }
    if group.is_empty() {
        groups = line.map(|line| groups_of(line.name(), &accounts.group)).unwrap_or_default();
    } else {
        gid = group_number(group, &accounts.group).ok_or_else(|| unknown(group, Which::Group))?;
    }
    if uid > LARGEST_OF_LINE {
        return Err(unknown(user, Which::Passwd));
    }
    if groups.iter().chain([&gid]).any(|id| *id > LARGEST_OF_LINE) {
        return Err(unknown(if group.is_empty() { user } else { group }, Which::Group));
    }
    Ok(Identity {
        name: line.map(|line| String::from_utf8_lossy(line.name()).into_owned()),
        credentials: Credentials { uid, gid, groups },
        home: home(uid, accounts),
    })
}

fn checked(part: &str) -> Option<u64> {
    as_number(part).filter(|id| (0..=LARGEST).contains(id)).and_then(|id| u64::try_from(id).ok())
}

fn group_number(group: &str, file: &AccountFile) -> Option<u64> {
    match as_number(group) {
        Some(_) => checked(group),
        None => file.named(group.as_bytes()).map(AccountLine::id),
    }
}

/// The groups that list a user, each once.
pub(super) fn groups_of(user: &[u8], file: &AccountFile) -> Vec<u64> {
    let lines = file.lines().filter(|line| line.members().any(|member| member == user));
    let mut seen = BTreeSet::new();
    lines.map(AccountLine::id).filter(|id| seen.insert(*id)).collect()
}

/// runc looks the number up, whatever name it came from. A home that is empty there is passed on.
fn home(uid: u64, accounts: &Accounts) -> String {
    let home = accounts.passwd.numbered(uid).map(AccountLine::home);
    home.map_or_else(|| "/".to_owned(), |home| String::from_utf8_lossy(home).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts() -> Accounts {
        let file = |text: &str| AccountFile { content: text.into(), unreadable: false };
        Accounts {
            passwd: file(
                "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1001::/srv/app:/bin/sh\nother:x:1000:7::/other:\n\
                 broken\nbad:x:none:1::/bad:\nno-home:x:5:6\nnegative:x:-1:0::/:\nhuge:x:99999999999999999999:0::/:\n\
                 largest:x:4294967295:0::/:\ngroup:x:6:-1::/:\n",
            ),
            group: file(
                "root:x:0:root\naudio:x:29:games,app\napp:x:1001:\nextra:x:30:app\nagain:x:29:app\nbad:x:-1:\n",
            ),
        }
    }

    #[test]
    fn an_account_is_looked_up_as_runtimes_do() {
        let accounts = accounts();
        for (user, uid, gid, groups, home) in [
            ("", 0, 0, vec![0], "/root"),
            ("0", 0, 0, vec![0], "/root"),
            ("root", 0, 0, vec![0], "/root"),
            ("app", 1000, 1001, vec![29, 30], "/srv/app"),
            ("1000", 1000, 1001, vec![29, 30], "/srv/app"),
            ("app:app", 1000, 1001, vec![], "/srv/app"),
            ("1000:0", 1000, 0, vec![], "/srv/app"),
            ("app:29", 1000, 29, vec![], "/srv/app"),
            ("4242", 4242, 0, vec![], "/"),
            ("4242:audio", 4242, 29, vec![], "/"),
            ("bad", 0, 1, vec![], "/root"),
            ("broken", 0, 0, vec![], "/root"),
            ("no-home", 5, 6, vec![], ""),
            ("+1000", 1000, 1001, vec![29, 30], "/srv/app"),
        ] {
            let found = identify(user, &accounts).unwrap();
            assert_eq!(found.credentials, Credentials { uid, gid, groups }, "{user}");
            assert_eq!(found.home, home, "{user}");
        }
        for (user, which) in [
            ("ghost", Which::Passwd),
            ("-1", Which::Passwd),
            ("2147483648", Which::Passwd),
            ("app:ghosts", Which::Group),
            ("app:-1", Which::Group),
            ("negative", Which::Passwd),
            ("huge", Which::Passwd),
            ("largest", Which::Passwd),
            ("group", Which::Group),
            ("app:bad", Which::Group),
        ] {
            assert_eq!(identify(user, &accounts).unwrap_err().which, which, "{user}");
        }
    }

    #[test]
    fn nobody_is_known_by_a_file_that_cannot_be_read() {
        let unreadable = || AccountFile { content: Vec::new(), unreadable: true };
        let passwd = Accounts { passwd: unreadable(), ..accounts() };
        for user in ["", "0", "app", "4242:4242"] {
            assert_eq!(identify(user, &passwd).unwrap_err().which, Which::Passwd, "{user}");
        }
        let group = Accounts { group: unreadable(), ..accounts() };
        for user in ["", "app", "4242:4242"] {
            assert_eq!(identify(user, &group).unwrap_err().which, Which::Group, "{user}");
        }
        assert_eq!(identify("4242", &group).unwrap().credentials.uid, 4242);
    }
}
