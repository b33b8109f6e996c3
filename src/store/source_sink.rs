//! The one interface for registry and disk.

use std::io::Read;

use crate::error::Result;
use crate::oci::{Descriptor, Digest, Document, RepositoryName};

/// Bytes on their way. Not verified: whoever reads them hashes them.
pub type Stream = Box<dyn Read + Send>;

/// A place that an image is read from.
pub trait Source: Send + Sync {
    /// The document that the location names. A tag is resolved here, once; success means that
    /// the bytes are a manifest or an index, and that they hash to the digest where one was given.
    fn top(&self) -> Result<Document>;

    /// The manifest or index that `of` describes; its bytes hash to `of.digest`.
    fn document(&self, of: &Descriptor) -> Result<Document>;

    /// The bytes of the blob from offset `from` on. Faults on the way are retried inside the
    /// stream; what it yields may still be wrong, and is never longer than `of.size - from`
    /// plus what was in flight.
    fn open(&self, of: &Descriptor, from: u64) -> Result<Stream>;

    /// The repository that a registry could mount blobs from; `None` for places on disk.
    fn repository(&self) -> Option<&RepositoryName>;
}

/// A place that an image is written to. Blobs first, then documents, the tag last: until
/// [`Sink::tag`] succeeds, nobody can see that anything was written.
pub trait Sink: Send + Sync {
    /// The digest that the target names now, or `None` where there is nothing.
    fn current(&self) -> Result<Option<Digest>>;

    /// Makes sure that the blob is there. Success means that the place has verified its digest.
    fn put_blob(&self, blob: &Blob<'_>) -> Result<Delivery>;

    /// Puts a manifest by its digest: the child of an index.
    fn put_document(&self, document: &Document) -> Result<()>;

    /// Puts `top` and makes the target name it, atomically.
    fn tag(&self, top: &Document) -> Result<()>;
}

/// A blob that a sink should have.
pub struct Blob<'a> {
    pub descriptor: &'a Descriptor,
    /// Repositories, possibly of other registries, that have it: candidates for a mount.
    pub held_by: &'a [RepositoryName],
    /// Opens the bytes from the start; called again for each try.
    pub open: &'a (dyn Fn() -> Result<Stream> + Sync),
}

/// How a blob got to where it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    AlreadyThere,
    Mounted,
    Sent,
}
