//! The accounts that the image runs as: whether the rebased root knows them, and what the source
//! knows of them.
//!
//! What is missing is taken over from the source: the lines of the user, of its primary group and of
//! the groups that it is a member of. Never the source's files: they describe the old base.

use crate::layer::RootPath;
use crate::process::Container;
use crate::rootfs::Root;

/// A user or group by name that neither the rebased root nor the source has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownAccount {
    pub name: String,
    pub which: Which,
}

/// An account that means another number on the new base than it did in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherNumber {
    pub name: String,
    pub which: Which,
    pub before: u64,
    pub after: u64,
}

/// What the image's `User` comes to.
#[derive(Debug, Clone, Default)]
pub struct Accounts {
    /// The files that must be written, whole.
    pub files: Vec<(Which, Vec<u8>)>,
    /// The accounts that they have more than before.
    pub added: Vec<String>,
    pub unknown: Vec<UnknownAccount>,
    pub other_numbers: Vec<OtherNumber>,
    /// The numbers that the first process runs with, where they are known.
    pub uid: Option<u64>,
    pub gid: Option<u64>,
}

/// `User`, taken apart. Empty parts are not set.
pub(super) struct User {
    pub(super) user: String,
    pub(super) group: String,
}

impl User {
    pub(super) fn of(container: &Container) -> Self {
        let text = container.text("User");
        let (user, group) = text.split_once(':').unwrap_or((text, ""));
        Self { user: user.to_owned(), group: group.to_owned() }
    }

    /// Whether an account file must be asked for what it means.
    pub(super) fn has_names(&self) -> bool {
        [&self.user, &self.group].iter().any(|part| is_name(part))
    }

    /// Whether what it means depends on the image: `root` is number 0 in all of them.
    pub(super) fn depends_on_image(&self) -> bool {
        [&self.user, &self.group].iter().any(|part| is_name(part) && *part != "root")
    }
}

fn is_name(part: &str) -> bool {
    !part.is_empty() && number(part.as_bytes()).is_none()
}

/// Looks the image's user up in the rebased root, and in the source where that does not have it.
pub(super) fn look_up(container: &Container, rebased: &Root<'_>, source: &Root<'_>) -> Accounts {
    let pair = |root| Pair { passwd: AccountFile::of(root, Which::Passwd), group: AccountFile::of(root, Which::Group) };
    let (mut merge, source) = (AccountMerge { now: pair(rebased), out: Accounts::default() }, pair(source));
    let User { user, group } = User::of(container);
    let name = merge.user(&user, &source);
    merge.group(&group, &source);
    if let Some(name) = name {
        merge.memberships(&name, &source.group);
    }
    merge.finish()
}

struct Pair {
    passwd: AccountFile,
    group: AccountFile,
}

struct AccountMerge {
    now: Pair,
    out: Accounts,
}

impl AccountMerge {
    /// Takes the user over where it is missing; gives its name where one is known.
    fn user(&mut self, user: &str, source: &Pair) -> Option<Vec<u8>> {
        let by_number = number(user.as_bytes());
        let find = |file: &AccountFile| match by_number {
            Some(id) => file.numbered(id).map(|line| line.bytes().to_vec()),
            None => file.named(user).map(|line| line.bytes().to_vec()),
        };
        let (now, before) = (find(&self.now.passwd), find(&source.passwd));
        self.out.uid = by_number.or(if user.is_empty() { Some(0) } else { None });
        self.out.gid = self.out.uid.map(|_| 0);
        let line = match (now, before) {
            (None, None) => {
                self.unknown(user, Which::Passwd);
                return None;
            }
            (Some(now), before) => {
                self.compare(Which::Passwd, &now, before.as_deref());
                now
            }
            (None, Some(before)) => {
                if self.is_taken(&before) {
                    return None;
                }
                self.now.passwd.add(&before);
                self.added(Which::Passwd, &before);
                before
            }
        };
        let line = line_of(&line);
        (self.out.uid, self.out.gid) = (line.id(), line.group_id());
        self.primary_group(line.group_id(), source);
        Some(line.name().to_vec())
    }

    /// A number whose name means another number by now: the number alone does.
    fn is_taken(&self, line: &[u8]) -> bool {
        let name = String::from_utf8_lossy(line_of(line).name()).into_owned();
        self.now.passwd.named(&name).is_some()
    }

    fn primary_group(&mut self, id: Option<u64>, source: &Pair) {
        let Some(id) = id.filter(|id| self.now.group.numbered(*id).is_none()) else { return };
        let Some(line) = source.group.numbered(id) else { return };
        if self.now.group.named(&String::from_utf8_lossy(line.name())).is_none() {
            let line = line.with_only(b"");
            self.now.group.add(&line);
            self.added(Which::Group, &line);
        }
    }

    fn group(&mut self, group: &str, source: &Pair) {
        if group.is_empty() {
            return;
        }
        if let Some(id) = number(group.as_bytes()) {
            self.out.gid = Some(id);
            return;
        }
        let before = source.group.named(group).map(|line| line.with_only(b""));
        if let Some(now) = self.now.group.named(group).map(|line| line.bytes().to_vec()) {
            self.compare(Which::Group, &now, before.as_deref());
            self.out.gid = line_of(&now).id();
        } else if let Some(line) = before {
            self.out.gid = line_of(&line).id();
            self.now.group.add(&line);
            self.added(Which::Group, &line);
        } else {
            self.unknown(group, Which::Group);
        }
    }

