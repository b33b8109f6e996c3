//! Disks that fail: an object of `preload.c` that is put between the binary and its C library, of which
//! the binary itself knows nothing; and a tmpfs of a few blocks that fills.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fmt, fs};

use tempfile::TempDir;

use super::invocation::Invocation;
use super::skip::{Part, missing, need, or_skip};
use super::tar_layer::digest;

const SOURCE: &str = include_str!("preload.c");

/// The object, compiled.
pub struct Preload {
    object: PathBuf,
}

/// What happens to the calls that open or change something below a folder. They are counted from 1.
#[derive(Debug, Clone, Copy)]
pub enum Harm {
    None,
    /// This one fails, and no other.
    Fails {
        at: usize,
        errno: i32,
    },
    /// This one fails, and all later ones that would write.
    FailsFrom {
        at: usize,
        errno: i32,
    },
    /// Instead of this one the process is killed.
    Kills {
        at: usize,
    },
    /// Every lock is refused.
    NoLocks {
        errno: i32,
    },
}

/// One of the calls.
#[derive(Debug, Clone)]
pub struct Call {
    /// What it does: `create`, `rename`, `sync-folder`.
    pub kind: String,
    pub path: PathBuf,
    pub failed: bool,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.path.display())
    }
}

impl Preload {
    /// Skips where there is no compiler.
    pub fn new() -> Part<Self> {
        need(&["gcc"])?;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let object = folder.join(format!("preload-{}.so", &digest(SOURCE.as_bytes())[7..23]));
        if !object.exists() {
            // Beside each other: several tests may compile at once.
            let fresh = tempfile::tempdir_in(folder).unwrap();
            let (source, built) = (fresh.path().join("preload.c"), fresh.path().join("preload.so"));
            fs::write(&source, SOURCE).unwrap();
            let mut gcc = Command::new("gcc");
            gcc.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]).arg(&built).arg(&source).arg("-ldl");
            let out = gcc.output().unwrap();
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
            fs::rename(built, &object).unwrap();
        }
        Ok(Self { object })
    }

    /// The run with this disk under it. The calls go to the file `log`.
    pub fn put(&self, invocation: Invocation, under: &Path, log: &Path, harm: Harm) -> Invocation {
        let _ = fs::remove_file(log);
        let invocation = invocation.env("LD_PRELOAD", &self.object).env("DISK_UNDER", under).env("DISK_LOG", log);
        let set = |invocation: Invocation, name: &str, number: usize| invocation.env(name, number.to_string());
        let errno = |invocation: Invocation, errno: i32| invocation.env("DISK_ERRNO", errno.to_string());
        match harm {
            Harm::None => invocation,
            Harm::Fails { at, errno: code } => errno(set(invocation, "DISK_AT", at), code),
            Harm::FailsFrom { at, errno: code } => errno(set(invocation, "DISK_FROM", at), code),
            Harm::Kills { at } => set(invocation, "DISK_AT", at),
            Harm::NoLocks { errno } => invocation.env("DISK_LOCKS", errno.to_string()),
        }
    }

    /// The run with a clock that is so many times faster: a minute of waiting for others is over in seconds.
    pub fn hurry(&self, invocation: Invocation, times: u32) -> Invocation {
        invocation.env("LD_PRELOAD", &self.object).env("CLOCK_TIMES", times.to_string())
    }
}

/// The calls of a log, in their order.
pub fn calls(log: &Path) -> Vec<Call> {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().map(call).collect()
}

fn call(line: &str) -> Call {
    let mut words = line.splitn(3, ' ');
    let mut word = || words.next().unwrap_or_else(|| panic!("not a call: {line}"));
    let (number, kind, path) = (word(), word(), word());
    Call { kind: kind.to_owned(), path: path.into(), failed: number.starts_with('!') }
}

#[test]
fn calls_are_counted_and_one_of_them_fails() {
    use super::invocation::Sandbox;
    let preload = or_skip!(Preload::new());
    let sandbox = Sandbox::new();
    let (disk, log) = (sandbox.path("disk"), sandbox.path("log"));
    fs::create_dir(&disk).unwrap();
    let run = |harm: Harm| {
        let sh = sandbox.program("/bin/sh", ["-c", "echo x >a && mv a b && echo y >$TMPDIR/elsewhere && rm b"]);
        let run = preload.put(sh.current_dir(&disk), &disk, &log, harm).run();
        let calls: Vec<String> =
            calls(&log).iter().map(|call| format!("{}{}", call.kind, if call.failed { "!" } else { "" })).collect();
        (run.status, calls.join(" "))
    };
    let (status, calls) = run(Harm::None);
    assert!(status.success() && calls == "create write rename unlink", "{status} {calls}");
    let (status, calls) = run(Harm::Fails { at: 2, errno: libc::EIO });
    assert!(!status.success() && calls == "create write!", "{status} {calls}");
    let (status, calls) = run(Harm::FailsFrom { at: 1, errno: libc::ENOSPC });
    assert!(!status.success() && calls == "create!", "{status} {calls}");
    let (status, calls) = run(Harm::Kills { at: 2 });
    assert!(
        std::os::unix::process::ExitStatusExt::signal(&status) == Some(libc::SIGKILL) && calls == "create",
        "{status} {calls}"
    );
}

pub struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    /// A disk of `size` (as `mount` writes it), or `None`, said loudly, where nothing may be mounted.
    pub fn new(size: &str) -> Part<Self> {
        let disk = Self { folder: tempfile::tempdir().unwrap() };
        let mounted = disk.mount(&format!("size={size}"));
        if mounted { Ok(disk) } else { Err(missing("the right to mount a tmpfs")) }
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
    let disk = or_skip!(SmallDisk::new("64k"));
    let bytes = vec![1; 200_000];
    assert!(std::fs::write(disk.path("file"), &bytes).is_err());
    disk.grow("1m");
    assert!(std::fs::write(disk.path("file"), &bytes).is_ok());
}
