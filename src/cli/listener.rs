//! Who reads stderr. Words never hold up the work: a pipe that nobody empties is waited for once, for a
//! minute, and then the rest is left unsaid.

use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};

use super::args::pace;

/// The longest wait for a reader that stands still.
const PATIENCE: Duration = Duration::from_secs(60);
/// A pipe that can be written to takes this much without a wait (`PIPE_BUF`).
const PIECE: usize = 4096;

#[derive(Clone)]
pub(super) struct Listener {
    has_stopped: Arc<AtomicBool>,
    patience: Duration,
}

impl Listener {
    pub fn new() -> Self {
        // Divided in tests, as all waits are.
        Self { has_stopped: Arc::default(), patience: PATIENCE / pace().unwrap_or(1) }
    }

    /// Says it, as far as somebody listens.
    pub fn tell(&self, text: &str) {
        let mut stderr = io::stderr().lock();
        let is_pipe = fstat(stderr.as_fd()).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Fifo);
        for piece in text.as_bytes().chunks(PIECE) {
            if is_pipe && !self.is_ready(&stderr) {
                return;
            }
            if stderr.write_all(piece).is_err() {
                return;
            }
        }
    }

    fn is_ready(&self, stderr: &impl AsFd) -> bool {
        if self.has_stopped.load(Ordering::Relaxed) {
            return false;
        }
        let Ok(patience) = Timespec::try_from(self.patience) else { return true };
        match poll(&mut [PollFd::new(stderr, PollFlags::OUT)], Some(&patience)) {
            Ok(0) => {
                self.has_stopped.store(true, Ordering::Relaxed);
                false
            }
            // What is wrong with the pipe, the write will say.
            _ => true,
        }
    }
}
