//! What became of manifests: as text, as rows (one for each command, as a part of its file), as the
//! JSON object of `docs/reports.md` (keys may be added, never changed) and as a unified diff.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Map, Value, json};
use similar::TextDiff;

use super::model::ReportedFinding;
use super::rows::{Reportable, Row, RowFinding, RowOutcome, RowWords, Rows};
use super::rules::explain_hint;
use super::translation::log;
use crate::kube::{CommandNote, KubeOutcome, KubeRefusal, ManifestCommand, Position, RewrittenManifest};
use crate::rules::{Level, Rule};
use oci::error::{Error, printable};
use shell::caret;

/// A manifest and what became of it.
#[derive(Debug)]
pub struct ManifestFile {
    /// As the user named it; `-` for stdin.
    pub path: String,
    pub before: String,
    pub result: Result<RewrittenManifest, Error>,
}

/// What is done about a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KubeMode {
    /// It should have been made already.
    Check,
    /// It is shown.
    Diff,
    /// It is made.
    Write,
}

impl ManifestFile {
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.result.as_ref().is_ok_and(|rewritten| rewritten.text != self.before)
    }

    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.result.as_ref().is_ok_and(RewrittenManifest::is_refused)
    }

    fn commands(&self) -> &[ManifestCommand] {
        self.result.as_ref().map(|rewritten| rewritten.commands.as_slice()).unwrap_or_default()
    }

    fn outcome(&self) -> ManifestOutcome {
        match (&self.result, self.is_refused(), self.is_changed()) {
            (Err(_), ..) => ManifestOutcome::Error,
            (Ok(_), true, _) => ManifestOutcome::Refused,
            (Ok(_), false, true) => ManifestOutcome::Changed,
            (Ok(_), false, false) => ManifestOutcome::Unchanged,
        }
    }
}

/// What became of a file, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum ManifestOutcome {
    Unchanged,
    Changed,
    Refused,
    Error,
}

/// The stable word for what became of a command.
fn verdict(command: &ManifestCommand) -> &'static str {
    match command.outcome {
        KubeOutcome::Unchanged => "unchanged",
        KubeOutcome::Changed(_) => "translate",
        KubeOutcome::Refused(_) => "refuse",
        KubeOutcome::Kept(_) => "kept",
    }
}

/// `Deployment/web, container app, livenessProbe`.
fn title(command: &ManifestCommand) -> String {
    let name = if command.object.name.is_empty() { String::new() } else { format!("/{}", command.object.name) };
    format!("{}{name}, container {}, {}", command.object.kind, command.container, command.what.word())
}

/// The rule of a command whose shell is not needed.
const CHANGE: Rule = Rule::ShellForm;

/// All manifests that were processed.
#[derive(Debug, Clone, Copy)]
pub struct KubeReport<'a> {
    pub files: &'a [ManifestFile],
    pub mode: KubeMode,
}

impl Reportable for KubeReport<'_> {
    fn text(&self) -> String {
        let errors = self.files.iter().filter_map(|file| file.result.as_ref().err());
        let errors: String =
            errors.flat_map(|error| ["error: ".to_owned(), error.to_string(), "\n".to_owned()]).collect();
        [changes(self.files), refusals(self.files), errors, summary(self.files, self.mode)].concat()
    }

    fn json(&self) -> String {
        to_json(self.files).to_string()
    }

    fn rows(&self) -> Rows<'_> {
        let rows = self.files.iter().flat_map(|file| rows(file, self.mode));
        Rows { command: "kube", thing: "command", list: rows.collect() }
    }
}

fn rows(file: &ManifestFile, mode: KubeMode) -> Vec<Row<'_>> {
    let whole = "the file";
    let mut rows = match &file.result {
        Err(error) => vec![Row::failed(whole, error)],
        Ok(rewritten) => {
            let refused = rewritten.refused.iter().map(|(why, at)| Row {
                findings: vec![refusal_finding(why, *at)],
                ..Row::new(whole, RowOutcome::Refused)
            });
            refused.chain(rewritten.commands.iter().map(|command| command_row(command, mode))).collect()
        }
    };
    for row in &mut rows {
        row.file = Some(&file.path);
    }
    rows
}

