//! A stretch of an open file. It keeps the file that was examined: what another process puts in
//! its place later is not read by mistake.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
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

/// Offsets count from the section's start, and none is beyond its end: there is nothing to write.
impl Seek for SectionReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.section.len.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = target
            .filter(|at| *at <= self.section.len)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "seek leads out of the file"))?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_moves_inside_its_section_only() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        io::Write::write_all(&mut file, b"0123456789").unwrap();
        let whole = Section::new(Arc::new(file.reopen().unwrap()), file.path(), 10);
        let mut reader = whole.part(2, 5).unwrap().reader(0);
        for (to, rest) in [
            (SeekFrom::Start(1), "3456"),
            (SeekFrom::End(-1), "6"),
            (SeekFrom::End(0), ""),
            (SeekFrom::Current(-5), "23456"),
        ] {
            let at = reader.seek(to).unwrap();
            assert_eq!(io::read_to_string(&mut reader).unwrap(), rest, "{to:?}");
            assert_eq!(at, 5 - rest.len() as u64);
        }
        for to in [SeekFrom::Start(6), SeekFrom::End(1), SeekFrom::End(-6), SeekFrom::Current(i64::MIN)] {
            assert!(reader.seek(to).is_err(), "{to:?}");
        }
    }
}
