//! Programs of other machines: which of them this one executes, and the emulator for the rest.
//!
//! Nothing is registered with the kernel. The emulator is put before the command, so it emulates the first program
//! and not those that this one executes.

use std::path::PathBuf;

use super::runtime::find_program;
use crate::process::Start;
use oci::Platform;

/// Where the emulator is seen in the container.
pub(super) const PLACE: &str = "/.underpin-emulator";

/// How the programs of a platform are executed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Machine {
    Native,
    Emulated(PathBuf),
    /// Why not at all.
    Foreign(String),
}

impl Machine {
    pub(super) fn of(platform: &Platform) -> Self {
        if platform.os() != "linux" {
            return Self::Foreign(format!("{} programs do not run here", platform.os()));
        }
        let here = std::env::consts::ARCH;
        let is_native = match platform.architecture() {
            "amd64" => here == "x86_64",
            "386" => matches!(here, "x86_64" | "x86"),
            "arm64" => here == "aarch64",
            "arm" => here == "arm",
            "riscv64" => here == "riscv64",
            "s390x" => here == "s390x",
            "ppc64le" => here == "powerpc64" && cfg!(target_endian = "little"),
            _ => false,
        };
        if is_native {
            return Self::Native;
        }
        let Some(name) = emulator_name(platform.architecture()) else {
            return Self::Foreign(format!("no emulator is known for {platform}"));
        };
        let program = format!("qemu-{name}-static");
        find_program(&program).map_or_else(
            || Self::Foreign(format!("this machine is {here}, and {program} is not installed")),
            Self::Emulated,
        )
    }
}

fn emulator_name(architecture: &str) -> Option<&'static str> {
    Some(match architecture {
        "amd64" => "x86_64",
        "386" => "i386",
        "arm64" => "aarch64",
        "arm" => "arm",
        "riscv64" => "riscv64",
        "s390x" => "s390x",
        "ppc64le" => "ppc64le",
        "loong64" => "loongarch64",
        "mips64le" => "mips64el",
        _ => return None,
    })
}

/// The command with the emulator before it; why not, where it cannot be.
pub(super) fn emulated(start: &Start, argv: &[String]) -> Result<Vec<String>, String> {
    let first = start.chain.first().ok_or_else(|| "its program was not found".to_owned())?;
    if first.program.as_ref().is_some_and(|program| program.script.is_some()) {
        return Err("its command is a script, which the emulator cannot execute".to_owned());
    }
    let lead = [PLACE.to_owned(), "-0".to_owned(), first.word.clone(), first.path.to_string()];
    Ok(lead.into_iter().chain(argv.iter().skip(1).cloned()).collect())
}
