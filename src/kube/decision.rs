//! What becomes of one command, before its text is edited.

use std::collections::BTreeMap;

use super::container::{self, Mounted, mounted};
use super::logs;
use super::pod::read_container;
use super::refusal::{AlreadyDone, CommandNote, ImageFlag, KubeRefusal};
use super::template::{self, MaskedText};
use super::tools;
use super::tree::{ManifestTree, TreeNodeId};
use super::workload::{CommandKind, CommandSite, Pod, words};
use super::{KubeOptions, ProgramFacts, ProgramQuery};
use crate::process::PodContainer;
use crate::rules::Rule;
use shell::logs::Applied;
use shell::{self, CommandContext, Declared, ExecCommand, Frozen, ImageContext, Log, Programs, Verdict};

/// What becomes of a command.
#[derive(Debug, Clone)]
pub(super) enum Decision {
    Unchanged,
    Change(Box<CommandChange>),
    Refuse(Box<KubeRefusal>),
    /// It needs a shell, and the image has it.
    Keep(Box<KubeRefusal>),
}

/// The command in exec form.
#[derive(Debug, Clone)]
pub(super) struct CommandChange {
    pub command: Vec<String>,
    /// `None` where there were none and none are needed.
    pub args: Option<Vec<String>>,
    pub environment: Vec<(String, String)>,
    pub workdir: Option<String>,
    pub log: Option<Log>,
}

/// A decision with the command's words and the notes on it.
#[derive(Debug, Clone)]
pub(super) struct DecidedCommand {
    pub before: Vec<String>,
    pub decision: Decision,
    pub notes: Vec<CommandNote>,
}

/// What decisions are based on: the manifest and the options.
pub(super) struct Decider<'a> {
    pub tree: &'a ManifestTree,
    pub pods: &'a [Pod],
    pub masked: &'a MaskedText,
    pub options: &'a KubeOptions<'a>,
}

