//! Which shell a command starts, with which options, script and arguments: `sh -c SCRIPT`,
//! `sh FILE`, or a script file whose `#!` line names the shell.
//!
//! After `-c` only the first word is the script; the next is `$0` and the rest are `"$@"`. A `#!`
//! line is split as Linux does it: one interpreter, at most one argument.

use super::exec_command::ExecCommand;
use super::init;
use super::kubelet::CommandContext;
use super::options::{self, ShellOptions, Switch};
use super::refusal::{Reason, Refusal, Span, Unsupported};

/// The language of a script. `sh` may be any of them, so it gets only what all read alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Posix,
    Dash,
    Ash,
    Bash,
}

/// What comes before the program and is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct InitPrefix {
    /// The init wrapper and its options.
    pub init: Vec<String>,
    /// `env NAME=VALUE` before the shell.
    pub environment: Vec<(String, String)>,
    /// How many words of the command these are.
    pub words: usize,
}

/// Where the script is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScriptAt {
    /// This word of the command is the text.
    Word(usize),
    /// This word of the command names a file.
    File(usize),
}

/// A shell that is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Invocation<'a> {
    pub lead: InitPrefix,
    pub dialect: Dialect,
    pub options: ShellOptions,
    /// An objection to an option, raised only if nothing else is wrong.
    pub objection: Option<Unsupported>,
    pub script: ScriptAt,
    /// `$0`, where it was given.
    pub zero: Option<&'a str>,
    pub arguments: &'a [String],
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Invoked<'a> {
    /// No shell: the words are a program and its arguments.
    Program(InitPrefix),
    Shell(Box<Invocation<'a>>),
}

/// What the runtime would start.
pub(super) fn read(argv: &[String]) -> Result<Invoked<'_>, Refusal> {
    let lead = init::read(argv)?;
    let words = argv.get(lead.words..).unwrap_or_default();
    let Some((dialect, taken)) = shell_of(words) else {
        return match words.first().map(|word| base_name(word)) {
            Some("ksh" | "mksh" | "zsh" | "fish" | "csh" | "tcsh" | "rbash" | "yash" | "hush" | "posh") => {
                let name = words.first().cloned().unwrap_or_default();
                let fault = Unsupported::of_words(Reason::UnknownShell, format!("{name} is not a supported shell"));
                Err(fault.within(lead.words, &name))
            }
            _ => Ok(Invoked::Program(lead)),
        };
    };
    let first = lead.words + taken;
    invocation(lead, dialect, argv, first).map(|shell| Invoked::Shell(Box::new(shell)))
}

/// The shell that these words start, and how many of them name it.
pub(super) fn shell_of(words: &[String]) -> Option<(Dialect, usize)> {
    match (base_name(words.first()?), words.get(1).map(String::as_str)) {
        ("busybox", Some("sh" | "ash")) => Some((Dialect::Ash, 2)),
        ("sh", _) => Some((Dialect::Posix, 1)),
        ("dash", _) => Some((Dialect::Dash, 1)),
        ("ash", _) => Some((Dialect::Ash, 1)),
        ("bash", _) => Some((Dialect::Bash, 1)),
        _ => None,
    }
}

pub(super) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn invocation(lead: InitPrefix, dialect: Dialect, argv: &[String], first: usize) -> Result<Invocation<'_>, Refusal> {
    let words = argv.get(first..).unwrap_or_default();
    let mut options = ShellOptions::default();
    let mut is_command = false;
    let mut objection = None;
    let extra = |letter: char, switch: Switch| match (letter, switch) {
        ('c', Switch::On) => {
            is_command = true;
            Some(Ok(()))
        }
        // A construct in the script is the better reason.
        ('i' | 'l', _) => {
            objection = ShellOptions::default().letter(letter, switch).err();
            Some(Ok(()))
        }
        _ => None,
    };
    let text = words.first().map_or("", String::as_str);
    let refuse = |(reason, detail): options::Objection| Unsupported::of_words(reason, detail).within(first, text);
    let read = options::read(words, dialect, &mut options, extra).map_err(refuse)?;
    let at = first + read;
    let rest = argv.get(at..).unwrap_or_default();
    let Some((_, rest)) = rest.split_first() else {
        let detail = if is_command { "-c without a script" } else { "the shell would read commands from stdin" };
        return Err(Unsupported::of_words(Reason::Incomplete, detail).within(at.saturating_sub(1), text));
    };
    let objection = objection.map(|(reason, detail)| Unsupported::of_words(reason, detail));
    let script = if is_command { ScriptAt::Word(at) } else { ScriptAt::File(at) };
    let (zero, arguments) = match (script, rest.split_first()) {
        (ScriptAt::Word(_), Some((zero, rest))) => (Some(zero.as_str()), rest),
        _ => (None, rest),
    };
    Ok(Invocation { lead, dialect, options, objection, script, zero, arguments })
}

