//! A disk that fills: a tmpfs of a few blocks. Needs root and the right to mount.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

pub struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    /// A disk of `size` (as `mount` writes it), or `None`, said loudly, where nothing may be mounted.
    pub fn new(size: &str) -> Option<Self> {
        let disk = Self { folder: tempfile::tempdir().unwrap() };
        let mounted = disk.mount(&format!("size={size}"));
        if !mounted {
            eprintln!("SKIPPED: a tmpfs cannot be mounted here");
        }
        mounted.then_some(disk)
    }

    fn mount(&self, options: &str) -> bool {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(self.folder.path());
        mount.output().is_ok_and(|out| out.status.success())
    }

    pub fn grow(&self, size: &str) {
        self.remount(&format!("size={size}"));
    }

    pub fn remount(&self, options: &str) {
        assert!(self.mount(&format!("remount,{options}")));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.folder.path()).output();
    }
}

#[test]
fn a_small_disk_fills_and_grows() {
    let Some(disk) = SmallDisk::new("64k") else { return };
    let bytes = vec![1; 200_000];
    assert!(std::fs::write(disk.path("file"), &bytes).is_err());
    disk.grow("1m");
    assert!(std::fs::write(disk.path("file"), &bytes).is_ok());
}
