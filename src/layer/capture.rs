//! The content that is kept beside the list of entries: what later stages read of an image.
//!
//! A layer is read once, so what is not captured here is not known afterwards. To keep more,
//! add a row to [`WANTED`].

use serde::{Deserialize, Serialize};

use super::limits::Limits;
use super::path::RootPath;

/// Small text files, kept whole.
const WANTED: [&str; 4] = ["etc/os-release", "usr/lib/os-release", "etc/passwd", "etc/group"];

/// Kept content of one entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// The entry's place in the layer's list. Not its path: that may be there twice.
    pub entry: usize,
    pub content: Vec<u8>,
}

/// Whether a file's content is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    Keep,
    Skip,
    /// It would have been kept, were it smaller.
    TooLarge,
}

/// What has been kept of a layer so far.
#[derive(Default)]
pub(super) struct Collection {
    captured: Vec<Captured>,
    bytes: u64,
}

impl Collection {
    pub(super) fn choose(&self, path: &RootPath, size: u64, limits: &Limits) -> Choice {
        if !WANTED.iter().any(|wanted| wanted.as_bytes() == path.as_bytes()) {
            Choice::Skip
        } else if size <= limits.captured_file && self.bytes.saturating_add(size) <= limits.captured {
            Choice::Keep
        } else {
            Choice::TooLarge
        }
    }

    pub(super) fn keep(&mut self, entry: usize, content: Vec<u8>) {
        self.bytes += content.len() as u64;
        self.captured.push(Captured { entry, content });
    }

    pub(super) fn finish(self) -> Vec<Captured> {
        self.captured
    }
}
