//! What a command becomes, as text for people and as the object of `translate --json`.

use std::ffi::OsString;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::model::{LogStrategy, ReportedFinding};
use super::rows::{Reportable, Row, RowFinding, RowOutcome, RowWords, Rows};
use super::rules::explain_hint;
use crate::rules::{Level, Rule};
use oci::error::printable;
use shell::logs::{Strategy, apply};
use shell::{
    CommandContext, ExecCommand, Log, LogCopy, LogStreams, Note, OpenMode, Refusal, Verdict, caret, refuse_not_utf8,
    translate,
};

/// A verdict with the command it is about.
#[derive(Debug)]
pub struct Translation {
    pub before: Vec<String>,
    pub verdict: Verdict,
    /// The words with the log applied; those of the command itself where nothing was to be done.
    pub after: Vec<String>,
    pub notes: Vec<Note>,
    strategy: Option<LogStrategy>,
}

impl Translation {
    /// Translates, and applies the strategy where one was chosen.
    #[must_use]
    pub fn of(argv: &[OsString], script: Option<&[u8]>, context: &CommandContext, strategy: Option<&Strategy>) -> Self {
        let before: Vec<String> = argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let odd = argv.iter().position(|word| word.to_str().is_none());
        let verdict = match odd {
            Some(word) => Verdict::Refuse(Box::new(refuse_not_utf8(word, &before))),
            None => translate(&before, script, context),
        };
        let name = strategy.map(LogStrategy::from);
        let plain = |verdict, after, notes| Self { before: before.clone(), verdict, after, notes, strategy: name };
        match verdict {
            Verdict::Unchanged(ref notes) => {
                let notes = notes.clone();
                plain(verdict, before.clone(), notes)
            }
            Verdict::Refuse(_) => plain(verdict, Vec::new(), Vec::new()),
            Verdict::Translate(exec) => match strategy.map(|strategy| apply(&exec, strategy)) {
                Some(Err(refusal)) => plain(Verdict::Refuse(refusal), Vec::new(), Vec::new()),
                Some(Ok(applied)) => {
                    let notes = exec.notes.iter().cloned().chain(applied.notes).collect();
                    plain(Verdict::Translate(exec), applied.argv, notes)
                }
                None => {
                    let (after, notes) = (exec.argv(), exec.notes.clone());
                    plain(Verdict::Translate(exec), after, notes)
                }
            },
        }
    }
}

impl Reportable for Translation {
    fn text(&self) -> String {
        to_text(self)
    }

    fn json(&self) -> String {
        to_json(self).to_string()
    }

    fn rows(&self) -> Rows<'_> {
        let notes = self.notes.iter().map(|note| ReportedFinding::note(note.into(), note.to_string()));
        let (outcome, findings): (_, Vec<ReportedFinding>) = match &self.verdict {
            Verdict::Unchanged(_) => (RowOutcome::Unchanged, notes.collect()),
            Verdict::Translate(_) => {
                let after = ReportedFinding::note(Rule::ExecForm, words(&self.after));
                (RowOutcome::Translated, [after].into_iter().chain(notes).collect())
            }
            Verdict::Refuse(refusal) => (RowOutcome::Refused, vec![refusal_finding(refusal)]),
        };
        let findings = findings.into_iter().map(|finding| RowFinding::plain(finding, None)).collect();
        let after = (outcome != RowOutcome::Refused).then(|| self.after.clone());
        let words_of = RowWords { before: self.before.clone(), after };
        let row = Row { findings, words: Some(words_of), ..Row::new(words(&self.before), outcome) };
        Rows { command: "translate", thing: "command", list: vec![row] }
    }
}

fn refusal_finding(refusal: &Refusal) -> ReportedFinding {
    ReportedFinding {
        rule: refusal.reason.into(),
        level: Level::Refuse,
        message: refusal.detail.clone(),
        evidence: caret(refusal).into_iter().flatten().collect::<Vec<_>>().join("\n"),
        fix: Rule::from(refusal.reason).fix().to_owned(),
    }
}

