//! A script to the one program that it runs: its arguments, variables, working directory and log.

use std::collections::BTreeSet;

use super::builtins::{self, Reserved, WorkingDir, is_same_as_program, reserved};
use super::expansion::{Expander, ValuePart, Variables, WordRole, WordValue, most_expanded};
use super::glob::Glob;
use super::interpreter::{Invocation, ScriptAt, base_name, shell_of};
use super::kubelet::{CommandContext, ExpandedScript, Kubelet};
use super::lexer::Lexer;
use super::note::{Note, Notes};
use super::parser::{self, ParsedScript, SimpleCommand};
use super::redirect::{LogStreams, OpenMode, Streams};
use super::refusal::{Reason, Span, Unsupported};
use super::tee;
use super::word::{Piece, Quoting, Word};

/// The file that output goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    pub path: String,
    pub open_mode: OpenMode,
    pub streams: LogStreams,
    pub copy: LogCopy,
}

/// Whether the container's stdout gets the output as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogCopy {
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
pub struct ExecCommand {
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
    /// Words that the program gets as they are, if they match no file.
    pub globs: Vec<Glob>,
    pub notes: Vec<Note>,
}

impl ExecCommand {
    #[must_use]
    pub fn argv(&self) -> Vec<String> {
        self.init.iter().chain(&self.program).cloned().collect()
    }

    /// What becomes of it where its program is a script that says `inner`, read with this command's variables and
    /// directory.
    pub(super) fn then(&self, inner: Self) -> Result<Self, Unsupported> {
        let objection = match (&self.log, &inner.log) {
            (Some(_), Some(_)) => Some("the script redirects output that is redirected already"),
            (Some(log), None) if !log.path.starts_with('/') && inner.workdir.is_some() => {
                Some("a file was opened by a relative path before the script changes the directory")
            }
            (Some(log), None) if log.streams != LogStreams::Both && inner.notes.contains(&Note::MergeDropped) => {
                Some("the script redirects one stream into the other, and only one of them goes to the file")
            }
            _ => None,
        };
        if let Some(detail) = objection {
            return Err(Unsupported::of_words(Reason::PartialRedirect, detail));
        }
        let is_passed = [self.trailing, inner.trailing].iter().all(|trailing| *trailing == Trailing::Passed);
        let (own, others) = (self.notes.iter(), inner.notes.iter());
        Ok(Self {
            init: self.init.clone(),
            // All of the script's arguments go to the program or none, and this command's own come first.
            passed: if inner.passed > 0 { self.passed } else { 0 },
            workdir: inner.workdir.or_else(|| self.workdir.clone()),
            log: inner.log.or_else(|| self.log.clone()),
            trailing: if is_passed { Trailing::Passed } else { Trailing::Ignored },
            globs: self.globs.iter().chain(&inner.globs).cloned().collect(),
            notes: own.chain(others.filter(|note| !self.notes.contains(note))).cloned().collect(),
            program: inner.program,
            environment: inner.environment,
        })
    }
}

/// Reads the script of a shell that is started.
pub(super) fn read(text: &str, shell: &Invocation<'_>, context: &CommandContext) -> Result<ExecCommand, Unsupported> {
    let source = ExpandedScript::new(text, context)?;
    let script = parser::parse(Lexer::new(&source, shell.dialect), context.status())?;
    let mut expander = Expander {
        context,
        dialect: shell.dialect,
        options: shell.options.clone(),
        variables: Variables::default(),
        arguments: shell.arguments,
        notes: Notes::default(),
        globs: Vec::new(),
        room: most_expanded(text, shell.arguments, context),
    };
    for (name, value) in &shell.lead.environment {
        expander.variables.export(name, WordValue::text(value), Span::default())?;
    }
    let mut directory = WorkingDir::started_in(context);
    let mut streams = Streams::default();
    for command in &script.before {
        builtins::run(command, &mut expander, &mut directory, &mut streams)?;
    }
    finish(&script, shell, expander, directory.changed(), streams)
}

