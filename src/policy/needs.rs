//! The rules about what else the application uses: tools, files, libraries, other programs, packages.

use crate::plan::{BringOffer, BringScene, Offering, Pass};
use crate::process::{Absent, AbsentKind, Evidence, Helper, LostPath, LostWord, Startup, WordOf};
use crate::rules::{Finding, Level, Rule};
use layer::RootPath;
use start::link::Missing;

/// So many names are in one finding; the others are counted.
const NAMED: usize = 10;

/// So many times it is worked out what a `--bring` would cost: an image can need as much as it likes.
const OFFERED: usize = 32;

pub(super) fn judge(pass: &Pass) -> Vec<Finding> {
    let startup = &pass.startup;
    let is_call = |absent: &&Absent| call(absent, None).is_some();
    let refuses = !startup.lost_words.is_empty()
        || startup.needs.iter().any(|absent| is_call(&absent))
        || startup.helpers.iter().any(|helper| helper.named_by.is_some() && !helper.can_start());
    let roots = refuses.then(|| pass.draft.layers.roots(&pass.subject));
    let scene = roots.as_ref().map(|roots| BringScene::new(roots, &pass.draft.container, &pass.subject));
    let scenes = || std::iter::repeat_n(scene.as_ref(), OFFERED).chain(std::iter::repeat(None));
    let mut findings: Vec<Finding> =
        startup.lost_words.iter().zip(scenes()).map(|(word, scene)| lost_word(word, scene)).collect();
    let calls = startup.needs.iter().filter(is_call).zip(scenes());
    findings.extend(calls.filter_map(|(absent, scene)| call(absent, scene)));
    findings.extend(words(startup));
    findings.extend(files(startup));
    findings.extend(dynamic_helpers(startup, scene.as_ref()));
    findings.extend(packages(startup));
    findings
}

/// The `--bring` that would resolve a need, with its cost.
fn offered(absent: &Absent, scene: &BringScene<'_>) -> Option<BringOffer> {
    match absent.kind {
        AbsentKind::Tool => scene.offer_program(&absent.name),
        AbsentKind::Library => scene.offer(&RootPath::new(&absent.path).ok()?, Offering::Package),
        // What a package installed comes with the rest of it.
        AbsentKind::File if matches!(absent.shown_by, Evidence::Installed(_)) => {
            scene.offer(&RootPath::new(&absent.path).ok()?, Offering::Package)
        }
        AbsentKind::File => {
            let written = if absent.name.starts_with('/') { &absent.name } else { &absent.path };
            scene.offer(&RootPath::new(written).ok()?, Offering::File)
        }
    }
}

fn offered_word(word: &LostWord, scene: &BringScene<'_>) -> Option<BringOffer> {
    let written = RootPath::new(&word.written).ok().filter(|_| word.written.starts_with('/'));
    let offering = if word.lost == LostPath::Program { Offering::Package } else { Offering::File };
    scene.offer(&written.unwrap_or_else(|| word.path.clone()), offering)
}

/// A word of the command, or a variable, that names what the process can no longer use.
fn lost_word(word: &LostWord, scene: Option<&BringScene<'_>>) -> Finding {
    let path = &word.path;
    let what = match word.lost {
        LostPath::Program => format!("{path}, a program that the rebased image does not have"),
        LostPath::File => format!("{path}, a file that the rebased image does not have"),
        LostPath::EmptyDirectory | LostPath::Directory => {
            format!("{path}, a directory that the rebased image does not have")
        }
        LostPath::Closed => format!("{path}, which the user may no longer read or enter"),
        LostPath::NotWritable => format!("{path}, a directory that the user may no longer write to"),
    };
    let (by, evidence) = match &word.of {
        WordOf::Argument(text) => ("the command".to_owned(), text.clone()),
        WordOf::Variable(name) => (format!("the variable {name}"), name.clone()),
    };
    let offer = scene.and_then(|scene| offered_word(word, scene));
    let fix = match offer {
        _ if !word.lost.is_gone() => {
            "set USER to the user that could, or change owner and mode where the image is built".to_owned()
        }
        Some(offer) => format!("pass {offer}, or put it into the image itself"),
        None => format!("bring it along with --keep {path}, or put it into the image itself"),
    };
    Finding::new(Rule::NeedsFile, Level::Refuse, format!("{by} names {what}"))
        .about(path.to_string())
        .evidence(evidence)
        .fix(format!("{fix}; pass --allow needs-file={path} if it is mounted or not used"))
}

/// Whether a file is more than a path among strings: a script reads it, or somebody installed it for the image.
const fn is_shown_to_be_read(evidence: &Evidence) -> bool {
    matches!(evidence, Evidence::Script | Evidence::Installed(_))
}

