//! What a command means without its shell: the program, its words, variables, folder and log.

use std::collections::BTreeSet;

use super::interpreter::{Invocation, ScriptAt, base_name};
use super::lexer::Lexer;
use super::note::{Note, Notes};
use super::outline::{self, Outline};
use super::place::Place;
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
    let mut notes = shell.options.notes.clone();
    notes.extend(scope.options.notes.drain(..).filter(|note| !shell.options.notes.contains(note)));
    notes.append(&mut scope.notes.take());
    let environment = scope.variables.environment()?;
    check_references(&environment, &program, command.span)?;
    for (name, _) in environment.iter().filter(|(_, value)| value.references().next().is_some()) {
        notes.push(Note::EnvironmentOrder(name.clone()));
    }
    let kubelet = scope.place.kubelet();
    let write = |(path, opening, written, copy): (Value, Opening, Written, Copied)| Log {
        path: path.write(kubelet),
        opening,
        written,
        copy,
    };
    Ok(Meaning {
        init: shell.lead.init.clone(),
        program: program.iter().map(|value| value.write(kubelet)).collect(),
        passed,
        environment: environment.iter().map(|(name, value)| (name.clone(), value.write(kubelet))).collect(),
        workdir,
        log: log.map(write),
        trailing,
        notes,
    })
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

/// A variable that is set anew must not be referred to: the reference would give the new value.
fn check_references(environment: &[(String, Value)], program: &[Value], span: Span) -> Result<(), Fault> {
    let set: BTreeSet<&str> = environment.iter().map(|(name, _)| name.as_str()).collect();
    let values = environment.iter().map(|(_, value)| value).chain(program);
    for name in values.flat_map(Value::references) {
        if set.contains(name) {
            let detail = format!("{name} is set anew, but its old value is used too");
            return Err(Fault::new(Reason::Assignment, detail, span));
        }
    }
    Ok(())
}
