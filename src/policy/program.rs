//! The rules about the programs that a container starts: each must be there, the user must be allowed to
//! execute it, and the kernel, with the loader that the program names, must be able to start it.

use super::interpreted;
use crate::plan::{BringScene, Pass, PodForm};
use crate::process::{ChainEnd, Executed, Helper, Interpreted, InterpreterNow, OwnStartup, Role, Start, Startup};
use crate::rules::{Finding, Level, Rule};
use elf::{Class, Endian, FloatAbi, Language, Linkage, Program};
use layer::RootPath;
use oci::Platform;
use oci::error::typed_word;
use start::link::Missing;

/// So many times it is worked out what a `--bring` would cost, where an image has no command.
const OFFERED: usize = 32;

pub(super) fn judge(pass: &Pass) -> Vec<Finding> {
    let Pass { startup, subject, draft, .. } = pass;
    // What becomes of a shell that is not there has rules of its own.
    let is_stuck = match &pass.pod {
        None => draft.form.is_stuck(),
        Some(pod) => matches!(pod.form, PodForm::Refused(_) | PodForm::NoLog(_)),
    };
    let has_own_rule = is_stuck || interpreted::speaks_of_loss(pass);
    let end = if has_own_rule { None } else { judge_end(&startup.after, Some(&startup.before)) };
    let end = end.map(|finding| with_offer(finding, pass));
    let lacks = startup.after.chain.iter().any(|executed| executed.lacks.is_some())
        || startup.helpers.iter().any(|helper| startup.is_open() && !helper.can_start());
    let roots = lacks.then(|| draft.layers.roots(subject));
    let scene = roots.as_ref().map(|roots| BringScene::new(roots, &draft.container, subject));
    let chain = startup.after.chain.iter();
    let chain = chain.flat_map(|executed| judge_executed(executed, startup, &subject.platform, scene.as_ref()));
    let started = startup.helpers.iter().filter(|_| startup.is_open());
    let scenes = std::iter::repeat_n(scene.as_ref(), OFFERED).chain(std::iter::repeat(None));
    let started = started.zip(scenes).flat_map(|(helper, scene)| judge_helper(helper, &subject.platform, scene));
    let links = pass.seam.dangling.iter().filter(|link| startup.is_open() && link.led_to_program);
    let links = links.map(|link| entrypoint_missing(&link.link, &format!("it points to {}", link.target), None));
    end.into_iter().chain(chain).chain(started).chain(links).collect()
}

/// A program that only the source has can be brought; a script of a language can be given to its interpreter.
fn with_offer(finding: Finding, pass: &Pass) -> Finding {
    let Startup { before, after, interpreted, .. } = &pass.startup;
    match (&after.end, interpreted) {
        (ChainEnd::Lost { word, .. }, _) if before.chain.iter().any(|executed| executed.word == *word) => {
            let roots = pass.draft.layers.roots(&pass.subject);
            let offer = BringScene::new(&roots, &pass.draft.container, &pass.subject).offer_program(word);
            match offer.filter(|offer| offer.bulk.entries > 0) {
                Some(offer) => finding.fix(format!("pass {offer}, or add it to the image itself")),
                None => finding,
            }
        }
        (ChainEnd::NoInterpreter { .. }, Some(Interpreted { now: InterpreterNow::There { path, .. }, .. })) => {
            match after.chain.last().and_then(|script| interpreter_flag(path, script, pass)) {
                Some(flag) => finding.fix(format!("start the interpreter that the new base has: {flag}")),
                None => finding,
            }
        }
        _ => finding,
    }
}

/// The flag that gives the script to its interpreter: every other word of ENTRYPOINT or CMD stays. There is none where a
/// pod or another script names it.
fn interpreter_flag(interpreter: &RootPath, script: &Executed, pass: &Pass) -> Option<String> {
    let command = &pass.draft.container.command;
    let parts = [("--entrypoint", &command.entrypoint), ("--cmd", &command.cmd)];
    parts.into_iter().find_map(|(flag, words)| {
        let mut words = words.clone()?;
        let at = words.iter().position(|word| *word == script.word)?;
        words.splice(at..=at, [interpreter.to_string(), script.written.clone()]);
        Some(format!("{flag} {}", typed_word(&serde_json::json!(words).to_string())))
    })
}

