//! What a command means without its shell: the program, its words, variables, folder and log.

use std::collections::BTreeSet;

use super::builtin::{self, Taken};
use super::interpreter::{Invocation, base_name, shell_of};
use super::lexer::Lexer;
use super::note::{Note, Notes};
use super::option;
use super::outline::{self, Command, Outline};
use super::place::{Kubelet, Place};
use super::reason::{Fault, Reason, Span};
use super::redirect::{Opening, Streams, Written};
use super::scope::{Scope, Use};
use super::source::Source;
use super::tee;
use super::value::{Bit, Value};
use super::variables::Variables;
use super::word::{Piece, Quoting, Word, is_name};

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
    let mut folder = None;
    let mut streams = Streams::default();
    for command in &outline.before {
        prepare(command, &mut scope, &mut folder, &mut streams)?;
    }
    finish(&outline, shell, scope, folder, streams)
}

/// A command that only prepares the shell.
fn prepare(
    command: &Command,
    scope: &mut Scope<'_>,
    folder: &mut Option<String>,
    streams: &mut Streams,
) -> Result<(), Fault> {
    let Some((name, words)) = command.words.split_first() else {
        for (name, word) in &command.assignments {
            let value = scope.value(word, Use::Assigned)?;
            scope.variables.assign(name, value, word.span)?;
        }
        return no_redirects(command);
    };
    if let Some((_, word)) = command.assignments.first() {
        return Err(Fault::new(Reason::Assignment, "a variable is set for a builtin of the shell", word.span));
    }
    match name.bare() {
        Some("exec") => return streams.apply(&command.redirects, scope),
        Some("export") => export(words, scope)?,
        Some("cd") => *folder = Some(change_folder(words, scope, folder.as_deref(), command.span)?),
        _ => set(words, scope, command.span)?,
    }
    no_redirects(command)
}

fn no_redirects(command: &Command) -> Result<(), Fault> {
    match command.redirects.first() {
        None => Ok(()),
        Some(redirect) => {
            let detail = "the output of a command before the program is redirected";
            Err(Fault::new(Reason::PartialRedirect, detail, redirect.span))
        }
    }
}

fn export(words: &[Word], scope: &mut Scope<'_>) -> Result<(), Fault> {
    for word in words {
        if let Some((name, value)) = word.assignment() {
            // Old shells split the value here.
            let value = scope.value(&value, Use::Argument)?;
            scope.variables.export(&name, value, word.span)?;
        } else if let Some(name) = word.bare().filter(|name| is_name(name)) {
            scope.variables.publish(name);
        } else {
            let detail = "only NAME=value and NAME can be exported";
            return Err(Fault::new(Reason::Assignment, detail, word.span));
        }
    }
    Ok(())
}

fn set(words: &[Word], scope: &mut Scope<'_>, span: Span) -> Result<(), Fault> {
    let texts: Option<Vec<String>> = words.iter().map(Word::literal).collect();
    let texts = texts.ok_or_else(|| Fault::new(Reason::ShellOption, "an option comes from a variable", span))?;
    let refuse = |(reason, detail): option::Objection| Fault::new(reason, detail, span);
    let read = option::read(&texts, scope.dialect, &mut scope.options, |_, _| None).map_err(refuse)?;
    let is_list = read < texts.len() || texts.iter().any(|text| text == "--");
    match texts.is_empty() {
        true => Err(Fault::new(Reason::ShellBuiltin, "`set` alone prints the variables", span)),
        false if is_list => Err(Fault::new(Reason::PositionalParameters, "`set` changes the script's arguments", span)),
        false => Ok(()),
    }
}

fn change_folder(words: &[Word], scope: &mut Scope<'_>, from: Option<&str>, span: Span) -> Result<String, Fault> {
    let relative = |detail: &str| Fault::new(Reason::RelativeDirectory, detail, span);
    let [word] = words else { return Err(relative("`cd` without one folder goes somewhere else")) };
    let value = scope.value(word, Use::Argument)?;
    let unknown = || Fault::new(Reason::RuntimeVariable, "no working folder can hold a variable", word.span);
    let folder = value.literal().ok_or_else(unknown)?;
    if folder.split('/').any(|part| part == "..") {
        return Err(relative("the shell and the kernel may read `..` differently"));
    }
    let is_own = folder.starts_with("./") || folder == ".";
    match from {
        _ if folder.starts_with('/') => {}
        // CDPATH is searched for other names.
        Some(from) if is_own => return Ok(join(from, folder.trim_start_matches("./").trim_start_matches('.'))),
        _ => return Err(relative("where the folder is depends on where the container starts")),
    }
    scope.note(Note::FolderMustExist(folder.clone()));
    Ok(folder)
}

