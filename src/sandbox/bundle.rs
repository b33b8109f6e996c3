//! `config.json` of the OCI runtime-spec: the process that `process` says the image starts, and what confines it.
//!
//! The surroundings are containerd's, as far as they let a program start: the same capabilities, masked paths and
//! devices. What is tighter: no network but loopback, no new privileges, fewer system calls (`seccomp`), and limits on
//! memory and processes. What is mounted is mounted here (`mounts`), but for the file systems that every runtime mounts.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::image_root::{Blocked, ContainerPath, ImageRoot, Need};
use super::mounts::{Access, MountTree};
use super::seccomp;
use oci::error::{Error, Result};

/// Bytes of memory that all processes together may use, what they write included.
pub(super) const MEMORY: u64 = 1 << 30;
/// Processes and threads.
pub(super) const PROCESSES: u64 = 512;
/// Bytes that they may write to files.
pub(super) const WRITTEN: u64 = 256 << 20;

/// What containerd and Docker give a container that asks for nothing.
pub(super) const CAPABILITIES: [&str; 14] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FSETID",
    "CAP_FOWNER",
    "CAP_MKNOD",
    "CAP_NET_RAW",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETFCAP",
    "CAP_SETPCAP",
    "CAP_NET_BIND_SERVICE",
    "CAP_SYS_CHROOT",
    "CAP_KILL",
    "CAP_AUDIT_WRITE",
];

const MASKED: [&str; 11] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
];

const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Whose rights a start has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum StartRights {
    Root,
    /// Those of root in a user namespace: there may be no control group to limit anything.
    Namespace,
}

/// A file or directory of the host that the container sees, read-only.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct HostMount {
    pub(super) from: PathBuf,
    pub(super) to: String,
    pub(super) is_own: bool,
}

/// A volume of a pod: empty, since what it has is not the image's.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct EmptyVolume {
    pub(super) to: String,
    /// An empty file of its own, where it is no directory.
    pub(super) file: Option<PathBuf>,
    pub(super) is_writable: bool,
}

impl EmptyVolume {
    fn tree(&self) -> Result<MountTree> {
        let access = if self.is_writable { Access::Write } else { Access::Read };
        match &self.file {
            Some(file) => MountTree::of_host(file, access),
            None => MountTree::empty(access),
        }
    }
}

/// What the container is made of.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Bundle {
    /// Where its root is mounted, and where it has files of its own.
    pub(super) place: PathBuf,
    pub(super) id: String,
    pub(super) argv: Vec<String>,
    pub(super) environment: Vec<String>,
    /// As the image has it.
    pub(super) working_dir: String,
    pub(super) uid: u64,
    pub(super) gid: u64,
    pub(super) groups: Vec<u64>,
    pub(super) volumes: Vec<EmptyVolume>,
    pub(super) has_read_only_root: bool,
    pub(super) mounts: Vec<HostMount>,
    pub(super) rights: StartRights,
}

/// What the runtime is left to mount.
struct LaterMount {
    from: PathBuf,
    to: ContainerPath,
    access: Access,
}

/// A bundle whose root has everything that the runtime is told of.
pub(super) struct PreparedBundle<'a> {
    bundle: &'a Bundle,
    working_dir: ContainerPath,
    /// Below `/dev`, which only the runtime mounts.
    later: Vec<LaterMount>,
}

impl Bundle {
    pub(super) fn root(&self) -> PathBuf {
        self.place.join(super::ROOT)
    }

    /// Mounts what is to be mounted into the root, and makes everything else that the runtime would otherwise make.
    /// What was replaced is noted.
    pub(super) fn prepare(
        &self,
        replaced: &mut Vec<String>,
    ) -> Result<std::result::Result<PreparedBundle<'_>, Blocked>> {
        let root = ImageRoot::open(&self.root())?;
        replaced.extend(root.prepare_for_runtime()?);
        let volumes = self.volumes.iter().map(|volume| (volume.to.as_str(), false, volume.tree()));
        let bound = self
            .mounts
            .iter()
            .map(|mount| (mount.to.as_str(), mount.is_own, MountTree::of_host(&mount.from, Access::Read)));
        let mut later = Vec::new();
        for (number, (to, is_own, tree)) in volumes.chain(bound).enumerate() {
            let tree = tree?;
            let need = match (tree.is_directory, is_own) {
                (true, _) => Need::Directory,
                (false, false) => Need::File,
                (false, true) => Need::OwnFile,
            };
            let point = match root.prepare(to, need, replaced)? {
                Ok(point) => point,
                Err(reason) => return Ok(Err(reason)),
            };
            if let Some(file) = &point.file {
                tree.attach(file, to)?;
            } else {
                let access = tree.access;
                later.push(LaterMount { from: self.attach_outside(number, tree)?, to: point.path, access });
            }
        }
        let working_dir = match self.working_dir.as_str() {
            path if path.starts_with('/') => root.prepare(path, Need::WorkingDirectory, replaced)?,
            path => Err(format!("the working directory {} is not absolute", oci::error::printable(path))),
        };
        Ok(working_dir.map(|found| PreparedBundle { bundle: self, working_dir: found.path, later }))
    }

    /// Attaches a tree beside the root, from where the runtime mounts it.
    fn attach_outside(&self, number: usize, tree: MountTree) -> Result<PathBuf> {
        let path = self.place.join(format!("mount-{number}"));
        let made =
            if tree.is_directory { std::fs::create_dir(&path) } else { std::fs::File::create_new(&path).map(drop) };
        let failed = |error: &std::io::Error| Error::io("could not make a place for a mount", &path, error);
        made.map_err(|error| failed(&error))?;
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC;
        let place = rustix::fs::open(&path, flags, rustix::fs::Mode::empty());
        tree.attach(&place.map_err(|error| failed(&error.into()))?, &path.display().to_string())?;
        Ok(path)
    }
}