/// The program itself.
fn finish(
    script: &ParsedScript,
    shell: &Invocation<'_>,
    mut expander: Expander<'_>,
    workdir: Option<String>,
    mut streams: Streams,
) -> Result<ExecCommand, Unsupported> {
    let command = &script.program;
    if let Some(directory) = &workdir {
        expander.note(Note::DirectoryMustExist(directory.clone()));
    }
    check_assignments(command)?;
    let words = words_after_exec(command)?;
    let (program, passed) = word_values(words, &mut expander)?;
    let pipe = script.tee.as_ref().map(|(_, tee)| tee.span).or(script.fifo.as_ref().map(|fifo| fifo.tee.span));
    if let Some(span) = pipe.filter(|_| streams != Streams::default()) {
        // The pipe takes the program's stdout only; where stderr leads was decided before.
        return Err(Unsupported::new(Reason::Pipeline, "the streams were redirected before the pipe", span));
    }
    streams.apply(&command.redirects, &mut expander)?;
    let log = tee::log(script, &streams, &mut expander)?;
    export_assignments(command, &mut expander)?;
    check_program(command, words, &program, shell, &mut expander)?;
    let trailing = trailing(words, shell, &mut expander)?;
    let kubelet = expander.context.kubelet();
    let context = expander.context;
    let directory = workdir.as_deref().or(context.working_dir()).unwrap_or("/").to_owned();
    let notes = notes(shell, expander.options.notes, expander.notes.take());
    let environment = expander.variables.environment()?;
    let ordered = environment.iter().filter(|(_, value)| value.references().next().is_some());
    let notes = notes.into_iter().chain(ordered.map(|(name, _)| Note::EnvironmentOrder(name.clone()))).collect();
    let exec = ExecCommand {
        init: shell.lead.init.clone(),
        program: program.iter().map(|value| value.write(kubelet)).collect(),
        passed,
        environment: environment.iter().map(|(name, value)| (name.clone(), value.write(kubelet))).collect(),
        workdir,
        log: log.map(|(path, open_mode, streams, copy)| Log { path: path.write(kubelet), open_mode, streams, copy }),
        trailing,
        globs: expander.globs.into_iter().map(|glob| glob.seen_from(&directory)).collect(),
        notes,
    };
    check_references(&exec, context, command.span)?;
    Ok(exec)
}

/// Remarks on the shell's options first. Behind an init wrapper the program is not the first process.
fn notes(shell: &Invocation<'_>, options: Vec<Note>, others: Vec<Note>) -> Vec<Note> {
    let is_said = |note: &Note| *note != Note::BecomesFirstProcess || shell.lead.init.is_empty();
    options.into_iter().chain(others.into_iter().filter(is_said)).collect()
}

/// What happens to words given later, and whether words given now are lost.
fn trailing(words: &[Word], shell: &Invocation<'_>, expander: &mut Expander<'_>) -> Result<Trailing, Unsupported> {
    let uses = |word: &Word| word.pieces.iter().any(|(piece, _)| matches!(piece, Piece::Arguments(_)));
    let ends = |word: &Word| word.pieces.iter().any(|(piece, _)| *piece == Piece::Arguments(Quoting::Quoted));
    if let Some(dead) = dead_word(shell, words, words.iter().any(uses)) {
        let detail = format!("`{dead}` comes after the script and is never used");
        return Err(Unsupported::new(
            Reason::DeadArguments,
            detail,
            words.last().map_or(Span::default(), |word| word.span),
        ));
    }
    // Without a `$0` the first word given later would be taken for it.
    let has_zero = shell.zero.is_some() || matches!(shell.script, ScriptAt::File(_));
    if has_zero && words.last().is_some_and(ends) {
        return Ok(Trailing::Passed);
    }
    if matches!(expander.context, CommandContext::Image(_)) {
        expander.note(Note::ArgumentsReachProgram);
    }
    Ok(Trailing::Ignored)
}

/// A word that was meant to be used. `$0` is often a filler.
fn dead_word(shell: &Invocation<'_>, words: &[Word], used: bool) -> Option<String> {
    let program = words.first().and_then(Word::literal).unwrap_or_default();
    let is_filler = |zero: &str| {
        matches!(zero, "--" | "-" | "_" | "sh" | "bash" | "dash" | "ash" | "/bin/sh" | "/bin/bash")
            || base_name(zero) == base_name(&program)
    };
    let zero = shell.zero.filter(|zero| !is_filler(zero)).map(str::to_owned);
    zero.or_else(|| shell.arguments.first().filter(|_| !used).cloned())
}

