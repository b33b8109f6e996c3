//! The private directory of one run, and the end of everything that a run leaves: processes, control groups, files.
//!
//! The owner of a run holds a lock on a file in its directory as long as it lives, whatever ends it. So a lock that
//! can be taken belongs to a run that is dead, and whoever starts the next run removes what is left of it. Mounts
//! are in a namespace of their own and are gone with its last process.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};

use crate::error::{Error, Result};

const LOCK: &str = "lock";
const PREFIX: &str = "underpin-";
/// How long processes that were killed may take to be gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// The runs of this process that are alive, for a signal that ends it.
static ALIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A directory that nobody else can enter, gone when it is dropped.
#[derive(Debug)]
pub(super) struct RunDirectory {
    path: PathBuf,
    _lock: File,
}

impl RunDirectory {
    /// A new one, once everything that dead runs left is gone.
    pub(super) fn create() -> Result<Self> {
        let all = private_directory()?;
        // Whoever makes or removes a run holds it: no run is ever seen half made.
        let _turn = locked(&all.join(LOCK), FlockOperation::LockExclusive)
            .map_err(|error| Error::io("could not lock the directory of runs", &all, &error))?;
        sweep(&all);
        let path = all.join(format!("{PREFIX}{:016x}", fastrand::u64(..)));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| Error::io("could not make a directory for the run", &path, &error))?;
        let lock = locked(&path.join(LOCK), FlockOperation::NonBlockingLockExclusive);
        let lock = lock.map_err(|error| Error::io("could not lock the directory of the run", &path, &error))?;
        ALIVE.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
        Ok(Self { path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The name of its containers and control groups begins with it; nothing else on the machine has it.
    pub(super) fn name(&self) -> &str {
        name_of(&self.path)
    }

    /// Makes a directory in it.
    pub(super) fn directory(&self, name: &str, mode: u32) -> Result<PathBuf> {
        let path = self.path.join(name);
        let created = DirBuilder::new().mode(mode).create(&path);
        created.map_err(|error| Error::io("could not make a directory for the run", &path, &error))?;
        Ok(path)
    }

    /// Writes a file in it that was not there.
    pub(super) fn file(&self, name: &str, content: &[u8]) -> Result<PathBuf> {
        let path = self.path.join(name);
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&path)?;
            io::Write::write_all(&mut file, content)
        };
        write().map_err(|error| Error::io("could not write a file for the run", &path, &error))?;
        Ok(path)
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        remove(&self.path);
        ALIVE.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| *path != self.path);
    }
}

/// Held while a process is started, and for good once a signal is ending this one.
static STARTING: Mutex<()> = Mutex::new(());

/// Starts a process of a run. Once a signal is ending this process nothing is started any more: a runtime would make
/// the directory anew that has just been removed.
pub(super) fn start_process(command: &mut Command) -> io::Result<Child> {
    let _turn = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    command.spawn()
}

/// Whether a signal is ending this process.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Ends and removes the runs of this process, which is about to end without coming to it.
pub fn end_all_runs() {
    IS_ENDING.store(true, Ordering::SeqCst);
    // Never given back.
    std::mem::forget(STARTING.lock().unwrap_or_else(PoisonError::into_inner));
    let alive = ALIVE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for path in &alive {
        let until = Instant::now() + PATIENCE;
        remove(path);
        // Whoever was unpacking may have written something meanwhile.
        while path.exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
            remove(path);
        }
    }
}

/// Waits for the end, if a signal has begun it: what a run that it has ended looks like is nobody's result.
pub(super) fn wait_if_ending() {
    while IS_ENDING.load(Ordering::SeqCst) {
        std::thread::sleep(PATIENCE);
    }
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// The directory of all runs of this user. One that somebody else made, or can enter, is not used.
fn private_directory() -> Result<PathBuf> {
    let uid = geteuid().as_raw();
    let path = std::env::temp_dir().join(format!("underpin-start-{uid}"));
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

fn locked(path: &Path, how: FlockOperation) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let file =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path)?;
    flock(&file, how)?;
    Ok(file)
}

