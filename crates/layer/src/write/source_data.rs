//! Content copied from source layers to a new one. A layer is a stream, and its data is needed
//! in another order, so it is kept in scratch space.

use std::collections::{BTreeSet, HashMap};
use std::io::{Read, Seek, SeekFrom, Write};

use super::layer_spec::{LayerSpec, SpecEntry};
use crate::contents::{DataRange, show_ranges};
use crate::limits::Limits;
use oci::error::{Error, Result};
use oci::{Descriptor, Digest};

const PIECE: usize = 64 << 10;

/// Content of source layers, in scratch space that nothing else writes to.
pub struct SourceData<S> {
    scratch: S,
    /// Where in the scratch space a range of a layer is.
    places: HashMap<(Digest, DataRange), u64>,
    end: u64,
}

impl<S: Read + Write + Seek> SourceData<S> {
    /// Nothing yet. The scratch space is overwritten from its beginning.
    pub fn new(scratch: S) -> Self {
        Self { scratch, places: HashMap::new(), end: 0 }
    }

    /// Copies what `spec` needs of one source layer, whose compressed bytes are `blob`.
    /// Success means: digest and size of the bytes are those of `of`, and all that the spec needs
    /// of it is there. After a failure nothing of the layer counts as gathered.
    pub fn gather(&mut self, spec: &LayerSpec, blob: impl Read + Send, of: &Descriptor, limits: &Limits) -> Result<()> {
        let wanted = wanted(spec, of.digest);
        let start = self.end;
        self.scratch.seek(SeekFrom::Start(start)).map_err(scratch_failed)?;
        let scratch = &mut self.scratch;
        show_ranges(blob, of, &wanted, limits, |_, bytes| scratch.write_all(bytes).map_err(scratch_failed))?;
        self.scratch.flush().map_err(scratch_failed)?;
        for range in wanted {
            self.places.insert((of.digest, range), self.end);
            self.end += range.size;
        }
        Ok(())
    }

    /// Shows the content of an entry, piece by piece.
    pub(super) fn show(&mut self, entry: &SpecEntry, mut look: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let Some((layer, range)) = entry.source() else { return Ok(()) };
        let place = self.places.get(&(layer, range)).ok_or_else(|| {
            let missing = Error::input("content of a file was not gathered before the layer was written");
            missing.fact("entry", &entry.entry.path).fact("layer", layer)
        })?;
        self.scratch.seek(SeekFrom::Start(*place)).map_err(scratch_failed)?;
        let at_most = |missing| usize::try_from(missing).unwrap_or(PIECE).min(PIECE);
        let mut buffer = vec![0; at_most(range.size)];
        let mut missing = range.size;
        while missing > 0 {
            let most = at_most(missing);
            let piece = buffer.get_mut(..most).unwrap_or_default();
            self.scratch.read_exact(piece).map_err(scratch_failed)?;
            look(piece)?;
            missing -= most as u64;
        }
        Ok(())
    }
}

/// The ranges of a layer that the spec needs, in the order of its tar.
fn wanted(spec: &LayerSpec, layer: Digest) -> Vec<DataRange> {
    let of_layer = |entry: &SpecEntry| entry.source().filter(|(source, _)| *source == layer);
    let wanted: BTreeSet<DataRange> = spec.entries().iter().filter_map(of_layer).map(|(_, range)| range).collect();
    wanted.into_iter().collect()
}

fn scratch_failed(error: std::io::Error) -> Error {
    Error::from_stream(error, "scratch space could not be written or read")
}
