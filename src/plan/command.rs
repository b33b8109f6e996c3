//! From shell form to exec form: the command and the health check of an image without their shell.
//!
//! The translation is `shell`'s; here it is put to the image: its variables, its scripts, its
//! binary, the runner of its new base. A command that needs no shell is left alone, and so is one
//! whose shell is in the rebased root.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::Value;

use super::globs::GlobSearch;
use super::healthcheck::{self, HealthOutcome};
use super::layers::source_root;
use super::logs::{self, ChosenStrategy, NoStrategy, RunnerAt};
use super::rebase_options::{CommandWords, RebaseOptions, Variable};
use crate::examine::PlatformSubject;
use crate::process::{Command, Container, MEMBER_ORDER, search, set_member};
use layer::RootPath;
use oci::json;
use shell::logs::Strategy;
use shell::{
    self, CommandContext, ExecCommand, ExitStatusUse, ImageContext, Log, Note, Reason, Refusal, Surroundings, Trailing,
    Verdict,
};
use start::rootfs::Root;

/// What became of the command.
#[derive(Debug, Clone, Default)]
pub struct ExecForm {
    pub outcome: CommandOutcome,
    /// Where output goes that went to a file.
    pub log: Option<KeptLog>,
    /// What the translation changes, in words.
    pub notes: Vec<Note>,
    /// CMD was there, and the shell ignored it.
    pub cmd_cleared: Option<Vec<String>>,
    /// An init that stood before the program and that the rebased root lacks.
    pub init_dropped: Vec<String>,
    /// The script that the command says now, which is started no more.
    pub script: Option<String>,
    /// How many words stand before the program: an init, a runner and its flags.
    pub lead: usize,
    /// How many words were looked up among the files of source and result.
    pub globs: usize,
    pub health: HealthOutcome,
}

#[derive(Debug, Clone, Default)]
pub enum CommandOutcome {
    /// No shell was started, or the rebased root has it.
    #[default]
    Unchanged,
    Translated,
    /// The command uses what has no exec form.
    Refused(Box<Refusal>),
    /// The command could be translated, but nobody would write its log.
    NoLog(Box<NoStrategy>),
}

/// A log file and who writes it.
#[derive(Debug, Clone)]
pub struct KeptLog {
    pub path: String,
    pub choice: ChosenStrategy,
}

impl ExecForm {
    /// Whether the command still starts a shell that is not there.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        matches!(self.outcome, CommandOutcome::Refused(_) | CommandOutcome::NoLog(_))
    }

    /// Whether a runner was put before the program.
    #[must_use]
    pub fn uses_runner(&self) -> bool {
        self.log.as_ref().is_some_and(|log| matches!(log.choice.strategy, Strategy::Runner(_)))
    }

    fn stuck(outcome: CommandOutcome) -> Self {
        Self { outcome, ..Self::default() }
    }
}

/// What the translation is put to.
pub(super) struct Translator<'a> {
    /// Where the command's words lead.
    pub(super) root: &'a Root<'a>,
    /// Where shells are that go along anyway: nobody wants one extracted.
    pub(super) shells: &'a Root<'a>,
    pub(super) runner: Option<&'a RunnerAt>,
    pub(super) options: &'a RebaseOptions,
    pub(super) subject: &'a PlatformSubject,
}

/// The container without its shell, and what that took.
pub(super) fn translate(container: Container, translator: &Translator<'_>) -> (Container, ExecForm) {
    let container = overridden(container, translator.options);
    let (container, dropped) = translator.without_lost_init(container);
    let (mut container, mut form) = translator.command(container);
    form.init_dropped = dropped;
    form.health = healthcheck::translate(&mut container, translator);
    (container, form)
}

