//! `config.json` of the OCI runtime-spec: the process that `process` says the image starts, and what confines it.
//!
//! The surroundings are containerd's, as far as they let a program start: the same capabilities, masked paths and
//! devices. What is tighter: no network but loopback, no new privileges, no system calls that only an attack needs,
//! and limits on memory and processes.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::process::{Start, StartDirectory};
use crate::rootfs::Credentials;

/// Bytes of memory that all processes together may use, what they write included.
pub(super) const MEMORY: u64 = 1 << 30;
/// Processes and threads.
pub(super) const PROCESSES: u64 = 512;
/// Bytes that they may write to files.
pub(super) const WRITTEN: u64 = 256 << 20;

/// What containerd and Docker give a container that asks for nothing.
const CAPABILITIES: [&str; 14] = [
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

/// System calls that containerd's profile does not let a container make, either.
const DENIED: [&str; 43] = [
    "acct",
    "add_key",
    "bpf",
    "clock_adjtime",
    "clock_settime",
    "create_module",
    "delete_module",
    "fanotify_init",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "init_module",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "mount",
    "mount_setattr",
    "move_mount",
    "name_to_handle_at",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "quotactl",
    "reboot",
    "request_key",
    "setns",
    "settimeofday",
    "swapoff",
    "swapon",
    "umount2",
    "unshare",
    "userfaultfd",
    "vhangup",
];

/// Whose rights a start has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartRights {
    Root,
    /// Those of root in a user namespace: there may be no control group to limit anything.
    Namespace,
}

/// A file or directory of the host that the container sees, read-only.
#[derive(Debug, Clone)]
pub(super) struct HostMount {
    pub(super) from: PathBuf,
    pub(super) to: String,
}

/// A volume of a pod: empty, since what it has is not the image's.
#[derive(Debug, Clone)]
pub(super) struct EmptyVolume {
    pub(super) to: String,
    /// An empty file of its own, where it is no directory.
    pub(super) file: Option<PathBuf>,
    pub(super) is_writable: bool,
}

impl EmptyVolume {
    fn mount(&self) -> Value {
        let access = if self.is_writable { "rw" } else { "ro" };
        match &self.file {
            Some(file) => {
                json!({"destination": self.to, "type": "bind", "source": file, "options": ["bind", "rprivate", access, "nosuid", "nodev"]})
            }
            None => {
                json!({"destination": self.to, "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777", "size=65536k", access]})
            }
        }
    }
}

/// What the container is made of.
pub(super) struct Bundle<'a> {
    pub(super) root: &'a Path,
    pub(super) id: &'a str,
    pub(super) start: &'a Start,
    pub(super) argv: &'a [String],
    pub(super) environment: Vec<String>,
    pub(super) who: &'a Credentials,
    pub(super) volumes: &'a [EmptyVolume],
    pub(super) has_read_only_root: bool,
    pub(super) mounts: &'a [HostMount],
    pub(super) rights: StartRights,
}

impl Bundle<'_> {
    /// The whole document.
    pub(super) fn config(&self) -> Value {
        json!({
            "ociVersion": "1.0.2",
            "process": self.process(self.argv),
            "root": {"path": self.root, "readonly": self.has_read_only_root},
            "hostname": "underpin",
            "mounts": self.mounts(),
            "linux": self.linux(),
        })
    }

    /// A process of the container: the first one, or that of a health check.
    pub(super) fn process(&self, argv: &[String]) -> Value {
        let all = json!(CAPABILITIES);
        // As Docker has it: only root starts with any.
        let capabilities = match self.who.uid {
            0 => json!({"bounding": all, "effective": all, "permitted": all}),
            _ => json!({"bounding": all}),
        };
        let StartDirectory { written, .. } = &self.start.working_dir;
        let mut rlimits = vec![json!({"type": "RLIMIT_CORE", "hard": 0, "soft": 0})];
        if self.rights == StartRights::Namespace {
            rlimits.push(json!({"type": "RLIMIT_FSIZE", "hard": WRITTEN, "soft": WRITTEN}));
            rlimits.push(json!({"type": "RLIMIT_NPROC", "hard": PROCESSES, "soft": PROCESSES}));
        }
        json!({
            "terminal": false,
            "user": {"uid": self.who.uid, "gid": self.who.gid, "additionalGids": self.who.groups},
            "args": argv,
            "env": self.environment,
            "cwd": written,
            "capabilities": capabilities,
            "rlimits": rlimits,
            "noNewPrivileges": true,
        })
    }

    fn mounts(&self) -> Vec<Value> {
        let mount = |to: &str, kind: &str, options: &[&str]| json!({"destination": to, "type": kind, "source": kind, "options": options});
        let terminals: &[&str] = match self.rights {
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
        let bound = |of: &HostMount| json!({"destination": of.to, "type": "bind", "source": of.from, "options": ["rbind", "rprivate", "ro", "nosuid", "nodev"]});
        mounts.extend(self.volumes.iter().map(EmptyVolume::mount));
        mounts.extend(self.mounts.iter().map(bound));
        mounts
    }

    fn linux(&self) -> Value {
        let kinds = ["pid", "network", "ipc", "uts", "mount"];
        let namespaces: Vec<Value> = kinds.into_iter().map(|kind| json!({"type": kind})).collect();
        let mut linux = json!({
            "namespaces": namespaces,
            "maskedPaths": MASKED,
            "readonlyPaths": READ_ONLY,
            "seccomp": seccomp(),
            "sysctl": {"net.ipv4.ip_unprivileged_port_start": "0"},
        });
        if let (Some(members), StartRights::Root) = (linux.as_object_mut(), self.rights) {
            members.insert("cgroupsPath".to_owned(), format!("/{}", self.id).into());
            members.insert("resources".to_owned(), resources());
        }
        linux
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

fn seccomp() -> Value {
    const NOT_PERMITTED: i32 = 1;
    const NO_SUCH_CALL: i32 = 38;
    const NEW_USER_NAMESPACE: i64 = 0x1000_0000;
    let architectures: &[&str] = match std::env::consts::ARCH {
        "x86_64" => &["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
        "aarch64" => &["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"],
        _ => &[],
    };
    let flag =
        json!({"index": 0, "value": NEW_USER_NAMESPACE, "valueTwo": NEW_USER_NAMESPACE, "op": "SCMP_CMP_MASKED_EQ"});
    json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": architectures,
        "syscalls": [
            {"names": DENIED.as_slice(), "action": "SCMP_ACT_ERRNO", "errnoRet": NOT_PERMITTED},
            {"names": ["clone"], "action": "SCMP_ACT_ERRNO", "errnoRet": NOT_PERMITTED, "args": [flag]},
            // Its flags are in memory, where no filter sees them; programs then use clone.
            {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": NO_SUCH_CALL},
        ],
    })
}