/// The same of one image on its own root, which nobody moves.
pub(super) fn judge_alone(alone: &OwnStartup, platform: &Platform) -> Vec<Finding> {
    let chain = alone.start.chain.iter().filter_map(|executed| {
        let program = executed.program.as_ref()?;
        wrong_machine(&executed.path, program, platform)
    });
    let open = alone.open.iter().filter_map(|helper| wrong_machine(&helper.path, &helper.program, platform));
    let stuck = alone.open.iter().filter_map(|helper| {
        let lacks = helper.lacks.as_ref()?;
        let finding = Finding::new(Rule::DynamicBinary, Level::Refuse, cannot_start(&helper.path, lacks, "the image"));
        let fix = "build it statically, or base the image on one that has what it needs";
        Some(finding.about(helper.path.to_string()).evidence(needs(&helper.program)).fix(fix))
    });
    judge_end(&alone.start, None).into_iter().chain(chain).chain(open).chain(stuck).collect()
}

fn judge_end(start: &Start, before: Option<&Start>) -> Option<Finding> {
    let last = start.chain.last();
    let wrapper = last.map_or("", |executed| executed.word.as_str());
    let unknown = |what: String| {
        Finding::new(Rule::StartUnknown, Level::Refuse, what).about(wrapper).evidence(start.argv.join(" "))
    };
    Some(match &start.end {
        ChainEnd::NoCommand | ChainEnd::NothingBehind | ChainEnd::Runs | ChainEnd::Mounted(_) => return None,
        ChainEnd::Shell(script) if script.is_read => return None,
        ChainEnd::Shell(script) => {
            let path = script.path.as_deref().unwrap_or("the command");
            unknown(format!("what {path} runs cannot be read"))
                .fix("start the program without a shell: set ENTRYPOINT in exec form, or pass --entrypoint")
        }
        ChainEnd::Lost { word, reasons } => entrypoint_missing(word, reasons, before),
        ChainEnd::NoInterpreter { interpreter, reasons } => {
            let what = "is a script, and its interpreter is not in the rebased image";
            refuse_file(&last?.path, what, format!("{interpreter}: {reasons}"))
        }
        ChainEnd::NotAProgram => not_a_program(last?),
        ChainEnd::TooDeep => unknown("the command leads from one program to the next without end".to_owned())
            .fix("set ENTRYPOINT to the program itself, or pass --entrypoint"),
        ChainEnd::UnknownOption(option) => {
            unknown(format!("what {wrapper} starts is not known: its option {option} is not known"))
                .fix(format!("set ENTRYPOINT to the program itself, or pass --entrypoint, or leave {option} out"))
        }
        ChainEnd::MayNotChangeUser => unknown(format!("{wrapper} changes the user, which only root may"))
            .fix("let the image run as root, or as the user that the program is to have and without the wrapper"),
        ChainEnd::UnknownUser(account) => Finding::new(
            Rule::UserMissing,
            Level::Refuse,
            format!("{wrapper} changes to {}, which the rebased image does not have", account.name),
        )
        .about(account.which.path())
        .evidence(format!("{} has no line for it", account.which.path()))
        .fix("name the user by number"),
    })
}

fn entrypoint_missing(name: &str, reasons: &str, before: Option<&Start>) -> Finding {
    let there = before.and_then(|before| before.chain.iter().find(|executed| executed.word == name));
    let (evidence, fix) = match (there, before) {
        (Some(executed), _) => (
            format!("{reasons}; the source has it at {}", place_of(executed)),
            "add it to the image itself, or keep it with --keep; if the user may not execute it, change its mode or USER",
        ),
        (None, Some(_)) => {
            (reasons.to_owned(), "the source does not start it either: correct ENTRYPOINT or CMD, or check --old-base")
        }
        (None, None) => (reasons.to_owned(), "correct ENTRYPOINT or CMD where the image is built"),
    };
    let is_forbidden = reasons.contains("the user may not");
    let what = if is_forbidden { "cannot be started by the user of the image" } else { "is not in the rebased image" };
    Finding::new(Rule::EntrypointMissing, Level::Refuse, format!("the program {name} {what}"))
        .about(name)
        .evidence(evidence)
        .fix(fix)
}

