//! What is mounted into the root of an image before the runtime sees it: files and directories of the host, read-only
//! with everything that is mounted below them, and the empty volumes of a pod.
//!
//! Each is made as a tree that is mounted nowhere, given its rights, and only then attached, to a descriptor: no path is
//! looked up a second time, and at no moment is anything writable that must not be.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, fstat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, mount_remount, move_mount, open_tree,
};

use super::syscalls::set_mount_attributes;
use oci::error::{Error, Kind, Result};

/// What programs may do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

impl Access {
    fn attributes(self) -> MountAttrFlags {
        let always = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        match self {
            Self::Read => always | MountAttrFlags::MOUNT_ATTR_RDONLY,
            Self::Write => always,
        }
    }

    fn flags(self) -> MountFlags {
        let always = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::BIND;
        match self {
            Self::Read => always | MountFlags::RDONLY,
            Self::Write => always,
        }
    }
}

/// Something to mount, with its rights.
#[derive(Debug)]
pub(super) struct MountTree {
    tree: OwnedFd,
    pub(super) is_directory: bool,
    pub(super) access: Access,
    /// Whether a kernel before 5.12 has yet to be told of the access, once it is attached.
    has_to_be_remounted: bool,
}

impl MountTree {
    /// A path of the host, with what is mounted below it.
    pub(super) fn of_host(from: &Path, access: Access) -> Result<Self> {
        let failed = |error: Errno| Error::io("a path of the host could not be mounted", from, &error.into());
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        let tree = open_tree(CWD, from, flags).map_err(failed)?;
        let found = fstat(&tree).map_err(failed)?;
        let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        let has_to_be_remounted = match set_mount_attributes(&tree, access.attributes().bits()) {
            Ok(()) => false,
            // There is nothing below a file.
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) && !is_directory => true,
            Err(error) => {
                return Err(Error::io("what is mounted below a directory could not be made read-only", from, &error)
                    .hint("mount single files with --start-mount, or run underpin on Linux 5.12 or newer"));
            }
        };
        Ok(Self { tree, is_directory, access, has_to_be_remounted })
    }

    /// An empty directory in memory that everybody may write to, where anybody may.
    pub(super) fn empty(access: Access) -> Result<Self> {
        let made = || -> rustix::io::Result<OwnedFd> {
            let system = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
            for (name, value) in [("source", "tmpfs"), ("mode", "1777"), ("size", "65536k")] {
                fsconfig_set_string(&system, name, value)?;
            }
            fsconfig_create(&system)?;
            fsmount(&system, FsMountFlags::FSMOUNT_CLOEXEC, access.attributes())
        };
        let tree = made().map_err(|error| Error::new(Kind::Io, "could not make an empty volume").cause(error))?;
        Ok(Self { tree, is_directory: true, access, has_to_be_remounted: false })
    }

    /// Attaches it to what is open as `place`.
    pub(super) fn attach(self, place: &OwnedFd, shown: &str) -> Result<()> {
        let attached = || -> rustix::io::Result<()> {
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
            move_mount(&self.tree, "", place, "", flags)?;
            if !self.has_to_be_remounted {
                return Ok(());
            }
            mount_remount(format!("/proc/self/fd/{}", self.tree.as_raw_fd()), self.access.flags(), "")
        };
        attached().map_err(|error| {
            Error::new(Kind::Io, "could not mount into the image")
                .fact("path", oci::error::printable(shown))
                .cause(error)
        })
    }
}
