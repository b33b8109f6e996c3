//! A pipe of buffers between two threads. A fixed set is reused, so memory stays the same
//! however large the layer is and however different the two threads' speeds are.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, SendError, SyncSender, sync_channel};

use oci::error::Error;

const CHUNKS: usize = 4;
const CHUNK_SIZE: usize = 256 << 10;

/// One buffer, of which the first `len` bytes count.
pub(super) struct Chunk {
    bytes: Box<[u8]>,
    len: usize,
}

/// Whether a stream goes on after what was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamState {
    GoesOn,
    Ended,
}

impl Chunk {
    fn new() -> Self {
        Self { bytes: vec![0; CHUNK_SIZE].into_boxed_slice(), len: 0 }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Reads until the chunk is full or the stream has ended. What came before an error counts.
    pub(super) fn fill(&mut self, from: &mut impl Read) -> io::Result<StreamState> {
        self.len = 0;
        while let Some(free) = self.bytes.get_mut(self.len..).filter(|free| !free.is_empty()) {
            match from.read(free) {
                Ok(0) => return Ok(StreamState::Ended),
                // A reader that claims more than it was given room for is wrong; do not follow it.
                Ok(read) => self.len = (self.len + read).min(CHUNK_SIZE),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(StreamState::GoesOn)
    }
}

/// Whether the other end still reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PipePeer {
    There,
    Gone,
}

/// The end that is written to.
pub(super) struct PipeWriter {
    full: SyncSender<Result<Chunk, Error>>,
    empty: Receiver<Chunk>,
    spare: Option<Chunk>,
}

/// The end that is read from. It ends when the feeder is dropped, or with the feeder's error.
pub(super) struct PipeReader {
    full: Receiver<Result<Chunk, Error>>,
    empty: SyncSender<Chunk>,
    chunk: Option<Chunk>,
    at: usize,
}

pub(super) fn pipe() -> (PipeWriter, PipeReader) {
    let (full_in, full_out) = sync_channel(CHUNKS + 1);
    let (empty_in, empty_out) = sync_channel(CHUNKS);
    for _ in 0..CHUNKS {
        // Cannot fail: both ends are here, and there is room.
        let _ = empty_in.send(Chunk::new());
    }
    (
        PipeWriter { full: full_in, empty: empty_out, spare: None },
        PipeReader { full: full_out, empty: empty_in, chunk: None, at: 0 },
    )
}

impl PipeWriter {
    /// A chunk to fill; waits until the reader has given one back. Always yields one, so that a
    /// stream can be read to its end although the reader is gone.
    pub(super) fn chunk(&mut self) -> Chunk {
        self.spare.take().or_else(|| self.empty.recv().ok()).unwrap_or_else(Chunk::new)
    }

    pub(super) fn pass(&mut self, chunk: Chunk) -> PipePeer {
        match self.full.send(Ok(chunk)) {
            Ok(()) => PipePeer::There,
            Err(SendError(unwanted)) => {
                self.spare = unwanted.ok();
                PipePeer::Gone
            }
        }
    }

    /// Ends the stream with an error, which the reader meets after all bytes that came before.
    pub(super) fn fail(self, error: Error) {
        // Nobody there to read it: then another error has already ended the scan.
        let _ = self.full.send(Err(error));
    }
}

impl BufRead for PipeReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.chunk.as_ref().is_none_or(|chunk| self.at >= chunk.len) {
            if let Some(done) = self.chunk.take() {
                // The feeder may be gone; then the chunk is of no more use.
                let _ = self.empty.send(done);
            }
            match self.full.recv() {
                Ok(next) => (self.chunk, self.at) = (Some(next?), 0),
                Err(_) => return Ok(&[]),
            }
        }
        Ok(self.chunk.as_ref().and_then(|chunk| chunk.bytes().get(self.at..)).unwrap_or_default())
    }

    fn consume(&mut self, amount: usize) {
        self.at += amount;
    }
}

impl Read for PipeReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(into)?;
        self.consume(read);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_in_order_and_the_error_after_them() {
        let sent: Vec<u8> = (0..=250).cycle().take(3 * CHUNK_SIZE + 7).collect();
        let (mut feeder, mut drain) = pipe();
        let source = sent.clone();
        let thread = std::thread::spawn(move || {
            let mut source = source.as_slice();
            loop {
                let mut chunk = feeder.chunk();
                let stream = chunk.fill(&mut source).unwrap();
                assert_eq!(feeder.pass(chunk), PipePeer::There);
                if stream == StreamState::Ended {
                    return feeder.fail(Error::input("the end"));
                }
            }
        });
        let mut got = Vec::new();
        let error = drain.read_to_end(&mut got).unwrap_err();
        assert_eq!(got, sent);
        assert_eq!(Error::from_stream(error, "").what(), "the end");
        assert_eq!(drain.read(&mut [0]).unwrap(), 0, "the stream stays ended");
        thread.join().unwrap();
    }

    #[test]
    fn a_feeder_without_listener_goes_on() {
        let (mut feeder, drain) = pipe();
        drop(drain);
        for _ in 0..3 * CHUNKS {
            let chunk = feeder.chunk();
            assert_eq!(feeder.pass(chunk), PipePeer::Gone);
        }
    }
}