/// The object of `docs/reports.md`. Keys may be added, never changed.
fn to_json(translation: &Translation) -> Value {
    let (word, exec, refusal) = match &translation.verdict {
        Verdict::Unchanged(_) => ("unchanged", None, None),
        Verdict::Translate(exec) => ("translate", Some(exec), None),
        Verdict::Refuse(refusal) => ("refuse", None, Some(refusal)),
    };
    let env: Map<String, Value> = exec.map(|exec| env(exec)).unwrap_or_default();
    json!({
        "verdict": word,
        "argv": translation.after,
        "env": env,
        "workdir": exec.and_then(|exec| exec.workdir.clone()),
        "log": exec.and_then(|exec| exec.log.as_ref()).map(log),
        "reason": refusal.map_or("", |refusal| refusal.reason.word()),
        "detail": refusal.map_or("", |refusal| refusal.detail.as_str()),
        "at": refusal.map_or(0, |refusal| refusal.span.start),
        "end": refusal.map_or(0, |refusal| refusal.span.end),
        "word": refusal.map_or(0, |refusal| refusal.word),
        "logs": translation.strategy.map_or_else(|| json!("auto"), |strategy| json!(strategy)),
        "notes": translation.notes.iter().map(|note| json!({"note": Rule::from(note).id(), "message": note.to_string()})).collect::<Vec<_>>(),
    })
}

fn env(exec: &ExecCommand) -> Map<String, Value> {
    exec.environment.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect()
}

/// Where the output went, as `translate` and `kube` say it.
pub(super) fn log(log: &Log) -> Value {
    json!({
        "path": log.path,
        "append": log.open_mode == OpenMode::Append,
        "streams": streams(log),
        "tee": log.copy == LogCopy::AlsoStdout,
    })
}

fn streams(log: &Log) -> &'static str {
    match log.streams {
        LogStreams::Both => "both",
        LogStreams::Stdout => "stdout",
        LogStreams::Stderr => "stderr",
    }
}

/// Before, after, log; or the command with a caret under the construct that prevents it.
fn to_text(translation: &Translation) -> String {
    match &translation.verdict {
        Verdict::Refuse(refusal) => refused(&translation.before, refusal),
        Verdict::Unchanged(_) => {
            let line = format!("unchanged  {}\n           no shell is started\n", words(&translation.before));
            line + &notes(&translation.notes)
        }
        Verdict::Translate(exec) => translated(translation, exec),
    }
}

fn translated(translation: &Translation, exec: &ExecCommand) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(out, "{name:9}  {value}");
    };
    line("before", &words(&translation.before));
    line("after", &words(&translation.after));
    for (name, value) in &exec.environment {
        line("env", &printable(&format!("{name}={value}")));
    }
    if let Some(directory) = &exec.workdir {
        line("workdir", &printable(directory));
    }
    if let Some(log) = &exec.log {
        line("log", &log_line(log));
        if translation.strategy.is_none() {
            line("", "not part of the command yet: choose --logs klog, --logs runner or --logs stdout");
        }
    }
    out + &notes(&translation.notes)
}

fn log_line(log: &Log) -> String {
    let streams = if log.streams == LogStreams::Both { "stdout and stderr" } else { streams(log) };
    let open_mode = if log.open_mode == OpenMode::Append { "appended" } else { "truncated at every start" };
    let copy = if log.copy == LogCopy::AlsoStdout { ", also to the container's log" } else { "" };
    format!("{} ({streams}, {open_mode}{copy})", printable(&log.path))
}

fn notes(notes: &[Note]) -> String {
    let lines = notes.iter().map(|note| format!("{:9}  {}", "note", printable(&note.to_string())));
    lines.flat_map(|line| [line, "\n".to_owned()]).collect()
}

fn refused(before: &[String], refusal: &Refusal) -> String {
    let mut out = "refused: the command cannot be translated\n".to_owned();
    let _ = writeln!(out, "  command  {}", words(before));
    let _ = writeln!(out, "  [{}] {}", refusal.reason.word(), printable(&refusal.detail));
    for line in caret(refusal).into_iter().flatten() {
        let _ = writeln!(out, "    {line}");
    }
    let rule = Rule::from(refusal.reason);
    let _ = writeln!(out, "hint: {}", rule.fix());
    out.push_str(&explain_hint([rule]));
    out
}

/// A command as a JSON list: the form in which an image and a manifest hold it. Long words are cut.
fn words(argv: &[String]) -> String {
    let shown = argv.iter().map(|word| Value::from(word.as_str()).to_string());
    printable(&format!("[{}]", shown.collect::<Vec<_>>().join(",")))
}
