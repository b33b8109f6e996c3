//! From a spec of a layer to the bytes of a layer: always the same bytes.
//!
//! The tar: entries in the order of the [`LayerSpec`], ustar headers with PAX records only where
//! needed, numeric owners, one time for all, two zero blocks at the end. The gzip stream: see
//! `gzip`. Files of any size are streamed; memory does not grow with them.

mod check;
mod compress_pool;
mod gzip;
mod layer_spec;
mod source_data;
mod ustar;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::io::{Read, Seek, Write};
use std::num::NonZeroUsize;

pub use layer_spec::{EntryData, LayerSpec, SpecEntry};
pub use source_data::SourceData;

use super::blocks::BLOCK;
use gzip::GzipWriter;
use oci::error::{Error, Result};
use oci::{Compression, Descriptor, DiffId, Digest, LayerType};
use ustar::{data_size, header_blocks};

/// A layer that was written to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenLayer {
    pub digest: Digest,
    pub size: u64,
    pub diff_id: DiffId,
    /// The bytes of its tar stream.
    pub unpacked: u64,
}

impl WrittenLayer {
    #[must_use]
    pub fn descriptor(&self) -> Descriptor {
        Descriptor::new(LayerType(Compression::Gzip).media_type(), self.digest, self.size)
    }
}

/// How a layer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// The time of every entry, in seconds since 1970.
    pub mtime: i64,
    /// How many threads compress. It changes the speed, not the bytes.
    pub jobs: NonZeroUsize,
}

/// Writes the layer to `out`. Success means: all of it was taken by `out`, which was flushed. What
/// `out` got before a failure must be discarded.
pub fn write<S: Read + Write + Seek>(
    spec: &LayerSpec,
    source_data: &mut SourceData<S>,
    options: WriteOptions,
    out: impl Write,
) -> Result<WrittenLayer> {
    if options.mtime == i64::MIN {
        return Err(Error::usage("modification time of a layer's entries is out of range"));
    }
    std::thread::scope(|scope| {
        let mut tar = GzipWriter::new(out, scope, options.jobs)?;
        for entry in spec.entries() {
            tar.feed(&header_blocks(&entry.entry, options.mtime)?)?;
            content(entry, source_data, &mut tar)?;
        }
        tar.feed(&[0; 2 * BLOCK])?;
        tar.finish()
    })
}

fn content<S: Read + Write + Seek>(
    entry: &SpecEntry,
    source_data: &mut SourceData<S>,
    tar: &mut GzipWriter<'_, '_, impl Write>,
) -> Result<()> {
    match &entry.data {
        EntryData::None => return Ok(()),
        EntryData::Bytes(bytes) => tar.feed(bytes)?,
        EntryData::FromLayer(_) => source_data.show(entry, |bytes| tar.feed(bytes))?,
    }
    let block = BLOCK as u64;
    let padding = data_size(&entry.entry.kind).wrapping_neg() % block;
    tar.feed([0; BLOCK].get(..usize::try_from(padding).unwrap_or(0)).unwrap_or_default())
}
