//! Which files the programs of an image open and execute, seen by fanotify.
//!
//! The kernel asks before each file is opened, and waits for the answer, which is always yes: so the program that
//! opens it is still the one that asked when it is looked at. A notice after the fact would often name the program
//! that took its place.

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::image_root::ImageRoot;
use super::syscalls::{event_file, fanotify_group, fanotify_watch};
use layer::RootPath;

/// Files that are remembered; a program that opens more is not followed further.
const MOST: usize = 20_000;

/// A file that a program opened or executed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenedFile {
    pub path: RootPath,
    /// The program that did.
    pub by: RootPath,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenedFiles {
    Seen(BTreeSet<OpenedFile>),
    /// Why nothing could be seen.
    NotWatched(String),
}

/// A watch over the file system at a path, until it is ended.
pub(super) struct Watch {
    is_over: Arc<AtomicBool>,
    reader: JoinHandle<BTreeSet<OpenedFile>>,
}

impl Watch {
    /// Watches the file system that is mounted at `root`, in the namespace of the calling thread.
    pub(super) fn begin(root: &Path) -> io::Result<Self> {
        let image = ImageRoot::open(root).map_err(|error| io::Error::other(error.what().to_owned()))?;
        let group = fanotify_group()?;
        fanotify_watch(&group, root)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let events = Events { group: group.into(), root: root.to_owned(), image, seen: BTreeSet::new() };
        let until = Arc::clone(&is_over);
        let reader = std::thread::Builder::new().name("fanotify".to_owned()).spawn(move || events.answer(&until))?;
        Ok(Self { is_over, reader })
    }

    pub(super) fn end(self) -> BTreeSet<OpenedFile> {
        self.is_over.store(true, Ordering::Release);
        self.reader.join().unwrap_or_default()
    }
}

struct Events {
    group: std::fs::File,
    root: PathBuf,
    image: ImageRoot,
    seen: BTreeSet<OpenedFile>,
}

/// `struct fanotify_event_metadata`.
const METADATA: usize = 24;

impl Events {
    /// Says yes until it is over; what is asked later the kernel allows when the group is closed.
    fn answer(mut self, is_over: &AtomicBool) -> BTreeSet<OpenedFile> {
        let mut buffer = vec![0; 64 << 10];
        while !is_over.load(Ordering::Acquire) {
            let mut ready = [PollFd::new(&self.group, PollFlags::IN)];
            let wait = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            if poll(&mut ready, Some(&wait)).unwrap_or(0) == 0 {
                continue;
            }
            match (&self.group).read(&mut buffer) {
                Ok(read) => self.events(buffer.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.seen
    }

    fn events(&mut self, mut bytes: &[u8]) {
        while let Some(event) = bytes.get(..METADATA) {
            let number =
                |at: usize| event.get(at..at + 4).and_then(|part| part.try_into().ok()).map(u32::from_ne_bytes);
            let length = number(0).and_then(|length| usize::try_from(length).ok()).unwrap_or(METADATA).max(METADATA);
            if let (Some(fd), Some(pid)) = (number(16), number(20)) {
                self.event(fd.cast_signed(), pid);
            }
            bytes = bytes.get(length..).unwrap_or_default();
        }
    }

    fn event(&mut self, fd: i32, pid: u32) {
        let Some(file) = event_file(fd) else { return };
        if self.seen.len() < MOST
            && let Some(opened) = self.opened(&file, pid)
        {
            self.seen.insert(opened);
        }
        let mut answer = file.as_raw_fd().to_ne_bytes().to_vec();
        answer.extend(libc::FAN_ALLOW.to_ne_bytes());
        let _ = io::Write::write_all(&mut &self.group, &answer);
    }

    /// What a program of the image opens; the runtime opens files, too.
    fn opened(&self, file: &OwnedFd, pid: u32) -> Option<OpenedFile> {
        let program = format!("/proc/{pid}/exe");
        let by = self.path_of(&program)?;
        let running = std::fs::metadata(&program).ok()?;
        let here = self.image.stat(&by)?;
        let is_of_image = (running.dev(), running.ino()) == (here.st_dev, here.st_ino);
        is_of_image.then_some(())?;
        Some(OpenedFile { path: self.path_of(&format!("/proc/self/fd/{}", file.as_raw_fd()))?, by })
    }

    /// Where a link of `/proc` leads: seen from the container's root, or from ours.
    fn path_of(&self, link: &str) -> Option<RootPath> {
        let target = std::fs::read_link(link).ok()?;
        let target = target.as_os_str().as_bytes();
        let below = target.strip_prefix(self.root.as_os_str().as_bytes()).filter(|rest| rest.starts_with(b"/"));
        RootPath::new(below.unwrap_or(target)).ok()
    }
}
