//! The rules about the log file that a shell redirected to.

use crate::examine::Klog;
use crate::plan::{ChosenStrategy, DirectoryState, KeptLog, NoStrategy, Pass};
use crate::rules::{Finding, Level, Rule};
use shell::logs::Strategy;

const CHOICES: &str = "choose: --logs klog with a program that takes klog's flags; --logs runner with --log-runner REF, such as registry.k8s.io/build-image/go-runner; --logs stdout, and let the container runtime keep the log";

/// The rule and the words for what the binary shows of klog.
fn not_proven(klog: &Klog) -> (Rule, String) {
    match klog {
        Klog::Glog => (Rule::UsesGlog, "it logs with glog, which has no flag for a log file".to_owned()),
        Klog::Removed(why) => (Rule::LogFlagRemoved, why.clone()),
        Klog::Unknown(why) => (Rule::LogFlagUnknown, why.clone()),
        Klog::Proven(_) => (Rule::LogFlagUnknown, String::new()),
    }
}

pub(super) fn no_strategy(none: &NoStrategy) -> Finding {
    let (rule, why) = not_proven(&none.klog);
    let message = format!("without the shell, nothing writes {}", none.path);
    Finding::new(rule, Level::Refuse, message).about(&none.path).evidence(why).fix(CHOICES)
}

/// Which strategy was taken and why; and a refusal where klog's flags were asked for without proof.
pub(super) fn strategy(log: &KeptLog) -> Vec<Finding> {
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
    let path = &log.path;
    let (message, others) = match strategy {
        Strategy::Klog(_) => (format!("{path} is now written by klog's own flags"), "--logs runner, --logs stdout"),
        Strategy::Runner(_) => (format!("{path} is now written by a log runner"), "--logs klog, --logs stdout"),
        Strategy::Stdout => (
            format!("{path} is no longer written; the output goes to the container's log"),
            "--logs klog, --logs runner",
        ),
    };
    let chosen = Finding::new(Rule::LogStrategy, Level::Note, message)
        .about(path)
        .evidence(why.clone())
        .fix(format!("the alternatives are {others}"));
    unproven.into_iter().chain([chosen]).collect()
}

pub(super) fn log_dir_missing(pass: &Pass) -> Option<Finding> {
    let (path, evidence) = match &pass.draft.layers.added.log_dir {
        DirectoryState::Blocked { path, why } => (path, why.clone()),
        DirectoryState::ReadOnly { path, uid } => (path, format!("user {uid} may not write to {path}")),
        _ => return None,
    };
    Some(
        Finding::new(Rule::LogDirMissing, Level::Refuse, format!("the log cannot be written in {path}"))
            .about(path)
            .evidence(evidence)
            .fix("declare the directory as a VOLUME, or create it in the image for the user it runs as"),
    )
}
