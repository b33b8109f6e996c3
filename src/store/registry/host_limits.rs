//! What all requests to one host and port share: how many go at once, and when to leave it alone.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::sleep;

pub(super) struct HostLimits {
    requests: Semaphore,
    /// Apart from `requests`: an upload may wait for a download from the same host.
    uploads: Semaphore,
    rest_until: Mutex<Instant>,
}

impl HostLimits {
    pub(super) fn new(jobs: usize) -> Self {
        let jobs = jobs.clamp(1, 64);
        Self { requests: Semaphore::new(jobs), uploads: Semaphore::new(jobs), rest_until: Mutex::new(Instant::now()) }
    }

    pub(super) async fn request(&self) -> Option<SemaphorePermit<'_>> {
        // An error would mean that the semaphore was closed, which nobody does.
        self.requests.acquire().await.ok()
    }

    pub(super) async fn upload(&self) -> Option<SemaphorePermit<'_>> {
        self.uploads.acquire().await.ok()
    }

    /// Lets all requests to this host wait for `pause`.
    pub(super) fn rest(&self, pause: Duration) {
        let mut until = self.rest_until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = (*until).max(Instant::now() + pause);
    }

    /// Returns when the host may be asked again.
    pub(super) async fn rested(&self) {
        loop {
            let until = *self.rest_until.lock().unwrap_or_else(PoisonError::into_inner);
            match until.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => sleep(left).await,
                _ => return,
            }
        }
    }
}