/// A variable that gets a new value must not be referred to: the kubelet would insert the new value.
fn check_references(exec: &ExecCommand, context: &CommandContext, span: Span) -> Result<(), Unsupported> {
    if context.kubelet() == Kubelet::Keeps {
        return Ok(());
    }
    let set: BTreeSet<&str> = exec.environment.iter().map(|(name, _)| name.as_str()).collect();
    let values = exec.environment.iter().map(|(_, value)| value);
    let words = exec.init.iter().chain(&exec.program).chain(values).chain(exec.log.iter().map(|log| &log.path));
    let mut names = words.flat_map(|word| word.split("$(").skip(1)).filter_map(|rest| Some(rest.split_once(')')?.0));
    match names.find(|name| set.contains(name)) {
        None => Ok(()),
        Some(name) => {
            let detail = format!("{name} is set to a new value, but its old value is used too");
            Err(Unsupported::new(Reason::Assignment, detail, span))
        }
    }
}

/// Shells differ on whether `A=1 B=$A program >$A` sees the new value.
fn check_assignments(command: &SimpleCommand) -> Result<(), Unsupported> {
    let names: BTreeSet<&str> = command.assignments.iter().map(|(name, _)| name.as_str()).collect();
    let assigned = command.assignments.iter().map(|(_, word)| word);
    let targets = command.redirects.iter().map(|redirect| &redirect.target);
    let pieces = assigned.chain(targets).chain(&command.words).flat_map(|word| &word.pieces);
    for (piece, span) in pieces {
        if let Piece::Variable(name, _) | Piece::Reference(name) = piece
            && names.contains(name.as_str())
        {
            let detail = format!("{name} is both set and used by the same command");
            return Err(Unsupported::new(Reason::Assignment, detail, *span));
        }
    }
    Ok(())
}

/// `NAME=value program`.
fn export_assignments(command: &SimpleCommand, expander: &mut Expander<'_>) -> Result<(), Unsupported> {
    for (name, word) in &command.assignments {
        let value = expander.value(word, WordRole::Assigned)?;
        expander.variables.export(name, value, word.span)?;
    }
    Ok(())
}

/// The words after `exec`.
fn words_after_exec(command: &SimpleCommand) -> Result<&[Word], Unsupported> {
    match command.words.as_slice() {
        [exec, rest @ ..] if exec.is("exec") => match rest.first() {
            Some(word) if word.bare_text().starts_with('-') => {
                Err(Unsupported::new(Reason::ShellOption, "`exec` has an option", word.span))
            }
            _ => Ok(rest),
        },
        words => Ok(words),
    }
}

/// What the words expand to, and how many of them are arguments passed on.
fn word_values(words: &[Word], expander: &mut Expander<'_>) -> Result<(Vec<WordValue>, usize), Unsupported> {
    let mut out = Vec::new();
    let mut passed = 0;
    for (index, word) in words.iter().enumerate() {
        let values = expander.arguments(word)?;
        let is_arguments = word.pieces.iter().any(|(piece, _)| matches!(piece, Piece::Arguments(_)));
        if is_arguments {
            passed = values.len();
            let is_fixed = !matches!(expander.context, CommandContext::Image(_));
            if index + 1 != words.len() && !is_fixed {
                let detail = "other words follow \"$@\", so arguments added later would end up in the wrong place";
                return Err(Unsupported::new(Reason::PositionalParameters, detail, word.span));
            }
        }
        out.extend(values);
    }
    Ok((out, passed))
}

