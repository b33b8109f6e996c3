//! How output that went to a file gets there without a shell.
//!
//! Whether a program takes klog's flags, and whether there is a runner, is proven elsewhere; here a
//! strategy is given and either expressed exactly or refused.

use super::exec_command::{ExecCommand, Log, LogCopy};
use super::klog;
use super::note::Note;
use super::redirect::{LogStreams, OpenMode};
use super::refusal::{Reason, Refusal, Unsupported};

pub use klog::Spelling;

/// How the log file is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Strategy {
    /// The program itself, by klog's flags in this spelling.
    Klog(Spelling),
    /// `kube-log-runner`, which is this program.
    Runner(String),
    /// Not at all: the container runtime keeps the log.
    Stdout,
}

/// The command with the log strategy applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub argv: Vec<String>,
    pub notes: Vec<Note>,
}

/// The command with its log where it was, by this strategy.
pub fn apply(exec: &ExecCommand, strategy: &Strategy) -> Result<Applied, Box<Refusal>> {
    let Some(log) = &exec.log else {
        return Ok(Applied { argv: exec.argv(), notes: Vec::new() });
    };
    let (program, notes) = match strategy {
        Strategy::Klog(spelling) => klog::apply(&exec.program, log, *spelling),
        Strategy::Runner(runner) => through_runner(&exec.program, log, runner),
        Strategy::Stdout => Ok((exec.program.clone(), vec![Note::LogToContainer(log.path.clone())])),
    }
    .map_err(|objection: (Reason, &str)| Box::new(refuse(objection, log)))?;
    Ok(Applied { argv: exec.init.iter().cloned().chain(program).collect(), notes })
}

/// The same, where these words will follow that are not ours to change: they must not undo it.
pub fn apply_before(exec: &ExecCommand, strategy: &Strategy, later: &[String]) -> Result<Applied, Box<Refusal>> {
    if let (Some(log), Strategy::Klog(_)) = (&exec.log, strategy) {
        klog::check_later(later).map_err(|objection| Box::new(refuse(objection, log)))?;
    }
    apply(exec, strategy)
}

fn refuse((reason, detail): (Reason, &str), log: &Log) -> Refusal {
    Unsupported::of_words(reason, detail).within(0, &log.path)
}

/// A strategy's words and notes, or why it cannot express the log.
pub(super) type Rewritten = Result<(Vec<String>, Vec<Note>), (Reason, &'static str)>;

/// `kube-log-runner` in front of the program: the shell's redirection, done by a small program.
///
/// It takes stdout alone or both streams, always appends, and can copy to stdout
/// (k/k `component-base/logs/kube-log-runner`).
fn through_runner(program: &[String], log: &Log, runner: &str) -> Rewritten {
    let mut words = vec![runner.to_owned(), format!("--log-file={}", log.path)];
    if log.copy == LogCopy::AlsoStdout {
        words.push("--also-stdout".to_owned());
    }
    match log.streams {
        LogStreams::Both => {}
        LogStreams::Stdout => words.push("--redirect-stderr=false".to_owned()),
        LogStreams::Stderr => return Err((Reason::PartialRedirect, "the runner cannot write stderr alone to a file")),
    }
    words.extend(program.iter().cloned());
    let appends = log.open_mode == OpenMode::Truncate && log.path != "/dev/null";
    let notes = std::iter::once(Note::RunnerLimits).chain(appends.then_some(Note::Appends)).collect();
    Ok((words, notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_as_written_in_the_shell() {
        for (streams, copy, expected) in [
            (LogStreams::Both, LogCopy::FileOnly, Some("/r --log-file=/l app -x")),
            (LogStreams::Both, LogCopy::AlsoStdout, Some("/r --log-file=/l --also-stdout app -x")),
            (LogStreams::Stdout, LogCopy::FileOnly, Some("/r --log-file=/l --redirect-stderr=false app -x")),
            (
                LogStreams::Stdout,
                LogCopy::AlsoStdout,
                Some("/r --log-file=/l --also-stdout --redirect-stderr=false app -x"),
            ),
            (LogStreams::Stderr, LogCopy::FileOnly, None),
        ] {
            let log = Log { path: "/l".to_owned(), open_mode: OpenMode::Append, streams, copy };
            let got = through_runner(&["app".to_owned(), "-x".to_owned()], &log, "/r").ok();
            assert_eq!(got.map(|(words, _)| words.join(" ")).as_deref(), expected, "{log:?}");
        }
    }

    #[test]
    fn a_file_that_was_emptied_is_noted() {
        let log =
            |open_mode| Log { path: "/l".to_owned(), open_mode, streams: LogStreams::Both, copy: LogCopy::FileOnly };
        let notes = |log: &Log| through_runner(&["app".to_owned()], log, "/r").unwrap().1;
        assert_eq!(notes(&log(OpenMode::Truncate)), [Note::RunnerLimits, Note::Appends]);
        assert_eq!(notes(&log(OpenMode::Append)), [Note::RunnerLimits]);
    }
}
