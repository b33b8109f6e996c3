//! The rules about a pod that runs the image, where a manifest was given: its shell, its user, its log, and what it may
//! no longer write.

use super::command::pointed;
use crate::plan::{ChosenStrategy, Pass, PodForm, PodLog, PodPass};
use crate::process::ChainEnd;
use crate::rules::{Finding, Level, Rule};
use oci::error::CommandLine;
use shell::logs::Strategy;

pub(super) fn judge(pass: &Pass) -> Vec<Finding> {
    let Some(pod) = &pass.pod else { return Vec::new() };
    let findings = [needs_shell(pod), not_started(pass, pod), log(pod), on_volume(pass), Some(judged(pass, pod))];
    findings.into_iter().flatten().chain(closed(pod)).collect()
}

/// What was judged, for whoever reads the report.
fn judged(pass: &Pass, pod: &PodPass) -> Finding {
    let start = &pass.startup.after;
    let who = start.user.as_ref().map_or_else(
        |unknown| unknown.name.clone(),
        |user| format!("{}:{}", user.credentials.uid, user.credentials.gid),
    );
    let message = format!("judged by what {} starts", pod.pod.place);
    Finding::new(Rule::PodCommand, Level::Note, message).evidence(format!("{} as {who}", start.argv.join(" ")))
}

/// The manifest still starts a shell that the result does not have.
fn needs_shell(pod: &PodPass) -> Option<Finding> {
    let file = &pod.pod.file;
    let kube = || CommandLine::underpin("kube").arg(file);
    let (why, evidence, fix) = match &pod.form {
        PodForm::AsWritten => return None,
        PodForm::Translated(strategy) => (
            "which the rebased image does not have".to_owned(),
            pod.pod.command.join(" "),
            format!("take the shell out of the manifest: {}", with_logs(kube().arg("--write"), strategy.as_ref())),
        ),
        PodForm::Refused(refusal) => (
            format!("and needs it: {} ({})", refusal.detail, refusal.reason.word()),
            pointed(refusal),
            format!("{}; {} shows all commands of the manifest", Rule::Shell(refusal.reason).fix(), kube()),
        ),
        PodForm::NoLog(none) => (
            format!("and without it, nothing writes {}", none.path),
            pod.pod.command.join(" "),
            format!(
                "choose how the log is kept, and take the shell out of the manifest: {}",
                kube().arg("--write").flag("--logs", "stdout")
            ),
        ),
    };
    Some(
        Finding::new(Rule::NeedsShell, Level::Refuse, format!("{} starts a shell, {why}", pod.pod.place))
            .about(file)
            .evidence(evidence)
            .fix(fix),
    )
}

fn with_logs(command: CommandLine, choice: Option<&ChosenStrategy>) -> CommandLine {
    match choice.map(|choice| &choice.strategy) {
        None => command,
        Some(Strategy::Klog(_)) => command.flag("--logs", "klog"),
        Some(Strategy::Runner(_)) => command.flag("--logs", "runner"),
        Some(Strategy::Stdout) => command.flag("--logs", "stdout"),
    }
}

fn not_started(pass: &Pass, pod: &PodPass) -> Option<Finding> {
    let why = pod.pod.user.forbids(&pass.draft.container)?;
    let message = format!("{} has runAsNonRoot, and the kubelet would not start it: {why}", pod.pod.place);
    let evidence = format!("USER {:?} of the rebased image", pass.draft.container.text("User"));
    Some(Finding::new(Rule::PodUser, Level::Refuse, message).evidence(evidence).fix(Rule::PodUser.fix()))
}

fn log(pod: &PodPass) -> Option<Finding> {
    let PodLog::Closed(path, why) = &pod.log else { return None };
    Some(
        Finding::new(Rule::LogDirMissing, Level::Refuse, format!("the log {path} cannot be written in the pod"))
            .about(path.parent().unwrap_or_default().to_string())
            .evidence(*why)
            .fix("mount a volume there that can be written to: a hostPath, or an emptyDir"),
    )
}

fn on_volume(pass: &Pass) -> Option<Finding> {
    let ChainEnd::Mounted(word) = &pass.startup.after.end else { return None };
    let message = format!("{word} comes from a volume of the pod, which was not examined");
    let fix = "check the volume, or see the image start with a copy of it: --start --start-mount HOST-PATH:PATH";
    Some(Finding::new(Rule::ProgramOnVolume, Level::Warn, message).about(word).fix(fix))
}

fn closed(pod: &PodPass) -> impl Iterator<Item = Finding> {
    pod.closed.iter().map(|(path, by)| {
        let message = format!("the pod's user could create {path}, and on the new base cannot");
        Finding::new(Rule::PodNotWritable, Level::Refuse, message)
            .about(path.to_string())
            .evidence(format!("{by} names it"))
            .fix(Rule::PodNotWritable.fix())
    })
}
