//! The sheet as `JUnit`, as prow's Spyglass and most CI systems read it: one suite, one test case for
//! each image. A refusal is a failure, an image that could not be looked at an error, and one that
//! stays by an exception is skipped.

use std::fmt::Write as _;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::sheet::{Row, Sheet};
use crate::error::{Error, Result, printable};

pub fn to_junit(sheet: &Sheet<'_>) -> Result<String> {
    let name = format!("underpin {}", sheet.command);
    let mut suite = TestSuite::new(&name);
    suite.add_test_cases(sheet.rows.iter().map(|row| case(sheet.command, row)));
    let mut report = Report::new(name);
    report.add_test_suite(suite);
    report.to_string().map_err(|error| Error::input("the report cannot be written as XML").cause(error))
}

fn case(command: &str, row: &Row<'_>) -> TestCase {
    let detail = detail(row);
    let status = match row.outcome {
        "refused" => {
            let rules = row.refusals().map(|it| it.finding.rule).collect::<Vec<_>>().join(", ");
            unlike_success(NonSuccessKind::Failure, "refused", &rules, &detail)
        }
        "failed" => {
            let (what, text) = row.error.map(|error| (error.what().to_owned(), error.to_string())).unwrap_or_default();
            unlike_success(NonSuccessKind::Error, "failed", &what, &text)
        }
        "excepted" => {
            let mut status = TestCaseStatus::skipped();
            status.set_message("recorded as an exception");
            status
        }
        _ => TestCaseStatus::success(),
    };
    let is_told = matches!(row.outcome, "refused" | "failed");
    let mut case = TestCase::new(printable(row.image), status);
    case.set_classname(format!("underpin.{command}"));
    if !is_told {
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
    let mut text = format!("{} {}\n", row.outcome, row.image);
    for it in &row.findings {
        let finding = it.finding;
        let _ = writeln!(text, "{} {} [{}] {}", it.platform, finding.level, finding.rule, finding.message);
        for (label, more) in [("", &finding.evidence), ("fix: ", &finding.fix)] {
            if !more.is_empty() {
                let _ = writeln!(text, "  {label}{}", more.replace('\n', "\n  "));
            }
        }
    }
    text.trim_end().to_owned()
}
