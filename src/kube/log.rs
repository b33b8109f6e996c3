//! Who writes the log file of a container: what the image shows, or what was asked for and assumed.

use super::Options;
use super::image::Answer;
use super::why::{Remark, Why};
use crate::examine::{Klog, KlogStyle, LogChoice};
use crate::policy::Rule;
use crate::shell::ExecCommand;
use crate::shell::logs::{Applied, Spelling, Strategy, apply as put};

/// Where images have the runner.
const RUNNER: &str = "/go-runner";

/// The words with the log where it was.
pub(super) fn apply(
    exec: &ExecCommand,
    options: &Options<'_>,
    answer: Option<&Answer>,
    remarks: &mut Vec<Remark>,
) -> Result<Applied, Why> {
    let Some(log) = &exec.log else { return put(exec, &Strategy::Stdout).map_err(|refusal| Why::from(*refusal)) };
    let mut last = None;
    for strategy in strategies(options, answer, &log.path)? {
        match put(exec, &strategy) {
            Ok(applied) => {
                remarks.extend(assumed(&strategy, answer));
                return Ok(applied);
            }
            Err(refusal) => last = last.or(Some(refusal)),
        }
    }
    let none = || Why::new(Rule::LogStrategyOpen, format!("nobody would write {}", log.path));
    Err(last.map_or_else(none, |refusal| Why::from(*refusal)))
}

/// What could keep the log, best first.
fn strategies(options: &Options<'_>, answer: Option<&Answer>, path: &str) -> Result<Vec<Strategy>, Why> {
    match (options.logs, answer) {
        (LogChoice::Stdout, _) => Ok(vec![Strategy::Stdout]),
        // Nobody reads it: that it is in the container's log now does no harm.
        (LogChoice::Auto, _) if path == "/dev/null" => Ok(vec![Strategy::Stdout]),
        (LogChoice::Klog, None) => Ok(vec![Strategy::Klog(assumed_spelling(options.klog_style))]),
        (LogChoice::Klog, Some(answer)) => proven(options, answer).map(|strategy| vec![strategy]),
        (LogChoice::Runner, None) => Ok(vec![Strategy::Runner(RUNNER.to_owned())]),
        (LogChoice::Runner, Some(answer)) => {
            let missing = || Why::new(Rule::LogRunnerMissing, format!("{} has no log runner", answer.image));
            answer.runner.clone().map(|runner| vec![Strategy::Runner(runner)]).ok_or_else(missing)
        }
        (LogChoice::Auto, None) => {
            let detail = format!("output goes to {path}, and it is not known who could write it without a shell");
            Err(Why::new(Rule::LogStrategyOpen, detail))
        }
        (LogChoice::Auto, Some(answer)) => {
            let klog = proven(options, answer);
            let runner = answer.runner.clone().map(Strategy::Runner);
            match (klog, runner) {
                (Err(why), None) => Err(Why::new(Rule::LogStrategyOpen, why.detail)),
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
fn proven(options: &Options<'_>, answer: &Answer) -> Result<Strategy, Why> {
    let (rule, why) = match &answer.klog {
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
    Err(Why::new(rule, format!("the program of {} is not shown to take klog's flags: {why}", answer.image)))
}

/// What nobody looked at.
fn assumed(strategy: &Strategy, answer: Option<&Answer>) -> Option<Remark> {
    if answer.is_some() {
        return None;
    }
    match strategy {
        Strategy::Klog(_) => Some(Remark::new(
            Rule::KlogAssumed,
            "the program is taken to have klog's flags; no image was there to look at",
        )),
        Strategy::Runner(path) => {
            Some(Remark::new(Rule::RunnerAssumed, format!("the image is taken to have {path}; it was not looked at")))
        }
        Strategy::Stdout => None,
    }
}