fn command_row(command: &ManifestCommand, mode: KubeMode) -> Row<'_> {
    let at = command.position;
    let (outcome, finding) = match &command.outcome {
        KubeOutcome::Unchanged => (RowOutcome::Unchanged, None),
        KubeOutcome::Kept(why) => (RowOutcome::Kept, Some(RowFinding::plain(kept_finding(why), Some(at)))),
        KubeOutcome::Refused(why) => (RowOutcome::Refused, Some(refusal_finding(why, at))),
        KubeOutcome::Changed(_) => {
            let outcome = if mode == KubeMode::Check { RowOutcome::ToChange } else { RowOutcome::Changed };
            (outcome, Some(RowFinding::plain(change_finding(command, mode), Some(at))))
        }
    };
    let notes = command.notes.iter().map(|note| {
        let message = note.message.clone();
        RowFinding::plain(ReportedFinding::note(note.rule, message), Some(at))
    });
    let words = Some(RowWords { before: command.before.clone(), after: after(command) });
    Row { findings: finding.into_iter().chain(notes).collect(), words, ..Row::new(title(command), outcome) }
}

/// The words that it becomes, which are those that it has where it stays; none where it is refused.
fn after(command: &ManifestCommand) -> Option<Vec<String>> {
    match &command.outcome {
        KubeOutcome::Changed(changed) => Some(changed.command.iter().chain(&changed.args).cloned().collect()),
        KubeOutcome::Unchanged | KubeOutcome::Kept(_) => Some(command.before.clone()),
        KubeOutcome::Refused(_) => None,
    }
}

/// The words before and after. With `--check`, the change should have been made.
fn change_finding(command: &ManifestCommand, mode: KubeMode) -> ReportedFinding {
    let words = |words: &[String]| serde_json::Value::from(words).to_string();
    let after = after(command).unwrap_or_default();
    ReportedFinding {
        rule: CHANGE,
        level: if mode == KubeMode::Check { Level::Refuse } else { Level::Note },
        message: "a shell starts the program, but is not needed".to_owned(),
        evidence: format!("before  {}\nafter   {}", words(&command.before), words(&after)),
        fix: if mode == KubeMode::Write { String::new() } else { "underpin kube --write FILE".to_owned() },
    }
}

fn refusal_finding(why: &KubeRefusal, at: Position) -> RowFinding<'static> {
    let shown = why.refusal.iter().filter_map(|refusal| caret(refusal)).flatten().collect::<Vec<_>>();
    let finding = ReportedFinding {
        rule: why.rule,
        level: Level::Refuse,
        message: why.detail.clone(),
        evidence: shown.join("\n"),
        fix: why.hint().to_owned(),
    };
    RowFinding::plain(finding, Some(at))
}

fn kept_finding(why: &KubeRefusal) -> ReportedFinding {
    ReportedFinding::note(Rule::ShellKept, format!("the image has its shell: {}", why.detail))
}

/// Everything that was refused.
#[must_use]
pub fn refusals(files: &[ManifestFile]) -> String {
    let mut out = String::new();
    for file in files {
        if let Ok(rewritten) = &file.result
            && let Some((why, at)) = &rewritten.refused
        {
            let _ = writeln!(
                out,
                "refused: {}:{}:{}: not a manifest until it is rendered",
                printable(&file.path),
                at.line,
                at.column
            );
            reason(&mut out, why);
        }
        for command in file.commands() {
            if let KubeOutcome::Refused(why) = &command.outcome {
                let _ = writeln!(out, "refused: {}", head(file, command));
                reason(&mut out, why);
            }
        }
    }
    out.push_str(&explain_hint(files.iter().flat_map(refused_rules)));
    out
}

/// The rules for which something in the file stays as it is, the file itself first.
fn refused_rules(file: &ManifestFile) -> Vec<Rule> {
    let whole = file.result.as_ref().ok().and_then(|rewritten| rewritten.refused.as_ref()).map(|(why, _)| why.rule);
    let commands = file.commands().iter().filter_map(|command| match &command.outcome {
        KubeOutcome::Refused(why) => Some(why.rule),
        _ => None,
    });
    whole.into_iter().chain(commands).collect()
}

/// `file:line:column: Deployment/web, container app, command`.
fn head(file: &ManifestFile, command: &ManifestCommand) -> String {
    let at = command.position;
    format!("{}:{}:{}: {}", printable(&file.path), at.line, at.column, printable(&title(command)))
}

fn reason(out: &mut String, why: &KubeRefusal) {
    let _ = writeln!(out, "  [{}] {}", why.rule, printable(&why.detail));
    for line in why.refusal.iter().filter_map(|refusal| caret(refusal)).flatten() {
        let _ = writeln!(out, "    {line}");
    }
    let _ = writeln!(out, "hint: {}", why.hint());
}

