//! The lock between runs, which share the cache, and the garbage collector, which needs it alone.
//!
//! There may always be a run that holds the cache, so a second lock, the entry lock, is taken first.
//! A waiting collector holds the entry lock for a moment: new runs wait, the runs that hold the cache
//! finish, and the collector has its turn. It does not hold it for longer than that: a run that takes
//! long does not keep other runs from starting for more than a moment.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use super::lock::{self, LockGuard, LockMode, LockWait, Wait};
use crate::store::Notices;
use oci::error::{Error, Kind, Result};

/// How long the entry lock is held, and then left free, in turn. Shorter than the wait that is reported.
const TURN: Duration = Duration::from_millis(1_500);
/// The directory whose lock is the entry lock. A cache that does not have it yet has nothing to collect.
const ENTRY_LOCK: &str = "images";

/// Takes part in the lock on the cache, as every run does.
pub fn lock_shared(root: &Path, notices: &Notices) -> Result<LockGuard> {
    let entry = root.join(ENTRY_LOCK);
    // Held until we hold the cache, so that a collector that takes it afterwards finds us there.
    let passing = entry.is_dir().then(|| lock::directory(&entry, LockMode::Shared, LockWait::default(), notices));
    let _passing = passing.transpose()?;
    lock::directory(root, LockMode::Shared, LockWait::default(), notices)
}

/// Waits until nobody else uses the cache. With no patience at all it is tried once, and nobody is
/// kept waiting.
pub fn lock_exclusive(root: &Path, patience: LockWait, notices: &Notices) -> Result<LockGuard> {
    let open = |path: &Path| File::open(path).map_err(|error| Error::io("could not open the directory", path, &error));
    let file = open(root)?;
    let mut wait = Wait::new(patience);
    let since = Instant::now();
    let mut entry_lock: Option<File> = None;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(LockGuard::new(file)),
            Err(TryLockError::Error(error)) => {
                return Err(Error::io("the file system cannot lock the directory", root, &error));
            }
            Err(TryLockError::WouldBlock) if wait.is_over() => return Err(in_use(root, patience)),
            Err(TryLockError::WouldBlock) => {
                wait.pause(|| notices.warn(format!("waiting for runs that use {}", root.display())));
            }
        }
        let is_our_turn = (since.elapsed().as_millis() / TURN.as_millis()).is_multiple_of(2);
        entry_lock = match entry_lock {
            Some(held) if is_our_turn => Some(held),
            None if is_our_turn => open(&root.join(ENTRY_LOCK)).ok().filter(|file| file.try_lock().is_ok()),
            _ => None,
        };
    }
}

fn in_use(root: &Path, patience: LockWait) -> Error {
    Error::new(Kind::Lock, "the cache is in use")
        .fact("path", root.display())
        .fact("waited", format_args!("{} s", patience.stop.as_secs()))
        .hint("run again when the runs that use it have ended, or wait longer with --lock-timeout")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_collector_has_its_turn_among_runs_that_never_leave_a_gap() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(ENTRY_LOCK)).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for runner in 0..4_u64 {
                let (dir, done) = (dir.path(), &done);
                scope.spawn(move || {
                    // Each begins before the one before it ends.
                    let mut held = Some(lock_shared(dir, &Notices::silent()).unwrap());
                    while !done.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_millis(20 + runner));
                        drop(held.take());
                        held = Some(lock_shared(dir, &Notices::silent()).unwrap());
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(30));
            let patience = LockWait { speak: Duration::MAX, stop: Duration::from_secs(30) };
            let turns: Vec<bool> =
                (0..5).map(|_| lock_exclusive(dir.path(), patience, &Notices::silent()).is_ok()).collect();
            done.store(true, Ordering::Relaxed);
            assert_eq!(turns, [true; 5]);
        });
    }

    #[test]
    fn a_long_run_keeps_nobody_else_out() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(ENTRY_LOCK)).unwrap();
        let long = lock_shared(dir.path(), &Notices::silent()).unwrap();
        let patience = LockWait { speak: Duration::MAX, stop: Duration::from_millis(2_500) };
        std::thread::scope(|scope| {
            let collector = scope.spawn(|| lock_exclusive(dir.path(), patience, &Notices::silent()).map(drop));
            std::thread::sleep(Duration::from_millis(100));
            drop(lock_shared(dir.path(), &Notices::silent()).unwrap());
            assert!(!collector.is_finished(), "the other run was let in while the collector waits");
            assert_eq!(collector.join().unwrap().unwrap_err().kind(), Kind::Lock);
        });
        drop(long);
        let at_once = LockWait { speak: Duration::MAX, stop: Duration::ZERO };
        lock_exclusive(dir.path(), at_once, &Notices::silent()).unwrap();
    }
}