fn join(folder: &str, name: &str) -> String {
    match name {
        "" => folder.to_owned(),
        _ => format!("{}/{name}", folder.trim_end_matches('/')),
    }
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
    check_prefix(command)?;
    let words = program_words(command)?;
    let (program, passed) = values(words, &mut scope)?;
    let pipe = outline.tee.as_ref().map(|(_, tee)| tee.span).or(outline.fifo.as_ref().map(|fifo| fifo.tee.span));
    if let Some(span) = pipe.filter(|_| streams != Streams::default()) {
        // The pipe takes the program's stdout only; where stderr leads was decided before.
        return Err(Fault::new(Reason::Pipeline, "the streams were redirected before the pipe", span));
    }
    streams.apply(&command.redirects, &mut scope)?;
    let log = tee::log(outline, streams, &mut scope)?;
    prefix(command, &mut scope)?;
    check_program(command, words, &program, &mut scope)?;
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
        environment: written(&shell.lead.environment, &environment, kubelet),
        workdir,
        log: log.map(write),
        trailing,
        notes,
    })
}

/// `env` came first, so what the script sets is what counts.
fn written(lead: &[(String, String)], own: &[(String, Value)], kubelet: Kubelet) -> Vec<(String, String)> {
    let set: BTreeSet<&str> = own.iter().map(|(name, _)| name.as_str()).collect();
    let lead = lead.iter().filter(|(name, _)| !set.contains(name.as_str())).cloned();
    lead.chain(own.iter().map(|(name, value)| (name.clone(), value.write(kubelet)))).collect()
}

/// Shells differ on whether `A=1 B=$A program >$A` sees the new value.
fn check_prefix(command: &Command) -> Result<(), Fault> {
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

fn prefix(command: &Command, scope: &mut Scope<'_>) -> Result<(), Fault> {
    for (name, word) in &command.assignments {
        let value = scope.value(word, Use::Assigned)?;
        scope.variables.export(name, value, word.span)?;
    }
    Ok(())
}

/// The words after `exec`.
fn program_words(command: &Command) -> Result<&[Word], Fault> {
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

fn values(words: &[Word], scope: &mut Scope<'_>) -> Result<(Vec<Value>, usize), Fault> {
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
fn check_program(command: &Command, words: &[Word], program: &[Value], scope: &mut Scope<'_>) -> Result<(), Fault> {
    let Some(first) = program.first() else {
        return Err(Fault::new(Reason::Incomplete, "no program is started", command.span));
    };
    let span = words.first().map_or(command.span, |word| word.span);
    let texts: Vec<String> = program.iter().map(|value| value.write(Kubelet::Keeps)).collect();
    let name = texts.first().cloned().unwrap_or_default();
    let is_known = first.0.iter().all(|bit| matches!(bit, Bit::Text(_) | Bit::Raw(_))) || name.contains('/');
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
pub(super) fn check_script(name: &str, span: Span, scope: &mut Scope<'_>) -> Result<(), Fault> {
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
    name.ends_with(".sh") || name.ends_with(".bash")
}

/// What happens to words given later, and whether words given now are lost.
fn trailing(words: &[Word], shell: &Invocation<'_>, scope: &mut Scope<'_>) -> Result<Trailing, Fault> {
    let quoted = |piece: &Piece| *piece == Piece::Arguments(Quoting::Quoted);
    let passes = words.last().is_some_and(|word| word.pieces.iter().any(|(piece, _)| quoted(piece)));
    let uses = words.iter().any(|word| word.pieces.iter().any(|(piece, _)| matches!(piece, Piece::Arguments(_))));
    if !uses && let Some(dead) = dead_word(shell, words) {
        let detail = format!("`{dead}` stands after the script and is never used");
        return Err(Fault::new(Reason::DeadArguments, detail, words.last().map_or(Span::default(), |word| word.span)));
    }
    if passes {
        return Ok(Trailing::Passed);
    }
    if matches!(scope.place, Place::Image { .. }) {
        scope.note(Note::ArgumentsReachProgram);
    }
    Ok(Trailing::Ignored)
}

/// A word that somebody meant to be used. `$0` is often a filler.
fn dead_word(shell: &Invocation<'_>, words: &[Word]) -> Option<String> {
    let program = words.first().and_then(Word::literal).unwrap_or_default();
    let is_filler = |zero: &str| {
        matches!(zero, "--" | "-" | "_" | "sh" | "bash" | "dash" | "ash" | "/bin/sh" | "/bin/bash")
            || base_name(zero) == base_name(&program)
    };
    let zero = shell.zero.filter(|zero| !is_filler(zero)).map(str::to_owned);
    shell.arguments.first().cloned().or(zero)
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