/// The notes on commands that change, or that are kept for a reason.
#[must_use]
pub fn changes(files: &[ManifestFile]) -> String {
    let mut out = String::new();
    for (file, command) in files.iter().flat_map(|file| file.commands().iter().map(move |command| (file, command))) {
        if let KubeOutcome::Kept(why) = &command.outcome {
            let _ = writeln!(out, "note: {}", head(file, command));
            let _ = writeln!(out, "  [shell-kept] the image has its shell: {}", printable(&why.detail));
        }
        if !command.notes.is_empty() && !matches!(command.outcome, KubeOutcome::Refused(_)) {
            let _ = writeln!(out, "note: {}", head(file, command));
            for note in &command.notes {
                let _ = writeln!(out, "  [{}] {}", note.rule, printable(&note.message));
            }
        }
    }
    out
}

/// One line.
#[must_use]
pub fn summary(files: &[ManifestFile], mode: KubeMode) -> String {
    let count = |wanted: fn(&KubeOutcome) -> bool| {
        files.iter().flat_map(ManifestFile::commands).filter(|command| wanted(&command.outcome)).count()
    };
    let changed = count(|outcome| matches!(outcome, KubeOutcome::Changed(_)));
    let refused = count(|outcome| matches!(outcome, KubeOutcome::Refused(_)));
    let others = count(|outcome| matches!(outcome, KubeOutcome::Unchanged | KubeOutcome::Kept(_)));
    let done = if mode == KubeMode::Write { "translated" } else { "to translate" };
    format!("files: {}; commands: {changed} {done}, {refused} refused, {others} unchanged\n", files.len())
}

#[must_use]
pub fn to_json(files: &[ManifestFile]) -> Value {
    let outcome = files.iter().map(ManifestFile::outcome).max().unwrap_or(ManifestOutcome::Unchanged);
    json!({
        "schema": "underpin.kube/v1",
        "outcome": outcome,
        "files": files.iter().map(file_json).collect::<Vec<_>>(),
    })
}

fn file_json(file: &ManifestFile) -> Value {
    let refused = file.result.as_ref().ok().and_then(|rewritten| rewritten.refused.as_ref());
    json!({
        "path": file.path,
        "outcome": file.outcome(),
        "changed": file.is_changed(),
        "error": file.result.as_ref().err().map(|error| error.what().to_owned()),
        "refused": refused.map(|(why, at)| refusal_json(why, *at)),
        "commands": file.commands().iter().map(command_json).collect::<Vec<_>>(),
    })
}

fn refusal_json(why: &KubeRefusal, at: Position) -> Value {
    json!({"reason": why.rule.id(), "detail": why.detail, "line": at.line, "column": at.column})
}

fn command_json(command: &ManifestCommand) -> Value {
    let (changed, why) = match &command.outcome {
        KubeOutcome::Changed(changed) => (Some(changed), None),
        KubeOutcome::Refused(why) | KubeOutcome::Kept(why) => (None, Some(why)),
        KubeOutcome::Unchanged => (None, None),
    };
    let env: Map<String, Value> = changed
        .map(|changed| changed.environment.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect())
        .unwrap_or_default();
    json!({
        "object": {"kind": command.object.kind, "name": command.object.name},
        "container": command.container,
        "place": command.what.word(),
        "line": command.position.line,
        "column": command.position.column,
        "verdict": verdict(command),
        "before": command.before,
        "command": changed.map(|changed| &changed.command),
        "args": changed.map(|changed| &changed.args),
        "env": env,
        "workdir": changed.and_then(|changed| changed.workdir.as_ref()),
        "log": changed.and_then(|changed| changed.log.as_ref()).map(log),
        "reason": why.map_or("", |why| why.rule.id()),
        "detail": why.map_or("", |why| why.detail.as_str()),
        "notes": command.notes.iter().map(note_json).collect::<Vec<_>>(),
    })
}

fn note_json(note: &CommandNote) -> Value {
    json!({"note": note.rule, "message": note.message})
}

const LINES_AROUND: usize = 3;

/// The change as a diff, every byte as it is.
#[must_use]
pub fn unified(path: &str, before: &str, after: &str) -> String {
    let diff = TextDiff::from_lines(before, after);
    diff.unified_diff().context_radius(LINES_AROUND).header(&format!("a/{path}"), &format!("b/{path}")).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_has_every_byte_as_it_is() {
        let plain = unified("f", "a\n\u{1b}x\n", "b\n\u{1b}x\n");
        assert_eq!(plain, "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+b\n \u{1b}x\n");
    }
}