/// What a program is shown to call or to load: one finding each, so that each can be allowed.
fn call(absent: &Absent, scene: Option<&BringScene<'_>>) -> Option<Finding> {
    let Absent { program, name, kind, shown_by, path } = absent;
    let level = match (kind, shown_by) {
        (AbsentKind::File, evidence) if !is_shown_to_be_read(evidence) => return None,
        (AbsentKind::Tool, Evidence::Word) => return None,
        // A linker keeps methods that nobody calls, and what libc opens depends on what it is asked.
        (_, Evidence::UnusedPackage(_) | Evidence::LibcFunction(_)) => Level::Warn,
        _ => Level::Refuse,
    };
    let (rule, verb) = match kind {
        AbsentKind::Library => (Rule::NeedsLibrary, "loads"),
        AbsentKind::File => (Rule::NeedsFile, "reads"),
        AbsentKind::Tool if level == Level::Warn => (Rule::NeedsTool, "may run"),
        AbsentKind::Tool => (Rule::NeedsTool, "runs"),
    };
    let id = rule.id();
    let bring = match scene.and_then(|scene| offered(absent, scene)) {
        Some(offer) => format!("pass {offer}, choose a --base that has it"),
        None if *kind == AbsentKind::Library => "choose a --base that has it".to_owned(),
        None => format!("choose a --base that has it, keep it with --keep {path} if it is statically linked"),
    };
    Some(
        Finding::new(rule, level, format!("{program} {verb} {name}, which the rebased image does not have"))
            .about(name)
            .evidence(format!("{}; the source has it at {path}", shown_by.words(name)))
            .fix(format!("{bring}, or pass --allow {id}={name} if it is never used")),
    )
}

/// Bare words that are names of programs of the old root: all in one finding.
fn words(startup: &Startup) -> Option<Finding> {
    let is_word = |absent: &&Absent| absent.kind == AbsentKind::Tool && absent.shown_by == Evidence::Word;
    let names = collapsed(startup.needs.iter().filter(is_word).map(|absent| absent.name.clone()))?;
    Some(
        Finding::new(
            Rule::NeedsTool,
            Level::Warn,
            "the application may run tools that the rebased image does not have",
        )
        .evidence(format!("names among their strings: {names}"))
        .fix("check whether it runs them; choose a --base that has them if it does"),
    )
}

/// Paths among the strings of programs: all in one finding.
fn files(startup: &Startup) -> Option<Finding> {
    let is_file = |absent: &&Absent| absent.kind == AbsentKind::File && !is_shown_to_be_read(&absent.shown_by);
    let names = collapsed(startup.needs.iter().filter(is_file).map(|absent| absent.name.clone()))?;
    Some(
        Finding::new(
            Rule::NeedsFile,
            Level::Warn,
            "programs of the application name files that the rebased image does not have",
        )
        .evidence(names)
        .fix("bring along with --bring what they need"),
    )
}

/// Each once, the first few by name.
fn collapsed(names: impl Iterator<Item = String>) -> Option<String> {
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.dedup();
    let rest = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    (!names.is_empty()).then(|| format!("{}{more}", names.join(", ")))
}

/// Executables that cannot start. One that something on the start path names refuses, each by its path, so
/// that each can be allowed; those that nothing names are one warning.
fn dynamic_helpers(startup: &Startup, scene: Option<&BringScene<'_>>) -> Vec<Finding> {
    // Where there is no command each of them was judged as the program.
    let stuck: Vec<&Helper> =
        startup.helpers.iter().filter(|helper| !startup.is_open() && !helper.can_start()).collect();
    let named = stuck.iter().filter_map(|helper| Some((helper, helper.named_by.as_ref()?)));
    let unnamed = stuck.iter().filter(|helper| helper.named_by.is_none());
    let unnamed = collapsed(unnamed.map(|helper| helper.path.to_string())).map(|paths| {
        Finding::new(Rule::DynamicHelper, Level::Warn, "executables that nothing on the start path names cannot start")
            .evidence(paths)
            .fix("leave them out of the image, or take them out with --drop PATH")
    });
    let scenes = std::iter::repeat_n(scene, OFFERED).chain(std::iter::repeat(None));
    named.zip(scenes).map(|((helper, by), scene)| dynamic_helper(helper, by, scene)).chain(unnamed).collect()
}

fn dynamic_helper(helper: &Helper, by: &str, scene: Option<&BringScene<'_>>) -> Finding {
    let path = &helper.path;
    let is_absent = matches!(helper.lacks, Some(Missing::Library { .. } | Missing::Interpreter { .. }));
    let offer = scene.filter(|_| is_absent).and_then(|scene| scene.offer_libraries(path));
    let bring = offer.map(|offer| format!("pass {offer}, ")).unwrap_or_default();
    let lacks = helper.lacks.as_ref().map(|lacks| lacks.in_place("the rebased image")).unwrap_or_default();
    Finding::new(Rule::DynamicHelper, Level::Refuse, format!("{path} cannot start: {lacks}"))
        .about(path.to_string())
        .evidence(format!("{by} names it"))
        .fix(format!(
            "{bring}leave it out or build it statically, or pass --allow dynamic-helper={path} if it is never run"
        ))
}

/// Packages that the image's own layers installed and that stay behind.
fn packages(startup: &Startup) -> Option<Finding> {
    let leaving = startup.leaving.iter().filter(|package| !package.files.is_empty());
    let names = collapsed(leaving.map(|package| format!("{} {}", package.name, package.version)))?;
    Some(
        Finding::new(
            Rule::PackagesLeft,
            Level::Warn,
            "packages that the image's own layers installed stay behind, and the new base does not have them",
        )
        .evidence(names)
        .fix("bring those that the application needs: --bring NAME"),
    )
}
