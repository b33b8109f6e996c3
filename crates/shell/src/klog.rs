//! klog writes the file itself: `--logtostderr=false --log-file=F --log-file-max-size=0`.
//!
//! Without the last flag klog empties the file at 1.8 GB. With a file, lines from ERROR up still go to stderr: they
//! stay there, because klog buffers what goes to the file, and stderr may be the only place that says why a program
//! died. A `--stderrthreshold` of the command itself is left as it is.

use super::exec_command::{Log, LogCopy};
use super::logs::Rewritten;
use super::note::Note;
use super::redirect::{LogStreams, OpenMode};
use super::refusal::Reason;

/// How a program spells the names of its flags: a fact of the binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// The program normalises names.
    Dash,
    /// Known to every klog program; the only one on Go's own `flag` package.
    Underscore,
    /// Dashes, without having examined the program.
    AssumedDash,
}

/// Flags that decide where klog writes, which the new ones replace.
const REPLACED: &[&str] = &["logtostderr", "alsologtostderr", LOG_FILE_MAX_SIZE];
/// Of these, the one that takes its value from the next word when there is no `=`.
const LOG_FILE_MAX_SIZE: &str = "log_file_max_size";

pub(super) fn apply(program: &[String], log: &Log, spelling: Spelling) -> Rewritten {
    match (log.streams, log.copy) {
        (LogStreams::Both, _) | (LogStreams::Stderr, LogCopy::FileOnly) => {}
        _ => return Err((Reason::PartialRedirect, "klog writes to stderr, and only stdout went to the file")),
    }
    let (kept, end) = without_old(program)?;
    let flags = flags(log, spelling);
    // Go's `flag` stops at the first word that is no flag; others take flags up to `--`.
    let at = match spelling {
        Spelling::Underscore if kept.iter().skip(1).any(|word| !word.starts_with('-') || word == "--") => 1,
        _ => end,
    };
    let (front, back) = kept.split_at_checked(at).unwrap_or((&kept, &[]));
    let words = front.iter().chain(&flags).chain(back).cloned().collect();
    let mut notes = vec![Note::KlogOnly, Note::KlogBuffers];
    if log.copy == LogCopy::FileOnly && !kept.iter().any(|word| flag(word).0 == "stderrthreshold") {
        notes.push(Note::KlogErrorsTwice);
    }
    if spelling == Spelling::AssumedDash {
        notes.push(Note::SpellingAssumed);
    }
    if log.open_mode == OpenMode::Truncate && log.path != "/dev/null" {
        notes.push(Note::Appends);
    }
    Ok((words, notes))
}

fn flags(log: &Log, spelling: Spelling) -> Vec<String> {
    let [file, size] = match spelling {
        Spelling::Underscore => ["log_file", "log_file_max_size"],
        Spelling::Dash | Spelling::AssumedDash => ["log-file", "log-file-max-size"],
    };
    let flags = ["--logtostderr=false".to_owned(), format!("--{file}={}", log.path), format!("--{size}=0")];
    let copy = match log.copy {
        LogCopy::AlsoStdout => Some("--alsologtostderr=true".to_owned()),
        LogCopy::FileOnly => None,
    };
    flags.into_iter().chain(copy).collect()
}

/// The words without flags that would contradict the new ones, and where flags end.
fn without_old(program: &[String]) -> Result<(Vec<String>, usize), (Reason, &'static str)> {
    let mut kept = Vec::new();
    let mut words = program.iter();
    kept.extend(words.next().cloned());
    while let Some(word) = words.next() {
        if word == "--" {
            let end = kept.len();
            kept.push(word.clone());
            kept.extend(words.cloned());
            return Ok((kept, end));
        }
        let (name, value) = flag(word);
        check(&name, value)?;
        if !REPLACED.contains(&name.as_str()) {
            kept.push(word.clone());
        } else if value.is_none() && name == LOG_FILE_MAX_SIZE {
            words.next();
        }
    }
    let end = kept.len();
    Ok((kept, end))
}

/// The name of a flag with underscores, and its value. A word that is no flag has an empty name.
fn flag(word: &str) -> (String, Option<&str>) {
    let Some(flag) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else { return (String::new(), None) };
    match flag.split_once('=') {
        Some((name, value)) => (name.replace('-', "_"), Some(value)),
        None => (flag.replace('-', "_"), None),
    }
}

/// A program that already wrote to files of its own sent something else through the redirection.
fn check(name: &str, value: Option<&str>) -> Result<(), (Reason, &'static str)> {
    match (name, value) {
        ("log_file" | "log_dir", _) => Err((Reason::LogFlags, "the program already writes its own log files")),
        ("logtostderr", Some(value)) if !matches!(value, "true" | "1" | "t" | "T" | "TRUE" | "True") => {
            Err((Reason::LogFlags, "the program already writes its own log files"))
        }
        ("logging_format", Some("text") | None) => Ok(()),
        ("logging_format", _) => {
            Err((Reason::LogFlags, "klog does not accept its file flags with another logging format"))
        }
        _ => Ok(()),
    }
}

