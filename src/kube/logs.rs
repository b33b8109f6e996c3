//! How the log file of a container is kept: proven on the image, or asked for and assumed.

use super::refusal::{CommandNote, KubeRefusal};
use super::{KubeOptions, ProgramFacts};
use crate::examine::Klog;
use crate::plan::{KlogStyle, LogChoice};
use crate::rules::Rule;
use shell::ExecCommand;
use shell::logs::{Applied, Spelling, Strategy, apply as apply_strategy};

/// Where images usually have the runner.
const RUNNER: &str = "/go-runner";

/// The words with the log where it was.
pub(super) fn apply(
    exec: &ExecCommand,
    options: &KubeOptions<'_>,
    facts: Option<&ProgramFacts>,
    notes: &mut Vec<CommandNote>,
) -> Result<Applied, KubeRefusal> {
    let Some(log) = &exec.log else {
        return apply_strategy(exec, &Strategy::Stdout).map_err(|refusal| KubeRefusal::from(*refusal));
    };
    let mut last = None;
    for strategy in strategies(options, facts, &log.path)? {
        match apply_strategy(exec, &strategy) {
            Ok(applied) => {
                notes.extend(assumed(&strategy, facts));
                return Ok(applied);
            }
            Err(refusal) => last = last.or(Some(refusal)),
        }
    }
    let none = || KubeRefusal::new(Rule::LogStrategyOpen, format!("without the shell, nothing writes {}", log.path));
    Err(last.map_or_else(none, |refusal| KubeRefusal::from(*refusal)))
}

/// The strategies that could keep the log, best first.
fn strategies(
    options: &KubeOptions<'_>,
    facts: Option<&ProgramFacts>,
    path: &str,
) -> Result<Vec<Strategy>, KubeRefusal> {
    match (options.logs, facts) {
        (LogChoice::Stdout, _) => Ok(vec![Strategy::Stdout]),
        // It was discarded: in the container's log it does no harm.
        (LogChoice::Auto, _) if path == "/dev/null" => Ok(vec![Strategy::Stdout]),
        (LogChoice::Klog, None) => Ok(vec![Strategy::Klog(assumed_spelling(options.klog_style))]),
        (LogChoice::Klog, Some(facts)) => proven(options, facts).map(|strategy| vec![strategy]),
        (LogChoice::Runner, None) => Ok(vec![Strategy::Runner(RUNNER.to_owned())]),
        (LogChoice::Runner, Some(facts)) => {
            let missing = || KubeRefusal::new(Rule::LogRunnerMissing, format!("{} has no log runner", facts.image));
            facts.runner.clone().map(|runner| vec![Strategy::Runner(runner)]).ok_or_else(missing)
        }
        (LogChoice::Auto, None) => {
            let detail = format!("output goes to {path}, and without the shell nothing is known to write it");
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

/// klog's flags, where the program is proven to accept them.
fn proven(options: &KubeOptions<'_>, facts: &ProgramFacts) -> Result<Strategy, KubeRefusal> {
    let (rule, why) = match &facts.klog {
        Klog::Proven(spelling) => {
            return Ok(Strategy::Klog(match options.klog_style {
                KlogStyle::Auto => *spelling,
                style => assumed_spelling(style),
            }));
        }
        Klog::Glog => (Rule::UsesGlog, "it logs with glog, which has no flag for a log file".to_owned()),
        Klog::Removed(why) => (Rule::LogFlagRemoved, why.clone()),
        Klog::Unknown(why) => (Rule::LogFlagUnknown, why.clone()),
    };
    Err(KubeRefusal::new(rule, format!("the program of {} is not proven to accept klog's flags: {why}", facts.image)))
}

/// What was assumed and not examined.
fn assumed(strategy: &Strategy, facts: Option<&ProgramFacts>) -> Option<CommandNote> {
    if facts.is_some() {
        return None;
    }
    match strategy {
        Strategy::Klog(_) => Some(CommandNote::new(
            Rule::KlogAssumed,
            "the program is assumed to accept klog's flags; no image was examined",
        )),
        Strategy::Runner(path) => Some(CommandNote::new(
            Rule::RunnerAssumed,
            format!("the image is assumed to contain {path}; it was not examined"),
        )),
        Strategy::Stdout => None,
    }
}