/// Why a shell that is started with this variable may do more than its script says.
pub(super) fn objection_to(name: &str, dialect: Dialect) -> Option<Unsupported> {
    let (reason, detail) = match (name, dialect) {
        ("BASH_ENV", Dialect::Bash) => (Reason::Source, "BASH_ENV is set, so bash reads that file first".to_owned()),
        // What is called sh may be bash.
        (_, Dialect::Dash | Dialect::Ash) => return None,
        ("SHELLOPTS" | "BASHOPTS" | "POSIXLY_CORRECT" | "EXECIGNORE" | "GLOBIGNORE", _) => {
            (Reason::ShellOption, format!("{name} is set, and changes how bash works"))
        }
        _ if name.starts_with("BASH_FUNC_") => {
            (Reason::Function, format!("{name} is set, which defines a function for bash"))
        }
        _ => return None,
    };
    Some(Unsupported::of_words(reason, detail))
}

/// The first word of the program names the script; its interpreter is in the `#!` line.
pub(super) fn read_started_script(
    argv: &[String],
    word: usize,
    bytes: &[u8],
    context: &CommandContext,
) -> Result<ExecCommand, Refusal> {
    read_script_file(argv, word, bytes, |text, shell| super::read(text, word, shell, context))
}

/// The program that the shell started is a script itself: what it says, with what was set for it.
pub(super) fn read_nested_script(
    outer: &ExecCommand,
    word: usize,
    bytes: &[u8],
    context: &CommandContext,
) -> Result<ExecCommand, Refusal> {
    let in_word = |refusal: Refusal| Refusal { word, ..refusal };
    let read = |text: &str, shell: &mut Invocation<'_>| {
        shell.lead.environment.clone_from(&outer.environment);
        let inner = super::read(text, word, shell, &context.within(outer.workdir.as_deref()))?;
        outer.then(inner).map_err(|fault| fault.within(word, text))
    };
    read_script_file(&outer.program, 0, bytes, read).map_err(in_word)
}

/// Finds the shell in the `#!` line, and reads the script as that shell would.
fn read_script_file(
    argv: &[String],
    word: usize,
    bytes: &[u8],
    read_text: impl FnOnce(&str, &mut Invocation<'_>) -> Result<ExecCommand, Refusal>,
) -> Result<ExecCommand, Refusal> {
    let name = argv.get(word).map_or("", String::as_str);
    let text = text(bytes, word, name)?;
    let lead = argv.get(..word).unwrap_or_default();
    let rest = argv.get(word..).unwrap_or_default();
    let line = first_line(text).map_err(|fault| fault.within(word, text))?;
    // As the kernel would start it: the wrapper, the interpreter, its argument, the script, the arguments.
    let words: Vec<String> = lead.iter().chain(&line).chain(rest).cloned().collect();
    let at = word + line.len();
    let unlike = |refusal: Refusal| Refusal { word, ..refusal };
    match read(&words).map_err(unlike)? {
        Invoked::Shell(mut shell) if shell.script == ScriptAt::File(at) => read_text(text, &mut shell),
        _ => {
            let detail = "the #! line of the script does not name a supported shell";
            let end = text.find('\n').unwrap_or(text.len());
            Err(Unsupported::new(Reason::UnknownShell, detail, Span::new(0, end)).within(word, text))
        }
    }
}

/// A shell is given the script as a file: the `#!` line is a comment.
pub(super) fn read_given_script(
    argv: &[String],
    word: usize,
    shell: &Invocation<'_>,
    bytes: &[u8],
    context: &CommandContext,
) -> Result<ExecCommand, Refusal> {
    let text = text(bytes, word, argv.get(word).map_or("", String::as_str))?;
    super::read(text, word, shell, context)
}

fn text<'a>(bytes: &'a [u8], word: usize, name: &str) -> Result<&'a str, Refusal> {
    let refuse = |_| Unsupported::of_words(Reason::NotText, "the script is not UTF-8 text").within(word, name);
    std::str::from_utf8(bytes).map_err(refuse)
}

