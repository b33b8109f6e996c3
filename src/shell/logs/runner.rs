//! `kube-log-runner` in front of the program: the shell's redirection, done by a small program.
//!
//! It takes stdout alone or both streams, always appends, and can copy to stdout
//! (k/k `component-base/logs/kube-log-runner`).

use super::super::meaning::{Copied, Log};
use super::super::note::Note;
use super::super::reason::Reason;
use super::super::redirect::{Opening, Written};
use super::Outcome;

pub(super) fn apply(program: &[String], log: &Log, runner: &str) -> Outcome {
    let mut words = vec![runner.to_owned(), format!("--log-file={}", log.path)];
    if log.copy == Copied::AlsoStdout {
        words.push("--also-stdout".to_owned());
    }
    match log.written {
        Written::Both => {}
        Written::Stdout => words.push("--redirect-stderr=false".to_owned()),
        Written::Stderr => return Err((Reason::PartialRedirect, "the runner cannot write stderr alone to a file")),
    }
    words.extend(program.iter().cloned());
    let appends = log.opening == Opening::Truncates && log.path != "/dev/null";
    let notes = std::iter::once(Note::RunnerLimits).chain(appends.then_some(Note::Appends)).collect();
    Ok((words, notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_as_written_in_the_shell() {
        for (written, copy, expected) in [
            (Written::Both, Copied::FileOnly, Some("/r --log-file=/l app -x")),
            (Written::Both, Copied::AlsoStdout, Some("/r --log-file=/l --also-stdout app -x")),
            (Written::Stdout, Copied::FileOnly, Some("/r --log-file=/l --redirect-stderr=false app -x")),
            (
                Written::Stdout,
                Copied::AlsoStdout,
                Some("/r --log-file=/l --also-stdout --redirect-stderr=false app -x"),
            ),
            (Written::Stderr, Copied::FileOnly, None),
        ] {
            let log = Log { path: "/l".to_owned(), opening: Opening::Appends, written, copy };
            let got = apply(&["app".to_owned(), "-x".to_owned()], &log, "/r").ok();
            assert_eq!(got.map(|(words, _)| words.join(" ")).as_deref(), expected, "{log:?}");
        }
    }

    #[test]
    fn a_file_that_was_emptied_is_noted() {
        let log = |opening| Log { path: "/l".to_owned(), opening, written: Written::Both, copy: Copied::FileOnly };
        let notes = |log: &Log| apply(&["app".to_owned()], log, "/r").unwrap().1;
        assert_eq!(notes(&log(Opening::Truncates)), [Note::RunnerLimits, Note::Appends]);
        assert_eq!(notes(&log(Opening::Appends)), [Note::RunnerLimits]);
    }
}
