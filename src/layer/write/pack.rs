//! The gzip stream of a layer (RFC 1952): one member, no name, no time, the same bytes always.
//!
//! A small tar is stored, so that no compressor can ever change its digest; a larger one is
//! compressed in blocks of fixed size. How the tar is fed, and on how many threads it is
//! compressed, changes nothing.

use std::io::Write;
use std::num::NonZeroUsize;
use std::thread::Scope;

use flate2::Crc;

use super::WrittenLayer;
use super::block::{BLOCK, END, store};
use super::crew::Crew;
use crate::error::{Error, Result};
use crate::oci::{DiffId, Hasher};

/// Method 8 (deflate), no flags, no time, no extra flags, system 255 (not said).
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// A tar of up to so many bytes is stored.
const SMALL: usize = 256 << 10;

/// Takes a tar stream in pieces of any size.
pub(super) struct Packer<'scope, 'env, W> {
    out: W,
    packed: Hasher,
    tar: Hasher,
    crc: Crc,
    block: Vec<u8>,
    crew: Crew<'scope, 'env>,
}

impl<'scope, 'env, W: Write> Packer<'scope, 'env, W> {
    pub(super) fn new(out: W, scope: &'scope Scope<'scope, 'env>, jobs: NonZeroUsize) -> Result<Self> {
        let mut stream = Self {
            out,
            packed: Hasher::default(),
            tar: Hasher::default(),
            crc: Crc::new(),
            block: Vec::new(),
            crew: Crew::new(scope, jobs),
        };
        stream.put(&HEADER)?;
        Ok(stream)
    }

    /// The next bytes of the tar.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.tar.update(bytes);
        self.crc.update(bytes);
        while !bytes.is_empty() {
            // A full block is only given away when more follows: the last one may be all there is.
            if self.block.len() == BLOCK {
                self.give_block()?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - self.block.len()));
            self.block.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    /// Ends the stream. All of it has reached `out`, which is flushed but not closed.
    pub(super) fn finish(mut self) -> Result<WrittenLayer> {
        if self.crew.is_fresh() && self.block.len() <= SMALL {
            let stored = store(&self.block);
            self.put(&stored)?;
        } else {
            self.give_block()?;
        }
        while let Some(packed) = self.crew.take()? {
            self.put(&packed)?;
        }
        self.put(&END)?;
        // As gzip has it: the sum, and the length modulo 2^32.
        let trailer = [self.crc.sum().to_le_bytes(), self.crc.amount().to_le_bytes()].concat();
        self.put(&trailer)?;
        self.out.flush().map_err(unwritten)?;
        let (packed, tar) = (self.packed.finish(), self.tar.finish());
        Ok(WrittenLayer { digest: packed.digest, size: packed.len, diff_id: DiffId(tar.digest), unpacked: tar.len })
    }

    fn give_block(&mut self) -> Result<()> {
        let block = std::mem::replace(&mut self.block, Vec::with_capacity(BLOCK));
        match self.crew.give(block)? {
            Some(packed) => self.put(&packed),
            None => Ok(()),
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.packed.update(bytes);
        self.out.write_all(bytes).map_err(unwritten)
    }
}

fn unwritten(error: std::io::Error) -> Error {
    Error::from_stream(error, "layer could not be written")
}
