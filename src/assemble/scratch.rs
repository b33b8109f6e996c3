//! Bytes that are being made: in memory here, or wherever [`LayerSource`](super::LayerSource) keeps
//! large ones.

use std::fmt::Debug;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

/// Space to work in. It is gone when it is dropped.
pub trait Workspace: Read + Write + Seek + Send + Debug {
    /// No more is written: from here on it can be read, by several at once.
    fn finish(self: Box<Self>) -> Arc<dyn MadeBytes>;
}

/// Bytes that do not change any more.
pub trait MadeBytes: Send + Sync + Debug {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;
}

#[derive(Debug)]
pub struct Scratch(Box<dyn Workspace>);

impl Scratch {
    #[must_use]
    pub fn memory() -> Self {
        Self::new(Memory(Cursor::new(Vec::new())))
    }

    #[must_use]
    pub fn new(space: impl Workspace + 'static) -> Self {
        Self(Box::new(space))
    }

    pub(super) fn finish(self) -> Made {
        Made(self.0.finish())
    }
}

impl Read for Scratch {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Scratch {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Seek for Scratch {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

#[derive(Debug)]
struct Memory(Cursor<Vec<u8>>);

impl Workspace for Memory {
    fn finish(self: Box<Self>) -> Arc<dyn MadeBytes> {
        Arc::new(self.0.into_inner())
    }
}

impl MadeBytes for Vec<u8> {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let rest = usize::try_from(at).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        { rest }.read(into)
    }
}

impl Read for Memory {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Seek for Memory {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

/// Bytes that were made. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Made(Arc<dyn MadeBytes>);

impl Made {
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        Self(Arc::new(bytes))
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
        let read = self.made.0.read_at(into, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
