//! What `exceptions` shows of a list: its rows and their problems.

use std::fmt::Write as _;

use serde_json::json;

use super::model::ReportedFinding;
use super::rows::{Reportable, Row, RowFinding, RowOutcome, Rows};
use crate::kube::Position;
use crate::policy::exceptions::{Exception, ExceptionList, Gravity, Problem};
use crate::rules::{Level, Rule};
use oci::error::printable;

/// The rule of everything that can be wrong with a row.
const RULE: Rule = Rule::ExceptionList;

#[derive(Debug)]
pub struct ExceptionListReport<'a> {
    pub path: String,
    pub list: &'a ExceptionList,
    pub problems: Vec<Problem>,
}

impl ExceptionListReport<'_> {
    /// Whether the list can be relied on.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.problems.iter().all(|problem| problem.gravity == Gravity::Warn)
    }

    #[must_use]
    pub fn table(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING).set_header(["component", "base", "reason"]);
        for exception in self.list.exceptions() {
            table.add_row([&exception.component, &exception.base, &exception.reason].map(|cell| printable(cell)));
        }
        table.lines().flat_map(|line| [line.trim_end().to_owned(), "\n".to_owned()]).collect()
    }

    #[must_use]
    pub fn problem_lines(&self) -> String {
        let mut out = String::new();
        for Problem { gravity, line, component, message } in &self.problems {
            let word = match gravity {
                Gravity::Refuse => "refused",
                Gravity::Warn => "warning",
            };
            let name = if component.is_empty() { String::new() } else { format!("{}: ", printable(component)) };
            let _ = writeln!(out, "{word}: {}:{line}: {name}{}", printable(&self.path), printable(message));
        }
        out
    }
}

impl Reportable for ExceptionListReport<'_> {
    fn text(&self) -> String {
        [self.table(), self.problem_lines()].concat()
    }

    fn json(&self) -> String {
        json!(self.list.exceptions()).to_string()
    }

    fn rows(&self) -> Rows<'_> {
        let row = |exception: &'_ Exception| {
            let of_row = self.problems.iter().filter(|problem| problem.line == exception.line);
            let findings: Vec<RowFinding<'_>> = of_row.map(finding).collect();
            let refused = findings.iter().any(|it| it.finding.level == Level::Refuse);
            let name = if exception.component.is_empty() { "no component" } else { &exception.component };
            Row {
                file: Some(&self.path),
                findings,
                bases: vec![exception.base.clone()],
                ..Row::new(name.to_owned(), if refused { RowOutcome::Refused } else { RowOutcome::Passed })
            }
        };
        Rows { command: "exceptions", thing: "exception", list: self.list.exceptions().iter().map(row).collect() }
    }
}

fn finding(problem: &Problem) -> RowFinding<'static> {
    let level = match problem.gravity {
        Gravity::Refuse => Level::Refuse,
        Gravity::Warn => Level::Warn,
    };
    let message = problem.message.clone();
    let finding = ReportedFinding { level, ..ReportedFinding::note(RULE, message) };
    RowFinding::plain(finding, Some(Position { line: problem.line, column: 1 }))
}