/// Words that come after klog's flags and are not ours to change, such as CMD: the last flag wins.
pub(super) fn check_later(words: &[String]) -> Result<(), (Reason, &'static str)> {
    let mut flags = words.iter().take_while(|word| *word != "--").map(|word| flag(word));
    flags.try_for_each(|(name, value)| {
        if REPLACED.contains(&name.as_str()) {
            return Err((Reason::LogFlags, "CMD has flags that would override klog's"));
        }
        check(&name, value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn log(streams: LogStreams, copy: LogCopy) -> Log {
        Log { path: "/l".to_owned(), open_mode: OpenMode::Append, streams, copy }
    }

    #[test]
    fn contradicting_flags_are_replaced_and_others_stay() {
        let both = log(LogStreams::Both, LogCopy::FileOnly);
        let new = "--logtostderr=false --log-file=/l --log-file-max-size=0";
        for (program, kept) in [
            ("app", "app NEW"),
            ("app --v=2 x", "app --v=2 x NEW"),
            ("app --logtostderr --v=2", "app --v=2 NEW"),
            ("app -logtostderr=true -alsologtostderr", "app NEW"),
            ("app --stderrthreshold INFO --v 2", "app --stderrthreshold INFO --v 2 NEW"),
            ("app --stderrthreshold=FATAL", "app --stderrthreshold=FATAL NEW"),
            ("app --log-file-max-size=5 --log_file_max_size 5 a", "app a NEW"),
            ("app a -- --logtostderr", "app a NEW -- --logtostderr"),
            ("app --logging-format=text", "app --logging-format=text NEW"),
        ] {
            let (got, _) = apply(&words(program), &both, Spelling::Dash).unwrap();
            assert_eq!(got.join(" "), kept.replace("NEW", new), "{program}");
        }
    }

    #[test]
    fn programs_with_log_files_of_their_own_are_refused() {
        let both = log(LogStreams::Both, LogCopy::FileOnly);
        for (program, fine) in [
            ("app --logtostderr=false", false),
            ("app --logtostderr=true", true),
            ("app --log-dir=/x", false),
            ("app --log_file /x", false),
            ("app --logging-format=json", false),
            ("app -- --log-dir=/x", true),
        ] {
            assert_eq!(apply(&words(program), &both, Spelling::Dash).is_ok(), fine, "{program}");
        }
    }

    #[test]
    fn flags_are_those_of_the_streams_and_the_spelling() {
        let show = |log: &Log, spelling| apply(&words("app"), log, spelling).map(|(words, _)| words.join(" "));
        let tee = show(&log(LogStreams::Both, LogCopy::AlsoStdout), Spelling::Underscore).unwrap();
        assert_eq!(tee, "app --logtostderr=false --log_file=/l --log_file_max_size=0 --alsologtostderr=true");
        assert!(show(&log(LogStreams::Stderr, LogCopy::FileOnly), Spelling::Dash).is_ok());
        for copy in [LogCopy::FileOnly, LogCopy::AlsoStdout] {
            assert_eq!(show(&log(LogStreams::Stdout, copy), Spelling::Dash).unwrap_err().0, Reason::PartialRedirect);
        }
        let plain =
            apply(&words("app -v 2 x"), &log(LogStreams::Both, LogCopy::FileOnly), Spelling::Underscore).unwrap().0;
        assert_eq!(plain.get(1).map(String::as_str), Some("--logtostderr=false"), "before words that end the flags");
    }

    #[test]
    fn what_was_assumed_or_changes_is_said() {
        let notes = |log: &Log, spelling| apply(&words("app"), log, spelling).unwrap().1;
        let both = log(LogStreams::Both, LogCopy::FileOnly);
        let always = [Note::KlogOnly, Note::KlogBuffers, Note::KlogErrorsTwice];
        assert_eq!(notes(&both, Spelling::Dash), always);
        let assumed = notes(&both, Spelling::AssumedDash);
        assert_eq!(assumed, [&always[..], &[Note::SpellingAssumed]].concat());
        let emptied = Log { open_mode: OpenMode::Truncate, ..both.clone() };
        assert_eq!(notes(&emptied, Spelling::Dash), [&always[..], &[Note::Appends]].concat());
        let asked = apply(&words("app --stderrthreshold=FATAL"), &both, Spelling::Dash).unwrap().1;
        assert_eq!(asked, [Note::KlogOnly, Note::KlogBuffers]);
        let tee = log(LogStreams::Both, LogCopy::AlsoStdout);
        assert_eq!(notes(&tee, Spelling::Dash), [Note::KlogOnly, Note::KlogBuffers]);
    }
}
