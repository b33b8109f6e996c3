//! The few system calls that no safe wrapper exists for. Everything else here is safe code.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Gives the calling thread mounts of its own, which are gone with its last process. Nothing else is unshared.
pub(super) fn unshare_mounts() -> io::Result<()> {
    // SAFETY: unsafe only with `UnshareFlags::FILES`, which is not among them: the table of files stays shared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }?;
    Ok(())
}

/// Puts the process into a user namespace of its own, in which it may do everything. It must have one thread only.
pub(super) fn unshare_users() -> io::Result<()> {
    // SAFETY: unsafe only with `UnshareFlags::FILES`, which is not among them.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }?;
    Ok(())
}

/// A fanotify group that is asked before a file is opened.
pub(super) fn fanotify_group() -> io::Result<OwnedFd> {
    let flags = libc::FAN_CLASS_CONTENT | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK;
    let event_flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_LARGEFILE;
    // SAFETY: takes two numbers and touches no memory of ours.
    let fd = unsafe { libc::fanotify_init(flags, event_flags.cast_unsigned()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made it, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Asks the group about every file of the file system at `path` that is opened or executed.
pub(super) fn fanotify_watch(group: &OwnedFd, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let flags = libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM;
    let mask = libc::FAN_OPEN_PERM | libc::FAN_OPEN_EXEC_PERM;
    // SAFETY: the path is a NUL-terminated string that outlives the call, which keeps no pointer to it.
    match unsafe { libc::fanotify_mark(group.as_raw_fd(), flags, mask, libc::AT_FDCWD, path.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Takes over a file that an event of the group brought.
pub(super) fn event_file(fd: i32) -> Option<OwnedFd> {
    // SAFETY: the kernel has opened it for the reader of the event, and each event is read once.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Adds attributes to a mount and to every one below it. None is taken away: those that are locked stay.
pub(super) fn set_mount_attributes(tree: &OwnedFd, attributes: u32) -> io::Result<()> {
    /// `struct mount_attr`.
    #[repr(C)]
    struct MountAttributes {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }
    let wanted = MountAttributes { set: attributes.into(), clear: 0, propagation: 0, user_namespace: 0 };
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    let size = size_of::<MountAttributes>();
    // SAFETY: the path and the structure outlive the call, which keeps no pointer to them; the size is the structure's.
    let done = unsafe {
        libc::syscall(libc::SYS_mount_setattr, tree.as_raw_fd(), c"".as_ptr(), flags, &raw const wanted, size)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
