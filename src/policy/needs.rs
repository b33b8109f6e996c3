//! The rules about what else the application uses: tools, files, libraries, other programs, packages.

use crate::plan::Pass;
use crate::process::{Absent, AbsentKind, Evidence, Helper, LostPath, LostWord, Startup, WordOf};
use crate::rules::{Finding, Level, Rule};

/// So many names are in one finding; the others are counted.
const NAMED: usize = 10;

pub(super) fn judge(pass: &Pass) -> Vec<Finding> {
    let startup = &pass.startup;
    let mut findings: Vec<Finding> = startup.lost_words.iter().map(lost_word).collect();
    findings.extend(startup.needs.iter().filter_map(call));
    findings.extend(words(startup));
    findings.extend(files(startup));
    findings.extend(dynamic_helpers(startup));
    findings.extend(packages(startup));
    findings
}

/// A word of the command, or a variable, that names what the process can no longer use.
fn lost_word(word: &LostWord) -> Finding {
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
    let fix = if word.lost.is_gone() {
        format!("bring it along with --keep {path}, or put it into the image itself")
    } else {
        "set USER to the user that could, or change owner and mode where the image is built".to_owned()
    };
    Finding::new(Rule::NeedsFile, Level::Refuse, format!("{by} names {what}"))
        .about(path.to_string())
        .evidence(evidence)
        .fix(format!("{fix}; pass --allow needs-file={path} if it is mounted or not used"))
}

/// What a program is shown to call or to load: one finding each, so that each can be allowed.
fn call(absent: &Absent) -> Option<Finding> {
    let Absent { program, name, kind, shown_by, path } = absent;
    let level = match (kind, shown_by) {
        (AbsentKind::File, evidence) if *evidence != Evidence::Script => return None,
        (AbsentKind::Tool, Evidence::Word) => return None,
        // A linker keeps methods that nobody calls.
        (_, Evidence::UnusedPackage(_)) => Level::Warn,
        _ => Level::Refuse,
    };
    let (rule, verb) = match kind {
        AbsentKind::Library => (Rule::NeedsLibrary, "loads"),
        AbsentKind::File => (Rule::NeedsFile, "reads"),
        AbsentKind::Tool => (Rule::NeedsTool, "runs"),
    };
    let id = rule.id();
    Some(
        Finding::new(rule, level, format!("{program} {verb} {name}, which the rebased image does not have"))
            .about(name)
            .evidence(format!("{}; the source has it at {path}", shown_by.words(name)))
            .fix(format!(
                "choose a --base that has it, keep it with --keep {path} if it is statically linked, or pass \
                 --allow {id}={name} if it is never used"
            )),
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
    let is_file = |absent: &&Absent| absent.kind == AbsentKind::File && absent.shown_by != Evidence::Script;
    let names = collapsed(startup.needs.iter().filter(is_file).map(|absent| absent.name.clone()))?;
    Some(
        Finding::new(
            Rule::NeedsFile,
            Level::Warn,
            "programs of the application name files that the rebased image does not have",
        )
        .evidence(names)
        .fix("bring along with --keep what they need"),
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
fn dynamic_helpers(startup: &Startup) -> Vec<Finding> {
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
    named.map(|(helper, by)| dynamic_helper(helper, by)).chain(unnamed).collect()
}

fn dynamic_helper(helper: &Helper, by: &str) -> Finding {
    let what = match helper.program.linkage {
        crate::elf::Linkage::Script => "is a script that cannot start",
        _ => "is not statically linked and cannot start",
    };
    let path = &helper.path;
    Finding::new(Rule::DynamicHelper, Level::Refuse, format!("{path} {what} in the rebased image"))
        .about(path.to_string())
        .evidence(format!("needs {}; {by} names it", helper.lacks.join(", ")))
        .fix(format!("leave it out or build it statically, or pass --allow dynamic-helper={path} if it is never run"))
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
        .fix("keep files of them with --keep PATH if the application needs them"),
    )
}
