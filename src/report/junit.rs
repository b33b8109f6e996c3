//! The rows as `JUnit`, as prow's Spyglass and most CI systems read it: one test case for each row, in
//! one suite, or in one for each file that rows are parts of. A refusal is a failure, what could
//! not be examined is an error, and what stays because of an exception is skipped.

use std::fmt::Write as _;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::rows::{Grade, Row, Rows};
use super::started::StartedPair;
use oci::error::{Error, Result, printable, printable_lines};

pub fn to_junit(rows: &Rows<'_>) -> Result<String> {
    let name = format!("underpin {}", rows.command);
    let mut suites: Vec<TestSuite> = Vec::new();
    for of_file in rows.list.chunk_by(|one, next| one.file == next.file) {
        let title = of_file.first().and_then(|row| row.file).map_or_else(|| name.clone(), printable);
        let mut suite = TestSuite::new(title);
        suite.add_test_cases(of_file.iter().map(|row| case(rows.command, row)));
        suites.push(suite);
    }
    let mut report = Report::new(name);
    report.add_test_suites(suites);
    report.to_string().map_err(|error| Error::input("cannot write the report as XML").cause(error))
}

fn case(command: &str, row: &Row<'_>) -> TestCase {
    let detail = detail(row);
    let status = match row.grade() {
        Grade::Refused => {
            let rules = row.refusals().map(|it| it.finding.rule.id()).collect::<Vec<_>>().join(", ");
            unlike_success(NonSuccessKind::Failure, row.outcome.word(), &rules, &detail)
        }
        Grade::Failed => {
            let (what, text) = row.error.map(|error| (error.what().to_owned(), error.to_string())).unwrap_or_default();
            unlike_success(NonSuccessKind::Error, row.outcome.word(), &what, &text)
        }
        Grade::Excepted => {
            let mut status = TestCaseStatus::skipped();
            status.set_message("recorded as an exception");
            status
        }
        Grade::Good => TestCaseStatus::success(),
    };
    let mut case = TestCase::new(printable(&row.name), status);
    case.set_classname(format!("underpin.{command}"));
    if matches!(row.grade(), Grade::Good | Grade::Excepted) {
        case.set_system_out(detail);
    }
    case
}

fn unlike_success(kind: NonSuccessKind, what: &str, message: &str, detail: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_type(what);
    status.set_message(printable(message));
    status.set_description(detail);
    status
}

/// The findings as lines of text.
fn detail(row: &Row<'_>) -> String {
    let mut text = format!("{} {}\n", row.outcome.word(), printable(&row.title()));
    for platform in row.report.iter().flat_map(|report| &report.platforms) {
        for line in platform.started.iter().flat_map(StartedPair::lines) {
            let _ = writeln!(text, "{} start: {}", platform.platform, printable(&line));
        }
    }
    for it in &row.findings {
        let finding = &it.finding;
        let at = it.at.map(|at| format!("line {}, column {}", at.line, at.column));
        let place = [Some(it.platform), at.as_deref()].into_iter().flatten().find(|place| !place.is_empty());
        let place = place.map(|place| format!("{place} ")).unwrap_or_default();
        let message = printable(&finding.message);
        let _ = writeln!(text, "{place}{} [{}] {message}", finding.level.word(), finding.rule);
        for (label, more) in [("", &finding.evidence), ("fix: ", &finding.fix)] {
            if !more.is_empty() {
                // A tab would be lost: `quick_junit` takes it for a control character.
                let lines = printable_lines(more).replace('\t', " ").replace('\n', "\n  ");
                let _ = writeln!(text, "  {label}{lines}");
            }
        }
    }
    text.trim_end().to_owned()
}
