//! The sheet as one HTML page that needs no network and no script: a table with verdicts,
//! and for each image its layers to scale, its command, and the findings with their evidence.

mod platform;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use bytesize::ByteSize;

use super::markup::{escaped, escaped_lines};
use super::sheet::{Grade, Row, Sheet};

const STYLE: &str = include_str!("style.css");

#[must_use]
pub fn to_html(sheet: &Sheet<'_>) -> String {
    let mut out = String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    // Nothing in the page may be fetched or run, whatever an image has smuggled in.
    out.push_str(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n",
    );
    let _ = writeln!(out, "<title>underpin {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>", sheet.command);
    let _ = writeln!(out, "<h1>underpin {}</h1>\n<p class=\"sum\">{}</p>", sheet.command, escaped(&sheet.summary()));
    table(&mut out, sheet);
    for (at, row) in sheet.rows.iter().enumerate() {
        section(&mut out, at, row, sheet.rows.len());
    }
    out.push_str("</body>\n</html>\n");
    out
}

fn class(row: &Row<'_>) -> &'static str {
    match row.grade() {
        Grade::Refused | Grade::Failed => "bad",
        Grade::Excepted => "warn",
        Grade::Good => "good",
    }
}

/// The images with their verdicts; of other things, those columns that say something.
fn table(out: &mut String, sheet: &Sheet<'_>) {
    let of_images = sheet.rows.iter().any(|row| row.before.is_some() || !row.bases.is_empty());
    let more = if of_images { "<th>Old base</th><th class=\"n\">Before</th><th class=\"n\">After</th>" } else { "" };
    let thing = escaped(sheet.thing);
    let _ = writeln!(
        out,
        "<table>\n<thead><tr><th class=\"thing\">{thing}</th><th>Verdict</th>{more}<th>Findings</th></tr></thead>\n<tbody>"
    );
    for (at, row) in sheet.rows.iter().enumerate() {
        let size = |bytes: Option<u64>| bytes.map(|bytes| ByteSize(bytes).to_string()).unwrap_or_default();
        let cell = |bytes: Option<u64>| format!("<td class=\"n\">{}</td>", size(bytes));
        let bases = format!("<td>{}</td>", escaped(&row.bases.join(", ")));
        let more = if of_images { [bases, cell(row.before), cell(row.after)].concat() } else { String::new() };
        let _ = writeln!(
            out,
            "<tr><td><a href=\"#i{at}\"><code>{}</code></a></td><td class=\"v {}\">{}</td>{more}<td>{}</td></tr>",
            escaped(&row.title()),
            class(row),
            escaped(row.outcome),
            escaped(&row.rules().join(", "))
        );
    }
    out.push_str("</tbody>\n</table>\n");
}

/// What needs attention is open; of many images the good ones are folded.
fn section(out: &mut String, at: usize, row: &Row<'_>, of: usize) {
    let open = if of <= 3 || class(row) == "bad" { " open" } else { "" };
    let _ = writeln!(
        out,
        "<details id=\"i{at}\"{open}>\n<summary><h2><code>{}</code></h2> <span class=\"v {}\">{}</span></summary>\n<div class=\"in\">",
        escaped(&row.title()),
        class(row),
        escaped(row.outcome)
    );
    if let Some(error) = row.error {
        let _ = writeln!(out, "<pre>{}</pre>", escaped_lines(&error.to_string()));
    }
    if let Some(report) = row.report {
        platform::head(out, report);
    }
    findings(out, row);
    for platform in row.report.iter().flat_map(|report| &report.platforms) {
        platform::section(out, platform);
    }
    out.push_str("</div>\n</details>\n");
}

fn findings(out: &mut String, row: &Row<'_>) {
    if row.findings.is_empty() {
        return;
    }
    out.push_str("<h3>Findings</h3>\n");
    for it in &row.findings {
        let finding = &it.finding;
        let place = it.at.map_or_else(|| escaped(it.platform), |at| format!("line {}", at.line));
        let _ = writeln!(
            out,
            "<div class=\"f {0}\">\n<p><b>{0}</b> <code>{1}</code> <span class=\"dim\">{2}</span><br>{3}</p>",
            escaped(finding.level),
            escaped(finding.rule),
            place,
            escaped(&finding.message)
        );
        if !finding.evidence.is_empty() {
            let _ = writeln!(out, "<pre>{}</pre>", escaped_lines(&finding.evidence));
        }
        if !finding.fix.is_empty() {
            let _ = writeln!(out, "<p class=\"dim\">Fix: {}</p>", escaped(&finding.fix));
        }
        out.push_str("</div>\n");
    }
}
