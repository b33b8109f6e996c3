//! The private directory of one run, and the end of everything that a run leaves: processes, control groups, files.
//! Mounts are in a namespace of their own and are gone with its last process.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, geteuid};

use crate::store::disk::{PATIENCE, PrivateDirectory, Purpose, end_processes, name_of, proc_file};
use oci::error::{Error, Result};

static START: Purpose = Purpose { name: "start", remove };

/// The directory of a run. The names of its containers and control groups begin with its own.
#[derive(Debug)]
pub(super) struct RunDirectory(PrivateDirectory);

impl RunDirectory {
    /// A new one, once everything that dead runs left is gone.
    pub(super) fn create() -> Result<Self> {
        PrivateDirectory::create(&START).map(Self)
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn name(&self) -> &str {
        self.0.name()
    }

    /// Makes a directory in it.
    pub(super) fn directory(&self, name: &str, mode: u32) -> Result<PathBuf> {
        let path = self.path().join(name);
        let created = DirBuilder::new().mode(mode).create(&path);
        created.map_err(|error| Error::io("could not make a directory for the run", &path, &error))?;
        Ok(path)
    }

    /// Writes a file in it that was not there.
    pub(super) fn file(&self, name: &str, content: &[u8]) -> Result<PathBuf> {
        let path = self.path().join(name);
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&path)?;
            io::Write::write_all(&mut file, content)
        };
        write().map_err(|error| Error::io("could not write a file for the run", &path, &error))?;
        Ok(path)
    }
}

/// Ends what runs, then removes control groups and files. What cannot be removed is left for the next run.
fn remove(run: &Path) {
    let until = Instant::now() + PATIENCE;
    while end_run(run) > 0 && Instant::now() < until {
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
pub(super) fn end_run(run: &Path) -> usize {
    end_processes(|pid| belongs(pid, run))
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
