//! Layers in memory, for tests.

use std::collections::HashMap;
use std::io::{Cursor, Read};
use std::num::NonZeroUsize;

use super::{LayerSource, Scratch};
use oci::error::{Error, Result};
use oci::{Descriptor, Digest};

/// Has these layers and no others.
#[derive(Default)]
pub struct LayersInMemory(pub HashMap<Digest, Vec<u8>>);

impl LayerSource for LayersInMemory {
    fn open_runner(&self, layer: &Descriptor) -> Result<Box<dyn Read + Send>> {
        self.open_source(layer)
    }

    fn open_source(&self, layer: &Descriptor) -> Result<Box<dyn Read + Send>> {
        let bytes = self.0.get(&layer.digest).cloned().ok_or_else(|| Error::input("there is no such layer"))?;
        Ok(Box::new(Cursor::new(bytes)))
    }

    fn scratch(&self, _: u64) -> Result<Scratch> {
        Ok(Scratch::memory())
    }

    fn jobs(&self) -> NonZeroUsize {
        NonZeroUsize::MIN
    }
}
