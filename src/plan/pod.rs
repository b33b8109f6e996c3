//! What a pod would start in source and result, where a manifest gives the command: the same look at the start, with the
//! pod's words, user and volumes in place of the image's own. It decides nothing about the result.

use std::sync::Arc;

use super::layers::Roots;
use super::logs::{self, ChosenStrategy, NoStrategy};
use super::{Pass, RebaseOptions};
use crate::process::{
    self, ChainEnd, Command, Container, PodContainer, Setup, Start, bare_layer, closed_to_result, search, start,
};
use layer::RootPath;
use shell::{self, CommandContext, ExecCommand, Frozen, Programs, Reason, Refusal, Verdict};
use start::rootfs::Root;

/// A platform with the pod that it was judged in.
#[derive(Debug)]
pub struct PodPass {
    pub pod: Arc<PodContainer>,
    /// What the pod's shell becomes.
    pub form: PodForm,
    /// The source, and the result, as the pod runs them.
    pub before: Container,
    pub after: Container,
    /// Paths that the source's process could make and the result's cannot, and who names them.
    pub closed: Vec<(RootPath, String)>,
    pub log: PodLog,
}

/// What becomes of a shell that the manifest starts.
#[derive(Debug)]
pub enum PodForm {
    /// None is started, or the result has it.
    AsWritten,
    /// `underpin kube` would write this in its place.
    Translated(Option<ChosenStrategy>),
    /// It cannot be translated.
    Refused(Box<Refusal>),
    /// It can, but nobody would write its log.
    NoLog(Box<NoStrategy>),
}

/// The log file that the command names.
#[derive(Debug, PartialEq, Eq)]
pub enum PodLog {
    None,
    Writable,
    /// It cannot be written: its path, and why.
    Closed(RootPath, &'static str),
}

/// Puts the start of a pod in the place of the image's own.
pub fn judge_in_pod(pass: &mut Pass, pod: &Arc<PodContainer>, options: &RebaseOptions) {
    let mounts = pod.surroundings.layer();
    let Pass { subject, draft, facts, .. } = &*pass;
    let mut roots = draft.layers.roots(subject);
    roots.cover(bare_layer(&mounts));
    let before = pod.container(&Container::of(&subject.source.config));
    let after = pod.container(&draft.container);
    let (after, form) = Translation { pod, options, root: &roots.rebased }.apply(&draft.container, after);
    let leaving = draft.layers.leaving_packages(facts, &roots);
    let base_layers = subject.base_layers.len();
    let setup = Setup { before: &before, after: &after, inlined: None, base_layers, leaving: &leaving };
    let startup = process::look(&setup, &roots.rebased, roots.source(), draft.layers.above_base());
    let sides = ((&startup.before, roots.source()), (&startup.after, &roots.rebased));
    let closed = closed_to_result(sides.0, sides.1, &pod.surroundings, base_layers);
    let log = pod_log(&startup.after, &roots, pod);
    drop(roots);
    pass.startup = startup;
    pass.pod = Some(PodPass { pod: Arc::clone(pod), form, before, after, closed, log });
}

/// Whether the log file that the command names can be written.
fn pod_log(after: &Start, roots: &Roots<'_>, pod: &PodContainer) -> PodLog {
    let Some(file) = super::added::log_file(&after.argv) else { return PodLog::None };
    if let Some(mount) = pod.surroundings.mount_of(&file) {
        return if mount.is_writable { PodLog::Writable } else { PodLog::Closed(file, "its volume is read-only") };
    }
    if pod.surroundings.has_read_only_root {
        return PodLog::Closed(file, "the root is read-only, and no volume is mounted there");
    }
    let Some(directory) = file.parent() else { return PodLog::None };
    let who = after.credentials();
    match roots.rebased.resolve(&directory) {
        Ok(found) if found.node.allows(&who, start::rootfs::Access::Write) => PodLog::Writable,
        Ok(_) => PodLog::Closed(file, "the pod's user may not write to its directory"),
        Err(_) => PodLog::Closed(file, "the rebased image does not have its directory, and no volume is mounted there"),
    }
}

/// Takes the shell out of a pod's command, as `underpin kube` does.
struct Translation<'a> {
    pod: &'a PodContainer,
    options: &'a RebaseOptions,
    root: &'a Root<'a>,
}

impl Translation<'_> {
    fn apply(&self, image: &Container, container: Container) -> (Container, PodForm) {
        let written = self.pod.written_over(&image.command).argv();
        let lead = shell::init_len(&written);
        let is_shell = shell::starts_shell(written.get(lead..).unwrap_or_default());
        let is_lost = matches!(start(&container, self.root).end, ChainEnd::Lost { .. });
        if !is_shell || !is_lost {
            return (container, PodForm::AsWritten);
        }
        match self.meaning(&written) {
            Verdict::Translate(meaning) => self.write(container, &meaning),
            Verdict::Refuse(refusal) => (container, PodForm::Refused(refusal)),
            Verdict::Unchanged(_) => (container, PodForm::AsWritten),
        }
    }

    fn meaning(&self, written: &[String]) -> Verdict {
        let context = |programs| CommandContext::Container {
            declared: self.pod.declared.clone(),
            frozen: Frozen::default(),
            programs,
        };
        match shell::translate(written, None, &context(Programs::Unknown)) {
            // The start shows whether the script can run.
            Verdict::Refuse(refusal) if refusal.reason == Reason::TargetIsShellScript => {
                match shell::translate(written, None, &context(Programs::LookedUp)) {
                    Verdict::Translate(meaning) if meaning.log.is_none() => Verdict::Translate(meaning),
                    _ => Verdict::Refuse(refusal),
                }
            }
            verdict => verdict,
        }
    }

    fn write(&self, container: Container, meaning: &ExecCommand) -> (Container, PodForm) {
        let mut after = container.clone();
        after.add_environment(&meaning.environment);
        meaning.workdir.iter().for_each(|directory| after.set_working_dir(directory));
        let mut refusal = None;
        let choices = match self.choices(&after, meaning) {
            Ok(choices) => choices,
            Err(none) => return (container, PodForm::NoLog(Box::new(none))),
        };
        for choice in choices {
            let strategy = choice.as_ref().map_or(&shell::logs::Strategy::Stdout, |choice| &choice.strategy);
            match shell::logs::apply(meaning, strategy) {
                Ok(applied) => {
                    let words = self.pod.expanded(Some(applied.argv));
                    after.set_command(Command { entrypoint: words, cmd: None });
                    return (after, PodForm::Translated(choice));
                }
                Err(why) => refusal = refusal.or(Some(why)),
            }
        }
        (container, refusal.map_or(PodForm::AsWritten, PodForm::Refused))
    }

    /// How the log could be kept, best first; `None` where there is none to keep.
    fn choices(
        &self,
        after: &Container,
        meaning: &ExecCommand,
    ) -> std::result::Result<Vec<Option<ChosenStrategy>>, NoStrategy> {
        let Some(log) = &meaning.log else { return Ok(vec![None]) };
        let program = meaning.program.first().and_then(|word| search(self.root, after, word));
        let program = program.and_then(|found| self.root.program(found.file.node));
        let runner = logs::runner_in_root(self.root, after);
        let choices = logs::choices(self.options, program, runner.as_ref(), &log.path)?;
        Ok(choices.into_iter().map(Some).collect())
    }
}