/// The interpreter and its argument.
fn first_line(text: &str) -> Result<Vec<String>, Unsupported> {
    let none = |detail: &str| Unsupported::new(Reason::UnknownShell, detail, Span::new(0, text.len().min(2)));
    let rest =
        text.strip_prefix("#!").ok_or_else(|| none("the script has no #! line, so the kernel cannot start it"))?;
    let line = rest.split('\n').next().unwrap_or_default().trim_matches([' ', '\t']);
    let (interpreter, argument) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    if interpreter.is_empty() || line.contains('\r') {
        return Err(none("the #! line names no interpreter"));
    }
    let argument = argument.trim_matches([' ', '\t']);
    let argument = Some(argument.to_owned()).filter(|argument| !argument.is_empty());
    Ok(std::iter::once(interpreter.to_owned()).chain(argument).collect())
}

#[cfg(test)]
mod tests {
    use super::super::{ImageContext, Trailing, Verdict, translate};
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_script_is_found_in_every_form() {
        for (text, dialect, script, zero, arguments) in [
            ("sh -c S", Dialect::Posix, 2, None, 0),
            ("/bin/sh -ec S", Dialect::Posix, 2, None, 0),
            ("sh -xec S", Dialect::Posix, 2, None, 0),
            ("/usr/local/bin/bash -euo pipefail -c S", Dialect::Bash, 4, None, 0),
            ("bash -ceuo pipefail S", Dialect::Bash, 3, None, 0),
            ("sh -e -c S", Dialect::Posix, 3, None, 0),
            ("bash -c -- S", Dialect::Bash, 3, None, 0),
            ("sh -c -e S", Dialect::Posix, 3, None, 0),
            ("dash -c S", Dialect::Dash, 2, None, 0),
            ("/bin/busybox sh -c S", Dialect::Ash, 3, None, 0),
            ("/busybox/sh -c S", Dialect::Posix, 2, None, 0),
            ("env sh -c S", Dialect::Posix, 3, None, 0),
            ("/usr/bin/env A=b C=d bash -c S", Dialect::Bash, 5, None, 0),
            ("/sbin/tini -- sh -c S", Dialect::Posix, 4, None, 0),
            ("tini -g -e 143 -- /bin/sh -c S", Dialect::Posix, 7, None, 0),
            ("dumb-init env dash -c S", Dialect::Dash, 4, None, 0),
            ("sh -c S zero a b", Dialect::Posix, 2, Some("zero"), 2),
            ("bash -c S --", Dialect::Bash, 2, Some("--"), 0),
        ] {
            let argv = words(text);
            let Ok(Invoked::Shell(shell)) = read(&argv) else { panic!("{text}") };
            assert_eq!((shell.dialect, shell.script), (dialect, ScriptAt::Word(script)), "{text}");
            assert_eq!((shell.zero, shell.arguments.len()), (zero, arguments), "{text}");
        }
        let argv = words("sh -e run.sh a b");
        let Ok(Invoked::Shell(shell)) = read(&argv) else { panic!() };
        assert_eq!((shell.script, shell.zero, shell.arguments.len()), (ScriptAt::File(2), None, 2));
    }

    #[test]
    fn programs_are_not_taken_for_shells() {
        for text in ["/app --sh", "tini -- /app", "env A=b /app", "busybox httpd -f", "/bin/shfmt -c x", "bashful -c x"]
        {
            assert!(matches!(read(&words(text)), Ok(Invoked::Program(_))), "{text}");
        }
    }

    #[test]
    fn what_is_no_whole_command_is_refused() {
        for (text, reason) in [
            ("sh", Reason::Incomplete),
            ("bash -c", Reason::Incomplete),
            ("bash -o pipefail -euc", Reason::Incomplete),
            ("sh -c -x", Reason::Incomplete),
            ("bash -c --", Reason::Incomplete),
            ("sh -nc S", Reason::ShellOption),
            ("sh -sc S", Reason::ShellOption),
            ("zsh -c S", Reason::UnknownShell),
            ("tini -z -- sh -c S", Reason::ShellOption),
            ("env -i sh -c S", Reason::ShellOption),
        ] {
            assert_eq!(read(&words(text)).unwrap_err().reason, reason, "{text}");
        }
    }

