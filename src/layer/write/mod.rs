//! From a draft of a layer to the bytes of a layer: always the same bytes.
//!
//! The tar: entries in the order of the [`LayerSpec`], ustar headers with PAX records only where
//! needed, numeric owners, one time for all, two zero blocks at the end. The gzip stream: see
//! `pack`. Files of any size go by in pieces; memory does not grow with them.

mod block;
mod check;
mod crew;
mod draft;
mod gather;
mod header;
mod links;
mod name;
mod pack;
mod pax;

#[cfg(test)]
mod foreign;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod random;
#[cfg(test)]
mod sketch;
#[cfg(test)]
mod sources;
#[cfg(test)]
mod tests;

use std::io::{Read, Seek, Write};
use std::num::NonZeroUsize;

pub use draft::{EntryData, LayerSpec, SpecEntry};
pub use gather::SourceData;

use super::tape::BLOCK;
use crate::error::{Error, Result};
use crate::oci::{Compression, Descriptor, DiffId, Digest, LayerType};
use pack::Packer;

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
/// `out` got before a failure is of no use.
pub fn write<S: Read + Write + Seek>(
    draft: &LayerSpec,
    gathered: &mut SourceData<S>,
    manner: WriteOptions,
    out: impl Write,
) -> Result<WrittenLayer> {
    if manner.mtime == i64::MIN {
        return Err(Error::usage("time of a layer's entries is too long ago"));
    }
    std::thread::scope(|scope| {
        let mut tar = Packer::new(out, scope, manner.jobs)?;
        for entry in draft.entries() {
            tar.feed(&header::of(&entry.entry, manner.mtime)?)?;
            content(entry, gathered, &mut tar)?;
        }
        tar.feed(&[0; 2 * BLOCK])?;
        tar.finish()
    })
}

fn content<S: Read + Write + Seek>(
    entry: &SpecEntry,
    gathered: &mut SourceData<S>,
    tar: &mut Packer<'_, '_, impl Write>,
) -> Result<()> {
    match &entry.data {
        EntryData::None => return Ok(()),
        EntryData::Bytes(bytes) => tar.feed(bytes)?,
        EntryData::FromLayer(_) => gathered.show(entry, |bytes| tar.feed(bytes))?,
    }
    let block = BLOCK as u64;
    let padding = header::size(&entry.entry.kind).wrapping_neg() % block;
    tar.feed([0; BLOCK].get(..usize::try_from(padding).unwrap_or(0)).unwrap_or_default())
}
