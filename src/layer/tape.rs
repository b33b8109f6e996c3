//! The tar as a tape of blocks, whatever moves it along. EntryData that nobody wants is passed over
//! where it lies, without being copied.

use std::io::{BufRead, Read, Seek};

use super::limits::over;
use super::transport::{Hashing, Seeking, Transport};
use crate::error::{Error, Result};
use crate::oci::Hashed;

pub(super) const BLOCK: usize = 512;

pub(super) struct Tape<T>(T);

impl<R: BufRead> Tape<Hashing<R>> {
    /// The tape of a stream, each byte hashed as it goes by.
    pub(super) fn new(source: R) -> Self {
        Self(Hashing::new(source))
    }

    pub(super) fn finish(self) -> Hashed {
        self.0.finish()
    }

    /// Runs to the end of the stream: the diff id covers what follows the tar's end marker, too.
    pub(super) fn run_out(&mut self, limit: u64) -> Result<()> {
        self.0.skip(limit)?;
        if self.0.is_at_end()? {
            Ok(())
        } else {
            Err(over("layer has data after the end of its tar", format!("{limit} bytes")))
        }
    }
}

impl<R: Read + Seek> Tape<Seeking<R>> {
    /// The tape of a file, from its beginning.
    pub(super) fn of_file(file: R) -> Result<Self> {
        Seeking::new(file).map(Self)
    }
}

impl<T: Transport> Tape<T> {
    /// How many bytes have gone by.
    pub(super) fn offset(&self) -> u64 {
        self.0.offset()
    }

    /// The next block, or `None` where the tape ends at its border.
    pub(super) fn block(&mut self) -> Result<Option<[u8; BLOCK]>> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        let missing = self.0.show(BLOCK as u64, |bytes| {
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

    /// Passes over `len` bytes of data and its padding, showing the data to `look`.
    pub(super) fn data(&mut self, len: u64, look: impl FnMut(&[u8])) -> Result<()> {
        let missing = self.0.show(len, look)?;
        self.end_of_data(len, missing)
    }

    /// Passes over `len` bytes of data and its padding.
    pub(super) fn skip(&mut self, len: u64) -> Result<()> {
        let missing = self.0.skip(len)?;
        self.end_of_data(len, missing)
    }

    /// The last padding of a tar may be missing, its data may not.
    fn end_of_data(&mut self, len: u64, missing: u64) -> Result<()> {
        if missing > 0 {
            return Err(Error::input("tar ends inside the data of an entry"));
        }
        let padding = len.wrapping_neg() % BLOCK as u64;
        self.0.skip(padding)?;
        Ok(())
    }
}
