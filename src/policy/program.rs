//! The rules about the program that a container starts: it must be there, and the kernel alone
//! must be able to start it.

use super::finding::{Finding, Level, Rule};
use crate::elf::{Linkage, Program};
use crate::examine::{Presence, Start, Started};
use crate::oci::Platform;

pub(super) fn judge(start: &Start, platform: &Platform) -> Vec<Finding> {
    match start {
        Start::NoCommand | Start::Shell => Vec::new(),
        Start::Lost { name, reasons } => vec![entrypoint_missing(name, reasons)],
        Start::Found(started) => [not_a_binary(started), dynamic_binary(started), wrong_machine(started, platform)]
            .into_iter()
            .flatten()
            .collect(),
    }
}

fn entrypoint_missing(name: &str, reasons: &str) -> Finding {
    Finding::new(Rule::EntrypointMissing, Level::Refuse, format!("the program {name} is not in the rebased image"))
        .about(name)
        .evidence(reasons)
        .fix("it may have come from the old base: put it into the image itself, or check --old-base")
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
        .fix("let ENTRYPOINT name a static program that the image brings along")
}

fn dynamic_binary(started: &Started) -> Option<Finding> {
    let program = started.program.as_ref().filter(|program| program.linkage == Linkage::Dynamic)?;
    Some(
        Finding::new(Rule::DynamicBinary, Level::Refuse, format!("{} is not static", started.path))
            .about(&started.path)
            .evidence(needs(program))
            .fix("build it static (Go: CGO_ENABLED=0, C: -static or -static-pie), or keep it on a base with these libraries"),
    )
}

fn needs(program: &Program) -> String {
    let interpreter = program.interpreter.as_ref().map(|path| format!("interpreter {path}"));
    let libraries = (!program.needed.is_empty()).then(|| format!("libraries {}", program.needed.join(", ")));
    format!("needs {}", interpreter.into_iter().chain(libraries).collect::<Vec<_>>().join("; "))
}

fn wrong_machine(started: &Started, platform: &Platform) -> Option<Finding> {
    let machine = started.program.as_ref()?.machine.as_ref()?;
    if machine == platform.architecture() {
        return None;
    }
    let message = format!("{} is for {machine}, the image for {platform}", started.path);
    Some(
        Finding::new(Rule::WrongMachine, Level::Refuse, message)
            .about(&started.path)
            .evidence(format!("the ELF header says {machine}"))
            .fix("build the program for this platform, or correct the platform of the image"),
    )
}
