//! How the bytes of a tar go by: as a stream of which every byte is hashed, or as a file in which
//! what nobody wants to see is jumped over.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

use crate::error::{Error, Result};
use crate::oci::{Hashed, Hasher};

/// Enough for a header and a small document behind it: more would be thrown away by most jumps.
const FILE_BUFFER: usize = 4 << 10;

/// Moves along a tar, forwards only. Both ways ahead say how many bytes were missing because the
/// tar has ended.
pub(super) trait Transport {
    /// How many bytes have gone by.
    fn offset(&self) -> u64;

    /// Shows the next `len` bytes to `look`, piece by piece.
    fn show(&mut self, len: u64, look: impl FnMut(&[u8])) -> Result<u64>;

    /// Goes `len` bytes ahead.
    fn skip(&mut self, len: u64) -> Result<u64>;
}

/// A stream. Nothing of it is copied, and nothing goes by without being hashed.
pub(super) struct Hashing<R> {
    source: R,
    hasher: Hasher,
}

impl<R: BufRead> Hashing<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, hasher: Hasher::default() }
    }

    pub(super) fn is_at_end(&mut self) -> Result<bool> {
        Ok(fill(&mut self.source, "layer could not be read")?.is_empty())
    }

    pub(super) fn finish(self) -> Hashed {
        self.hasher.finish()
    }
}

impl<R: BufRead> Transport for Hashing<R> {
    fn offset(&self) -> u64 {
        self.hasher.len()
    }

    fn show(&mut self, len: u64, mut look: impl FnMut(&[u8])) -> Result<u64> {
        let Self { source, hasher } = self;
        advance(source, len, "layer could not be read", |bytes| {
            hasher.update(bytes);
            look(bytes);
        })
    }

    fn skip(&mut self, len: u64) -> Result<u64> {
        self.show(len, |_| {})
    }
}

/// A file. What is skipped is not read.
pub(super) struct Seeking<R> {
    source: BufReader<R>,
    at: u64,
    end: u64,
}

impl<R: Read + Seek> Seeking<R> {
    pub(super) fn new(mut source: R) -> Result<Self> {
        let end = source.seek(SeekFrom::End(0)).map_err(unread)?;
        source.rewind().map_err(unread)?;
        Ok(Self { source: BufReader::with_capacity(FILE_BUFFER, source), at: 0, end })
    }
}

impl<R: Read + Seek> Transport for Seeking<R> {
    fn offset(&self) -> u64 {
        self.at
    }

    fn show(&mut self, len: u64, look: impl FnMut(&[u8])) -> Result<u64> {
        let there = len.min(self.end - self.at);
        if advance(&mut self.source, there, UNREAD, look)? > 0 {
            return Err(Error::input("archive became shorter while it was read"));
        }
        self.at += there;
        Ok(len - there)
    }

    fn skip(&mut self, len: u64) -> Result<u64> {
        let there = len.min(self.end - self.at);
        // No file is longer than `i64` can say, so neither is a jump inside one.
        self.source.seek_relative(i64::try_from(there).unwrap_or(i64::MAX)).map_err(unread)?;
        self.at += there;
        Ok(len - there)
    }
}

const UNREAD: &str = "archive could not be read";

fn unread(error: std::io::Error) -> Error {
    Error::from_stream(error, UNREAD)
}

/// Shows `len` bytes of `source`, or all up to its end; says how many were missing.
fn advance(source: &mut impl BufRead, len: u64, unread: &str, mut look: impl FnMut(&[u8])) -> Result<u64> {
    let mut missing = len;
    while missing > 0 {
        let bytes = fill(source, unread)?;
        let taken = bytes.len().min(usize::try_from(missing).unwrap_or(usize::MAX));
        let Some(bytes) = bytes.get(..taken).filter(|bytes| !bytes.is_empty()) else {
            break;
        };
        look(bytes);
        source.consume(taken);
        missing -= taken as u64;
    }
    Ok(missing)
}

fn fill<'a>(source: &'a mut impl BufRead, unread: &str) -> Result<&'a [u8]> {
    source.fill_buf().map_err(|error| Error::from_stream(error, unread))
}
