//! The rules about the command: what became of its shell, its init, its script; and the health check.

use super::logs;
use crate::plan::{CommandOutcome, ExecForm, HealthOutcome, Pass};
use crate::process::Health;
use crate::rules::{Finding, Level, Rule};
use layer::RootPath;
use shell::{Note, Reason, Refusal, caret};

pub(super) fn judge(pass: &Pass) -> Vec<Finding> {
    let form = &pass.draft.form;
    let mut findings = Vec::new();
    match &form.outcome {
        CommandOutcome::Unchanged => {}
        CommandOutcome::Translated => findings.extend(notes(form)),
        CommandOutcome::Refused(refusal) => findings.push(needs_shell(pass, refusal)),
        CommandOutcome::NoLog(none) => findings.push(logs::no_strategy(none)),
    }
    findings.extend(form.log.iter().flat_map(logs::strategy));
    findings.extend(cmd_cleared(form));
    findings.extend(init_dropped(form));
    findings.extend(form.script.iter().map(|script| script_read(script, &pass.draft.layers.dropped)));
    match &form.health {
        HealthOutcome::Unchanged => {}
        HealthOutcome::Translated(notes) => findings.extend(notes.iter().map(note)),
        HealthOutcome::Refused(refusal) => findings.push(health(refusal)),
    }
    findings
}

/// The command with a mark under the construct, and what to do.
pub(super) fn pointed(refusal: &Refusal) -> String {
    match caret(refusal) {
        Some([line, mark]) => format!("{line}\n{mark}"),
        None => refusal.text.clone(),
    }
}

fn needs_shell(pass: &Pass, refusal: &Refusal) -> Finding {
    let shell = pass.facts.command.program().unwrap_or_default();
    let message = format!("the command needs its shell: {} ({})", refusal.detail, refusal.reason.word());
    Finding::new(Rule::NeedsShell, Level::Refuse, message).about(shell).evidence(pointed(refusal)).fix(format!(
        "{}; or override the command, such as --entrypoint '[\"/app\", \"--flag\"]'",
        hint(refusal.reason)
    ))
}

/// What can be done about it in an image: hints of `translate` name flags that only it has.
const fn hint(reason: Reason) -> &'static str {
    match reason {
        Reason::RuntimeVariable => {
            "let the program read the variable, or write the image's own value in with --freeze-env NAME"
        }
        Reason::TargetIsShellScript => "start the program that the script starts",
        _ => Rule::Shell(reason).fix(),
    }
}

const HEALTH_WAYS: &str = "write HEALTHCHECK in exec form with a program of the image, or pass it as --healthcheck '[\"/app\", \"health\"]', or drop it with --healthcheck none";

fn health(refusal: &Refusal) -> Finding {
    let message = format!("the health check needs a shell: {} ({})", refusal.detail, refusal.reason.word());
    Finding::new(Rule::HealthcheckShell, Level::Refuse, message).evidence(pointed(refusal)).fix(HEALTH_WAYS)
}

/// What the translation changes: what differs when the container runs, and what was frozen.
fn notes(form: &ExecForm) -> Vec<Finding> {
    form.notes.iter().map(note).collect()
}

fn note(note: &Note) -> Finding {
    let (rule, level) = match note {
        Note::Frozen(_) => (Rule::EnvFrozen, Level::Note),
        Note::BecomesFirstProcess => (Rule::Pid1Changes, Level::Note),
        // What is mounted into the container could have matched.
        Note::WildcardUnmatched(_) => (Rule::ShellRemoved, Level::Warn),
        _ => (Rule::ShellRemoved, Level::Note),
    };
    Finding::new(rule, level, note.to_string())
}

fn cmd_cleared(form: &ExecForm) -> Option<Finding> {
    let cmd = form.cmd_cleared.as_ref()?;
    Some(
        Finding::new(
            Rule::CmdChangesMeaning,
            Level::Note,
            "CMD is cleared: the shell ignored it, the program would not",
        )
        .evidence(format!("{cmd:?}")),
    )
}

/// Who starts the container with a command of their own may still name the script.
fn script_read(script: &str, dropped: &[RootPath]) -> Finding {
    if RootPath::new(script).is_ok_and(|script| dropped.iter().any(|path| script.is_within(path))) {
        let message = format!("{script} is inlined into the command and left out of the image");
        return Finding::new(Rule::ShellRemoved, Level::Note, message).about(script);
    }
    let message = format!("{script} is inlined into the command; the file stays in the image but cannot run");
    Finding::new(Rule::ShellRemoved, Level::Warn, message)
        .about(script)
        .fix(format!(
            "where a manifest names {script} as its command, remove that or name the program; --drop {script} leaves the file out"
        ))
}

/// An init that came with the old base is gone with it.
fn init_dropped(form: &ExecForm) -> Option<Finding> {
    if form.init_dropped.is_empty() {
        return None;
    }
    Some(
        Finding::new(Rule::Pid1Changes, Level::Note, "the program is the first process now, without an init before it")
            .evidence(form.init_dropped.join(" "))
            .fix("it must reap its children and handle SIGTERM itself; where it does not, put a static init into the image"),
    )
}

pub(super) fn cmd_changes_meaning(pass: &Pass) -> Option<Finding> {
    let Pass { facts, draft, .. } = pass;
    let (before, after) = (facts.command.argv(), draft.container.command.argv());
    let is_inherited = matches!(draft.form.outcome, CommandOutcome::Unchanged) && draft.form.init_dropped.is_empty();
    if before == after || !is_inherited || draft.command_overridden {
        return None;
    }
    let is_gone = after.len() < before.len();
    let message = if is_gone {
        "part of the command came from the old base and is gone with it: the new base has none in its place"
    } else {
        "part of the command came from the old base and is the new base's now"
    };
    Some(
        Finding::new(Rule::CmdChangesMeaning, Level::Warn, message)
            .evidence(format!("{before:?} became {after:?}"))
            .fix("if this is not what you want, set ENTRYPOINT and CMD in the image itself, or pass --entrypoint and --cmd"),
    )
}

pub(super) fn healthcheck_missing(pass: &Pass) -> Option<Finding> {
    let (message, evidence) = match &pass.startup.health {
        Health::Fine => return None,
        Health::Lost { name, reasons } => {
            (format!("the health check runs {name}, which cannot start in the rebased image"), reasons)
        }
    };
    Some(Finding::new(Rule::HealthcheckShell, Level::Refuse, message).evidence(evidence).fix(HEALTH_WAYS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_flags_that_a_rebase_has() {
        assert!(hint(Reason::RuntimeVariable).contains("--freeze-env"));
        for reason in [Reason::RuntimeVariable, Reason::TargetIsShellScript, Reason::LogFlags, Reason::Pipeline] {
            let foreign = ["--image-env", "--kube", "--script"].iter().find(|flag| hint(reason).contains(**flag));
            assert_eq!(foreign, None, "{}", reason.word());
        }
    }
}
