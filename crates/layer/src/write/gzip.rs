//! The gzip stream of a layer (RFC 1952): one member, no name, no time, the same bytes always.
//!
//! A small tar is stored, so that no compressor can ever change its digest; a larger one is
//! compressed in blocks of fixed size. How the tar is fed, and on how many threads it is
//! compressed, changes nothing.

use std::io::Write;
use std::num::NonZeroUsize;
use std::thread::Scope;

use flate2::Crc;
use zlib_rs::{Deflate, DeflateFlush, Status};

use super::WrittenLayer;
use super::compress_pool::CompressPool;
use oci::error::{Error, Kind, Result};
use oci::{DiffId, Hasher};

/// Method 8 (deflate), no flags, no time, no extra flags, system 255 (not said).
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// A tar of up to so many bytes is stored.
const SMALL: usize = 256 << 10;

/// Takes a tar stream in pieces of any size.
pub(super) struct GzipWriter<'scope, 'env, W> {
    out: W,
    packed: Hasher,
    tar: Hasher,
    crc: Crc,
    block: Vec<u8>,
    pool: CompressPool<'scope, 'env>,
}

impl<'scope, 'env, W: Write> GzipWriter<'scope, 'env, W> {
    pub(super) fn new(out: W, scope: &'scope Scope<'scope, 'env>, jobs: NonZeroUsize) -> Result<Self> {
        let mut stream = Self {
            out,
            packed: Hasher::default(),
            tar: Hasher::default(),
            crc: Crc::new(),
            block: Vec::new(),
            pool: CompressPool::new(scope, jobs),
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
        if self.pool.is_fresh() && self.block.len() <= SMALL {
            let stored = store(&self.block);
            self.put(&stored)?;
        } else {
            self.give_block()?;
        }
        while let Some(packed) = self.pool.take()? {
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
        match self.pool.give(block)? {
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

/// What is compressed at a time. Part of the format: other sizes give other digests.
pub(super) const BLOCK: usize = 1 << 20;
const LEVEL: i32 = 6;
const WINDOW_BITS: u8 = 15;
/// More than a block can become. The same for every block, since the compressor looks at it.
const ROOM: usize = BLOCK + BLOCK / 8;

/// An empty last block: the end of a deflate stream.
pub(super) const END: [u8; 2] = [0x03, 0x00];

const STORED: usize = u16::MAX as usize;

/// The one compressor, called once for the block and never used again.
pub(super) fn compress(block: &[u8]) -> Result<Vec<u8>> {
    let mut packed = vec![0; ROOM];
    let mut deflate = Deflate::new(LEVEL, false, WINDOW_BITS);
    let status = deflate.compress(block, &mut packed, DeflateFlush::FullFlush);
    let made = usize::try_from(deflate.total_out()).unwrap_or(usize::MAX);
    // With room left, nothing of the block is still inside the compressor.
    if status == Ok(Status::Ok) && deflate.total_in() == block.len() as u64 && made < ROOM {
        packed.truncate(made);
        Ok(packed)
    } else {
        Err(Error::new(Kind::Io, "layer could not be compressed"))
    }
}

/// The bytes as they are, in blocks that say so. No compressor has a say in these.
pub(super) fn store(bytes: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(bytes.len() + bytes.len() / STORED * 5 + 8);
    for chunk in bytes.chunks(STORED) {
        // Cannot fail: chunks are no longer than that.
        let len = u16::try_from(chunk.len()).unwrap_or(u16::MAX);
        stored.push(0);
        stored.extend_from_slice(&len.to_le_bytes());
        stored.extend_from_slice(&(!len).to_le_bytes());
        stored.extend_from_slice(chunk);
    }
    stored
}