/// There must be a program, and it must be known.
fn check_program(
    command: &SimpleCommand,
    words: &[Word],
    program: &[WordValue],
    shell: &Invocation<'_>,
    expander: &mut Expander<'_>,
) -> Result<(), Unsupported> {
    let Some(first) = program.first() else {
        return Err(Unsupported::new(Reason::Incomplete, "no program is started", command.span));
    };
    let span = words.first().map_or(command.span, |word| word.span);
    let texts: Vec<String> = program.iter().map(|value| value.write(Kubelet::Keeps)).collect();
    let name = texts.first().cloned().unwrap_or_default();
    // With a path in front, a value can make neither a keyword nor an assignment of the word.
    let is_path =
        matches!(first.0.first(), Some(ValuePart::Text(text)) if text.starts_with('/') || text.starts_with("./"));
    let is_known = first.0.iter().all(|bit| matches!(bit, ValuePart::Text(_) | ValuePart::Raw(_))) || is_path;
    if !is_known || name.is_empty() {
        return Err(Unsupported::new(Reason::RuntimeVariable, "the name of the program comes from a variable", span));
    }
    if let Some((_, taken)) = shell_of(&texts) {
        let script = texts.get(taken).is_some_and(|word| !word.starts_with('-'));
        let reason = if script { Reason::TargetIsShellScript } else { Reason::NestedShell };
        return Err(Unsupported::new(reason, format!("{name} is itself a shell"), span));
    }
    check_builtin(command, &texts, span, expander)?;
    check_path(&name, span, expander)?;
    check_script(&name, span, shell, expander)?;
    let is_first = matches!(expander.context, CommandContext::Image(_) | CommandContext::Container { .. });
    if is_first && !command.words.first().is_some_and(|word| word.is("exec")) {
        expander.note(Note::BecomesFirstProcess);
    }
    Ok(())
}

fn check_builtin(
    command: &SimpleCommand,
    texts: &[String],
    span: Span,
    expander: &mut Expander<'_>,
) -> Result<(), Unsupported> {
    let (Some(name), arguments) = (texts.first(), texts.get(1..).unwrap_or_default()) else { return Ok(()) };
    let is_exec = command.words.first().is_some_and(|word| word.is("exec"));
    match reserved(name) {
        // A keyword that got here was quoted, or came from a variable.
        None | Some(Reserved::Keyword(_)) => Ok(()),
        // `exec` always looks for a program.
        Some(Reserved::AlsoProgram) if is_exec => Ok(()),
        Some(Reserved::AlsoProgram) if is_same_as_program(name, arguments) => {
            expander.note(Note::BuiltinBecomesProgram(name.clone()));
            Ok(())
        }
        Some(_) => {
            Err(Unsupported::new(Reason::ShellBuiltin, format!("{name} is a shell builtin, not a program"), span))
        }
    }
}

/// A shell looks for the program in the working directory where a part of PATH is empty, and in relative directories;
/// runtimes do neither.
fn check_path(name: &str, span: Span, expander: &Expander<'_>) -> Result<(), Unsupported> {
    let path = expander.variables.get("PATH").and_then(WordValue::literal);
    match path.filter(|_| !name.contains('/')) {
        Some(path) if path.split(':').any(|part| !part.starts_with('/')) => {
            let detail =
                format!("PATH is set to a value with a part that is no absolute path, and {name} is found by it");
            Err(Unsupported::new(Reason::Assignment, detail, span))
        }
        _ => Ok(()),
    }
}

/// A name that suggests a script. Probes and hooks do not decide whether the image can move. Whoever has the image
/// looks at the file that `sh -c` starts, not at its name.
fn check_script(
    name: &str,
    span: Span,
    shell: &Invocation<'_>,
    expander: &mut Expander<'_>,
) -> Result<(), Unsupported> {
    let is_looked_up = expander.context.looks_up_programs() && matches!(shell.script, ScriptAt::Word(_));
    if is_looked_up || !looks_like_script(name) {
        return Ok(());
    }
    if matches!(expander.context, CommandContext::Probe { .. } | CommandContext::Hook) {
        expander.note(Note::LooksLikeScript(name.to_owned()));
        return Ok(());
    }
    Err(Unsupported::new(Reason::TargetIsShellScript, format!("{name} looks like a shell script"), span))
}

pub(super) fn looks_like_script(name: &str) -> bool {
    let name = base_name(name);
    name.rsplit_once('.').is_some_and(|(_, ending)| matches!(ending, "sh" | "bash"))
}
