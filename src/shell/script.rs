//! An entrypoint script: the file that the command starts, read by the same rules.
//!
//! Its `#!` line is taken apart as Linux does it: one interpreter, at most one argument.

use super::interpreter::{self, Invocation, ScriptAt, Started};
use super::meaning::Meaning;
use super::place::Place;
use super::reason::{Fault, Reason, Refusal, Span};

/// The first word of the program names the script; its interpreter is in the `#!` line.
pub(super) fn started(argv: &[String], word: usize, bytes: &[u8], place: &Place) -> Result<Meaning, Refusal> {
    let name = argv.get(word).map_or("", String::as_str);
    let text = text(bytes, word, name)?;
    let lead = argv.get(..word).unwrap_or_default();
    let rest = argv.get(word..).unwrap_or_default();
    let line = first_line(text).map_err(|fault| fault.within(word, text))?;
    // As the kernel would start it: the wrapper, the interpreter, its argument, the script, the arguments.
    let words: Vec<String> = lead.iter().chain(&line).chain(rest).cloned().collect();
    let at = word + line.len();
    let unlike = |refusal: Refusal| Refusal { word, ..refusal };
    match interpreter::read(&words).map_err(unlike)? {
        Started::Shell(shell) if shell.script == ScriptAt::File(at) => super::read(text, word, &shell, place),
        _ => {
            let detail = "the first line of the script names no shell that is understood";
            let end = text.find('\n').unwrap_or(text.len());
            Err(Fault::new(Reason::UnknownShell, detail, Span::new(0, end)).within(word, text))
        }
    }
}

/// A shell is given the script as a file: the `#!` line is a comment.
pub(super) fn given(
    argv: &[String],
    word: usize,
    shell: &Invocation<'_>,
    bytes: &[u8],
    place: &Place,
) -> Result<Meaning, Refusal> {
    let text = text(bytes, word, argv.get(word).map_or("", String::as_str))?;
    super::read(text, word, shell, place)
}

fn text<'a>(bytes: &'a [u8], word: usize, name: &str) -> Result<&'a str, Refusal> {
    let refuse = |_| Fault::of_words(Reason::NotText, "the script is not UTF-8 text").within(word, name);
    std::str::from_utf8(bytes).map_err(refuse)
}

/// The interpreter and its argument.
fn first_line(text: &str) -> Result<Vec<String>, Fault> {
    let none = |detail: &str| Fault::new(Reason::UnknownShell, detail, Span::new(0, text.len().min(2)));
    let rest =
        text.strip_prefix("#!").ok_or_else(|| none("the script has no #! line, so the kernel does not start it"))?;
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
    use super::super::{Frozen, Trailing, Verdict, translate};
    use super::*;

    fn run(script: &str, argv: &[&str]) -> Result<(Vec<String>, usize, Trailing), Reason> {
        let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
        let place = Place::Image { frozen: Frozen::default() };
        match translate(&argv, Some(script.as_bytes()), &place) {
            Verdict::Translate(meaning) => Ok((meaning.argv(), meaning.passed, meaning.trailing)),
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
        let place = Place::Image { frozen: Frozen::default() };
        let verdict = translate(&["run.sh".to_owned()], Some(b"#!/bin/sh\n\xff"), &place);
        assert!(matches!(verdict, Verdict::Refuse(refusal) if refusal.reason == Reason::NotText));
    }
}
