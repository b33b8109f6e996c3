//! What became of manifests, on a rows: a row for each command, as a part of its file.

use super::{File, Mode, changes, refusals, summary, title, to_json};
use crate::kube::{Command, Outcome, Position, Why};
use crate::policy::{Level, Rule};
use crate::report::{Reportable, ReportedFinding, Row, RowFinding, RowOutcome, Rows};
use crate::shell::caret;

/// The rule of a command that a shell starts and need not.
const CHANGE: &str = Rule::ShellForm.id();

/// All manifests that were looked at.
#[derive(Debug, Clone, Copy)]
pub struct Manifests<'a> {
    pub files: &'a [File],
    pub mode: Mode,
}

impl Reportable for Manifests<'_> {
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

fn rows(file: &File, mode: Mode) -> Vec<Row<'_>> {
    let whole = "the file";
    let mut rows = match &file.result {
        Err(error) => vec![Row::failed(whole, error)],
        Ok(judged) => {
            let refused = judged
                .refused
                .iter()
                .map(|(why, at)| Row { findings: vec![refusal(why, *at)], ..Row::new(whole, RowOutcome::Refused) });
            refused.chain(judged.commands.iter().map(|command| of_command(command, mode))).collect()
        }
    };
    for row in &mut rows {
        row.file = Some(&file.path);
    }
    rows
}

fn of_command(command: &Command, mode: Mode) -> Row<'_> {
    let at = command.position;
    let (outcome, finding) = match &command.outcome {
        Outcome::Unchanged => (RowOutcome::Unchanged, None),
        Outcome::Kept(why) => (RowOutcome::Kept, Some(RowFinding::plain(kept(why), Some(at)))),
        Outcome::Refused(why) => (RowOutcome::Refused, Some(refusal(why, at))),
        Outcome::Changed(_) => {
            let outcome = if mode == Mode::Check { RowOutcome::ToChange } else { RowOutcome::Changed };
            (outcome, Some(RowFinding::plain(change(command, mode), Some(at))))
        }
    };
    let remarks = command.remarks.iter().map(|remark| {
        let message = remark.message.clone();
        RowFinding::plain(ReportedFinding::note(remark.rule.id(), message), Some(at))
    });
    Row { findings: finding.into_iter().chain(remarks).collect(), ..Row::new(title(command), outcome) }
}

/// The words before and after. With `--check`, the change should have been made.
fn change(command: &Command, mode: Mode) -> ReportedFinding {
    let Outcome::Changed(changed) = &command.outcome else { return ReportedFinding::note(CHANGE, String::new()) };
    let words = |words: &[String]| serde_json::Value::from(words).to_string();
    let after: Vec<String> = changed.command.iter().chain(&changed.args).cloned().collect();
    ReportedFinding {
        rule: CHANGE,
        level: if mode == Mode::Check { Level::Refuse } else { Level::Note },
        message: "a shell starts the program, and it need not".to_owned(),
        evidence: format!("before  {}\nafter   {}", words(&command.before), words(&after)),
        fix: if mode == Mode::Write { String::new() } else { "underpin kube --write FILE".to_owned() },
    }
}

fn refusal(why: &Why, at: Position) -> RowFinding<'static> {
    let shown = why.refusal.iter().filter_map(|refusal| caret(refusal)).flatten().collect::<Vec<_>>();
    let finding = ReportedFinding {
        rule: why.rule.id(),
        level: Level::Refuse,
        message: why.detail.clone(),
        evidence: shown.join("\n"),
        fix: why.hint().to_owned(),
    };
    RowFinding::plain(finding, Some(at))
}

fn kept(why: &Why) -> ReportedFinding {
    ReportedFinding::note(Rule::ShellKept.id(), format!("its shell is in the image: {}", why.detail))
}
