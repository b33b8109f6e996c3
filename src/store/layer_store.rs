//! What assembling needs from outside: layers of the source and of the log runner, and space to work
//! in.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{Partial, Receiving};
use super::fetch::Request;
use super::{Notices, Source, StoreAccess, Stream, disk};
use crate::assemble::{BlobOrigin, LayerSource, MadeBytes, NeededBlob, Scratch, Workspace};
use oci::error::{Error, Result};
use oci::{Descriptor, Hashed, Hasher, Location};

/// Up to this many bytes are worked on in memory.
const SMALL: u64 = 4 << 20;

/// The layers that those of one result are made from.
pub struct LayerStore<'a> {
    tools: &'a StoreAccess,
    source: Box<dyn Source>,
    base: Location,
    runner: Option<Box<dyn Source>>,
}

impl<'a> LayerStore<'a> {
    pub fn new(tools: &'a StoreAccess, request: &Request<'_>) -> Result<Self> {
        let runner = request.options.log_runner.as_ref().map(|location| tools.places.source(location)).transpose()?;
        Ok(Self { tools, source: tools.places.source(request.source)?, base: request.base.clone(), runner })
    }

    /// The bytes of a blob of the result.
    pub fn open(&self, blob: &NeededBlob) -> Result<Stream> {
        match &blob.origin {
            BlobOrigin::Source => inherited(&blob.descriptor, self.source.as_ref(), self.tools),
            BlobOrigin::Base => inherited(&blob.descriptor, self.tools.places.source(&self.base)?.as_ref(), self.tools),
            BlobOrigin::Made(made) => Ok(Box::new(made.open())),
        }
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

/// A blob that comes wrong is fetched again this often.
pub(super) const REFETCHES: u32 = 2;

/// An inherited blob: out of the cache, where it is put first if it is not there. What is sent on
/// from there has been verified, so a damaged download never reaches a target.
pub(super) fn inherited(of: &Descriptor, place: &dyn Source, tools: &StoreAccess) -> Result<Stream> {
    let kept = match tools.cache.receive(of)? {
        Receiving::Present(file) => Some(file),
        Receiving::Nothing => None,
        Receiving::Partial(partial) => blob(of, place, partial, &tools.notices)?,
    };
    match kept {
        Some(file) => Ok(Box::new(file)),
        None => place.open(of, 0),
    }
}

/// Receives the whole blob, verified; `None` where the cache could not keep it.
fn blob(of: &Descriptor, place: &dyn Source, mut partial: Partial, notices: &Notices) -> Result<Option<File>> {
    for _ in 0..REFETCHES {
        let hashed = once(of, place, &mut partial)?;
        if is_right(of, hashed) {
            return partial.commit(hashed);
        }
        notices.warn(format!("blob {}: digest mismatch, fetching again", of.digest));
        partial.restart();
    }
    let hashed = once(of, place, &mut partial)?;
    if is_right(of, hashed) {
        return partial.commit(hashed);
    }
    partial.restart();
    Err(Error::integrity("blob does not match its digest").fact("expected", of.digest).fact("got", hashed.digest))
}

fn is_right(of: &Descriptor, hashed: Hashed) -> bool {
    hashed == Hashed { digest: of.digest, len: of.size }
}

fn once(of: &Descriptor, place: &dyn Source, partial: &mut Partial) -> Result<Hashed> {
    let failed = |error| Error::from_stream(error, "blob could not be read").fact("digest", of.digest);
    let mut hasher = Hasher::default();
    std::io::copy(&mut partial.prefix()?, &mut hasher).map_err(failed)?;
    let mut stream = place.open(of, hasher.len().min(of.size))?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        match stream.read(&mut buffer).map_err(failed)? {
            0 => return Ok(hasher.finish()),
            read => {
                let bytes = buffer.get(..read).unwrap_or_default();
                hasher.update(bytes);
                partial.append(bytes);
            }
        }
    }
}
