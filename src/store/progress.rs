//! Shows how far a transfer is. The rim decides how; here it is only told.

use std::io::{self, Read};
use std::sync::Arc;

use super::Stream;

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