impl Decider<'_> {
    pub fn decide(&self, site: &CommandSite) -> DecidedCommand {
        let mut notes = Vec::new();
        let (command, args) = (words(self.tree, site.command), words(self.tree, site.args));
        let (Some(command), Some(args)) = (command, args) else {
            let why = KubeRefusal::new(Rule::NotWords, "an item of the list is not a string");
            return DecidedCommand { before: Vec::new(), decision: Decision::Refuse(Box::new(why)), notes };
        };
        let line: Vec<String> = command.iter().chain(&args).cloned().collect();
        let decision = self.decision(site, &command, &args, &mut notes);
        let mut decision = decision.unwrap_or_else(|why| Decision::Refuse(Box::new(why)));
        if let Decision::Refuse(why) = &mut decision {
            why.done = AlreadyDone { template: self.options.template.flag(), image: self.image_flag(site.container) };
        }
        DecidedCommand { before: line, decision, notes }
    }

    fn decision(
        &self,
        site: &CommandSite,
        command: &[String],
        args: &[String],
        notes: &mut Vec<CommandNote>,
    ) -> Result<Decision, KubeRefusal> {
        let line: Vec<String> = command.iter().chain(args).cloned().collect();
        if line.is_empty() {
            return Ok(Decision::Unchanged);
        }
        let declared = container::declared(self.tree, site.container);
        let pod = self.pod_container(site);
        let ask =
            |program: &str, line: &[String]| self.ask(site.container, &ProgramQuery { program, line, container: &pod });
        let facts = |program: &str| ask(program, &[]);
        if command.is_empty() {
            let image = facts("");
            if !is_whole_command(args, image.clone())? {
                return self.check_arguments(site, args, image.as_ref(), &ask, notes);
            }
        }
        match self.translate(site, &line, &declared) {
            Verdict::Unchanged(shell_notes) => {
                notes.extend(shell_notes.iter().map(CommandNote::from));
                self.check_start(site.container, &line, shell::init_len(&line), &ask, notes)?;
                Ok(Decision::Unchanged)
            }
            Verdict::Refuse(refusal) => {
                let program = line.get(shell::init_len(&line)).map_or("", String::as_str);
                let has_shell = facts(program).is_some_and(|facts| facts.missing.is_none());
                let why = Box::new(KubeRefusal::from(*refusal));
                Ok(if has_shell { Decision::Keep(why) } else { Decision::Refuse(why) })
            }
            Verdict::Translate(exec) => {
                template::check(self.masked, &line, &exec)?;
                self.check_start(site.container, &exec.argv(), exec.init.len(), &ask, notes)?;
                for program in starters(&exec.argv(), exec.init.len()) {
                    self.check_tool(site.container, program)?;
                }
                let facts = facts(exec.program.first().map_or("", String::as_str));
                let applied = self.apply(site.what, &line, &exec, facts.as_ref(), notes)?;
                check_is_last(&applied.argv, &context(site.what, &declared, Programs::Unknown))?;
                notes.splice(0..0, exec.notes.iter().chain(&applied.notes).map(CommandNote::from));
                self.note_unmounted_log(site, &exec, &applied, notes);
                notes.extend(container_wide(&exec));
                notes.extend(template::notes(self.masked, &exec));
                Ok(Decision::Change(Box::new(change(command, args, &exec, applied))))
            }
        }
    }

    /// Where the image is at hand, the script that `sh -c` does nothing but start is a program like any other.
    fn translate(&self, site: &CommandSite, line: &[String], declared: &BTreeMap<String, Declared>) -> Verdict {
        let verdict = shell::translate(line, None, &context(site.what, declared, Programs::Unknown));
        let is_script =
            matches!(&verdict, Verdict::Refuse(refusal) if refusal.reason == shell::Reason::TargetIsShellScript);
        if !is_script || self.image_flag(site.container) == ImageFlag::NotGiven {
            return verdict;
        }
        match shell::translate(line, None, &context(site.what, declared, Programs::LookedUp)) {
            Verdict::Translate(exec) if exec.log.is_none() => Verdict::Translate(exec),
            _ => verdict,
        }
    }

    fn image_flag(&self, container: TreeNodeId) -> ImageFlag {
        let asked = self.ask(container, &ProgramQuery { program: "", line: &[], container: &PodContainer::default() });
        if asked.is_some() { ImageFlag::Given } else { ImageFlag::NotGiven }
    }

    /// A tool of the old base is not assumed to be in an image that nobody has looked at.
    fn check_tool(&self, container: TreeNodeId, program: &str) -> Result<(), KubeRefusal> {
        let is_brought = mounted(self.tree, container, program) == Mounted::OnVolume;
        if self.image_flag(container) == ImageFlag::Given || is_brought || !tools::is_of_a_base(program) {
            return Ok(());
        }
        let detail = format!("{program} is a tool that a base without a shell does not have either");
        Err(KubeRefusal::new(Rule::ToolUnproven, detail))
    }

    fn ask(&self, container: TreeNodeId, query: &ProgramQuery<'_>) -> Option<ProgramFacts> {
        let image = self.tree.text_at(container, "image")?;
        self.options.images.facts(&self.masked.shown(image), query)
    }

    /// The container with its user and volumes. Where they cannot be read, such as placeholders of a template, as if it
    /// had none.
    fn pod_container(&self, site: &CommandSite) -> PodContainer {
        let pod = self.pods.get(site.pod).and_then(|pod| read_container(self.tree, pod.spec, site.container).ok());
        pod.unwrap_or_default()
    }

    /// Arguments of an entrypoint that the image has: what it starts with them must be there, too.
    fn check_arguments(
        &self,
        site: &CommandSite,
        args: &[String],
        image: Option<&ProgramFacts>,
        ask: &Ask<'_>,
        notes: &mut Vec<CommandNote>,
    ) -> Result<Decision, KubeRefusal> {
        if let Some(image) = image {
            let line: Vec<String> = image.entrypoint.iter().chain(args).cloned().collect();
            self.check_start(site.container, &line, shell::init_len(&line), ask, notes)?;
        }
        Ok(Decision::Unchanged)
    }

    /// The first process must start, the program behind its init, and all that they lead to.
    fn check_start(
        &self,
        container: TreeNodeId,
        line: &[String],
        lead: usize,
        ask: &Ask<'_>,
        notes: &mut Vec<CommandNote>,
    ) -> Result<(), KubeRefusal> {
        for program in starters(line, lead) {
            self.check_program(container, program, ask(program, &[]), notes)?;
        }
        let first = line.first().map_or("", String::as_str);
        let Some(facts) = ask(first, line) else { return Ok(()) };
        notes.extend(facts.mounted.iter().map(|word| on_volume(word)));
        let is_known = !first.contains("$(") && mounted(self.tree, container, first) != Mounted::OnVolume;
        match facts.missing.filter(|_| is_known) {
            Some(missing) => Err(KubeRefusal::new(
                Rule::EntrypointMissing,
                format!("{} cannot start {}: {missing}", facts.image, line.join(" ")),
            )),
            None => Ok(()),
        }
    }

    /// A program that the image lacks cannot be started, unless a volume provides it.
    fn check_program(
        &self,
        container: TreeNodeId,
        program: &str,
        facts: Option<ProgramFacts>,
        notes: &mut Vec<CommandNote>,
    ) -> Result<(), KubeRefusal> {
        let Some(facts) = facts else { return Ok(()) };
        let Some(missing) = facts.missing else { return Ok(()) };
        if program.contains("$(") {
            notes.push(CommandNote::new(
                Rule::ProgramUnknown,
                format!("{program} is known only when the container starts"),
            ));
            return Ok(());
        }
        if mounted(self.tree, container, program) == Mounted::OnVolume {
            notes.push(on_volume(program));
            return Ok(());
        }
        Err(KubeRefusal::new(Rule::EntrypointMissing, format!("{} cannot start {program}: {missing}", facts.image)))
    }

    fn apply(
        &self,
        what: CommandKind,
        line: &[String],
        exec: &ExecCommand,
        facts: Option<&ProgramFacts>,
        notes: &mut Vec<CommandNote>,
    ) -> Result<Applied, KubeRefusal> {
        if what == CommandKind::Command {
            return logs::apply(exec, self.options, facts, notes);
        }
        let is_quiet = exec.log.as_ref().is_none_or(|log| log.path == "/dev/null");
        if !exec.environment.is_empty() || exec.workdir.is_some() || !is_quiet {
            return Err(KubeRefusal::from(shell::refuse_side_effects(line)));
        }
        Ok(Applied { argv: exec.argv(), notes: Vec::new() })
    }

    fn note_unmounted_log(
        &self,
        site: &CommandSite,
        exec: &ExecCommand,
        applied: &Applied,
        notes: &mut Vec<CommandNote>,
    ) {
        let Some(log) = &exec.log else { return };
        let is_written = applied.argv.iter().any(|word| word.ends_with(&format!("={}", log.path)));
        if is_written && mounted(self.tree, site.container, &log.path) == Mounted::Nowhere {
            let message = format!(
                "{} is not on a volume: its directory must be in the image, and the log is lost with the container",
                log.path
            );
            notes.push(CommandNote::new(Rule::LogNotMounted, message));
        }
    }
}

