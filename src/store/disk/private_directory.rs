//! A private directory that lives as long as its owner: it is gone when it is dropped, when a signal ends the process and,
//! if that was killed, with the next one for the same purpose.
//!
//! The owner holds a lock on a file in it as long as it lives, whatever ends it. So a lock that can be taken belongs to one
//! that is dead, and whoever makes the next directory removes what is left of it, with the processes that work in it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};

use super::private_access::replaceable_directory;
use oci::error::{Error, Result};

const LOCK: &str = "lock";
const PREFIX: &str = "underpin-";
/// How long what was ended may take to be gone.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// What directories are for.
#[derive(Debug)]
pub struct Purpose {
    /// Part of the name of the directory that they are in.
    pub name: &'static str,
    /// Ends what works in one, and removes it. What cannot be removed is left for the next run.
    pub remove: fn(&Path),
}

/// The directories of this process, for a signal that ends it.
static ALIVE: Mutex<Vec<(PathBuf, &'static Purpose)>> = Mutex::new(Vec::new());

/// A directory that nobody else can enter, gone when it is dropped.
#[derive(Debug)]
pub struct PrivateDirectory {
    path: PathBuf,
    purpose: &'static Purpose,
    _lock: File,
}

impl PrivateDirectory {
    /// A new one, once everything that dead ones left is gone.
    pub fn create(purpose: &'static Purpose) -> Result<Self> {
        let all = shared_directory(purpose)?;
        // Whoever makes or removes one holds it: none is ever seen half made.
        let _turn = locked(&all.join(LOCK), FlockOperation::LockExclusive)
            .map_err(|error| Error::io("could not lock the directory of runs", &all, &error))?;
        sweep(&all, purpose);
        let path = all.join(format!("{PREFIX}{:016x}", fastrand::u64(..)));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| Error::io("could not make a directory for the run", &path, &error))?;
        let lock = locked(&path.join(LOCK), FlockOperation::NonBlockingLockExclusive);
        let lock = lock.map_err(|error| Error::io("could not lock the directory of the run", &path, &error))?;
        ALIVE.lock().unwrap_or_else(PoisonError::into_inner).push((path.clone(), purpose));
        Ok(Self { path, purpose, _lock: lock })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Nothing else on the machine has this name.
    #[must_use]
    pub fn name(&self) -> &str {
        name_of(&self.path)
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        (self.purpose.remove)(&self.path);
        ALIVE.lock().unwrap_or_else(PoisonError::into_inner).retain(|(path, _)| *path != self.path);
    }
}

/// The last part of a path.
#[must_use]
pub fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Held while a process is started, and for good once a signal is ending this one.
static STARTING: Mutex<()> = Mutex::new(());

/// Starts a process that works in a private directory. Once a signal is ending this process nothing is started any more:
/// it would make the directory anew that has just been removed.
pub fn start_process(command: &mut Command) -> io::Result<Child> {
    let _turn = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    command.spawn()
}

/// Whether a signal is ending this process.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Removes the private directories of this process, which is about to end without coming to it.
pub fn end_private_directories() {
    IS_ENDING.store(true, Ordering::SeqCst);
    // Never given back.
    std::mem::forget(STARTING.lock().unwrap_or_else(PoisonError::into_inner));
    let alive = ALIVE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for (path, purpose) in &alive {
        let until = Instant::now() + PATIENCE;
        (purpose.remove)(path);
        // Whoever was writing to it may have done so meanwhile.
        while path.exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
            (purpose.remove)(path);
        }
    }
}

/// Waits for the end, if a signal has begun it: what it has ended looks like a result, and is none.
pub fn wait_if_ending() {
    while IS_ENDING.load(Ordering::SeqCst) {
        std::thread::sleep(PATIENCE);
    }
}

