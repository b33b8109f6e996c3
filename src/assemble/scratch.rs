//! Bytes that are being made: small ones in memory, large ones in a file that has no name.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// Space to work in. It is gone when it is dropped.
#[derive(Debug)]
pub enum Scratch {
    Memory(Cursor<Vec<u8>>),
    File(File),
}

impl Scratch {
    #[must_use]
    pub fn memory() -> Self {
        Self::Memory(Cursor::new(Vec::new()))
    }

    /// No more is written: from here on it can be read, by several at once.
    pub(super) fn finish(self) -> Made {
        match self {
            Self::Memory(bytes) => Made(Place::Memory(bytes.into_inner().into())),
            Self::File(file) => Made(Place::File(Arc::new(file))),
        }
    }
}

impl Read for Scratch {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Memory(bytes) => bytes.read(into),
            Self::File(file) => file.read(into),
        }
    }
}

impl Write for Scratch {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Memory(memory) => memory.write(bytes),
            Self::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Memory(memory) => memory.flush(),
            Self::File(file) => file.flush(),
        }
    }
}

impl Seek for Scratch {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::Memory(memory) => memory.seek(to),
            Self::File(file) => file.seek(to),
        }
    }
}

/// Bytes that were made. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Made(Place);

#[derive(Debug, Clone)]
enum Place {
    Memory(Arc<[u8]>),
    File(Arc<File>),
}

impl Made {
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        Self(Place::Memory(bytes.into()))
    }

    /// The bytes from the start, whoever else is reading them.
    #[must_use]
    pub fn open(&self) -> MadeReader {
        MadeReader { made: self.clone(), at: 0 }
    }
}

#[derive(Debug)]
pub struct MadeReader {
    made: Made,
    at: u64,
}

impl Read for MadeReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = match &self.made.0 {
            Place::File(file) => file.read_at(into, self.at)?,
            Place::Memory(bytes) => {
                let rest = usize::try_from(self.at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
                { rest }.read(into)?
            }
        };
        self.at += read as u64;
        Ok(read)
    }
}
