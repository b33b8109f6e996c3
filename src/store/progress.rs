//! Shows how far a transfer is. The rim decides how; here it is only told.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Stream;
use oci::error::redacted;

/// One transfer that is under way.
pub trait Meter: Send {
    fn advance(&mut self, bytes: u64);
}

type Begin = dyn Fn(&str, u64) -> Box<dyn Meter> + Send + Sync;

/// Where transfers are shown. Cheap to clone.
#[derive(Clone)]
pub struct Progress(Arc<Begin>);

impl Progress {
    pub fn new(begin: impl Fn(&str, u64) -> Box<dyn Meter> + Send + Sync + 'static) -> Self {
        Self(Arc::new(begin))
    }

    /// Nobody is looking.
    #[must_use]
    pub fn hidden() -> Self {
        Self::new(|_, _| Box::new(Hidden))
    }

    /// The same stream, metered. `label` says what it is, `total` how many bytes are expected.
    #[must_use]
    pub fn watch(&self, label: &str, total: u64, stream: Stream) -> Stream {
        Box::new(Metered { stream, meter: (self.0)(label, total) })
    }
}

struct Hidden;

impl Meter for Hidden {
    fn advance(&mut self, _: u64) {}
}

struct Metered {
    stream: Stream,
    meter: Box<dyn Meter>,
}

impl Read for Metered {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(into)?;
        self.meter.advance(read as u64);
        Ok(read)
    }
}

/// One line for a person. Never holds a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Something went wrong and was mended; always shown.
    Warning(String),
    /// How the work goes; shown with `-v`.
    Detail(String),
}

/// Where notices go. Cheap to clone.
#[derive(Clone)]
pub struct Notices(Arc<dyn Fn(Notice) + Send + Sync>);

impl Notices {
    pub fn new(show: impl Fn(Notice) + Send + Sync + 'static) -> Self {
        Self(Arc::new(show))
    }

    /// Notices that nobody reads.
    #[must_use]
    pub fn silent() -> Self {
        Self::new(|_| {})
    }

    pub fn warn(&self, line: impl Into<String>) {
        (self.0)(Notice::Warning(redacted(&line.into())));
    }

    pub fn detail(&self, line: impl Into<String>) {
        (self.0)(Notice::Detail(redacted(&line.into())));
    }
}

/// Shared counters. Cheap to clone; all clones count together.
#[derive(Debug, Clone, Default)]
pub struct Traffic(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    requests: AtomicU64,
    bytes_down: AtomicU64,
    bytes_up: AtomicU64,
    mounted: AtomicU64,
    already_there: AtomicU64,
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    pub requests: u64,
    pub bytes_down: u64,
    pub bytes_up: u64,
    pub mounted: u64,
    pub already_there: u64,
}

impl Traffic {
    pub fn request(&self) {
        self.0.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub fn down(&self, bytes: u64) {
        self.0.bytes_down.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn up(&self, bytes: u64) {
        self.0.bytes_up.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn mounted(&self) {
        self.0.mounted.fetch_add(1, Ordering::Relaxed);
    }

    pub fn already_there(&self) {
        self.0.already_there.fetch_add(1, Ordering::Relaxed);
    }

    #[must_use]
    pub fn tally(&self) -> Tally {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Tally {
            requests: read(&self.0.requests),
            bytes_down: read(&self.0.bytes_down),
            bytes_up: read(&self.0.bytes_up),
            mounted: read(&self.0.mounted),
            already_there: read(&self.0.already_there),
        }
    }
}