impl Translator<'_> {
    /// An init that came with the old base is gone with it; the program can do without.
    fn without_lost_init(&self, mut container: Container) -> (Container, Vec<String>) {
        let argv = container.command.argv();
        let lead = shell::init_len(&argv);
        let is_lost = lead > 0 && argv.first().is_some_and(|init| search(self.root, &container, init).is_none());
        if !is_lost {
            return (container, Vec::new());
        }
        let dropped = argv.iter().take(lead).cloned().collect();
        container.set_command(without_first(&container.command, lead));
        (container, dropped)
    }

    fn command(&self, container: Container) -> (Container, ExecForm) {
        let argv = container.command.argv();
        let lead = shell::init_len(&argv);
        let as_it_is = ExecForm { lead, ..ExecForm::default() };
        if self.starts_as_it_is(&container, argv.get(lead..).unwrap_or_default()) {
            return (container, as_it_is);
        }
        let (verdict, script) = self.meaning(&container, &argv, ExitStatusUse::Exact);
        match verdict {
            Verdict::Unchanged(_) => (container, as_it_is),
            Verdict::Refuse(refusal) => (container, ExecForm::stuck(CommandOutcome::Refused(refusal))),
            Verdict::Translate(meaning) => {
                let (container, form) = self.apply(container, &meaning);
                let script = script.filter(|_| !form.is_stuck());
                (container, ExecForm { script, ..form })
            }
        }
    }

    /// What these words mean in the image, and the script that was read for that.
    pub(super) fn meaning(
        &self,
        container: &Container,
        argv: &[String],
        status: ExitStatusUse,
    ) -> (Verdict, Option<String>) {
        let place = self.place(container, status);
        let script = self.script(container, argv);
        let verdict = shell::translate(argv, script.as_ref().map(|script| script.text), &place);
        let (verdict, script) = match (without_ignored_cmd(verdict, container, &place), script) {
            (Verdict::Translate(outer), None) => self.with_started_script(outer, container, argv, &place),
            (verdict, script) => (verdict, script.map(|script| script.path)),
        };
        let word = shell::text_word(argv);
        let text = argv.get(word).filter(|_| script.is_none()).map(String::as_str);
        (self.without_matches(verdict, container, (word, text)), script)
    }

    /// The shell saw the source's variables and directory, whatever the result's are.
    fn place(&self, container: &Container, status: ExitStatusUse) -> CommandContext {
        let source = Container::of(&self.subject.source.config);
        let variables = container.environment().chain(source.environment());
        let surroundings = Surroundings::Known {
            working_dir: working_dir(if self.options.workdir.is_some() { container } else { &source }),
            variables: variables.map(|(name, _)| name.to_owned()).collect(),
        };
        CommandContext::Image(ImageContext { frozen: self.frozen(container), surroundings, status })
    }

    /// `sh -c ./run.sh` starts the script as `./run.sh` alone does. One that is named in CMD is not read: whoever gives
    /// another CMD would still get it.
    fn with_started_script(
        &self,
        outer: Box<ExecCommand>,
        container: &Container,
        argv: &[String],
        place: &CommandContext,
    ) -> (Verdict, Option<String>) {
        let mut within = container.clone();
        set_up(&mut within, &outer);
        let is_fixed = outer.passed < outer.program.len() && shell::script_word(&outer.program) == Some(0);
        let is_lost = is_fixed && !self.starts_as_it_is(&within, &outer.program);
        match self.script(&within, &outer.program).filter(|_| is_lost) {
            None => (Verdict::Translate(outer), None),
            Some(script) => {
                let verdict = shell::translate_script(&outer, script.text, shell::text_word(argv), place);
                (verdict, Some(script.path))
            }
        }
    }

    /// Refused where a word that is kept for its wildcards matches a file of the source or of the result.
    fn without_matches(&self, verdict: Verdict, container: &Container, (word, text): (usize, Option<&str>)) -> Verdict {
        let Verdict::Translate(meaning) = &verdict else { return verdict };
        if meaning.globs.is_empty() {
            return verdict;
        }
        let source = source_root(self.subject);
        let mut searches = [self.root, &source].map(|root| GlobSearch::new(root, container));
        let found = meaning.globs.iter().find_map(|glob| {
            let path = searches.iter_mut().find_map(|search| search.find(glob))?;
            Some(shell::refuse_glob(word, text, glob, &path))
        });
        found.map_or(verdict, |refusal| Verdict::Refuse(Box::new(refusal)))
    }

    /// Whether the words lead to what the kernel can start: a program, a shell that is there, or a
    /// script whose interpreter is. Nothing to start is nothing to translate.
    pub(super) fn starts_as_it_is(&self, container: &Container, argv: &[String]) -> bool {
        let Some(word) = argv.first() else { return true };
        let Some(found) = search(self.root, container, word) else { return false };
        let script = self.root.program(found.file.node).and_then(|program| program.script.as_ref());
        match script {
            Some(script) => script.interpreter.starts_with('/') && self.keeps_shell(container, &script.interpreter),
            None => !shell::starts_shell(argv) || self.keeps_shell(container, word),
        }
    }

    /// Whether the first word leads to a script whose interpreter is gone.
    pub(super) fn is_stuck_script(&self, container: &Container, argv: &[String]) -> bool {
        let found = argv.first().and_then(|word| search(self.root, container, word));
        let program = found.and_then(|found| self.root.program(found.file.node));
        program.is_some_and(|program| program.script.is_some()) && !self.starts_as_it_is(container, argv)
    }

    /// Whether a shell or another interpreter is in the rebased root.
    fn keeps_shell(&self, container: &Container, word: &str) -> bool {
        let is_kept = |path: &RootPath| self.options.keep.iter().any(|kept| path.is_within(kept));
        search(self.shells, container, word).is_some()
            || search(self.root, container, word).is_some_and(|found| is_kept(&found.file.path))
    }

    /// The shell script that the command starts, or gives to a shell.
    fn script(&self, container: &Container, argv: &[String]) -> Option<ScriptText<'_>> {
        let word = shell::script_word(argv).and_then(|at| argv.get(at))?;
        let found = search(self.root, container, word)?;
        let script = self.root.program(found.file.node)?.script.as_ref()?;
        let words = [Some(&script.interpreter), script.argument.as_ref()].into_iter().flatten();
        // `#!/bin/sh`, `#!/usr/bin/env bash`, `#!/bin/busybox sh`: what runs it is one of the words.
        let is_shell = words.flat_map(|words| words.split(' ')).any(is_shell);
        let text = self.root.content(found.file.node).filter(|_| is_shell)?;
        Some(ScriptText { path: found.file.path.to_string(), text })
    }

    /// The variables that may be written into the command, with the image's values.
    pub(super) fn frozen(&self, container: &Container) -> BTreeMap<String, String> {
        let wanted =
            container.environment().filter(|(name, _)| self.options.freeze_env.iter().any(|frozen| frozen == name));
        wanted.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Writes the meaning into the container.
    fn apply(&self, container: Container, meaning: &ExecCommand) -> (Container, ExecForm) {
        let mut after = container.clone();
        set_up(&mut after, meaning);
        // Words that came from CMD stay there; a strategy's flags go before them.
        let (own, passed) = meaning.program.split_at(meaning.program.len().saturating_sub(meaning.passed));
        let own = ExecCommand { program: own.to_vec(), passed: 0, ..meaning.clone() };
        let (argv, log, notes) = match self.keep_log(&own, passed, &after) {
            Ok(kept) => kept,
            Err(outcome) => return (container, ExecForm::stuck(outcome)),
        };
        let lead = meaning.init.len() + log.as_ref().map_or(0, |log| log.choice.words_before(&own, &argv));
        let command = split(&container.command, argv, passed, meaning.trailing);
        let form = ExecForm {
            outcome: CommandOutcome::Translated,
            log,
            notes: meaning.notes.iter().cloned().chain(notes).collect(),
            cmd_cleared: cleared(&container.command, &command),
            lead,
            globs: meaning.globs.len(),
            ..ExecForm::default()
        };
        after.set_command(command);
        (after, form)
    }

    /// The words with the log where it was, by the first strategy that can be proven and can
    /// express it.
    fn keep_log(&self, meaning: &ExecCommand, passed: &[String], after: &Container) -> Result<Kept, CommandOutcome> {
        let Some(Log { path, .. }) = &meaning.log else { return Ok((meaning.argv(), None, Vec::new())) };
        let program = meaning.program.first().and_then(|word| search(self.root, after, word));
        let program = program.and_then(|found| self.root.program(found.file.node));
        let choices = logs::choices(self.options, program, self.runner, path);
        let choices = choices.map_err(|none| CommandOutcome::NoLog(Box::new(none)))?;
        let mut refusal = None;
        for choice in choices {
            match shell::logs::apply_before(meaning, &choice.strategy, passed) {
                Ok(applied) => {
                    let log = KeptLog { path: path.clone(), choice };
                    return Ok((applied.argv, Some(log), applied.notes));
                }
                Err(why) => refusal = refusal.or(Some(why)),
            }
        }
        Err(refusal.map_or(CommandOutcome::Unchanged, CommandOutcome::Refused))
    }
}

