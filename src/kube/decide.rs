//! What becomes of the command at one site, before anybody thinks of its text.

use std::collections::BTreeMap;

use super::image::{Answer, Question};
use super::log;
use super::mount::{self, Mounted};
use super::placeholder;
use super::site::{Site, What, words};
use super::template::Hidden;
use super::tree::{Id, Tree};
use super::why::{Remark, Why};
use super::{Options, environment};
use crate::policy::Rule;
use crate::shell::logs::Applied;
use crate::shell::{self, CommandContext, Declared, ExecCommand, Frozen, Log, Verdict};

/// What becomes of a command.
#[derive(Debug, Clone)]
pub(super) enum Decision {
    Unchanged,
    Change(Box<Change>),
    Refuse(Box<Why>),
    /// It needs its shell, and the image has it.
    Keep(Box<Why>),
}

/// The command in exec form.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub command: Vec<String>,
    /// `None` where there were none and none are needed.
    pub args: Option<Vec<String>>,
    pub environment: Vec<(String, String)>,
    pub workdir: Option<String>,
    pub log: Option<Log>,
}

/// A decision with the words it is about and what there is to say.
#[derive(Debug, Clone)]
pub(super) struct Decided {
    pub before: Vec<String>,
    pub decision: Decision,
    pub remarks: Vec<Remark>,
}

/// A manifest, read.
pub(super) struct Setting<'a> {
    pub tree: &'a Tree,
    pub hidden: &'a Hidden,
    pub options: &'a Options<'a>,
}

impl Setting<'_> {
    pub fn decide(&self, site: &Site) -> Decided {
        let mut remarks = Vec::new();
        let (command, args) = (words(self.tree, site.command), words(self.tree, site.args));
        let (Some(command), Some(args)) = (command, args) else {
            let why = Why::new(Rule::NotWords, "an item of the list is not a string");
            return Decided { before: Vec::new(), decision: Decision::Refuse(Box::new(why)), remarks };
        };
        let line: Vec<String> = command.iter().chain(&args).cloned().collect();
        let decision = self.judge(site, &command, &args, &mut remarks);
        let decision = decision.unwrap_or_else(|why| Decision::Refuse(Box::new(why)));
        Decided { before: line, decision, remarks }
    }

    fn judge(
        &self,
        site: &Site,
        command: &[String],
        args: &[String],
        remarks: &mut Vec<Remark>,
    ) -> Result<Decision, Why> {
        let line: Vec<String> = command.iter().chain(args).cloned().collect();
        if line.is_empty() {
            return Ok(Decision::Unchanged);
        }
        let declared = environment::declared(self.tree, site.container);
        let answer = |program: &str| self.ask(site.container, &declared, program);
        if command.is_empty() && !is_whole_command(args, answer(""))? {
            return Ok(Decision::Unchanged);
        }
        match shell::translate(&line, None, &context(site.what, &declared)) {
            Verdict::Unchanged(notes) => {
                remarks.extend(notes.iter().map(Remark::from));
                for program in starters(&line, shell::init_len(&line)) {
                    self.check_program(site.container, program, answer(program), remarks)?;
                }
                Ok(Decision::Unchanged)
            }
            Verdict::Refuse(refusal) => {
                let program = line.get(shell::init_len(&line)).map_or("", String::as_str);
                let has_shell = answer(program).is_some_and(|answer| answer.missing.is_none());
                let why = Box::new(Why::from(*refusal));
                Ok(if has_shell { Decision::Keep(why) } else { Decision::Refuse(why) })
            }
            Verdict::Translate(exec) => {
                placeholder::check(self.hidden, &line, &exec)?;
                for program in starters(&exec.argv(), exec.init.len()) {
                    self.check_program(site.container, program, answer(program), remarks)?;
                }
                let answer = answer(exec.program.first().map_or("", String::as_str));
                let applied = self.apply(site.what, &line, &exec, answer.as_ref(), remarks)?;
                check_is_last(&applied.argv, &context(site.what, &declared))?;
                remarks.splice(0..0, exec.notes.iter().chain(&applied.notes).map(Remark::from));
                self.remark_on_log(site, &exec, &applied, remarks);
                remarks.extend(container_wide(&exec));
                remarks.extend(placeholder::remarks(self.hidden, &exec));
                Ok(Decision::Change(Box::new(change(command, args, &exec, applied))))
            }
        }
    }

    fn ask(&self, container: Id, declared: &BTreeMap<String, Declared>, program: &str) -> Option<Answer> {
        let path = match declared.get("PATH") {
            Some(Declared::Literal(path)) => Some(path.as_str()),
            _ => None,
        };
        let folder = self.tree.text_at(container, "workingDir").filter(|folder| !folder.is_empty());
        let image = self.tree.text_at(container, "image")?;
        self.options.images.ask(&self.hidden.shown(image), &Question { program, path, folder })
    }

    /// What the image lacks cannot be started, unless a volume brings it.
    fn check_program(
        &self,
        container: Id,
        program: &str,
        answer: Option<Answer>,
        remarks: &mut Vec<Remark>,
    ) -> Result<(), Why> {
        let Some(answer) = answer else { return Ok(()) };
        let Some(missing) = answer.missing else { return Ok(()) };
        if program.contains("$(") {
            remarks
                .push(Remark::new(Rule::ProgramUnknown, format!("{program} is known only when the container starts")));
            return Ok(());
        }
        if mount::of(self.tree, container, program) == Mounted::OnVolume {
            remarks.push(Remark::new(
                Rule::ProgramOnVolume,
                format!("{program} comes from a volume, which was not looked at"),
            ));
            return Ok(());
        }
        Err(Why::new(Rule::EntrypointMissing, format!("{} cannot start {program}: {missing}", answer.image)))
    }

    fn apply(
        &self,
        what: What,
        line: &[String],
        exec: &ExecCommand,
        answer: Option<&Answer>,
        remarks: &mut Vec<Remark>,
    ) -> Result<Applied, Why> {
        if what == What::Command {
            return log::apply(exec, self.options, answer, remarks);
        }
        let is_quiet = exec.log.as_ref().is_none_or(|log| log.path == "/dev/null");
        if !exec.environment.is_empty() || exec.workdir.is_some() || !is_quiet {
            return Err(Why::from(shell::refuse_side_effects(line)));
        }
        Ok(Applied { argv: exec.argv(), notes: Vec::new() })
    }

    fn remark_on_log(&self, site: &Site, exec: &ExecCommand, applied: &Applied, remarks: &mut Vec<Remark>) {
        let Some(log) = &exec.log else { return };
        let is_written = applied.argv.iter().any(|word| word.ends_with(&format!("={}", log.path)));
        if is_written && mount::of(self.tree, site.container, &log.path) == Mounted::Nowhere {
            let message = format!(
                "{} is on no volume: its folder must be in the image, and the log goes with the container",
                log.path
            );
            remarks.push(Remark::new(Rule::LogNotMounted, message));
        }
    }
}

