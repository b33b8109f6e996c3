//! What assembling needs from outside: layers of the source and of the log runner, and space to work
//! in.

use std::io::Read;
use std::num::NonZeroUsize;
use std::path::Path;

use super::cached_blob::inherited;
use super::disk;
use super::fetch::Request;
use super::{Source, StoreAccess};
use crate::assemble::{LayerSource, Nameless, Scratch};
use crate::error::Result;
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
        let folder = self.tools.cache.directory().map_or_else(std::env::temp_dir, Path::to_owned);
        Ok(Scratch::File(Nameless { file: disk::scratch_file(&folder)?, folder }))
    }

    fn jobs(&self) -> NonZeroUsize {
        std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
    }
}
