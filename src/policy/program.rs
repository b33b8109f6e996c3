//! The rules about the program that a container starts: it must be there, and the kernel alone
//! must be able to start it.

use crate::elf::{Class, Endian, FloatAbi, Linkage, Program};
use crate::oci::Platform;
use crate::process::{Presence, Start, Started, Startup};

use crate::rules::{Finding, Level, Rule};

pub(super) fn judge(startup: &Startup, platform: &Platform) -> Vec<Finding> {
    let wrappers = startup.wrappers.iter().flat_map(|start| judge_start(start, None, platform));
    judge_start(&startup.program, startup.lost_in.as_deref(), platform).into_iter().chain(wrappers).collect()
}

fn judge_start(start: &Start, lost_in: Option<&str>, platform: &Platform) -> Vec<Finding> {
    match start {
        Start::NoCommand | Start::Shell => Vec::new(),
        Start::Lost { name, reasons } => vec![entrypoint_missing(name, reasons, lost_in)],
        Start::Found(started) => [not_a_binary(started), dynamic_binary(started), wrong_machine(started, platform)]
            .into_iter()
            .flatten()
            .collect(),
    }
}

fn entrypoint_missing(name: &str, reasons: &str, lost_in: Option<&str>) -> Finding {
    let (evidence, fix) = match lost_in {
        Some(path) => (
            format!("{reasons}; the source has it at {path}, from its old base"),
            "add it to the image itself, or keep it with --keep",
        ),
        None => {
            (reasons.to_owned(), "the source does not have it either: correct ENTRYPOINT or CMD, or check --old-base")
        }
    };
    Finding::new(Rule::EntrypointMissing, Level::Refuse, format!("the program {name} is not in the rebased image"))
        .about(name)
        .evidence(evidence)
        .fix(fix)
}

fn not_a_binary(started: &Started) -> Option<Finding> {
    let Some(program) = &started.program else {
        return Some(refuse_file(started, "is neither a program nor a script", String::new()));
    };
    let what = match program.linkage {
        Linkage::Static | Linkage::StaticPie | Linkage::Dynamic => return None,
        Linkage::Script if started.interpreter == Presence::There => return None,
        Linkage::Script => "is a script, and its interpreter is not in the rebased image",
        Linkage::SharedObject => "is a library, not a program",
        Linkage::Other => "cannot be read as a program",
    };
    let interpreter = program.script.as_ref().map(|script| script.interpreter.clone());
    Some(refuse_file(started, what, interpreter.unwrap_or_else(|| program.notes.join("; "))))
}

fn refuse_file(started: &Started, what: &str, evidence: String) -> Finding {
    Finding::new(Rule::NotABinary, Level::Refuse, format!("{} {what}", started.path))
        .about(&started.path)
        .evidence(evidence)
        .fix("set ENTRYPOINT to a statically linked program in the image")
}

fn dynamic_binary(started: &Started) -> Option<Finding> {
    let program = started.program.as_ref().filter(|program| program.linkage == Linkage::Dynamic)?;
    Some(
        Finding::new(Rule::DynamicBinary, Level::Refuse, format!("{} is not statically linked", started.path))
            .about(&started.path)
            .evidence(needs(program))
            .fix("build it statically (Go: CGO_ENABLED=0, C: -static or -static-pie), or keep it on a base with these libraries"),
    )
}

fn needs(program: &Program) -> String {
    let interpreter = program.interpreter.as_ref().map(|path| format!("interpreter {path}"));
    let libraries = (!program.needed.is_empty()).then(|| format!("libraries {}", program.needed.join(", ")));
    format!("needs {}", interpreter.into_iter().chain(libraries).collect::<Vec<_>>().join("; "))
}

fn wrong_machine(started: &Started, platform: &Platform) -> Option<Finding> {
    let program = started.program.as_ref()?;
    let (is_for, says) = misfit(program, platform)?;
    let message = format!("{} is for {is_for}, the image for {platform}", started.path);
    Some(
        Finding::new(Rule::WrongMachine, Level::Refuse, message)
            .about(&started.path)
            .evidence(format!("the ELF header says {says}"))
            .fix("build the program for this platform, or correct the platform of the image"),
    )
}

/// What keeps a program from starting on a platform: what it is for, and what of its header says so.
fn misfit(program: &Program, platform: &Platform) -> Option<(String, String)> {
    let machine = program.machine.as_ref()?;
    if machine != platform.architecture() {
        return Some((machine.clone(), machine.clone()));
    }
    if let (Some(class), Some(endian), Some(form)) = (program.class, program.endian, form(machine))
        && form != (class, endian)
    {
        let words = format!("{machine} with {} bits, {}-endian", class.bits(), endian.word());
        return Some((name_of(machine, class, endian), words));
    }
    let abi = program.float_abi.filter(|abi| floats_differ(*abi, program.linkage, platform))?;
    let words = format!("arm with {}-float arguments", abi.word());
    Some((words.clone(), words))
}

