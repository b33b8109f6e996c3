//! Counts what a run asked of registries; the report shows it and tests assert it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