/// What is in the directory and whose lock can be taken is dead.
fn sweep(all: &Path) {
    let Ok(runs) = fs::read_dir(all) else { return };
    for path in runs.flatten().map(|entry| entry.path()).filter(|path| name_of(path).starts_with(PREFIX)) {
        if locked(&path.join(LOCK), FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove(&path);
        }
    }
}

/// Ends what runs, then removes control groups and files. What cannot be removed is left for the next run.
fn remove(run: &Path) {
    let until = Instant::now() + PATIENCE;
    while end_processes(run) > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    while !remove_groups(name_of(run)) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    if fs::remove_dir_all(run).is_err() && !geteuid().is_root() {
        // Files of other users of a namespace, and directories that they have closed.
        super::worker::remove(run);
    }
}

/// Kills the processes of a run, and says how many there were: those in its control group or, where there is none, with
/// files of the run among their mounts; and the runtime itself, which has the directory of the run as its own.
pub(super) fn end_processes(run: &Path) -> usize {
    let Ok(processes) = fs::read_dir("/proc") else { return 0 };
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let mut found = 0;
    for pid in numbers.filter_map(Pid::from_raw) {
        // The process that the handle refers to is the one that is looked at next, whatever becomes of its number.
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        if belongs(pid, run) && pidfd_send_signal(&handle, Signal::KILL).is_ok() {
            found += 1;
        }
    }
    found
}

/// Longer than any control group's name or the arguments that the runtime is given.
const PROC_LIMIT: u64 = 64 << 10;

fn proc_file(pid: Pid, name: &str) -> Vec<u8> {
    use std::io::Read as _;
    let mut content = Vec::new();
    if let Ok(file) = File::open(format!("/proc/{}/{name}", pid.as_raw_nonzero())) {
        let _ = file.take(PROC_LIMIT).read_to_end(&mut content);
    }
    content
}

fn belongs(pid: Pid, run: &Path) -> bool {
    let group = format!("/{}", name_of(run));
    let groups = proc_file(pid, "cgroup");
    if groups.split(|byte| *byte == b'\n').any(|line| memchr::memmem::find(line, group.as_bytes()).is_some()) {
        return true;
    }
    if !geteuid().is_root()
        && memchr::memmem::find(&proc_file(pid, "mountinfo"), format!("{group}/").as_bytes()).is_some()
    {
        return true;
    }
    let state = run.join(super::runtime::STATE);
    let arguments = proc_file(pid, "cmdline");
    let words: Vec<&[u8]> = arguments.split(|byte| *byte == 0).collect();
    words.windows(2).any(|pair| pair == [b"--root".as_slice(), state.as_os_str().as_encoded_bytes()])
}

/// Removes the control groups of a run. Whether none is left.
fn remove_groups(name: &str) -> bool {
    let mut all_gone = true;
    for parent in group_parents() {
        let Ok(groups) = fs::read_dir(&parent) else { continue };
        let groups = groups.flatten().map(|entry| entry.path());
        for group in groups.filter(|path| name_of(path).starts_with(name)) {
            all_gone &= fs::remove_dir(&group).is_ok();
        }
    }
    all_gone
}

/// Where control groups of a run can be: at the top, and below our own where a user may make some there.
fn group_parents() -> Vec<PathBuf> {
    let top = PathBuf::from("/sys/fs/cgroup");
    let hierarchies = fs::read_dir(&top).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut parents: Vec<PathBuf> = hierarchies.chain([top]).collect();
    if !geteuid().is_root() {
        let own = String::from_utf8_lossy(&proc_file(rustix::process::getpid(), "cgroup")).into_owned();
        let own: Vec<&str> = own.lines().filter_map(|line| line.splitn(3, ':').nth(2)).collect();
        let below = |parent: &PathBuf| {
            let paths = own.iter().map(|path| parent.join(path.trim_start_matches('/')));
            paths
                .flat_map(|path| path.parent().map(Path::to_owned).into_iter().chain([path.clone()]))
                .collect::<Vec<_>>()
        };
        let more: Vec<PathBuf> = parents.iter().flat_map(below).collect();
        parents.extend(more);
        parents.sort();
        parents.dedup();
    }
    parents
}
