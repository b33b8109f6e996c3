//! The rows as Markdown, for the description of a pull request.

use std::fmt::Write as _;

use bytesize::ByteSize;

use super::candidates::ReportedBase;
use super::model::{PackageWords, Report, ReportedPlatform};
use super::rows::{Row, Rows};
use super::text::brought_line;
use oci::error::printable;

#[must_use]
pub fn to_markdown(rows: &Rows<'_>) -> String {
    let mut out = format!("## underpin {}\n\n{}\n\n", rows.command, text(&rows.summary()));
    let columns: Vec<Column> = COLUMNS.into_iter().filter(|column| column.is_used(rows)).collect();
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    out.push_str(&line(columns.iter().map(|column| column.head(rows)).collect()));
    out.push_str(&line(columns.iter().map(|_| "---".to_owned()).collect()));
    for row in &rows.list {
        out.push_str(&line(columns.iter().map(|column| column.cell(row)).collect()));
    }
    let has_packages = |report: &&Report| report.platforms.iter().any(|platform| platform.packages.is_some());
    let says_more = |row: &&Row<'_>| {
        let has_packages = row.report.as_ref().is_some_and(has_packages);
        !row.findings.is_empty() || row.error.is_some() || !row.candidates.is_empty() || has_packages
    };
    for row in rows.list.iter().filter(says_more) {
        section(&mut out, row);
    }
    explanations(&mut out, rows);
    out
}

/// What the rules mean that a reader has just met.
fn explanations(out: &mut String, rows: &Rows<'_>) {
    let rules = rows.rules();
    if rules.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n### Rules\n\n`underpin explain RULE` says why, with an example and what to do.\n");
    for rule in rules {
        let _ = writeln!(out, "- `{rule}`: {}", text(rule.row().means));
    }
}

const COLUMNS: [Column; 6] =
    [Column::Name, Column::Outcome, Column::OldBase, Column::NewBase, Column::Size, Column::Findings];

#[derive(Debug, Clone, Copy)]
enum Column {
    Name,
    Outcome,
    OldBase,
    NewBase,
    Size,
    Findings,
}

impl Column {
    /// Sizes and bases are for images only.
    fn is_used(self, rows: &Rows<'_>) -> bool {
        match self {
            Self::Name | Self::Outcome | Self::Findings => true,
            Self::OldBase | Self::NewBase | Self::Size => rows.list.iter().any(|row| !self.cell(row).is_empty()),
        }
    }

    fn head(self, rows: &Rows<'_>) -> String {
        match self {
            Self::Name => rows.thing,
            Self::Outcome => "outcome",
            Self::OldBase => "old base",
            Self::NewBase => "new base",
            Self::Size => "size",
            Self::Findings => "findings",
        }
        .to_owned()
    }

    fn cell(self, row: &Row<'_>) -> String {
        match self {
            Self::Name => code(&row.title()),
            Self::Outcome => row.outcome.word().to_owned(),
            Self::OldBase => text(&row.bases.join(", ")),
            Self::NewBase => row.report.map(|report| code(&report.base.reference)).unwrap_or_default(),
            Self::Size => {
                let sizes = [row.before, row.after].into_iter().flatten().map(|bytes| ByteSize(bytes).to_string());
                sizes.collect::<Vec<_>>().join(" → ")
            }
            Self::Findings => row.rules().join(", "),
        }
    }
}

/// The bases that were tried, with what excluded each.
fn candidates(out: &mut String, bases: &[ReportedBase]) {
    for base in bases {
        let _ = writeln!(out, "- candidate {}: {}", code(&base.reference), text(&base.verdict_words()));
        for exclusion in &base.excluded_by {
            let _ = writeln!(out, "  - {}", text(&exclusion.line()));
        }
    }
}

fn section(out: &mut String, row: &Row<'_>) {
    let _ = writeln!(out, "\n### {}\n", text(&row.title()));
    if let Some(error) = row.error {
        fence(out, &error.to_string());
    }
    candidates(out, row.candidates);
    for (report, platform) in row.report.iter().flat_map(|it| it.platforms.iter().map(move |platform| (it, platform))) {
        for brought in &platform.brought {
            let _ = writeln!(out, "- brought ({}): {}", text(&platform.platform), text(&brought_line(brought)));
        }
        packages(out, platform, PackageWords::of(report.outcome));
    }
    for it in &row.findings {
        let finding = &it.finding;
        let line = it.at.map(|at| format!("line {}", at.line));
        let place = line.as_deref().or(Some(it.platform).filter(|platform| !platform.is_empty()));
        let place = place.map(|place| format!(" ({})", text(place))).unwrap_or_default();
        let _ = writeln!(out, "- **{}** `{}`{place}: {}", finding.level.word(), finding.rule, text(&finding.message));
        if !finding.evidence.is_empty() {
            out.push('\n');
            fence(out, &finding.evidence);
        }
        if !finding.fix.is_empty() {
            let _ = writeln!(out, "  fix: {}", text(&finding.fix));
        }
    }
}

/// Packages that left, arrived or have another version; of those that stayed, the number.
fn packages(out: &mut String, platform: &ReportedPlatform, words: PackageWords) {
    let Some(packages) = &platform.packages else { return };
    let _ = writeln!(out, "- packages ({}): {}", text(&platform.platform), text(&packages.summary(words)));
    for (mark, line) in packages.lines().filter(|(mark, _)| *mark != '=') {
        let word = match mark {
            '-' => words.left,
            '+' => words.arrived,
            _ => words.changed,
        };
        let _ = writeln!(out, "  - {word}: {}", text(&line));
    }
}

/// Text with everything escaped that Markdown would interpret.
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
