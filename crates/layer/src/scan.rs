//! The one pass over a layer: compressed bytes in, a verified index out.
//!
//! Three threads, each byte through each once: one reads and hashes what arrives, one decompresses,
//! one hashes the tar stream and walks it. Decompression alone decides how long it takes. Whatever
//! fails, the bytes are read to their end: if they are not the promised ones, that is the error,
//! since damage on the way explains everything else.

use std::io::Read;
use std::thread::{Builder, Scope, ScopedJoinHandle, scope};

use super::blocks::Blocks;
use super::decompress::{name, unpack};
use super::index::LayerIndex;
use super::limits::Limits;
use super::pipe::{PipeReader, PipeWriter, StreamState, pipe};
use super::walk::{WalkResult, walk};
use oci::error::{Error, Kind, Result};
use oci::{Compression, Descriptor, DiffId, Hashed, Hasher, LayerType};

/// Reads a layer to its end. Success means: `bytes` had the digest and the size that `of` states,
/// decompressed without fault to a tar stream that hashes to `diff_id` where one was given, and every
/// entry of it is in the index.
pub fn scan(bytes: impl Read + Send, of: &Descriptor, diff_id: Option<&DiffId>, limits: &Limits) -> Result<LayerIndex> {
    let unpacked = unpacked(bytes, of, limits, |tar| {
        let mut blocks = Blocks::new(tar);
        let listing = walk(&mut blocks, limits).map_err(|error| error.fact("tar offset", blocks.offset()))?;
        Ok((listing, blocks.finish()))
    })?;
    let (listing, tar) = unpacked.outcome;
    check_diff_id(&tar, of, diff_id)?;
    Ok(assemble(of, unpacked.packed, tar, unpacked.compression.unwrap_or(Compression::None), listing))
}

/// A layer whose bytes were the promised ones.
pub(super) struct Unpacked<T> {
    pub(super) packed: Hashed,
    /// `None` if the compression could not be detected, which no reader of the tar will have accepted.
    pub(super) compression: Option<Compression>,
    /// What came of the tar stream.
    pub(super) outcome: T,
}

/// Shows the tar stream of a layer to `read`, and checks digest and size of the layer's bytes even
/// where `read` stops early. What `read` made counts only if this succeeds.
pub(super) fn unpacked<T>(
    bytes: impl Read + Send,
    of: &Descriptor,
    limits: &Limits,
    read: impl FnOnce(PipeReader) -> Result<T>,
) -> Result<Unpacked<T>> {
    let (packed_in, packed_out) = pipe();
    let (tar_in, tar_out) = pipe();
    scope(|scope| {
        let arrival = start(scope, "layer-read", move || take_in(bytes, of, packed_in))?;
        let unpacking = start(scope, "layer-unpack", move || unpack(packed_out, of.size, tar_in, limits))?;
        let outcome = read(tar_out);
        let compression = join(unpacking);
        let packed = join(arrival)?;
        let outcome = outcome.map_err(|error| error.fact("layer", of.digest))?;
        Ok(Unpacked { packed, compression, outcome })
    })
}

pub(super) fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    Builder::new()
        .name(name.to_owned())
        .spawn_scoped(scope, work)
        .map_err(|error| Error::new(Kind::Io, "could not start a thread").cause(error))
}

/// The thread's result. A panic is a bug wherever it happens, so it goes on from here.
fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Reads and hashes everything, and passes it on as long as somebody listens.
fn take_in(mut bytes: impl Read, of: &Descriptor, mut packed: PipeWriter) -> Result<Hashed> {
    let mut hasher = Hasher::default();
    loop {
        let mut chunk = packed.chunk();
        let outcome = chunk.fill(&mut bytes);
        hasher.update(chunk.bytes());
        if hasher.len() > of.size {
            return Err(wrong_size(of, "layer is longer than its descriptor says", format!("more than {}", of.size)));
        }
        let unread = |error| Error::from_stream(error, "layer could not be read").fact("layer", of.digest);
        let stream = outcome.map_err(unread)?;
        // Without a listener only the digest is still of interest.
        let _ = packed.pass(chunk);
        if stream == StreamState::Ended {
            return check_arrival(hasher.finish(), of);
        }
    }
}

fn check_arrival(packed: Hashed, of: &Descriptor) -> Result<Hashed> {
    if packed.len != of.size {
        return Err(wrong_size(of, "layer is shorter than its descriptor says", packed.len.to_string()));
    }
    if packed.digest != of.digest {
        return Err(Error::integrity("layer does not match its digest")
            .fact("expected", of.digest)
            .fact("got", packed.digest));
    }
    Ok(packed)
}

fn wrong_size(of: &Descriptor, what: &str, got: String) -> Error {
    Error::integrity(what)
        .fact("layer", of.digest)
        .fact("expected", format!("{} bytes", of.size))
        .fact("got", got + " bytes")
}

fn check_diff_id(tar: &Hashed, of: &Descriptor, expected: Option<&DiffId>) -> Result<()> {
    match expected {
        Some(expected) if expected.0 != tar.digest => {
            Err(Error::integrity("uncompressed layer does not match the diff id in the image's config")
                .fact("layer", of.digest)
                .fact("expected", expected)
                .fact("got", tar.digest))
        }
        _ => Ok(()),
    }
}

fn assemble(of: &Descriptor, packed: Hashed, tar: Hashed, compression: Compression, listing: WalkResult) -> LayerIndex {
    let WalkResult { entries, captured, programs, digests, mut notes } = listing;
    if LayerType::of(&of.media_type).is_ok_and(|stated| stated.0 != compression) {
        notes.insert(0, format!("layer is {}, but its media type is {}", name(compression), of.media_type));
    }
    LayerIndex {
        digest: packed.digest,
        size: packed.len,
        diff_id: DiffId(tar.digest),
        unpacked: tar.len,
        compression,
        entries,
        captured,
        programs,
        digests,
        notes,
    }
}
