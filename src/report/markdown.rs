//! The sheet as Markdown, for the description of a pull request.

use std::fmt::Write as _;

use bytesize::ByteSize;

use super::sheet::{Row, Sheet};
use crate::error::printable;

#[must_use]
pub fn to_markdown(sheet: &Sheet<'_>) -> String {
    let mut out = format!("## underpin {}\n\n", sheet.command);
    out.push_str(
        "| image | outcome | old base | new base | size | findings |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for row in &sheet.rows {
        let cells = [
            code(row.image),
            row.outcome.to_owned(),
            text(&row.old_bases().join(", ")),
            row.report.map(|report| code(&report.base.reference)).unwrap_or_default(),
            row.sizes()
                .map(|(before, after)| format!("{} → {}", ByteSize(before), ByteSize(after)))
                .unwrap_or_default(),
            row.rules().join(", "),
        ];
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    for row in sheet.rows.iter().filter(|row| !row.findings.is_empty() || row.error.is_some()) {
        section(&mut out, row);
    }
    out
}

fn section(out: &mut String, row: &Row<'_>) {
    let _ = writeln!(out, "\n### {}\n", text(row.image));
    if let Some(error) = row.error {
        fence(out, &error.to_string());
    }
    for it in &row.findings {
        let finding = it.finding;
        let _ = writeln!(
            out,
            "- **{}** `{}` ({}): {}",
            finding.level,
            finding.rule,
            text(it.platform),
            text(&finding.message)
        );
        if !finding.evidence.is_empty() {
            out.push('\n');
            fence(out, &finding.evidence);
        }
        if !finding.fix.is_empty() {
            let _ = writeln!(out, "  fix: {}", text(&finding.fix));
        }
    }
}

/// Text that stays text.
fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in printable(text).chars() {
        if "\\`*_{}[]<>#|~&".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// In backquotes, with more of them than the text has in a row.
fn code(text: &str) -> String {
    let text = printable(text).replace('|', "\\|");
    let ticks = "`".repeat(longest_run(&text) + 1);
    let blank = if ticks.len() > 1 { " " } else { "" };
    format!("{ticks}{blank}{text}{blank}{ticks}")
}

/// A block of lines as they are, indented to belong to a list item.
fn fence(out: &mut String, block: &str) {
    let ticks = "`".repeat(longest_run(block).max(2) + 1);
    let _ = writeln!(out, "  {ticks}text");
    for line in block.split('\n') {
        let _ = writeln!(out, "  {}", printable(line));
    }
    let _ = writeln!(out, "  {ticks}\n");
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}