struct ScriptText<'a> {
    path: String,
    text: &'a [u8],
}

fn is_shell(path: &str) -> bool {
    matches!(path.rsplit('/').next(), Some("sh" | "bash" | "dash" | "ash"))
}

/// A shell-form ENTRYPOINT ignores CMD: what stands there is no part of the command.
fn without_ignored_cmd(verdict: Verdict, container: &Container, place: &CommandContext) -> Verdict {
    match (&verdict, &container.command.entrypoint, &container.command.cmd) {
        (Verdict::Refuse(refusal), Some(entrypoint), Some(_)) if refusal.reason == Reason::DeadArguments => {
            match shell::translate(entrypoint, None, place) {
                Verdict::Translate(meaning) if meaning.trailing == Trailing::Ignored => Verdict::Translate(meaning),
                _ => verdict,
            }
        }
        _ => verdict,
    }
}

/// The words, the log, and what it changes.
type Kept = (Vec<String>, Option<KeptLog>, Vec<Note>);

fn words(words: Vec<String>) -> Option<Vec<String>> {
    (!words.is_empty()).then_some(words)
}

/// The variables and the directory that the shell would have set.
fn set_up(container: &mut Container, meaning: &ExecCommand) {
    container.add_environment(&meaning.environment);
    meaning.workdir.iter().for_each(|directory| container.set_working_dir(directory));
}

