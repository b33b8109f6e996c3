//! The body of an upload: bytes from a blocking reader, handed to the HTTP stack as it takes them.
//!
//! A thread reads the blob and puts its pieces into a short channel: memory stays constant
//! whatever the size of the blob.

use std::io::{self, Read};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::store::{Stream, Traffic};
use oci::error::{Error, Result};

const PIECE: usize = 128 * 1024;
/// How many pieces may lie between the reader and the registry.
const AHEAD: usize = 4;

/// Watches a body on its way.
pub(super) struct Pump(Arc<Mutex<BodyState>>);

struct BodyState {
    phase: Phase,
    since: Instant,
    failure: Option<Error>,
}

/// What the pump is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The reader of the blob.
    Source,
    /// The registry.
    Registry,
    /// Nothing: all bytes are handed over.
    Done,
}

impl Pump {
    /// A body of exactly `size` bytes of `stream`. A stream that fails, or has another size, makes
    /// the request fail; [`Pump::failure`] then says why.
    pub(super) fn start(stream: Stream, size: u64, traffic: &Traffic) -> Result<(reqwest::Body, Self)> {
        let refuse = |error: io::Error| Error::new(oci::error::Kind::Io, "cannot start an upload").cause(error);
        let (near, far) = channel(AHEAD);
        let pump = Self(Arc::new(Mutex::new(BodyState { phase: Phase::Source, since: Instant::now(), failure: None })));
        let state = Self(Arc::clone(&pump.0));
        let run = move || state.run(stream, size, &near);
        thread::Builder::new().name("upload".to_owned()).spawn(run).map_err(refuse)?;
        Ok((reqwest::Body::wrap(Pieces { from: far, left: size, traffic: traffic.clone() }), pump))
    }

    /// What the pump waits for, and for how long it has.
    pub(super) fn phase(&self) -> (Phase, Duration) {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (state.phase, state.since.elapsed())
    }

    /// Why the blob could not be read.
    pub(super) fn failure(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).failure.clone()
    }

    fn set(&self, phase: Phase) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (state.phase, state.since) = (phase, Instant::now());
    }

    fn run(&self, stream: Stream, size: u64, registry: &Sender<io::Result<Bytes>>) {
        if let Err(error) = self.copy(stream, size, registry) {
            // The failure is set before the other side sees it: it asks for it then.
            self.0.lock().unwrap_or_else(PoisonError::into_inner).failure = Some(error.clone());
            let _ = registry.blocking_send(Err(error.into()));
        }
        self.set(Phase::Done);
    }

    fn copy(&self, mut stream: Stream, size: u64, registry: &Sender<io::Result<Bytes>>) -> Result<()> {
        let mut piece = vec![0; PIECE];
        let mut left = size;
        loop {
            self.set(Phase::Source);
            let got = match stream.read(&mut piece) {
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::from_stream(error, "cannot read the blob to upload")),
            };
            left = match left.checked_sub(got as u64) {
                Some(0) if got == 0 => return Ok(()),
                Some(_) if got == 0 => return Err(wrong_size("shorter", size)),
                Some(left) => left,
                None => return Err(wrong_size("longer", size)),
            };
            self.set(Phase::Registry);
            let bytes = Bytes::copy_from_slice(piece.get(..got).unwrap_or_default());
            if registry.blocking_send(Ok(bytes)).is_err() {
                // The request is over; whoever sent it knows why.
                return Ok(());
            }
        }
    }
}

/// The pieces as the HTTP stack wants them.
struct Pieces {
    from: Receiver<io::Result<Bytes>>,
    left: u64,
    traffic: Traffic,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = self.from.poll_recv(context);
        if let Poll::Ready(Some(Ok(bytes))) = &piece {
            self.left = self.left.saturating_sub(bytes.len() as u64);
            self.traffic.up(bytes.len() as u64);
        }
        piece.map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

fn wrong_size(how: &str, size: u64) -> Error {
    Error::integrity(format!("the blob to upload is {how} than its descriptor says")).fact("size", size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn wait(pump: &Pump) {
        let started = Instant::now();
        while pump.phase().0 != Phase::Done {
            assert!(started.elapsed() < Duration::from_secs(10));
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn says_why_a_blob_cannot_be_read() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(Error::integrity("CAUSE").into())
            }
        }
        let cases: [(Stream, u64, &str); 3] = [
            (Box::new(Cursor::new(b"abc".to_vec())), 4, "shorter"),
            (Box::new(Cursor::new(b"abcde".to_vec())), 4, "longer"),
            (Box::new(Broken), 4, "CAUSE"),
        ];
        for (stream, size, why) in cases {
            let (body, pump) = Pump::start(stream, size, &Traffic::default()).unwrap();
            wait(&pump);
            assert!(pump.failure().unwrap().what().contains(why), "{why}");
            drop(body);
        }
    }

    #[test]
    fn a_body_that_nobody_reads_waits_for_the_registry_and_ends_when_it_is_dropped() {
        let stream: Stream = Box::new(std::io::repeat(7).take(64 << 20));
        let traffic = Traffic::default();
        let (body, pump) = Pump::start(stream, 64 << 20, &traffic).unwrap();
        let started = Instant::now();
        while pump.phase().0 != Phase::Registry || pump.phase().1 < Duration::from_millis(50) {
            assert!(started.elapsed() < Duration::from_secs(10));
            thread::sleep(Duration::from_millis(1));
        }
        assert!(traffic.tally().bytes_up < 4 << 20, "the pump does not run ahead");
        drop(body);
        wait(&pump);
        assert!(pump.failure().is_none());
    }
}
