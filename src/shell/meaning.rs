//! What a command means without its shell: the program, its words, variables, folder and log.

use std::collections::BTreeSet;

use super::interpreter::{Invocation, ScriptAt, base_name};
use super::lexer::Lexer;
use super::note::{Note, Notes};
use super::outline::{self, Outline};
use super::place::{Kubelet, Place};
use super::prepare;
use super::program;
use super::reason::{Fault, Reason, Span};
use super::redirect::{Opening, Streams, Written};
use super::scope::Scope;
use super::source::Source;
use super::tee;
use super::value::Value;
use super::variables::Variables;
use super::word::{Piece, Quoting, Word};

/// The file that output goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    pub path: String,
    pub opening: Opening,
    pub written: Written,
    pub copy: Copied,
}

/// Whether the container's stdout gets the output as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copied {
    FileOnly,
    /// `tee`.
    AlsoStdout,
}

/// What becomes of words that are given after the command: CMD, or the arguments of `docker run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trailing {
    /// They were the program's last arguments before, and still are.
    Passed,
    /// The shell ignored them; now the program would get them.
    Ignored,
}

/// A command that needs no shell. Every word is as it must be written in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meaning {
    /// The init wrapper, where there was one.
    pub init: Vec<String>,
    /// The program and its arguments.
    pub program: Vec<String>,
    /// How many words at the end of `program` came from `"$@"`.
    pub passed: usize,
    pub environment: Vec<(String, String)>,
    pub workdir: Option<String>,
    pub log: Option<Log>,
    pub trailing: Trailing,
    pub notes: Vec<Note>,
}

impl Meaning {
    #[must_use]
    pub fn argv(&self) -> Vec<String> {
        self.init.iter().chain(&self.program).cloned().collect()
    }
}

/// Reads the script of a shell that is started.
pub(super) fn read(text: &str, shell: &Invocation<'_>, place: &Place) -> Result<Meaning, Fault> {
    let source = Source::new(text, place)?;
    let outline = outline::draw(Lexer::new(&source, shell.dialect))?;
    let mut scope = Scope {
        place,
        dialect: shell.dialect,
        options: shell.options.clone(),
        variables: Variables::default(),
        arguments: shell.arguments,
        notes: Notes::default(),
    };
    for (name, value) in &shell.lead.environment {
        scope.variables.export(name, Value::text(value), Span::default())?;
    }
    let mut folder = None;
    let mut streams = Streams::default();
    for command in &outline.before {
        prepare::run(command, &mut scope, &mut folder, &mut streams)?;
    }
    finish(&outline, shell, scope, folder, streams)
}

/// The program itself.
fn finish(
    outline: &Outline,
    shell: &Invocation<'_>,
    mut scope: Scope<'_>,
    workdir: Option<String>,
    mut streams: Streams,
) -> Result<Meaning, Fault> {
    let command = &outline.program;
    program::check_prefix(command)?;
    let words = program::words(command)?;
    let (program, passed) = program::values(words, &mut scope)?;
    let pipe = outline.tee.as_ref().map(|(_, tee)| tee.span).or(outline.fifo.as_ref().map(|fifo| fifo.tee.span));
    if let Some(span) = pipe.filter(|_| streams != Streams::default()) {
        // The pipe takes the program's stdout only; where stderr leads was decided before.
        return Err(Fault::new(Reason::Pipeline, "the streams were redirected before the pipe", span));
    }
    streams.apply(&command.redirects, &mut scope)?;
    let log = tee::log(outline, &streams, &mut scope)?;
    program::export_prefix(command, &mut scope)?;
    program::check(command, words, &program, &mut scope)?;
    let trailing = trailing(words, shell, &mut scope)?;
    let kubelet = scope.place.kubelet();
    let place = scope.place;
    let notes = notes(shell, scope.options.notes, scope.notes.take());
    let environment = scope.variables.environment()?;
    let ordered = environment.iter().filter(|(_, value)| value.references().next().is_some());
    let notes = notes.into_iter().chain(ordered.map(|(name, _)| Note::EnvironmentOrder(name.clone()))).collect();
    let meaning = Meaning {
        init: shell.lead.init.clone(),
        program: program.iter().map(|value| value.write(kubelet)).collect(),
        passed,
        environment: environment.iter().map(|(name, value)| (name.clone(), value.write(kubelet))).collect(),
        workdir,
        log: log.map(|(path, opening, written, copy)| Log { path: path.write(kubelet), opening, written, copy }),
        trailing,
        notes,
    };
    check_references(&meaning, place, command.span)?;
    Ok(meaning)
}