/// Whether `args` alone are the whole command: only where the image has no entrypoint.
fn is_whole_command(args: &[String], answer: Option<Answer>) -> Result<bool, Why> {
    if let Some(answer) = answer {
        return Ok(answer.entrypoint.is_empty());
    }
    let context = CommandContext::Image { frozen: Frozen::default() };
    match shell::translate(args, None, &context) {
        Verdict::Unchanged(_) => Ok(false),
        Verdict::Refuse(refusal) if refusal.reason == shell::Reason::TargetIsShellScript => Ok(false),
        _ => {
            let detail = "the arguments are a shell command, and what the image puts before them is not known";
            Err(Why::new(Rule::EntrypointUnknown, detail))
        }
    }
}

/// The first process, and the program where that is only its init.
fn starters(line: &[String], lead: usize) -> impl Iterator<Item = &str> {
    line.first().into_iter().chain(line.get(lead).filter(|_| lead > 0)).map(String::as_str)
}

/// A second run makes no edit: what is started is no shell again.
fn check_is_last(line: &[String], context: &CommandContext) -> Result<(), Why> {
    match shell::translate(line, None, context) {
        Verdict::Translate(_) => {
            Err(Why::new(Rule::Shell(shell::Reason::NestedShell), "what it starts is a shell again"))
        }
        Verdict::Unchanged(_) | Verdict::Refuse(_) => Ok(()),
    }
}

fn context(what: What, declared: &BTreeMap<String, Declared>) -> CommandContext {
    match what {
        What::Command => CommandContext::Container { declared: declared.clone(), frozen: Frozen::default() },
        What::Probe(_) => CommandContext::Probe { declared: declared.clone() },
        What::Hook(_) => CommandContext::Hook,
    }
}

/// The words, shared out between `command` and `args` as they were.
fn change(command: &[String], args: &[String], exec: &ExecCommand, applied: Applied) -> Change {
    let line = applied.argv;
    let (command, args) = if args.is_empty() {
        (line, None)
    } else if command.is_empty() {
        (Vec::new(), Some(line))
    } else if exec.passed == args.len() && line.ends_with(args) {
        // They were the program's own arguments before.
        let own = line.len() - args.len();
        (line.into_iter().take(own).collect(), Some(args.to_vec()))
    } else {
        let program = exec.program.first();
        let at = line.iter().position(|word| Some(word) == program).map_or(line.len(), |at| at + 1);
        (line.iter().take(at).cloned().collect(), Some(line.into_iter().skip(at).collect()))
    };
    let ExecCommand { environment, workdir, log, .. } = exec;
    Change { command, args, environment: environment.clone(), workdir: workdir.clone(), log: log.clone() }
}

fn container_wide(exec: &ExecCommand) -> Option<Remark> {
    let is_wide = exec.workdir.is_some() || !exec.environment.is_empty();
    let message = "what the command set for itself holds for the whole container now, its probes and hooks included";
    is_wide.then(|| Remark::new(Rule::ContainerWide, message))
}
