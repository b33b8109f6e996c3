//! Who writes the log file of a container: what the image shows, or what was asked for and assumed.

use super::refusal::{CommandNote, KubeRefusal};
use super::{KubeOptions, ProgramFacts};
use crate::examine::{Klog, KlogStyle, LogChoice};
use crate::policy::Rule;
use crate::shell::ExecCommand;
use crate::shell::logs::{Applied, Spelling, Strategy, apply as put};

/// Where images have the runner.
const RUNNER: &str = "/go-runner";

/// The words with the log where it was.
pub(super) fn apply(
    exec: &ExecCommand,
    options: &KubeOptions<'_>,
    facts: Option<&ProgramFacts>,
    notes: &mut Vec<CommandNote>,
) -> Result<Applied, KubeRefusal> {
    let Some(log) = &exec.log else {
        return put(exec, &Strategy::Stdout).map_err(|refusal| KubeRefusal::from(*refusal));
    };
    let mut last = None;
    for strategy in strategies(options, facts, &log.path)? {
        match put(exec, &strategy) {
            Ok(applied) => {
                notes.extend(assumed(&strategy, facts));
                return Ok(applied);
            }
            Err(refusal) => last = last.or(Some(refusal)),
        }
    }
    let none = || KubeRefusal::new(Rule::LogStrategyOpen, format!("nobody would write {}", log.path));
    Err(last.map_or_else(none, |refusal| KubeRefusal::from(*refusal)))
}

/// What could keep the log, best first.
fn strategies(
    options: &KubeOptions<'_>,
    facts: Option<&ProgramFacts>,
    path: &str,
) -> Result<Vec<Strategy>, KubeRefusal> {
    match (options.logs, facts) {
        (LogChoice::Stdout, _) => Ok(vec![Strategy::Stdout]),
        // Nobody reads it: that it is in the container's log now does no harm.
        (LogChoice::Auto, _) if path == "/dev/null" => Ok(vec![Strategy::Stdout]),
        (LogChoice::Klog, None) => Ok(vec![Strategy::Klog(assumed_spelling(options.klog_style))]),
        (LogChoice::Klog, Some(facts)) => proven(options, facts).map(|strategy| vec![strategy]),
        (LogChoice::Runner, None) => Ok(vec![Strategy::Runner(RUNNER.to_owned())]),
        (LogChoice::Runner, Some(facts)) => {
            let missing = || KubeRefusal::new(Rule::LogRunnerMissing, format!("{} has no log runner", facts.image));
            facts.runner.clone().map(|runner| vec![Strategy::Runner(runner)]).ok_or_else(missing)
        }
        (LogChoice::Auto, None) => {
            let detail = format!("output goes to {path}, and it is not known who could write it without a shell");
            Err(KubeRefusal::new(Rule::LogStrategyOpen, detail))
        }
        (LogChoice::Auto, Some(facts)) => {
            let klog = proven(options, facts);
            let runner = facts.runner.clone().map(Strategy::Runner);
            match (klog, runner) {
                (Err(why), None) => Err(KubeRefusal::new(Rule::LogStrategyOpen, why.detail)),
                (klog, runner) => Ok(klog.ok().into_iter().chain(runner).collect()),
            }
        }
    }
}

fn assumed_spelling(style: KlogStyle) -> Spelling {
    match style {
        KlogStyle::Auto => Spelling::AssumedDash,
        KlogStyle::Dash => Spelling::Dash,
        KlogStyle::Underscore => Spelling::Underscore,
    }
}

/// klog's flags, where the program shows that it takes them.
fn proven(options: &KubeOptions<'_>, facts: &ProgramFacts) -> Result<Strategy, KubeRefusal> {
    let (rule, why) = match &facts.klog {
        Klog::Proven(spelling) => {
            return Ok(Strategy::Klog(match options.klog_style {
                KlogStyle::Auto => *spelling,
                style => assumed_spelling(style),
            }));
        }
        Klog::Glog => (Rule::UsesGlog, "it logs with glog, which cannot be given the name of a file".to_owned()),
        Klog::Removed(why) => (Rule::LogFlagRemoved, why.clone()),
        Klog::Unknown(why) => (Rule::LogFlagUnknown, why.clone()),
    };
    Err(KubeRefusal::new(rule, format!("the program of {} is not shown to take klog's flags: {why}", facts.image)))
}

/// What nobody looked at.
fn assumed(strategy: &Strategy, facts: Option<&ProgramFacts>) -> Option<CommandNote> {
    if facts.is_some() {
        return None;
    }
    match strategy {
        Strategy::Klog(_) => Some(CommandNote::new(
            Rule::KlogAssumed,
            "the program is taken to have klog's flags; no image was there to look at",
        )),
        Strategy::Runner(path) => Some(CommandNote::new(
            Rule::RunnerAssumed,
            format!("the image is taken to have {path}; it was not looked at"),
        )),
        Strategy::Stdout => None,
    }
}