    #[test]
    fn login_and_interactive_shells_are_objected_to_at_the_end() {
        for (text, objects) in
            [("bash -lc S", true), ("bash -ic S", true), ("bash -i -c S", true), ("bash -ec S", false)]
        {
            let argv = words(text);
            let Ok(Invoked::Shell(shell)) = read(&argv) else { panic!("{text}") };
            assert_eq!(shell.objection.is_some(), objects, "{text}");
        }
    }

    fn run(script: &str, argv: &[&str]) -> Result<(Vec<String>, usize, Trailing), Reason> {
        let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
        let context = CommandContext::Image(ImageContext::default());
        match translate(&argv, Some(script.as_bytes()), &context) {
            Verdict::Translate(exec) => Ok((exec.argv(), exec.passed, exec.trailing)),
            Verdict::Refuse(refusal) => Err(refusal.reason),
            Verdict::Unchanged(_) => panic!("a script is never unchanged"),
        }
    }

    #[test]
    fn arguments_still_come_from_the_command() {
        for (script, argv, expected, passed, trailing) in [
            ("#!/bin/sh\nexec app \"$@\"\n", &["./run.sh", "-v"][..], "app -v", 1, Trailing::Passed),
            ("#!/bin/sh\nexec app \"$@\"\n", &["run.sh"], "app", 0, Trailing::Passed),
            ("#!/bin/sh\nset -e\n\n# why\nexec app -x\n", &["run.sh"], "app -x", 0, Trailing::Ignored),
            ("#!/bin/sh -e\nexec app\n", &["run.sh"], "app", 0, Trailing::Ignored),
            ("#! /usr/bin/env bash\nexec app \"$@\"", &["run.sh", "a b"], "app a b", 1, Trailing::Passed),
            ("#!/bin/sh\nexec \"$@\"\n", &["entry.sh", "app", "-v"], "app -v", 2, Trailing::Passed),
            ("exec app \"$@\"", &["sh", "-e", "run.sh", "-v"], "app -v", 1, Trailing::Passed),
            ("#!/bin/sh\nexec app\n", &["tini", "--", "run.sh"], "tini -- app", 0, Trailing::Ignored),
        ] {
            let (words, got, kind) = run(script, argv).unwrap_or_else(|reason| panic!("{script}: {reason:?}"));
            assert_eq!((words.join(" ").as_str(), got, kind), (expected, passed, trailing), "{script}");
        }
    }

    #[test]
    fn scripts_that_need_their_shell_are_refused() {
        for (script, argv, reason) in [
            ("exec app\n", &["run.sh"][..], Reason::UnknownShell),
            ("#!/usr/bin/python3\nexec app\n", &["run.sh"], Reason::UnknownShell),
            ("#!/usr/bin/env -S bash -e\nexec app\n", &["run.sh"], Reason::UnknownShell),
            ("#!/bin/sh\r\nexec app\n", &["run.sh"], Reason::UnknownShell),
            ("#!/bin/sh -c\nexec app\n", &["run.sh"], Reason::UnknownShell),
            ("#!/bin/sh -i\nexec app\n", &["run.sh"], Reason::ShellOption),
            ("#!/bin/sh\nexec app \"$1\"\n", &["run.sh", "a"], Reason::PositionalParameters),
            ("#!/bin/sh\nexec app \"$@\" -x\n", &["run.sh", "a"], Reason::PositionalParameters),
            ("#!/bin/sh\nexec app $@\n", &["run.sh", "a"], Reason::PositionalParameters),
            ("#!/bin/sh\nexec app\n", &["run.sh", "a"], Reason::DeadArguments),
            ("#!/bin/sh\nexec \"$@\"\n", &["run.sh"], Reason::Incomplete),
            ("#!/bin/sh\nexec \"$@\"\n", &["run.sh", "sh", "-c", "x"], Reason::NestedShell),
            ("#!/bin/sh\nexec app\n", &["sh", "-c", "./run.sh"], Reason::NestedShell),
            ("#!/bin/sh\nexec other.sh\n", &["run.sh"], Reason::TargetIsShellScript),
        ] {
            assert_eq!(run(script, argv), Err(reason), "{script}");
        }
        let context = CommandContext::Image(ImageContext::default());
        let verdict = translate(&["run.sh".to_owned()], Some(b"#!/bin/sh\n\xff"), &context);
        assert!(matches!(verdict, Verdict::Refuse(refusal) if refusal.reason == Reason::NotText));
    }
}