impl PreparedBundle<'_> {
    /// The whole document.
    pub(super) fn config(&self) -> Result<Value> {
        Ok(json!({
            "ociVersion": "1.0.2",
            "process": self.process(&self.bundle.argv),
            "root": {"path": self.bundle.root(), "readonly": self.bundle.has_read_only_root},
            "hostname": "underpin",
            "mounts": self.mounts(),
            "linux": self.linux()?,
        }))
    }

    /// A process of the container: the first one, or that of a health check.
    pub(super) fn process(&self, argv: &[String]) -> Value {
        let all = json!(CAPABILITIES);
        // As Docker has it: only root starts with any.
        let capabilities = match self.bundle.uid {
            0 => json!({"bounding": all, "effective": all, "permitted": all}),
            _ => json!({"bounding": all}),
        };
        let mut rlimits = vec![json!({"type": "RLIMIT_CORE", "hard": 0, "soft": 0})];
        if self.bundle.rights == StartRights::Namespace {
            rlimits.push(json!({"type": "RLIMIT_FSIZE", "hard": WRITTEN, "soft": WRITTEN}));
            rlimits.push(json!({"type": "RLIMIT_NPROC", "hard": PROCESSES, "soft": PROCESSES}));
        }
        json!({
            "terminal": false,
            "user": {"uid": self.bundle.uid, "gid": self.bundle.gid, "additionalGids": self.bundle.groups},
            "args": argv,
            "env": self.bundle.environment,
            "cwd": self.working_dir,
            "capabilities": capabilities,
            "rlimits": rlimits,
            "noNewPrivileges": true,
        })
    }

    /// The file systems that every runtime mounts on real directories, and what is mounted below `/dev`.
    fn mounts(&self) -> Vec<Value> {
        let mount = |to: &str, kind: &str, options: &[&str]| json!({"destination": to, "type": kind, "source": kind, "options": options});
        let terminals: &[&str] = match self.bundle.rights {
            StartRights::Root => &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"],
            StartRights::Namespace => &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"],
        };
        let mut mounts = vec![
            mount("/proc", "proc", &["nosuid", "noexec", "nodev"]),
            mount("/dev", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
            mount("/dev/pts", "devpts", terminals),
            mount("/dev/shm", "tmpfs", &["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]),
            mount("/dev/mqueue", "mqueue", &["nosuid", "noexec", "nodev"]),
            mount("/sys", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
        ];
        // A runtime sets the rights of what it binds anew: those at the top, and none below.
        let bound = |later: &LaterMount| {
            let access = if later.access == Access::Read { "ro" } else { "rw" };
            json!({"destination": later.to, "type": "bind", "source": later.from, "options": ["rbind", "rprivate", access, "nosuid", "nodev"]})
        };
        mounts.extend(self.later.iter().map(bound));
        mounts
    }

    fn linux(&self) -> Result<Value> {
        let kinds = ["pid", "network", "ipc", "uts", "mount"];
        let namespaces: Vec<Value> = kinds.into_iter().map(|kind| json!({"type": kind})).collect();
        let mut linux = json!({
            "namespaces": namespaces,
            "maskedPaths": MASKED,
            "readonlyPaths": READ_ONLY,
            "seccomp": seccomp::filter(std::env::consts::ARCH)?,
            "sysctl": {"net.ipv4.ip_unprivileged_port_start": "0"},
        });
        if let (Some(members), StartRights::Root) = (linux.as_object_mut(), self.bundle.rights) {
            members.insert("cgroupsPath".to_owned(), format!("/{}", self.bundle.id).into());
            members.insert("resources".to_owned(), resources());
        }
        Ok(linux)
    }
}

/// Limits, and the devices that every container has.
fn resources() -> Value {
    let device =
        |major: i64, minor: i64| json!({"allow": true, "type": "c", "major": major, "minor": minor, "access": "rwm"});
    let mut devices = vec![json!({"allow": false, "access": "rwm"})];
    devices.extend([(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2)].map(|(major, minor)| device(major, minor)));
    devices.push(json!({"allow": true, "type": "c", "major": 136, "access": "rwm"}));
    json!({"devices": devices, "memory": {"limit": MEMORY, "swap": MEMORY}, "pids": {"limit": PROCESSES}})
}
