//! A layer: compressed tar bytes, read once into an index of its entries, or written from a spec.
//!
//! [`scan()`] reads one. A single streaming pass checks the digest and the length of the compressed
//! bytes, decompresses them, checks the diff id, and lists the tar's entries together with
//! the few small files that later stages read. Nothing is ever unpacked, memory does not grow
//! with the layer's size, and whatever a layer can demand has a named limit.
//!
//! [`write()`] writes one: the same [`LayerSpec`] always gives the same bytes.
//!
//! ```
//! use layer::{Limits, scan};
//! use oci::{Compression, Descriptor, LayerType};
//!
//! // The two empty blocks that end a tar, and with them an empty layer.
//! let bytes = [0; 1024];
//! let descriptor = Descriptor::of(LayerType(Compression::None).media_type(), &bytes);
//! let index = scan(bytes.as_slice(), &descriptor, None, &Limits::default())?;
//! assert_eq!(index.entries.len(), 0);
//! # Ok::<(), oci::error::Error>(())
//! ```
//!
//! The tar rules are those of Go's `archive/tar`, because every container runtime reads layers
//! with it: an entry means here what it will mean there. Where archive readers disagree and no
//! honest tool writes such bytes, the layer is refused. [`list_archive`] reads archives on disk, which are
//! tars too, by the same rules: there is no second tar reader to disagree with.

// Tests put files where they like, and tables of cases are long.
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::too_many_lines))]

mod archive;
mod blocks;
mod capture;
mod contents;
mod decompress;
mod entry;
mod header;
mod index;
mod limits;
mod member;
mod path;
mod pax;
mod pipe;
mod reader;
mod scan;
mod sparse;
mod walk;
mod whiteout;
mod write;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use archive::list_archive;
pub use capture::Captured;
pub use contents::{DataRange, show_ranges};
pub use entry::{Entry, EntryKind};
pub use index::{FileDigest, FileDigests, IndexedProgram, LayerContents, LayerIndex};
pub use limits::Limits;
pub use path::RootPath;
pub use path::shown;
pub use scan::scan;
pub use write::{EntryData, LayerSpec, SourceData, SpecEntry, WriteOptions, WrittenLayer, write};

#[cfg(test)]
#[path = "../../../tests/it/support/skip.rs"]
mod skip;
