//! A tar as a sequence of blocks, read forwards only: from a stream of which every byte is hashed,
//! or from a file in which unwanted data is skipped by seeking.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

use super::limits::over;
use oci::error::{Error, Result};
use oci::{Hashed, Hasher};

pub(super) const BLOCK: usize = 512;

pub(super) struct Blocks<T>(T);

impl<R: BufRead> Blocks<HashedStream<R>> {
    /// The blocks of a stream, each byte hashed as it is read.
    pub(super) fn new(source: R) -> Self {
        Self(HashedStream::new(source))
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

impl<R: Read + Seek> Blocks<SeekableFile<R>> {
    /// The blocks of a file, from its beginning.
    pub(super) fn of_file(file: R) -> Result<Self> {
        SeekableFile::new(file).map(Self)
    }
}

impl<T: ByteSource> Blocks<T> {
    /// How many bytes have gone by.
    pub(super) fn offset(&self) -> u64 {
        self.0.offset()
    }

    /// The next block, or `None` where the blocks ends at its border.
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

/// Enough for a header and a small document behind it: more would be thrown away by most jumps.
const FILE_BUFFER: usize = 4 << 10;

/// Moves along a tar, forwards only. Both ways ahead say how many bytes were missing because the
/// tar has ended.
pub(super) trait ByteSource {
    /// How many bytes have gone by.
    fn offset(&self) -> u64;

    /// Shows the next `len` bytes to `look`, piece by piece.
    fn show(&mut self, len: u64, look: impl FnMut(&[u8])) -> Result<u64>;

    /// Goes `len` bytes ahead.
    fn skip(&mut self, len: u64) -> Result<u64>;
}

/// A stream. Nothing of it is copied, and every byte of it is hashed.
pub(super) struct HashedStream<R> {
    source: R,
    hasher: Hasher,
}

impl<R: BufRead> HashedStream<R> {
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

impl<R: BufRead> ByteSource for HashedStream<R> {
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
pub(super) struct SeekableFile<R> {
    source: BufReader<R>,
    at: u64,
    end: u64,
}

impl<R: Read + Seek> SeekableFile<R> {
    pub(super) fn new(mut source: R) -> Result<Self> {
        let end = source.seek(SeekFrom::End(0)).map_err(unread)?;
        source.rewind().map_err(unread)?;
        Ok(Self { source: BufReader::with_capacity(FILE_BUFFER, source), at: 0, end })
    }
}

impl<R: Read + Seek> ByteSource for SeekableFile<R> {
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
