//! What a person should know about a layer that was accepted: one line per kind, not per entry.

use std::collections::BTreeMap;

use super::path::RootPath;

/// A kind of oddity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Remark {
    PathTwice,
    AufsMetadata,
    SizeWithoutData,
    GlobalRecords,
    TooLargeToRead,
}

impl Remark {
    /// The remark about one entry.
    fn about(self, path: &RootPath) -> String {
        match self {
            Self::PathTwice => format!("{path} is there more than once; the last one counts"),
            Self::AufsMetadata => format!("{path} is metadata of the aufs driver and is skipped"),
            Self::SizeWithoutData => {
                format!("{path} has a size though its type has no data; the size is ignored, as runtimes do")
            }
            Self::GlobalRecords => "the tar sets global PAX records; they are ignored, as runtimes do".to_owned(),
            Self::TooLargeToRead => format!("{path} is too large to be read"),
        }
    }
}

/// The oddities seen, each with its first example and a count.
#[derive(Default)]
pub(super) struct Remarks(BTreeMap<Remark, (RootPath, u64)>);

impl Remarks {
    pub(super) fn add(&mut self, remark: Remark, path: &RootPath) {
        self.0.entry(remark).or_insert_with(|| (path.clone(), 0)).1 += 1;
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(remark, (path, count))| match count {
            1 => remark.about(path),
            _ => format!("{} (and {} more like it)", remark.about(path), count - 1),
        })
    }
}