/// The one form in which Linux runs programs of a machine. x32 on amd64 and ILP32 on arm64 are
/// others, which kernels are built without.
fn form(machine: &str) -> Option<(Class, Endian)> {
    match machine {
        "386" | "arm" | "mipsle" => Some((Class::Bits32, Endian::Little)),
        "mips" => Some((Class::Bits32, Endian::Big)),
        "amd64" | "arm64" | "ppc64le" | "riscv64" | "loong64" | "mips64le" => Some((Class::Bits64, Endian::Little)),
        "ppc64" | "s390x" | "mips64" => Some((Class::Bits64, Endian::Big)),
        _ => None,
    }
}

fn name_of(machine: &str, class: Class, endian: Endian) -> String {
    match (machine, class, endian) {
        ("amd64", Class::Bits32, Endian::Little) => "x32".to_owned(),
        _ => format!("{}-bit {}-endian {machine}", class.bits(), endian.word()),
    }
}

/// `arm/v5` may have no unit for floating point. From `arm/v7` on libraries take such arguments in
/// its registers. A static program can do without: it calls nobody. `arm/v6` comes in both kinds.
fn floats_differ(abi: FloatAbi, linkage: Linkage, platform: &Platform) -> bool {
    match (abi, platform.variant()) {
        (FloatAbi::Hard, "v5") => true,
        (FloatAbi::Soft, "v7" | "v8") => linkage == Linkage::Dynamic,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Class::{Bits32, Bits64};
    use Endian::{Big, Little};
    use FloatAbi::{Hard, Soft};

    fn reason(machine: &str, class: Class, endian: Endian, platform: &str) -> Option<String> {
        let program = Program {
            machine: Some(machine.to_owned()),
            class: Some(class),
            endian: Some(endian),
            ..Program::of(Linkage::Static)
        };
        misfit(&program, &platform.parse().unwrap()).map(|(is_for, _)| is_for)
    }

    #[test]
    fn a_program_has_the_machine_the_width_and_the_byte_order_of_the_platform() {
        for (machine, class, endian, platform, expected) in [
            ("amd64", Bits64, Little, "linux/amd64", None),
            ("amd64", Bits64, Little, "linux/amd64/v3", None),
            ("amd64", Bits32, Little, "linux/amd64", Some("x32")),
            ("386", Bits32, Little, "linux/386", None),
            ("386", Bits32, Little, "linux/amd64", Some("386")),
            ("arm64", Bits64, Little, "linux/arm64", None),
            ("arm64", Bits64, Little, "linux/arm64/v9", None),
            ("arm64", Bits32, Little, "linux/arm64", Some("32-bit little-endian arm64")),
            ("arm64", Bits64, Big, "linux/arm64", Some("64-bit big-endian arm64")),
            ("arm", Bits32, Little, "linux/arm/v6", None),
            ("arm", Bits32, Big, "linux/arm/v7", Some("32-bit big-endian arm")),
            ("arm", Bits32, Little, "linux/arm64", Some("arm")),
            ("ppc64le", Bits64, Little, "linux/ppc64le", None),
            ("ppc64", Bits64, Big, "linux/ppc64le", Some("ppc64")),
            ("s390x", Bits64, Big, "linux/s390x", None),
            ("riscv64", Bits64, Little, "linux/riscv64", None),
            ("mips64le", Bits64, Little, "linux/mips64le", None),
            ("unknown(9)", Bits32, Big, "linux/amd64", Some("unknown(9)")),
        ] {
            assert_eq!(reason(machine, class, endian, platform).as_deref(), expected, "{machine} {class:?} {platform}");
        }
    }

    #[test]
    fn a_float_abi_counts_where_it_keeps_a_program_from_starting() {
        for (abi, linkage, platform, fits) in [
            (Some(Hard), Linkage::Static, "linux/arm/v7", true),
            (Some(Hard), Linkage::Static, "linux/arm/v6", true),
            (Some(Hard), Linkage::Static, "linux/arm/v5", false),
            (Some(Hard), Linkage::Dynamic, "linux/arm/v5", false),
            (Some(Soft), Linkage::Static, "linux/arm/v5", true),
            (Some(Soft), Linkage::Static, "linux/arm/v7", true),
            (Some(Soft), Linkage::Dynamic, "linux/arm/v7", false),
            (Some(Soft), Linkage::Dynamic, "linux/arm", false),
            (Some(Soft), Linkage::Dynamic, "linux/arm/v6", true),
            (None, Linkage::Dynamic, "linux/arm/v7", true),
            (None, Linkage::Static, "linux/arm/v5", true),
        ] {
            let program = Program { machine: Some("arm".to_owned()), float_abi: abi, ..Program::of(linkage) };
            assert_eq!(misfit(&program, &platform.parse().unwrap()).is_none(), fits, "{abi:?} {linkage:?} {platform}");
        }
    }
}
