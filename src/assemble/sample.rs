//! A workshop in memory, for tests.

use std::collections::HashMap;
use std::io::{Cursor, Read};
use std::num::NonZeroUsize;

use super::{Scratch, Workshop};
use crate::error::{Error, Result};
use crate::oci::{Descriptor, Digest};

/// Has these layers and no others.
#[derive(Default)]
pub struct Stock(pub HashMap<Digest, Vec<u8>>);

impl Workshop for Stock {
    fn open_runner(&self, layer: &Descriptor) -> Result<Box<dyn Read + Send>> {
        self.open_source(layer)
    }

    fn open_source(&self, layer: &Descriptor) -> Result<Box<dyn Read + Send>> {
        let bytes = self.0.get(&layer.digest).cloned().ok_or_else(|| Error::input("not in stock"))?;
        Ok(Box::new(Cursor::new(bytes)))
    }

    fn scratch(&self, _: u64) -> Result<Scratch> {
        Ok(Scratch::memory())
    }

    fn jobs(&self) -> NonZeroUsize {
        NonZeroUsize::MIN
    }
}
