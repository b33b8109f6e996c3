//! The sheet as `JUnit`, as prow's Spyglass and most CI systems read it: one suite, one test case for
//! each image. A refusal is a failure, an image that could not be looked at an error, and one that
//! stays by an exception is skipped.

use std::fmt::Write as _;

use super::markup::{escaped, escaped_lines};
use super::sheet::{Row, Sheet};

#[must_use]
pub fn to_junit(sheet: &Sheet<'_>) -> String {
    let count = |word: &str| sheet.rows.iter().filter(|row| row.outcome == word).count();
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        out,
        "<testsuites><testsuite name=\"underpin {}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"0\">",
        sheet.command,
        sheet.rows.len(),
        count("refused"),
        count("failed"),
        count("excepted")
    );
    for row in &sheet.rows {
        case(&mut out, sheet.command, row);
    }
    out.push_str("</testsuite></testsuites>\n");
    out
}

fn case(out: &mut String, command: &str, row: &Row<'_>) {
    let name = escaped(row.image);
    let _ = writeln!(out, "<testcase classname=\"underpin.{command}\" name=\"{name}\" time=\"0\">");
    match row.outcome {
        "refused" => {
            let message = row.refusals().map(|it| it.finding.rule).collect::<Vec<_>>().join(", ");
            let _ =
                writeln!(out, "<failure type=\"refused\" message=\"{}\">{}</failure>", escaped(&message), detail(row));
        }
        "failed" => {
            let (what, text) = row.error.map(|error| (error.what().to_owned(), error.to_string())).unwrap_or_default();
            let _ =
                writeln!(out, "<error type=\"failed\" message=\"{}\">{}</error>", escaped(&what), escaped_lines(&text));
        }
        "excepted" => {
            let _ = writeln!(out, "<skipped message=\"recorded as an exception\"/>");
            let _ = writeln!(out, "<system-out>{}</system-out>", detail(row));
        }
        _ => {
            let _ = writeln!(out, "<system-out>{}</system-out>", detail(row));
        }
    }
    out.push_str("</testcase>\n");
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
    escaped_lines(text.trim_end())
}
