//! The system calls that a program in the sandbox may not make.

use serde_json::{Value, json};

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

/// The filter for a machine, as the runtime-spec has it.
pub(super) fn filter(arch: &str) -> Value {
    const NOT_PERMITTED: i32 = 1;
    const NO_SUCH_CALL: i32 = 38;
    const NEW_USER_NAMESPACE: i64 = 0x1000_0000;
    let architectures: &[&str] = match arch {
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