/// Where a program is; servers that come under several names are links to one of them.
fn place_of(Executed { written, path, .. }: &Executed) -> String {
    let path = path.to_string();
    if *written == path { path } else { format!("{written}, a link to {path}") }
}

fn not_a_program(executed: &Executed) -> Finding {
    let Some(program) = &executed.program else {
        return refuse_file(&executed.path, "is neither a program nor a script", String::new());
    };
    let what = match program.linkage {
        Linkage::SharedObject => "is a library, not a program",
        _ => "cannot be read as a program",
    };
    refuse_file(&executed.path, what, program.notes.join("; "))
}

fn refuse_file(path: &RootPath, what: &str, evidence: String) -> Finding {
    Finding::new(Rule::NotABinary, Level::Refuse, format!("{path} {what}"))
        .about(path.to_string())
        .evidence(evidence)
        .fix("set ENTRYPOINT to a statically linked program in the image")
}

fn judge_executed(
    executed: &Executed,
    startup: &Startup,
    platform: &Platform,
    scene: Option<&BringScene<'_>>,
) -> Vec<Finding> {
    let Some(program) = &executed.program else { return Vec::new() };
    let is_own = executed.layer >= startup.base_layers;
    let dynamic = executed.lacks.as_ref().map(|lacks| {
        // Nobody builds the programs of a base anew.
        let build = is_own.then(|| static_build(program));
        dynamic_binary((&executed.path, program), lacks, build, scene)
    });
    let packed = if is_own && executed.role != Role::Script { packed_binary(&executed.path, program) } else { None };
    let machine = wrong_machine(&executed.path, program, platform);
    let level = if machine.is_none() { wrong_level(executed, &startup.before, platform) } else { None };
    [dynamic, packed, machine, level].into_iter().flatten().collect()
}

/// An executable of an image without a command: whoever runs the image may start it.
fn judge_helper(helper: &Helper, platform: &Platform, scene: Option<&BringScene<'_>>) -> Vec<Finding> {
    let Helper { path, program, lacks, .. } = helper;
    let lacks = lacks.as_ref().map(|lacks| match (program.linkage, lacks) {
        (Linkage::Script, Missing::Interpreter { path: interpreter, .. }) => {
            let what = "is a script, and its interpreter is not in the rebased image";
            refuse_file(path, what, interpreter.clone())
        }
        _ => dynamic_binary((path, program), lacks, Some(static_build(program)), scene),
    });
    let rest = [packed_binary(path, program), wrong_machine(path, program, platform)];
    lacks.into_iter().chain(rest.into_iter().flatten()).collect()
}

fn dynamic_binary(
    (path, program): (&RootPath, &Program),
    lacks: &Missing,
    build: Option<&str>,
    scene: Option<&BringScene<'_>>,
) -> Finding {
    let is_absent = matches!(lacks, Missing::Library { .. } | Missing::Interpreter { .. });
    let offer = scene.filter(|_| is_absent).and_then(|scene| scene.offer_libraries(path));
    let fixes = [build.map(str::to_owned), Some(other_base(lacks)), offer.map(|offer| format!("pass {offer}"))];
    Finding::new(Rule::DynamicBinary, Level::Refuse, cannot_start(path, lacks, "the rebased image"))
        .about(path.to_string())
        .evidence(needs(program))
        .fix(fixes.into_iter().flatten().collect::<Vec<_>>().join(", or "))
}

fn cannot_start(path: &RootPath, lacks: &Missing, place: &str) -> String {
    let what = match () {
        () if !lacks.is_certain() => "is not proven to start",
        () if !lacks.is_at_start() => "would fail when it calls a function",
        () => "cannot start",
    };
    format!("{path} {what}: {}", lacks.in_place(place))
}

