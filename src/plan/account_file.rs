//! `/etc/passwd` and `/etc/group`, line by line: the lines that make no sense stay as they are.

use crate::layer::RootPath;
use crate::rootfs::Root;

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
pub(super) struct AccountFile {
    content: Vec<u8>,
}

/// One account: `name:x:id:…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a>(&'a [u8]);

impl AccountFile {
    pub(super) fn of(root: &Root<'_>, which: Which) -> Self {
        let path = RootPath::new(which.path()).ok();
        let file = path.as_ref().and_then(|path| root.resolve(path).ok());
        let content = file.and_then(|file| root.content(file.node)).unwrap_or_default();
        Self { content: content.to_vec() }
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let lines = self.content.split(|byte| *byte == b'\n');
        lines.map(Line).filter(|line| !line.name().is_empty() && line.id().is_some())
    }

    pub(super) fn named(&self, name: &str) -> Option<Line<'_>> {
        self.lines().find(|line| line.name() == name.as_bytes())
    }

    pub(super) fn numbered(&self, id: u64) -> Option<Line<'_>> {
        self.lines().find(|line| line.id() == Some(id))
    }

    /// Adds a line at the end.
    pub(super) fn add(&mut self, line: &[u8]) {
        if !self.content.is_empty() && !self.content.ends_with(b"\n") {
            self.content.push(b'\n');
        }
        self.content.extend_from_slice(line);
        self.content.push(b'\n');
    }

    /// Adds a member to the group of this name.
    pub(super) fn add_member(&mut self, group: &str, member: &[u8]) {
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

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.content
    }
}

impl<'a> Line<'a> {
    pub(super) fn bytes(self) -> &'a [u8] {
        self.0
    }

    pub(super) fn name(self) -> &'a [u8] {
        self.field(0).unwrap_or_default()
    }

    pub(super) fn id(self) -> Option<u64> {
        number(self.field(2)?)
    }

    /// The primary group of a user.
    pub(super) fn group_id(self) -> Option<u64> {
        number(self.field(3)?)
    }

    /// The members of a group.
    pub(super) fn members(self) -> impl Iterator<Item = &'a [u8]> {
        let members = self.field(3).unwrap_or_default().split(|byte| *byte == b',');
        members.filter(|member| !member.is_empty())
    }

    /// The group's line with this member only, or with none.
    pub(super) fn with_only(self, member: &[u8]) -> Vec<u8> {
        let fields: Vec<&[u8]> = self.0.split(|byte| *byte == b':').take(3).chain([member]).collect();
        fields.join(b":".as_slice())
    }

    fn field(self, at: usize) -> Option<&'a [u8]> {
        self.0.split(|byte| *byte == b':').nth(at)
    }
}

/// A line that stands alone.
pub(super) fn line(bytes: &[u8]) -> Line<'_> {
    Line(bytes)
}

/// A number as account files hold it, and nothing else.
pub(super) fn number(field: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(field).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok()
}
