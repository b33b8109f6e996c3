//! The body of an upload: bytes from a blocking reader, handed to the HTTP stack as it takes them.
//!
//! A thread reads the blob and writes it into a socket pair, whose small kernel buffer is the only
//! store between the two sides: memory stays constant whatever the size of the blob. (A socket
//! pair, not a pipe: writing to one that is closed must never raise SIGPIPE. And the stack takes a
//! file as a stream without naming the trait for streams, a crate that is not among ours.)

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::store::{Stream, Traffic};

const PIECE: usize = 128 * 1024;

/// Watches a body on its way.
pub(super) struct Pump(Arc<Mutex<State>>);

struct State {
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
        let refuse = |error: std::io::Error| Error::new(crate::error::Kind::Io, "cannot start an upload").cause(error);
        let (near, far) = UnixStream::pair().map_err(refuse)?;
        let pump = Self(Arc::new(Mutex::new(State { phase: Phase::Source, since: Instant::now(), failure: None })));
        let (state, traffic) = (Self(Arc::clone(&pump.0)), traffic.clone());
        let run = move || state.run(stream, size, &near, &traffic);
        thread::Builder::new().name("upload".to_owned()).spawn(run).map_err(refuse)?;
        let body = tokio::fs::File::from_std(File::from(OwnedFd::from(far)));
        Ok((reqwest::Body::from(body), pump))
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

    fn run(&self, stream: Stream, size: u64, registry: &UnixStream, traffic: &Traffic) {
        // The failure is set before `registry` closes: the other side asks for it then.
        if let Err(error) = self.copy(stream, size, registry, traffic) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).failure = Some(error);
        }
        self.set(Phase::Done);
    }

    fn copy(&self, mut stream: Stream, size: u64, mut registry: &UnixStream, traffic: &Traffic) -> Result<()> {
        let mut piece = vec![0; PIECE];
        let mut left = size;
        loop {
            self.set(Phase::Source);
            let got = match stream.read(&mut piece) {
                Ok(got) => got,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::from_stream(error, "cannot read the blob to upload")),
            };
            left = match left.checked_sub(got as u64) {
                Some(0) if got == 0 => return Ok(()),
                Some(_) if got == 0 => return Err(wrong_size("shorter", size)),
                Some(left) => left,
                None => return Err(wrong_size("longer", size)),
            };
            self.set(Phase::Registry);
            let bytes = piece.get(..got).unwrap_or_default();
            if registry.write_all(bytes).is_err() {
                // The request is over; whoever sent it knows why.
                return Ok(());
            }
            traffic.up(got as u64);
        }
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
