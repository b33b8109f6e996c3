//! Why a path leads to nothing: an answer, not an error.

use std::fmt;

use super::resolve::Followed;
use super::steps::MAX_LINKS;
use crate::error::printable;
use crate::layer::{RootPath, shown};

/// Every path that was tried, with the reason why it did not do. There is none if `PATH` is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    pub candidates: Vec<Candidate>,
}

/// A path that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// As it was put together, before any link.
    pub written: String,
    /// The links gone through before it failed.
    pub links: Vec<Followed>,
    pub why: Why,
}

/// Why a path did not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// Nothing is at this path, which has no link in it.
    Missing(RootPath),
    /// The link's target, as written, leads to where nothing is.
    Dangling {
        link: RootPath,
        target: Vec<u8>,
        missing: RootPath,
    },
    /// The path goes on below something that is not a folder.
    NotAFolder(RootPath),
    /// More links than Linux follows; as a rule they lead in a circle.
    Loop,
    Folder,
    /// A device or a pipe.
    NotAFile,
    /// A file without any execute bit.
    NotExecutable,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(path) => write!(f, "{path} is not there"),
            Self::Dangling { link, target, missing } => {
                write!(f, "the link {link} leads to {}, but {missing} is not there", shown(target))
            }
            Self::NotAFolder(path) => write!(f, "{path} is not a folder"),
            Self::Loop => write!(f, "there are more than {MAX_LINKS} links on the way, or they lead in a circle"),
            Self::Folder => f.write_str("it is a folder"),
            Self::NotAFile => f.write_str("it is a device or a pipe"),
            Self::NotExecutable => f.write_str("it is not executable"),
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", printable(&self.written), self.why)
    }
}

/// One candidate per line.
impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.candidates.is_empty() {
            return f.write_str("PATH names no folder to look in");
        }
        for (number, candidate) in self.candidates.iter().enumerate() {
            let line = if number == 0 { "" } else { "\n" };
            write!(f, "{line}{candidate}")?;
        }
        Ok(())
    }
}
