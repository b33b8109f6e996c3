//! Bytes that are being made: small ones in memory, large ones in a file that has no name.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Error;

/// Space to work in. It is gone when it is dropped.
#[derive(Debug)]
pub enum Scratch {
    Memory(Cursor<Vec<u8>>),
    File(Nameless),
}

/// A file that has no name, and the folder it is in.
#[derive(Debug)]
pub struct Nameless {
    pub file: File,
    pub folder: PathBuf,
}

impl Nameless {
    /// What failed is a folder that somebody has to make room in, so it is named.
    fn named<T>(&self, outcome: io::Result<T>) -> io::Result<T> {
        outcome.map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            _ => Error::io("could not use a temporary file in the folder", &self.folder, &error).into(),
        })
    }
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
            Self::File(nameless) => Made(Place::File(Arc::new(nameless))),
        }
    }
}

impl Read for Scratch {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Memory(bytes) => bytes.read(into),
            Self::File(nameless) => nameless.named((&nameless.file).read(into)),
        }
    }
}

impl Write for Scratch {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Memory(memory) => memory.write(bytes),
            Self::File(nameless) => nameless.named((&nameless.file).write(bytes)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Memory(memory) => memory.flush(),
            Self::File(nameless) => nameless.named((&nameless.file).flush()),
        }
    }
}

impl Seek for Scratch {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::Memory(memory) => memory.seek(to),
            Self::File(nameless) => nameless.named((&nameless.file).seek(to)),
        }
    }
}

/// Bytes that were made. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Made(Place);

#[derive(Debug, Clone)]
enum Place {
    Memory(Arc<[u8]>),
    File(Arc<Nameless>),
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
            Place::File(nameless) => nameless.named(nameless.file.read_at(into, self.at))?,
            Place::Memory(bytes) => {
                let rest = usize::try_from(self.at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
                { rest }.read(into)?
            }
        };
        self.at += read as u64;
        Ok(read)
    }
}