/// Asks the image about a program, or a whole line.
type Ask<'a> = dyn Fn(&str, &[String]) -> Option<ProgramFacts> + 'a;

fn on_volume(program: &str) -> CommandNote {
    CommandNote::new(Rule::ProgramOnVolume, format!("{program} comes from a volume, which was not examined"))
}

/// Whether `args` alone are the whole command: only where the image has no entrypoint.
fn is_whole_command(args: &[String], facts: Option<ProgramFacts>) -> Result<bool, KubeRefusal> {
    if let Some(facts) = facts {
        return Ok(facts.entrypoint.is_empty());
    }
    let context = CommandContext::Image(ImageContext::default());
    match shell::translate(args, None, &context) {
        Verdict::Unchanged(_) => Ok(false),
        Verdict::Refuse(refusal) if refusal.reason == shell::Reason::TargetIsShellScript => Ok(false),
        _ => {
            let detail = "args are a shell command, and the image's entrypoint, which comes before them, is not known";
            Err(KubeRefusal::new(Rule::EntrypointUnknown, detail))
        }
    }
}

/// The first process, and the program where that is only its init.
fn starters(line: &[String], lead: usize) -> impl Iterator<Item = &str> {
    line.first().into_iter().chain(line.get(lead).filter(|_| lead > 0)).map(String::as_str)
}

/// A second run must make no edit: the result must not start a shell.
fn check_is_last(line: &[String], context: &CommandContext) -> Result<(), KubeRefusal> {
    match shell::translate(line, None, context) {
        Verdict::Translate(_) => Err(KubeRefusal::new(
            Rule::Shell(shell::Reason::NestedShell),
            "the translated command starts a shell again",
        )),
        Verdict::Unchanged(_) | Verdict::Refuse(_) => Ok(()),
    }
}

fn context(what: CommandKind, declared: &BTreeMap<String, Declared>, programs: Programs) -> CommandContext {
    match what {
        CommandKind::Command => {
            CommandContext::Container { declared: declared.clone(), frozen: Frozen::default(), programs }
        }
        CommandKind::Probe(_) => CommandContext::Probe { declared: declared.clone() },
        CommandKind::Hook(_) => CommandContext::Hook,
    }
}

/// The words, split between `command` and `args` as they were.
fn change(command: &[String], args: &[String], exec: &ExecCommand, applied: Applied) -> CommandChange {
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
    CommandChange { command, args, environment: environment.clone(), workdir: workdir.clone(), log: log.clone() }
}

fn container_wide(exec: &ExecCommand) -> Option<CommandNote> {
    let is_wide = exec.workdir.is_some() || !exec.environment.is_empty();
    let message = "what the command set for itself now applies to the whole container, including its probes and hooks";
    is_wide.then(|| CommandNote::new(Rule::ContainerWide, message))
}