    /// Runtimes give a process the groups that list its user.
    fn memberships(&mut self, user: &[u8], source: &AccountFile) {
        let of_user = |line: &Line<'_>| line.members().any(|member| member == user);
        for line in source.lines().filter(of_user) {
            let name = String::from_utf8_lossy(line.name()).into_owned();
            match self.now.group.named(&name).map(|now| (now.id(), of_user(&now))) {
                None => {
                    let line = line.with_only(user);
                    self.now.group.add(&line);
                    self.added(Which::Group, &line);
                }
                Some((id, false)) if id == line.id() => {
                    self.now.group.add_member(&name, user);
                    self.out.added.push(format!("{} in group {name}", String::from_utf8_lossy(user)));
                    self.changed(Which::Group);
                }
                Some((Some(after), _)) if line.id() != Some(after) => {
                    let before = line.id().unwrap_or_default();
                    self.out.other_numbers.push(OtherNumber { name, which: Which::Group, before, after });
                }
                Some(_) => {}
            }
        }
    }

    fn compare(&mut self, which: Which, now: &[u8], before: Option<&[u8]>) {
        let Some(before) = before else { return };
        let (now, before) = (line_of(now), line_of(before));
        if let (Some(after), Some(before)) = (now.id(), before.id())
            && after != before
        {
            let name = String::from_utf8_lossy(now.name()).into_owned();
            self.out.other_numbers.push(OtherNumber { name, which, before, after });
        }
    }

    fn unknown(&mut self, name: &str, which: Which) {
        if is_name(name) {
            self.out.unknown.push(UnknownAccount { name: name.to_owned(), which });
        }
    }

    fn added(&mut self, which: Which, line: &[u8]) {
        let kind = match which {
            Which::Passwd => "user",
            Which::Group => "group",
        };
        let line = line_of(line);
        let name = String::from_utf8_lossy(line.name());
        self.out.added.push(format!("{kind} {name} ({})", line.id().unwrap_or_default()));
        self.changed(which);
    }

    fn changed(&mut self, which: Which) {
        if !self.out.files.iter().any(|(there, _)| *there == which) {
            self.out.files.push((which, Vec::new()));
        }
    }

    fn finish(self) -> Accounts {
        let Self { now, mut out } = self;
        let (mut passwd, mut group) = (Some(now.passwd.into_bytes()), Some(now.group.into_bytes()));
        for (which, content) in &mut out.files {
            let written = match which {
                Which::Passwd => passwd.take(),
                Which::Group => group.take(),
            };
            *content = written.unwrap_or_default();
        }
        out
    }
}

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

/// The content of an account file. One that is missing or could not be read is empty: what it
/// says is not known.
#[derive(Debug, Clone, Default)]
struct AccountFile {
    content: Vec<u8>,
}

/// One account: `name:x:id:…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line<'a>(&'a [u8]);

impl AccountFile {
    fn of(root: &Root<'_>, which: Which) -> Self {
        let path = RootPath::new(which.path()).ok();
        let file = path.as_ref().and_then(|path| root.resolve(path).ok());
        let content = file.and_then(|file| root.content(file.node)).unwrap_or_default();
        Self { content: content.to_vec() }
    }

    fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let lines = self.content.split(|byte| *byte == b'\n');
        lines.map(Line).filter(|line| !line.name().is_empty() && line.id().is_some())
    }

    fn named(&self, name: &str) -> Option<Line<'_>> {
        self.lines().find(|line| line.name() == name.as_bytes())
    }

    fn numbered(&self, id: u64) -> Option<Line<'_>> {
        self.lines().find(|line| line.id() == Some(id))
    }

    /// Adds a line at the end.
    fn add(&mut self, line: &[u8]) {
        if !self.content.is_empty() && !self.content.ends_with(b"\n") {
            self.content.push(b'\n');
        }
        self.content.extend_from_slice(line);
        self.content.push(b'\n');
    }

    /// Adds a member to the group of this name.
    fn add_member(&mut self, group: &str, member: &[u8]) {
        let mut lines: Vec<Vec<u8>> = self.content.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        let line = lines.iter_mut().find(|line| Line(line).name() == group.as_bytes() && Line(line).id().is_some());
        if let Some(line) = line {
            if Line(line).members().next().is_some() {
                line.push(b',');
            }
            line.extend_from_slice(member);
        }
        self.content = lines.join(b"\n".as_slice());
    }

    fn into_bytes(self) -> Vec<u8> {
        self.content
    }
}

impl<'a> Line<'a> {
    fn bytes(self) -> &'a [u8] {
        self.0
    }

    fn name(self) -> &'a [u8] {
        self.field(0).unwrap_or_default()
    }

    fn id(self) -> Option<u64> {
        number(self.field(2)?)
    }

    /// The primary group of a user.
    fn group_id(self) -> Option<u64> {
        number(self.field(3)?)
    }

    /// The members of a group.
    fn members(self) -> impl Iterator<Item = &'a [u8]> {
        let members = self.field(3).unwrap_or_default().split(|byte| *byte == b',');
        members.filter(|member| !member.is_empty())
    }

    /// The group's line with this member only, or with none.
    fn with_only(self, member: &[u8]) -> Vec<u8> {
        let fields: Vec<&[u8]> = self.0.split(|byte| *byte == b':').take(3).chain([member]).collect();
        fields.join(b":".as_slice())
    }

    fn field(self, at: usize) -> Option<&'a [u8]> {
        self.0.split(|byte| *byte == b':').nth(at)
    }
}

/// A line that stands alone.
fn line_of(bytes: &[u8]) -> Line<'_> {
    Line(bytes)
}

/// A number as account files hold it, and nothing else.
fn number(field: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(field).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok()
}