/// Where the container starts, as it is written.
pub(super) fn working_dir(container: &Container) -> String {
    format!("/{}", container.text("WorkingDir").trim_start_matches('/'))
}

/// What the user gave takes the place of what the image has.
fn overridden(mut container: Container, options: &RebaseOptions) -> Container {
    // One that has its value already stays where it is in the list.
    let is_new = |variable: &&Variable| {
        let there = container.environment().filter(|(name, _)| *name == variable.name).last();
        there.is_none_or(|(_, value)| value != variable.value)
    };
    let variables = options.env.iter().filter(is_new);
    let variables: Vec<(String, String)> =
        variables.map(|variable| (variable.name.clone(), variable.value.clone())).collect();
    container.add_environment(&variables);
    options.workdir.iter().for_each(|directory| container.set_working_dir(&directory.0));
    let check = options.healthcheck.as_ref();
    let check = check.map(|check| ("Healthcheck", check.member(container.members.get("Healthcheck"))));
    let user = options.user.as_ref().map(|user| ("User", Value::from(user.clone())));
    for (member, value) in user.into_iter().chain(check) {
        set_member(&mut container.members, member, Some(value));
    }
    container.members = json::ordered(container.members, &MEMBER_ORDER);
    overridden_command(container, options)
}

/// `--entrypoint` and `--cmd`.
fn overridden_command(mut container: Container, options: &RebaseOptions) -> Container {
    if !options.overrides_command() {
        return container;
    }
    let Command { entrypoint, cmd } = container.command.clone();
    let given = |given: &Option<CommandWords>, there| given.as_ref().map_or(there, |given| words(given.0.clone()));
    let entrypoint = given(&options.entrypoint, entrypoint);
    let cmd = given(&options.cmd, cmd);
    container.set_command(Command { entrypoint, cmd });
    container
}

/// The command without its first words.
fn without_first(command: &Command, count: usize) -> Command {
    let entrypoint = command.entrypoint.clone().unwrap_or_default();
    let rest = count.saturating_sub(entrypoint.len());
    let cmd = command.cmd.clone().unwrap_or_default();
    Command {
        entrypoint: words(entrypoint.into_iter().skip(count).collect()),
        cmd: words(cmd.into_iter().skip(rest).collect()),
    }
}

/// Where the words go. Where only CMD was there, only CMD is there again.
fn split(before: &Command, argv: Vec<String>, passed: &[String], trailing: Trailing) -> Command {
    if before.entrypoint.as_ref().is_none_or(Vec::is_empty) {
        return Command { entrypoint: None, cmd: words(argv.into_iter().chain(passed.iter().cloned()).collect()) };
    }
    let cmd = match trailing {
        Trailing::Passed => words(passed.to_vec()),
        Trailing::Ignored => None,
    };
    Command { entrypoint: words(argv), cmd }
}

/// CMD, where it was there and its words are part of the command no more.
fn cleared(before: &Command, after: &Command) -> Option<Vec<String>> {
    let had = before.entrypoint.is_some() && after.cmd.is_none();
    before.cmd.clone().filter(|cmd| had && !cmd.is_empty())
}
