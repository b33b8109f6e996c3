//! The system calls that a program in the sandbox may make: Docker's default profile, less what only an attack needs.
//!
//! `seccomp-default.json` is the profile as data, with its version; its conditions are resolved here for what every
//! container of ours has. Rules only allow: what is taken away is left out, so that the default action denies it.

use serde::Deserialize;
use serde_json::{Value, json};

use super::bundle::CAPABILITIES;
use oci::error::{Error, Kind, Result};

const PROFILE: &str = include_str!("seccomp-default.json");

const ALLOW: &str = "SCMP_ACT_ALLOW";
const DENY: &str = "SCMP_ACT_ERRNO";
const NO_SUCH_CALL: u32 = 38;

/// Calls that the profile allows, and that no program needs in order to start.
const TAKEN_AWAY: [&str; 6] =
    ["clock_adjtime", "clock_adjtime64", "name_to_handle_at", "process_vm_readv", "process_vm_writev", "ptrace"];

/// The families of sockets that are left: local, IPv4, IPv6, netlink, packet. The profile has all but one, `AF_VSOCK`,
/// and compares 64 bits, of which the kernel takes 32: so it lets that one pass, too, with a bit set above.
const FAMILIES: [u64; 5] = [1, 2, 10, 16, 17];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    default_action: String,
    default_errno_ret: u32,
    arch_map: Vec<Architecture>,
    syscalls: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Architecture {
    architecture: String,
    sub_architectures: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    names: Vec<String>,
    action: String,
    errno_ret: Option<u32>,
    #[serde(default)]
    args: Vec<Value>,
    #[serde(default)]
    includes: Condition,
    #[serde(default)]
    excludes: Condition,
}

/// All of it must hold; an empty one always does.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[serde(default)]
    caps: Vec<String>,
    #[serde(default)]
    arches: Vec<String>,
    min_kernel: Option<String>,
}

impl Rule {
    /// Whether it is for a container with our capabilities on this machine. A rule for newer kernels only is for none.
    fn applies(&self, machine: &str) -> bool {
        let has = |name: &String| CAPABILITIES.contains(&name.as_str());
        let is_here = |name: &String| name == machine;
        let (with, without) = (&self.includes, &self.excludes);
        with.caps.iter().all(has)
            && (with.arches.is_empty() || with.arches.iter().any(is_here))
            && with.min_kernel.is_none()
            && !without.caps.iter().any(has)
            && !without.arches.iter().any(is_here)
    }

    fn resolved(&self) -> Option<Value> {
        let is_left = |name: &&String| !TAKEN_AWAY.contains(&name.as_str()) && !is_socket(name);
        let names: Vec<&String> = self.names.iter().filter(is_left).collect();
        if names.is_empty() {
            return None;
        }
        let mut rule = json!({"names": names, "action": self.action});
        if let Some(members) = rule.as_object_mut() {
            members.extend(self.errno_ret.map(|number| ("errnoRet".to_owned(), number.into())));
            members.extend((!self.args.is_empty()).then(|| ("args".to_owned(), self.args.clone().into())));
        }
        Some(rule)
    }
}

fn is_socket(name: &str) -> bool {
    matches!(name, "socket" | "socketcall")
}

/// The filter for a machine, as the runtime-spec has it. `arch` is Rust's name for it.
pub(super) fn filter(arch: &str) -> Result<Value> {
    let profile: Profile = serde_json::from_str(PROFILE)
        .map_err(|error| Error::new(Kind::Io, "the profile of system calls is damaged").cause(error))?;
    let (machine, native) = match arch {
        "x86_64" => ("amd64", "SCMP_ARCH_X86_64"),
        "aarch64" => ("arm64", "SCMP_ARCH_AARCH64"),
        "s390x" => ("s390x", "SCMP_ARCH_S390X"),
        "riscv64" => ("riscv64", "SCMP_ARCH_RISCV64"),
        "powerpc64" => ("ppc64le", "SCMP_ARCH_PPC64LE"),
        other => (other, ""),
    };
    let known = profile.arch_map.iter().find(|known| known.architecture == native);
    let architectures =
        known.into_iter().flat_map(|known| [&known.architecture].into_iter().chain(&known.sub_architectures));
    let architectures: Vec<&String> = architectures.collect();
    let rules = profile.syscalls.iter().filter(|rule| rule.applies(machine)).filter_map(Rule::resolved);
    let rules: Vec<Value> = rules.chain(sockets(machine)).collect();
    Ok(json!({
        "defaultAction": profile.default_action,
        "defaultErrnoRet": profile.default_errno_ret,
        "architectures": architectures,
        "syscalls": rules,
    }))
}