/// Remarks on the shell's options first. Behind an init wrapper the program is not the first process.
fn notes(shell: &Invocation<'_>, options: Vec<Note>, others: Vec<Note>) -> Vec<Note> {
    let is_said = |note: &Note| *note != Note::BecomesFirstProcess || shell.lead.init.is_empty();
    options.into_iter().chain(others.into_iter().filter(is_said)).collect()
}

/// What happens to words given later, and whether words given now are lost.
fn trailing(words: &[Word], shell: &Invocation<'_>, scope: &mut Scope<'_>) -> Result<Trailing, Fault> {
    let uses = |word: &Word| word.pieces.iter().any(|(piece, _)| matches!(piece, Piece::Arguments(_)));
    let ends = |word: &Word| word.pieces.iter().any(|(piece, _)| *piece == Piece::Arguments(Quoting::Quoted));
    if let Some(dead) = dead_word(shell, words, words.iter().any(uses)) {
        let detail = format!("`{dead}` stands after the script and is never used");
        return Err(Fault::new(Reason::DeadArguments, detail, words.last().map_or(Span::default(), |word| word.span)));
    }
    // Without a `$0` the first word given later would be taken for it.
    let has_zero = shell.zero.is_some() || matches!(shell.script, ScriptAt::File(_));
    if has_zero && words.last().is_some_and(ends) {
        return Ok(Trailing::Passed);
    }
    if matches!(scope.place, Place::Image { .. }) {
        scope.note(Note::ArgumentsReachProgram);
    }
    Ok(Trailing::Ignored)
}

/// A word that somebody meant to be used. `$0` is often a filler.
fn dead_word(shell: &Invocation<'_>, words: &[Word], used: bool) -> Option<String> {
    let program = words.first().and_then(Word::literal).unwrap_or_default();
    let is_filler = |zero: &str| {
        matches!(zero, "--" | "-" | "_" | "sh" | "bash" | "dash" | "ash" | "/bin/sh" | "/bin/bash")
            || base_name(zero) == base_name(&program)
    };
    let zero = shell.zero.filter(|zero| !is_filler(zero)).map(str::to_owned);
    zero.or_else(|| shell.arguments.first().filter(|_| !used).cloned())
}

/// A variable that is set anew must not be referred to: the kubelet would put in the new value.
fn check_references(meaning: &Meaning, place: &Place, span: Span) -> Result<(), Fault> {
    if place.kubelet() == Kubelet::Keeps {
        return Ok(());
    }
    let set: BTreeSet<&str> = meaning.environment.iter().map(|(name, _)| name.as_str()).collect();
    let values = meaning.environment.iter().map(|(_, value)| value);
    let words =
        meaning.init.iter().chain(&meaning.program).chain(values).chain(meaning.log.iter().map(|log| &log.path));
    let mut names = words.flat_map(|word| word.split("$(").skip(1)).filter_map(|rest| Some(rest.split_once(')')?.0));
    match names.find(|name| set.contains(name)) {
        None => Ok(()),
        Some(name) => {
            let detail = format!("{name} is set anew, but its old value is used too");
            Err(Fault::new(Reason::Assignment, detail, span))
        }
    }
}
