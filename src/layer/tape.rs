//! The tar stream: blocks in order, each byte hashed as it goes by. Data that nobody wants is
//! passed over where it lies, without being copied.

use std::io::BufRead;

use super::limits::over;
use crate::error::{Error, Result};
use crate::oci::{Hashed, Hasher};

pub(super) const BLOCK: usize = 512;

pub(super) struct Tape<R> {
    source: R,
    hasher: Hasher,
}

impl<R: BufRead> Tape<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, hasher: Hasher::default() }
    }

    /// How many bytes have gone by.
    pub(super) const fn offset(&self) -> u64 {
        self.hasher.len()
    }

    pub(super) fn finish(self) -> Hashed {
        self.hasher.finish()
    }

    /// The next block, or `None` where the stream ends at its border.
    pub(super) fn block(&mut self) -> Result<Option<[u8; BLOCK]>> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        let missing = self.advance(BLOCK as u64, |bytes| {
            if let Some(part) = block.get_mut(filled..filled + bytes.len()) {
                part.copy_from_slice(bytes);
            }
            filled += bytes.len();
        })?;
        match missing {
            0 => Ok(Some(block)),
            all if all == BLOCK as u64 => Ok(None),
            _ => Err(Error::input("tar ends inside a header")),
        }
    }

    /// Passes over `len` bytes of data and its padding, showing the data to `look`. The last
    /// padding of a tar may be missing, its data may not.
    pub(super) fn data(&mut self, len: u64, look: impl FnMut(&[u8])) -> Result<()> {
        if self.advance(len, look)? > 0 {
            return Err(Error::input("tar ends inside the data of an entry"));
        }
        let padding = len.wrapping_neg() % BLOCK as u64;
        self.advance(padding, |_| {})?;
        Ok(())
    }

    /// Runs to the end of the stream: the diff id covers what follows the tar's end marker, too.
    pub(super) fn run_out(&mut self, limit: u64) -> Result<()> {
        self.advance(limit, |_| {})?;
        if fill(&mut self.source)?.is_empty() {
            Ok(())
        } else {
            Err(over("layer has data after the end of its tar", format!("{limit} bytes")))
        }
    }

    /// Goes `len` bytes ahead, or to the end; says how many bytes were missing.
    fn advance(&mut self, len: u64, mut look: impl FnMut(&[u8])) -> Result<u64> {
        let mut missing = len;
        while missing > 0 {
            let bytes = fill(&mut self.source)?;
            let taken = bytes.len().min(usize::try_from(missing).unwrap_or(usize::MAX));
            let Some(bytes) = bytes.get(..taken).filter(|bytes| !bytes.is_empty()) else {
                break;
            };
            self.hasher.update(bytes);
            look(bytes);
            self.source.consume(taken);
            missing -= taken as u64;
        }
        Ok(missing)
    }
}

fn fill(source: &mut impl BufRead) -> Result<&[u8]> {
    source.fill_buf().map_err(|error| Error::from_stream(error, "layer could not be read"))
}
