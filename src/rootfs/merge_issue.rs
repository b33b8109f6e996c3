//! Entries that runtimes reject, or do not agree about.

use std::fmt;

use crate::layer::{Entry, EntryKind};

/// An entry with the issue it has.
#[derive(Debug, Clone, Copy)]
pub struct MergeIssue<'a> {
    pub entry: &'a Entry,
    /// The number of its layer, from the bottom and from 0.
    pub layer: usize,
    pub kind: MergeIssueKind,
}

/// What the issue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeIssueKind {
    /// A hard link to what is not there when the entry's turn comes.
    MissingTarget,
    /// A hard link to a directory.
    DirectoryTarget,
    /// It is below something that is not a directory.
    BelowFile,
    /// Its directory is reached through too many links.
    Loop,
    /// Its path, once links in it are followed, is one that Linux does not have.
    ImpossiblePath,
    /// It would need one implied directory too many.
    TooManyDirectories,
    /// Its directory is reached through a link of a lower layer. It goes where the link points.
    ThroughLink,
    /// A hard link to a file that only a lower layer has.
    LowerTarget,
}

impl MergeIssueKind {
    /// Whether the entry did what it says all the same: some runtimes accept it, others do not.
    /// After the others, a runtime would not have gone on at all.
    #[must_use]
    pub const fn is_applied(self) -> bool {
        matches!(self, Self::ThroughLink | Self::LowerTarget)
    }
}

impl fmt::Display for MergeIssueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MissingTarget => "is a hard link to a file that does not exist",
            Self::DirectoryTarget => "is a hard link to a directory",
            Self::BelowFile => "is below something that is not a directory",
            Self::Loop => "is below symbolic links that form a loop",
            Self::ImpossiblePath => "has a path that is too long for Linux",
            Self::TooManyDirectories => {
                "is in a directory without an entry of its own, and there are too many of those"
            }
            Self::ThroughLink => {
                "is below a symbolic link of a lower layer; some runtimes follow it, others replace it with a directory"
            }
            Self::LowerTarget => "is a hard link to a file in a lower layer, which some runtimes do not find",
        })
    }
}

impl fmt::Display for MergeIssue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marker = if self.entry.kind == EntryKind::Whiteout { "whiteout of " } else { "" };
        write!(f, "{marker}{} {}", self.entry.path, self.kind)
    }
}
