//! What assembling needs from outside: layers of the source and of the log runner, and space to work
//! in.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cached_blob::inherited;
use super::disk;
use super::fetch::Request;
use super::{Source, StoreAccess};
use crate::assemble::{LayerSource, MadeBytes, Scratch, Workspace};
use crate::error::{Error, Result};
use crate::oci::Descriptor;

/// Up to this many bytes are worked on in memory.
const SMALL: u64 = 4 << 20;

/// The layers that those of one result are made from.
pub struct LayerStore<'a> {
    tools: &'a StoreAccess,
    source: Box<dyn Source>,
    runner: Option<Box<dyn Source>>,
}

impl<'a> LayerStore<'a> {
    pub fn new(tools: &'a StoreAccess, request: &Request<'_>) -> Result<Self> {
        let runner = request.options.log_runner.as_ref().map(|location| tools.places.source(location)).transpose()?;
        Ok(Self { tools, source: tools.places.source(request.source)?, runner })
    }
}

impl LayerSource for LayerStore<'_> {
    fn open_source(&self, layer: &Descriptor) -> Result<Box<dyn Read + Send>> {
        inherited(layer, self.source.as_ref(), self.tools)
    }

    fn open_runner(&self, layer: &Descriptor) -> Result<Box<dyn Read + Send>> {
        inherited(layer, self.runner.as_deref().unwrap_or(self.source.as_ref()), self.tools)
    }

    fn scratch(&self, size: u64) -> Result<Scratch> {
        if size <= SMALL {
            return Ok(Scratch::memory());
        }
        let directory = self.tools.cache.directory().map_or_else(std::env::temp_dir, Path::to_owned);
        Ok(Scratch::new(TemporaryFile { file: disk::scratch_file(&directory)?, directory }))
    }

    fn jobs(&self) -> NonZeroUsize {
        std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
    }
}

/// A file without a name, and the directory it is in.
#[derive(Debug)]
struct TemporaryFile {
    file: File,
    directory: PathBuf,
}

impl TemporaryFile {
    /// What failed is a directory that somebody has to make room in, so it is named.
    fn named<T>(&self, outcome: io::Result<T>) -> io::Result<T> {
        outcome.map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            _ => Error::io("could not use a temporary file in the directory", &self.directory, &error).into(),
        })
    }
}

impl Workspace for TemporaryFile {
    fn finish(self: Box<Self>) -> Arc<dyn MadeBytes> {
        Arc::new(*self)
    }
}

impl MadeBytes for TemporaryFile {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        self.named(self.file.read_at(into, at))
    }
}

impl Read for TemporaryFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.named((&self.file).read(into))
    }
}

impl Write for TemporaryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.named((&self.file).write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.named((&self.file).flush())
    }
}

impl Seek for TemporaryFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.named((&self.file).seek(to))
    }
}