/// How to do without a loader, in the terms of the language that the program was built from.
const fn static_build(program: &Program) -> &'static str {
    match program.language {
        Language::Go => "build it with CGO_ENABLED=0",
        Language::Rust => "build it with `-C target-feature=+crt-static` or for a musl target",
        Language::Other => "link it with -static-pie",
    }
}

fn other_base(lacks: &Missing) -> String {
    match lacks {
        Missing::Version { file, version, .. } => format!("choose a --base whose {file} has {version}"),
        Missing::Unusable { path, .. } => format!("choose a --base whose {path} can be loaded"),
        Missing::Unproven { .. } => "pass --allow dynamic-binary if you have seen it start".to_owned(),
        _ => format!("choose a --base that has {}", lacks.name()),
    }
}

fn packed_binary(path: &RootPath, program: &Program) -> Option<Finding> {
    let packer = program.packed.as_ref()?;
    Some(
        Finding::new(Rule::PackedBinary, Level::Refuse, format!("{path} unpacks another program when it starts"))
            .about(path.to_string())
            .evidence(packer.clone())
            .fix("put the program into the image as it is: layers are compressed anyway"),
    )
}

fn needs(program: &Program) -> String {
    let interpreter = program.interpreter.as_ref().map(|path| format!("interpreter {path}"));
    let libraries = (!program.needed.is_empty()).then(|| format!("libraries {}", program.needed.join(", ")));
    format!("needs {}", interpreter.into_iter().chain(libraries).collect::<Vec<_>>().join("; "))
}

fn wrong_machine(path: &RootPath, program: &Program, platform: &Platform) -> Option<Finding> {
    let (is_for, says) = misfit(program, platform)?;
    let message = format!("{path} is for {is_for}, the image for {platform}");
    Some(
        Finding::new(Rule::WrongMachine, Level::Refuse, message)
            .about(path.to_string())
            .evidence(format!("the ELF header says {says}"))
            .fix("build the program for this platform, or correct the platform of the image"),
    )
}

/// A program that not every processor of the platform can run. Where the source's was no better, nothing is lost by
/// the move.
fn wrong_level(executed: &Executed, before: &Start, platform: &Platform) -> Option<Finding> {
    let there = match (platform.architecture(), platform.variant()) {
        ("amd64", variant) => variant.strip_prefix('v').and_then(|number| number.parse().ok()).unwrap_or(1),
        _ => return None,
    };
    let (number, file, says) = needed_level(executed).filter(|(number, ..)| *number > there)?;
    let was = before.chain.iter().filter_map(needed_level).map(|(number, ..)| number).max();
    let level = if was.is_some_and(|was| was >= number) { Level::Warn } else { Level::Refuse };
    let message = format!("{file} needs a processor of x86-64-v{number}, the image is for {platform}");
    let fix = format!(
        "choose a --base, or build the program, for all processors of amd64 (Go: GOAMD64=v1; C: without -march), or give \
         the image the variant v{number}"
    );
    Some(Finding::new(Rule::WrongMachine, level, message).about(file.to_string()).evidence(says).fix(fix))
}

/// The level of x86-64 that a program or one of its libraries needs, which of them, and what says so.
fn needed_level(executed: &Executed) -> Option<(u32, &RootPath, String)> {
    let go = executed.program.as_ref().and_then(|program| program.go.as_ref());
    let setting = go.and_then(|go| go.settings.iter().find(|(name, _)| name == "GOAMD64"));
    let built = setting.and_then(|(name, value)| {
        let number = value.strip_prefix('v')?.parse().ok().filter(|number| *number > 1)?;
        Some((number, &executed.path, format!("it was built with {name}={value}")))
    });
    let loaded = executed.level.as_ref();
    let loaded = loaded.map(|level| (level.number, &level.file, "its note of GNU properties says so".to_owned()));
    loaded.into_iter().chain(built).max_by_key(|(number, ..)| *number)
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
