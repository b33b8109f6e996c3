//! Deflate (RFC 1951) in pieces that stand for themselves: each ends at a byte and refers to
//! nothing before it. So the bytes depend on the piece alone, not on threads or write sizes.

use zlib_rs::{Deflate, DeflateFlush, Status};

use crate::error::{Error, Kind, Result};

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
