//! The one command of a script that runs: which program it is, and whether it may stand alone.

use std::collections::BTreeSet;

use super::builtin::{self, Taken};
use super::interpreter::{base_name, shell_of};
use super::note::Note;
use super::outline::Command;
use super::place::{Kubelet, Place};
use super::reason::{Fault, Reason, Span};
use super::scope::{Scope, Use};
use super::value::{Bit, Value};
use super::word::{Piece, Word};

/// Shells differ on whether `A=1 B=$A program >$A` sees the new value.
pub(super) fn check_prefix(command: &Command) -> Result<(), Fault> {
    let names: BTreeSet<&str> = command.assignments.iter().map(|(name, _)| name.as_str()).collect();
    let assigned = command.assignments.iter().map(|(_, word)| word);
    let targets = command.redirects.iter().map(|redirect| &redirect.target);
    let pieces = assigned.chain(targets).chain(&command.words).flat_map(|word| &word.pieces);
    for (piece, span) in pieces {
        if let Piece::Variable(name, _) | Piece::Reference(name) = piece
            && names.contains(name.as_str())
        {
            let detail = format!("{name} is set and used by the same command");
            return Err(Fault::new(Reason::Assignment, detail, *span));
        }
    }
    Ok(())
}

/// `NAME=value program`.
pub(super) fn export_prefix(command: &Command, scope: &mut Scope<'_>) -> Result<(), Fault> {
    for (name, word) in &command.assignments {
        let value = scope.value(word, Use::Assigned)?;
        scope.variables.export(name, value, word.span)?;
    }
    Ok(())
}

/// The words after `exec`.
pub(super) fn words(command: &Command) -> Result<&[Word], Fault> {
    match command.words.as_slice() {
        [exec, rest @ ..] if exec.is("exec") => match rest.first() {
            Some(word) if word.bare_text().starts_with('-') => {
                Err(Fault::new(Reason::ShellOption, "`exec` is given an option", word.span))
            }
            _ => Ok(rest),
        },
        words => Ok(words),
    }
}

/// What the words come to, and how many of them are arguments passed on.
pub(super) fn values(words: &[Word], scope: &mut Scope<'_>) -> Result<(Vec<Value>, usize), Fault> {
    let mut out = Vec::new();
    let mut passed = 0;
    for (index, word) in words.iter().enumerate() {
        let values = scope.arguments(word)?;
        let is_arguments = word.pieces.iter().any(|(piece, _)| matches!(piece, Piece::Arguments(_)));
        if is_arguments {
            passed = values.len();
            let is_fixed = !matches!(scope.place, Place::Image { .. });
            if index + 1 != words.len() && !is_fixed {
                let detail = "other words follow \"$@\", so arguments given later would come too late";
                return Err(Fault::new(Reason::PositionalParameters, detail, word.span));
            }
        }
        out.extend(values);
    }
    Ok((out, passed))
}

/// The program must be one, and known.
pub(super) fn check(command: &Command, words: &[Word], program: &[Value], scope: &mut Scope<'_>) -> Result<(), Fault> {
    let Some(first) = program.first() else {
        return Err(Fault::new(Reason::Incomplete, "no program is started", command.span));
    };
    let span = words.first().map_or(command.span, |word| word.span);
    let texts: Vec<String> = program.iter().map(|value| value.write(Kubelet::Keeps)).collect();
    let name = texts.first().cloned().unwrap_or_default();
    // With a path in front, a value can make neither a keyword nor an assignment of the word.
    let is_path = matches!(first.0.first(), Some(Bit::Text(text)) if text.starts_with('/') || text.starts_with("./"));
    let is_known = first.0.iter().all(|bit| matches!(bit, Bit::Text(_) | Bit::Raw(_))) || is_path;
    if !is_known || name.is_empty() {
        return Err(Fault::new(Reason::RuntimeVariable, "the name of the program comes from a variable", span));
    }
    if let Some((_, taken)) = shell_of(&texts) {
        let script = texts.get(taken).is_some_and(|word| !word.starts_with('-'));
        let reason = if script { Reason::TargetIsShellScript } else { Reason::NestedShell };
        return Err(Fault::new(reason, format!("{name} is itself a shell"), span));
    }
    check_builtin(command, &texts, span, scope)?;
    check_script(&name, span, scope)?;
    let is_first = matches!(scope.place, Place::Image { .. } | Place::Container { .. });
    if is_first && !command.words.first().is_some_and(|word| word.is("exec")) {
        scope.note(Note::BecomesFirstProcess);
    }
    Ok(())
}

fn check_builtin(command: &Command, texts: &[String], span: Span, scope: &mut Scope<'_>) -> Result<(), Fault> {
    let (Some(name), arguments) = (texts.first(), texts.get(1..).unwrap_or_default()) else { return Ok(()) };
    let is_exec = command.words.first().is_some_and(|word| word.is("exec"));
    match builtin::taken(name) {
        // A keyword that got here was quoted, or came from a variable.
        None | Some(Taken::Keyword(_)) => Ok(()),
        // `exec` always looks for a program.
        Some(Taken::AlsoProgram) if is_exec => Ok(()),
        Some(Taken::AlsoProgram) if builtin::is_same_as_program(name, arguments) => {
            scope.note(Note::BuiltinBecomesProgram(name.clone()));
            Ok(())
        }
        Some(_) => Err(Fault::new(Reason::ShellBuiltin, format!("{name} is part of the shell, not a program"), span)),
    }
}

/// A name that says it is a script. In probes and hooks the image is not in question here.
fn check_script(name: &str, span: Span, scope: &mut Scope<'_>) -> Result<(), Fault> {
    if !looks_like_script(name) {
        return Ok(());
    }
    if matches!(scope.place, Place::Probe { .. } | Place::Hook) {
        scope.note(Note::LooksLikeScript(name.to_owned()));
        return Ok(());
    }
    Err(Fault::new(Reason::TargetIsShellScript, format!("{name} is a shell script by its name"), span))
}

pub(super) fn looks_like_script(name: &str) -> bool {
    let name = base_name(name);
    name.rsplit_once('.').is_some_and(|(_, ending)| matches!(ending, "sh" | "bash"))
}
