//! The rules about the shell that stood before the program, and the log that it wrote.

use crate::examine::Klog;
use crate::plan::{ChosenStrategy, CommandOutcome, ExecForm, HealthOutcome, KeptLog, NoStrategy, Pass};
use crate::rules::Rule;
use crate::rules::{Finding, Level};
use crate::shell::logs::Strategy;
use crate::shell::{Note, Reason, Refusal, caret};

pub(super) fn judge(pass: &Pass) -> Vec<Finding> {
    let form = &pass.draft.form;
    let mut findings = Vec::new();
    match &form.outcome {
        CommandOutcome::Unchanged => {}
        CommandOutcome::Translated => findings.extend(notes(form)),
        CommandOutcome::Refused(refusal) => findings.push(needs_shell(pass, refusal)),
        CommandOutcome::NoLog(none) => findings.push(no_strategy(none)),
    }
    findings.extend(form.log.iter().flat_map(log));
    findings.extend(cmd_cleared(form));
    findings.extend(init_dropped(form));
    findings.extend(form.script.iter().map(|script| script_read(script)));
    if let HealthOutcome::Refused(refusal) = &form.health {
        findings.push(health(refusal));
    }
    findings
}

/// The command with a mark under the construct, and what to do.
fn pointed(refusal: &Refusal) -> String {
    match caret(refusal) {
        Some([line, mark]) => format!("{line}\n{mark}"),
        None => refusal.text.clone(),
    }
}

fn needs_shell(pass: &Pass, refusal: &Refusal) -> Finding {
    let shell = pass.facts.command.program().unwrap_or_default();
    let message = format!("the command needs its shell: {} ({})", refusal.detail, refusal.reason.word());
    Finding::new(Rule::NeedsShell, Level::Refuse, message)
        .about(shell)
        .evidence(pointed(refusal))
        .fix(format!("{}; or say the command yourself with --entrypoint and --cmd", hint(refusal.reason)))
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

fn health(refusal: &Refusal) -> Finding {
    let message = format!("the health check needs a shell: {} ({})", refusal.detail, refusal.reason.word());
    Finding::new(Rule::HealthcheckShell, Level::Refuse, message)
        .evidence(pointed(refusal))
        .fix("write HEALTHCHECK in exec form with a program of the image, such as HEALTHCHECK CMD [\"/app\", \"health\"], or leave it to the orchestrator")
}

/// The rule and the words for what the binary shows of klog.
fn not_proven(klog: &Klog) -> (Rule, String) {
    match klog {
        Klog::Glog => (Rule::UsesGlog, "it logs with glog, which has no flag for a log file".to_owned()),
        Klog::Removed(why) => (Rule::LogFlagRemoved, why.clone()),
        Klog::Unknown(why) => (Rule::LogFlagUnknown, why.clone()),
        Klog::Proven(_) => (Rule::LogFlagUnknown, String::new()),
    }
}

const CHOICES: &str = "choose: --logs klog with a program that takes klog's flags; --logs runner with --log-runner REF, such as registry.k8s.io/build-image/go-runner; --logs stdout, and let the container runtime keep the log";

fn no_strategy(none: &NoStrategy) -> Finding {
    let (rule, why) = not_proven(&none.klog);
    let message = format!("the shell wrote the log to {}, and nobody would without it", none.path);
    Finding::new(rule, Level::Refuse, message).about(&none.path).evidence(why).fix(CHOICES)
}

/// Which strategy was taken and why; and a refusal where klog's flags were asked for without proof.
fn log(log: &KeptLog) -> Vec<Finding> {
    let ChosenStrategy { strategy, why, unproven } = &log.choice;
    let unproven = unproven.as_ref().map(|klog| {
        let (rule, why) = not_proven(klog);
        Finding::new(
            rule,
            Level::Refuse,
            "klog's flags were asked for, and the program does not show that it takes them",
        )
        .about(&log.path)
        .evidence(why)
        .fix(format!("pass --allow {} if you know better, or {CHOICES}", rule.id()))
    });
    let (word, others) = match strategy {
        Strategy::Klog(_) => ("klog's own flags", "--logs runner, --logs stdout"),
        Strategy::Runner(_) => ("a log runner", "--logs klog, --logs stdout"),
        Strategy::Stdout => ("nobody; it goes to the container's log", "--logs klog, --logs runner"),
    };
    let chosen = Finding::new(Rule::LogStrategy, Level::Note, format!("{} is now written by {word}", log.path))
        .about(&log.path)
        .evidence(why.clone())
        .fix(format!("the alternatives are {others}"));
    unproven.into_iter().chain([chosen]).collect()
}

/// What the translation changes: what differs when the container runs, and what was frozen.
fn notes(form: &ExecForm) -> Vec<Finding> {
    let finding = |note: &Note| {
        let rule = match note {
            Note::Frozen(_) => Rule::EnvFrozen,
            Note::BecomesFirstProcess => Rule::Pid1Changes,
            _ => Rule::ShellRemoved,
        };
        Finding::new(rule, Level::Note, note.to_string())
    };
    form.notes.iter().map(finding).collect()
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
fn script_read(script: &str) -> Finding {
    let message = format!("the command says now what {script} said, which is still there and cannot start");
    Finding::new(Rule::ShellRemoved, Level::Warn, message)
        .about(script)
        .fix(format!("where a manifest names {script} as its command, remove that or name the program"))
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