/// Where all of this user for the same purpose are. One that somebody else made, or can enter, is not used.
fn shared_directory(purpose: &Purpose) -> Result<PathBuf> {
    let uid = geteuid().as_raw();
    let path = temporary_directory()?.join(format!("{PREFIX}{}-{uid}", purpose.name));
    if path.to_str().is_none() {
        return Err(Error::usage("the name of the directory for temporary files is not UTF-8")
            .fact("directory", path.display())
            .hint("set TMPDIR to another directory"));
    }
    let failed = |error: &io::Error| Error::io("could not make the directory of runs", &path, error);
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(&error)),
        _ => {}
    }
    let found = fs::symlink_metadata(&path).map_err(|error| failed(&error))?;
    if !found.is_dir() || found.uid() != uid || found.mode() & 0o077 != 0 {
        return Err(Error::usage("the directory of runs is not private")
            .fact("directory", path.display())
            .hint("remove it, or set TMPDIR to a directory of your own"));
    }
    Ok(path)
}

/// The directory for temporary files, by its real path. Whoever can rename a directory on the way to it could put another
/// in its place, and have us write there: then it is not used.
fn temporary_directory() -> Result<PathBuf> {
    let named = std::env::temp_dir();
    let unusable = |error: &io::Error| Error::io("could not open the directory for temporary files", &named, error);
    let path = fs::canonicalize(&named).map_err(|error| unusable(&error))?;
    match replaceable_directory(&path)? {
        None => Ok(path),
        Some(directory) => Err(Error::usage("somebody else could replace the directory for temporary files")
            .fact("directory", directory.display())
            .hint("set TMPDIR to a directory that only you can write to, or one with the sticky bit such as /tmp")),
    }
}

fn locked(path: &Path, how: FlockOperation) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let file =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path)?;
    flock(&file, how)?;
    Ok(file)
}

/// What is in the directory and whose lock can be taken is dead.
fn sweep(all: &Path, purpose: &Purpose) {
    let Ok(found) = fs::read_dir(all) else { return };
    for path in found.flatten().map(|entry| entry.path()).filter(|path| name_of(path).starts_with(PREFIX)) {
        if locked(&path.join(LOCK), FlockOperation::NonBlockingLockExclusive).is_ok() {
            (purpose.remove)(&path);
        }
    }
}

/// Kills the processes that `belongs` says, and says how many there were.
pub fn end_processes(belongs: impl Fn(Pid) -> bool) -> usize {
    let Ok(processes) = fs::read_dir("/proc") else { return 0 };
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let mut found = 0;
    for pid in numbers.filter_map(Pid::from_raw) {
        // The process that the handle refers to is the one that is looked at next, whatever becomes of its number.
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        if belongs(pid) && pidfd_send_signal(&handle, Signal::KILL).is_ok() {
            found += 1;
        }
    }
    found
}

/// Longer than any control group's name, and than the arguments and the environment that a program is given here.
const PROC_LIMIT: u64 = 4 << 20;

/// What the kernel says of a process.
#[must_use]
pub fn proc_file(pid: Pid, name: &str) -> Vec<u8> {
    let mut content = Vec::new();
    if let Ok(file) = File::open(format!("/proc/{}/{name}", pid.as_raw_nonzero())) {
        let _ = file.take(PROC_LIMIT).read_to_end(&mut content);
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    static TESTED: Purpose = Purpose {
        name: "test",
        remove: |path| {
            let _ = fs::remove_dir_all(path);
        },
    };

    #[test]
    fn a_directory_is_gone_with_its_owner_and_dead_ones_with_the_next() {
        let directory = PrivateDirectory::create(&TESTED).unwrap();
        let path = directory.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        let other = PrivateDirectory::create(&TESTED).unwrap();
        assert!(path.is_dir(), "its owner lives");
        drop((directory, other));
        assert!(!path.exists());
        fs::create_dir(&path).unwrap();
        fs::write(path.join("half"), "").unwrap();
        drop(PrivateDirectory::create(&TESTED).unwrap());
        assert!(!path.exists(), "nobody holds its lock, also if it has none");
    }
}
