//! Entries that runtimes do not take, or do not agree about.

use std::fmt;

use crate::layer::{Entry, EntryKind};

/// An entry with what is odd about it.
#[derive(Debug, Clone, Copy)]
pub struct MergeIssue<'a> {
    pub entry: &'a Entry,
    /// The number of its layer, from the bottom and from 0.
    pub layer: usize,
    pub kind: MergeIssueKind,
}

/// What is odd about an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeIssueKind {
    /// A hard link to what is not there when the entry's turn comes.
    MissingTarget,
    /// A hard link to a folder.
    DirectoryTarget,
    /// It lies below something that is not a folder.
    BelowFile,
    /// Its folder is reached through too many links.
    Loop,
    /// Its path, once links in it are followed, is one that Linux does not have.
    ImpossiblePath,
    /// It would be one folder too many that no entry speaks of.
    TooManyDirectories,
    /// Its folder is reached through a link of a lower layer. It goes where the link leads.
    ThroughLink,
    /// A hard link to a file that only a lower layer has.
    LowerTarget,
}

impl MergeIssueKind {
    /// Whether the entry did what it says all the same: some runtimes take it, others do not.
    /// After the others, a runtime would not have gone on at all.
    #[must_use]
    pub const fn is_applied(self) -> bool {
        matches!(self, Self::ThroughLink | Self::LowerTarget)
    }
}

impl fmt::Display for MergeIssueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MissingTarget => "is a hard link to a file that is not there",
            Self::DirectoryTarget => "is a hard link to a folder",
            Self::BelowFile => "lies below something that is not a folder",
            Self::Loop => "lies below links that lead in a circle",
            Self::ImpossiblePath => "has a path that is too long for Linux",
            Self::TooManyDirectories => "lies in a folder that no entry speaks of, and there are too many of those",
            Self::ThroughLink => {
                "lies below a symbolic link of a lower layer; some runtimes follow it, others put a folder in its place"
            }
            Self::LowerTarget => "is a hard link to a file of a lower layer, which some runtimes do not find",
        })
    }
}

impl fmt::Display for MergeIssue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marker = if self.entry.kind == EntryKind::Whiteout { "whiteout of " } else { "" };
        write!(f, "{marker}{} {}", self.entry.path, self.kind)
    }
}
