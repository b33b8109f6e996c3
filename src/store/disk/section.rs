//! A stretch of an open file. It keeps the file that was examined: what another process puts in
//! its place later is not read by mistake.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::store::Stream;

#[derive(Debug, Clone)]
pub struct Section {
    file: Arc<File>,
    path: Arc<Path>,
    start: u64,
    len: u64,
}

impl Section {
    /// The first `len` bytes of a file; `path` is for messages only.
    pub fn new(file: Arc<File>, path: &Path, len: u64) -> Self {
        Self { file, path: path.into(), start: 0, len }
    }

    /// The part at `start` with `len` bytes, or `None` where it reaches beyond the end.
    pub fn part(&self, start: u64, len: u64) -> Option<Self> {
        let end = start.checked_add(len)?;
        let absolute = self.start.checked_add(start)?;
        (end <= self.len).then(|| Self { start: absolute, len, ..self.clone() })
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn into_file(self) -> Arc<File> {
        self.file
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// The bytes from offset `from` on; none where `from` is beyond the end.
    pub fn reader(&self, from: u64) -> SectionReader {
        SectionReader { section: self.clone(), at: from.min(self.len) }
    }

    pub fn stream(&self, from: u64) -> Stream {
        Box::new(self.reader(from))
    }

    /// All bytes, at most `limit`. `what` names the file in messages.
    pub fn bytes(&self, limit: u64, what: &str) -> Result<Vec<u8>> {
        if self.len > limit {
            return Err(Error::input(format!("{what} is too large"))
                .fact("path", self.path.display())
                .fact("size", self.len)
                .fact("limit", limit));
        }
        let mut bytes = Vec::new();
        self.reader(0)
            .read_to_end(&mut bytes)
            .map_err(|error| Error::from_stream(error, &format!("could not read {what}")))?;
        Ok(bytes)
    }
}

/// Reads a section. Its failures carry an [`Error`] that names the path.
#[derive(Debug)]
pub struct SectionReader {
    section: Section,
    at: u64,
}

impl Read for SectionReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Section { file, path, start, len } = &self.section;
        let left = usize::try_from(len - self.at).unwrap_or(usize::MAX);
        let wanted = left.min(buffer.len());
        let Some(room) = buffer.get_mut(..wanted) else { return Ok(0) };
        match file.read_at(room, start + self.at) {
            Ok(got) => {
                self.at += got as u64;
                Ok(got)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => Err(Error::io("could not read the file", path, &error).into()),
        }
    }
}
