//! Locks that processes hold on a directory while they change what is in it.
//!
//! The lock is on the directory's own handle: no lock file is left behind, and the system gives it
//! free when its holder dies, however it dies.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::store::Notices;
use oci::error::{Error, Kind, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Beside others that hold it so: nobody may take away what is there.
    Shared,
    /// Alone.
    Exclusive,
}

/// How long to wait for another holder.
#[derive(Debug, Clone, Copy)]
pub struct LockWait {
    /// Say once that we wait.
    pub speak: Duration,
    /// Give up.
    pub stop: Duration,
}

impl Default for LockWait {
    fn default() -> Self {
        Self { speak: Duration::from_secs(2), stop: Duration::from_secs(60) }
    }
}

/// The lock; it ends with this value.
#[derive(Debug)]
pub struct LockGuard(#[allow(dead_code, reason = "closing the file ends the lock")] File);

impl LockGuard {
    /// The lock that is held on an open file.
    pub(super) fn new(locked: File) -> Self {
        Self(locked)
    }
}

/// Waits for the lock on the directory `path`.
pub fn directory(path: &Path, mode: LockMode, patience: LockWait, notices: &Notices) -> Result<LockGuard> {
    let file = File::open(path).map_err(|error| Error::io("could not open the directory", path, &error))?;
    let mut wait = Wait::new(patience);
    loop {
        let attempt = match mode {
            LockMode::Shared => file.try_lock_shared(),
            LockMode::Exclusive => file.try_lock(),
        };
        match attempt {
            Ok(()) => return Ok(LockGuard(file)),
            Err(TryLockError::Error(error)) => return Err(refused(path, &error)),
            Err(TryLockError::WouldBlock) => wait.pause(|| {
                notices.warn(format!("waiting for another process that is writing to {}", path.display()));
            }),
        }
        if wait.is_over() {
            return Err(Error::new(Kind::Lock, "another process keeps the directory locked")
                .fact("path", path.display())
                .fact("waited", format_args!("{} s", patience.stop.as_secs()))
                .hint("find the stopped process that uses the directory, end it, and run again"));
        }
    }
}

/// A place that processes cannot share safely is not used at all.
fn refused(path: &Path, error: &std::io::Error) -> Error {
    Error::io("the file system cannot lock the directory", path, error)
        .hint("use a directory on a local file system and copy the result")
}

/// The waiting itself: short pauses that grow, one word after a while, an end.
pub struct Wait {
    patience: LockWait,
    since: Instant,
    pause: Duration,
    spoke: bool,
}

impl Wait {
    pub fn new(patience: LockWait) -> Self {
        Self { patience, since: Instant::now(), pause: Duration::from_millis(2), spoke: false }
    }

    /// Waits a little; calls `speak` once when it has been long.
    pub fn pause(&mut self, speak: impl FnOnce()) {
        if !self.spoke && self.since.elapsed() >= self.patience.speak {
            self.spoke = true;
            speak();
        }
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(Duration::from_millis(50));
    }

    /// There was progress: the time to give up is counted from now.
    pub fn go_on(&mut self) {
        self.since = Instant::now();
    }

    pub fn is_over(&self) -> bool {
        self.since.elapsed() >= self.patience.stop
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const SHORT: LockWait = LockWait { speak: Duration::from_millis(20), stop: Duration::from_millis(150) };

    #[test]
    fn a_held_lock_is_waited_for_with_one_word_and_then_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let words = Arc::new(AtomicU32::new(0));
        let counter = words.clone();
        let notices = Notices::new(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let held = directory(dir.path(), LockMode::Exclusive, SHORT, &notices).unwrap();
        let error = directory(dir.path(), LockMode::Exclusive, SHORT, &notices).unwrap_err();
        assert_eq!((error.kind(), words.load(Ordering::Relaxed)), (Kind::Lock, 1));
        drop(held);
        let shared = directory(dir.path(), LockMode::Shared, SHORT, &notices).unwrap();
        directory(dir.path(), LockMode::Shared, SHORT, &notices).unwrap();
        assert!(directory(dir.path(), LockMode::Exclusive, SHORT, &notices).is_err());
        drop(shared);
        directory(dir.path(), LockMode::Exclusive, SHORT, &notices).unwrap();
    }

    #[test]
    fn the_lock_of_a_killed_process_is_free_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let none = LockWait { speak: Duration::ZERO, stop: Duration::ZERO };
        let take = |patience| directory(dir.path(), LockMode::Exclusive, patience, &Notices::silent());
        let mut holder = Command::new("flock").arg("--no-fork").arg(dir.path()).args(["sleep", "60"]).spawn().unwrap();
        while take(none).is_ok() {
            assert!(holder.try_wait().unwrap().is_none(), "flock(1) has ended");
            std::thread::sleep(Duration::from_millis(5));
        }
        holder.kill().unwrap();
        holder.wait().unwrap();
        take(none).unwrap();
    }
}