/// Sockets by family. `socketcall` has its arguments in memory, where no filter sees them: only machines whose programs
/// have no other call keep it.
fn sockets(machine: &str) -> Vec<Value> {
    const LOWER_HALF: u64 = 0xffff_ffff;
    let of_family = |family: u64| {
        let is_family = json!({"index": 0, "value": LOWER_HALF, "valueTwo": family, "op": "SCMP_CMP_MASKED_EQ"});
        json!({"names": ["socket"], "action": ALLOW, "args": [is_family]})
    };
    let multiplexed = match machine {
        "amd64" | "arm64" => json!({"names": ["socketcall"], "action": DENY, "errnoRet": NO_SUCH_CALL}),
        _ => json!({"names": ["socketcall"], "action": ALLOW}),
    };
    FAMILIES.into_iter().map(of_family).chain([multiplexed]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(filter: &Value) -> Vec<&str> {
        let rules = filter["syscalls"].as_array().unwrap().iter();
        let allowing = rules.filter(|rule| rule["action"] == ALLOW);
        allowing.flat_map(|rule| rule["names"].as_array().unwrap()).map(|name| name.as_str().unwrap()).collect()
    }

    #[test]
    fn conditions_are_resolved_for_the_machine_and_our_capabilities() {
        for (arch, own, not_own) in [
            ("x86_64", ["arch_prctl", "modify_ldt"], ["set_tls", "riscv_flush_icache"]),
            ("aarch64", ["set_tls", "sync_file_range2"], ["arch_prctl", "modify_ldt"]),
            ("riscv64", ["riscv_flush_icache", "socketcall"], ["arch_prctl", "set_tls"]),
            ("s390x", ["s390_runtime_instr", "socketcall"], ["arch_prctl", "set_tls"]),
            ("unknown", ["read", "socketcall"], ["arch_prctl", "set_tls"]),
        ] {
            let filter = filter(arch).unwrap();
            let allowed = allowed(&filter);
            // By a capability that we have, and one that we do not.
            assert!(allowed.contains(&"chroot") && !allowed.contains(&"mount"), "{arch}");
            assert!(own.iter().all(|name| allowed.contains(name)), "{arch}");
            assert!(!not_own.iter().any(|name| allowed.contains(name)), "{arch}");
            assert!(!TAKEN_AWAY.iter().any(|name| allowed.contains(name)), "{arch}");
            for name in
                ["kcmp", "syslog", "open_tree", "open_tree_attr", "mount_setattr", "clone3", "io_uring_setup", "keyctl"]
            {
                assert!(!allowed.contains(&name), "{arch}: {name}");
            }
            assert_eq!((&filter["defaultAction"], &filter["defaultErrnoRet"]), (&json!(DENY), &json!(1)));
        }
    }

    #[test]
    fn calls_that_a_program_does_without_are_said_not_to_exist() {
        let filter = filter("x86_64").unwrap();
        let rules = filter["syscalls"].as_array().unwrap().iter();
        let missing: Vec<_> =
            rules.filter(|rule| rule["errnoRet"] == NO_SUCH_CALL).map(|rule| &rule["names"]).collect();
        assert_eq!(missing, [&json!(["clone3"]), &json!(["socketcall"])]);
    }
}
