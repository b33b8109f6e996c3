//! The rows as one HTML page without network access: a banner with the verdict, a table of everything that was judged,
//! failures first, and for each image its layers to scale with their files, its command, its packages, and the
//! findings with their evidence.
//!
//! The page can be read without its script, which only searches files and opens what is folded before printing. No
//! other script can run: the policy of the page names this one by its digest.

mod escape;
mod platform;
mod tree;

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytesize::ByteSize;
use sha2::{Digest as _, Sha256};

use self::escape::{escaped, escaped_lines};
use self::tree::RowBudget;
use super::candidates::ReportedBase;
use super::model::Report;
use super::rows::{Grade, Row, RowFinding, Rows};
use crate::rules::{Level, Rule};

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");
const SEARCH: &str = "<div id=\"find\" hidden><input type=\"search\" placeholder=\"Search files ( / )\" aria-label=\"Search files\"><output></output></div>\n";

#[must_use]
pub fn to_html(rows: &Rows<'_>) -> String {
    let mut out = head(rows);
    let order = worst_first(rows);
    banner(&mut out, rows);
    if rows.list.len() > 1 {
        table(&mut out, rows, &order);
    }
    if rows.list.iter().any(has_files) {
        // Without its script it would do nothing, so the script shows it.
        out.push_str(SEARCH);
    }
    let mut budget = RowBudget::default();
    for at in order {
        if let Some(row) = rows.list.get(at) {
            section(&mut out, (at, row), rows, &mut budget);
        }
    }
    explanations(&mut out, rows);
    let _ = write!(out, "<script>{SCRIPT}</script>\n</body>\n</html>\n");
    out
}

fn head(rows: &Rows<'_>) -> String {
    let hash = STANDARD.encode(Sha256::digest(SCRIPT.as_bytes()));
    let mut out = String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    // Nothing in the page may be fetched or run, whatever text came from an image.
    let _ = writeln!(
        out,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'; form-action 'none'; base-uri 'none'\">"
    );
    let _ = writeln!(
        out,
        "<title>underpin {0}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>underpin {0}</h1>",
        rows.command
    );
    out
}

/// The numbers of the rows, what needs attention before what does not.
fn worst_first(rows: &Rows<'_>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rows.list.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(rows.list.get(*at).map(Row::grade)));
    order
}

fn has_files(row: &Row<'_>) -> bool {
    let reported = row.report.iter().flat_map(|report| &report.platforms).flat_map(|it| &it.layers);
    let inspected = row.inspected.iter().flat_map(|it| &it.layers);
    reported.map(|layer| &layer.files).chain(inspected.map(|layer| &layer.files)).any(Option::is_some)
}

const fn class(grade: Grade) -> &'static str {
    match grade {
        Grade::Refused | Grade::Failed => "bad",
        Grade::Excepted => "warn",
        Grade::Good => "good",
    }
}

/// The verdict, and what was saved.
fn banner(out: &mut String, rows: &Rows<'_>) {
    let grade = Grade::worst(rows.list.iter().map(|row| row.outcome));
    let _ = writeln!(out, "<div class=\"banner {}\">\n<div class=\"main\">", class(grade));
    if let [row] = rows.list.as_slice() {
        let _ = writeln!(
            out,
            "<p class=\"verdict\">{}</p>\n<p><code>{}</code></p>",
            row.outcome.word(),
            escaped(&row.title())
        );
        let refusals: Vec<String> = row.refusals().map(|it| format!("<code>{}</code>", it.finding.rule)).collect();
        if !refusals.is_empty() {
            let _ = writeln!(
                out,
                "<p>{} in the way: {}</p>",
                count(refusals.len(), "refusal"),
                unique(refusals).join(", ")
            );
        }
    } else {
        let _ = writeln!(out, "<p class=\"verdict\">{}</p>", escaped(&rows.summary()));
    }
    out.push_str("</div>\n");
    if let Some((before, after)) = totals(rows) {
        let _ = writeln!(out, "<p class=\"saved\"><b>{}</b>{}</p>", change(before, after), sizes(before, after));
    }
    out.push_str("</div>\n");
}

fn unique(mut words: Vec<String>) -> Vec<String> {
    words.sort_unstable();
    words.dedup();
    words
}

fn count(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Of all that have a size before and after.
fn totals(rows: &Rows<'_>) -> Option<(u64, u64)> {
    let sized = rows.list.iter().filter_map(|row| row.before.zip(row.after)).filter(|(before, _)| *before > 0);
    sized.reduce(|sum, one| (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1)))
}

fn sizes(before: u64, after: u64) -> String {
    format!("{} → {}", ByteSize(before), ByteSize(after))
}

/// `−97 %`
fn change(before: u64, after: u64) -> String {
    let part = |of: u64| u128::from(of) * 100 / u128::from(before.max(1));
    match after.cmp(&before) {
        std::cmp::Ordering::Less => format!("−{} %", part(before - after)),
        std::cmp::Ordering::Equal => "±0 %".to_owned(),
        std::cmp::Ordering::Greater => format!("+{} %", part(after - before)),
    }
}

/// A name without the registry and the digest: what tells one from another in a narrow column.
fn short(reference: &str) -> &str {
    let name = reference.split_once("@sha256:").map_or(reference, |(name, _)| name);
    name.rsplit('/').next().unwrap_or(name)
}

/// `debian:12 → static:latest`, with the whole of it as its title.
fn base_cell(row: &Row<'_>) -> String {
    let Some(report) = row.report else {
        return row.bases.iter().map(|base| escaped(short(base))).collect::<Vec<_>>().join(", ");
    };
    let old = report.platforms.iter().filter_map(|platform| platform.old_base.as_ref());
    let old = old.map(|old| old.reference.as_deref().unwrap_or(if old.layers == 0 { "none" } else { "unnamed" }));
    let old = unique(old.map(|name| escaped(short(name))).collect()).join(", ");
    let title = [row.bases.join(", "), report.base.reference.clone()].join(" → ");
    format!("<span title=\"{}\">{old} → {}</span>", escaped(&title), escaped(short(&report.base.reference)))
}

fn target_cell(row: &Row<'_>) -> String {
    let cell = |target: &String| format!("<code title=\"{}\">{}</code>", escaped(target), escaped(short(target)));
    row.targets.iter().map(cell).collect::<Vec<_>>().join(", ")
}

fn size_cell(row: &Row<'_>) -> String {
    match (row.before, row.after) {
        (Some(before), Some(after)) if before > 0 => {
            format!("{} <b>{}</b>", sizes(before, after), change(before, after))
        }
        (Some(before), _) if before > 0 => ByteSize(before).to_string(),
        _ => String::new(),
    }
}

type Column = (&'static str, fn(&Row<'_>) -> String);

/// Columns that only some commands fill.
const COLUMNS: [Column; 4] = [
    ("base", base_cell),
    ("target", target_cell),
    ("size", size_cell),
    ("findings", |row| escaped(&row.rules().join(", "))),
];

/// The rows with their verdicts, and the sum of their sizes.
fn table(out: &mut String, rows: &Rows<'_>, order: &[usize]) {
    let is_used = |column: &&Column| rows.list.iter().any(|row| !(column.1)(row).is_empty());
    let columns: Vec<&Column> = COLUMNS.iter().filter(is_used).collect();
    let cells =
        |cell: &dyn Fn(&Column) -> String| columns.iter().map(|column| cell(column)).collect::<Vec<_>>().concat();
    let heads = cells(&|(name, _)| format!("<th class=\"thing\">{name}</th>"));
    let _ = writeln!(
        out,
        "<table class=\"list\">\n<thead><tr><th class=\"thing\">{}</th><th>Verdict</th>{heads}</tr></thead>\n<tbody>",
        escaped(rows.thing)
    );
    for (at, row) in order.iter().filter_map(|at| Some((at, rows.list.get(*at)?))) {
        let cells = cells(&|(name, cell)| format!("<td data-label=\"{name}\">{}</td>", cell(row)));
        let _ = writeln!(
            out,
            "<tr><td><a href=\"#i{at}\"><code>{}</code></a></td><td class=\"v {}\">{}</td>{cells}</tr>",
            escaped(&row.title()),
            class(row.grade()),
            row.outcome.word()
        );
    }
    out.push_str("</tbody>\n");
    if let Some((before, after)) = totals(rows) {
        let total = format!("{} <b>{}</b>", sizes(before, after), change(before, after));
        let cells = cells(&|(name, _)| match *name {
            "size" => format!("<td data-label=\"together\">{total}</td>"),
            _ => "<td></td>".to_owned(),
        });
        let _ = writeln!(out, "<tfoot><tr><td>{}</td><td></td>{cells}</tr></tfoot>", escaped(&rows.summary()));
    }
    out.push_str("</table>\n");
}

/// What needs attention is open; of many images the good ones are folded.
fn section(out: &mut String, (at, row): (usize, &Row<'_>), rows: &Rows<'_>, budget: &mut RowBudget) {
    let is_open = rows.list.len() <= 3 || row.grade() >= Grade::Refused || row.words.is_some();
    let _ = writeln!(
        out,
        "<details id=\"i{at}\"{}{}>\n<summary><h2><code>{}</code></h2> <span class=\"v {}\">{}</span></summary>\n<div class=\"in\">",
        if row.grade() >= Grade::Refused { " class=\"bad\"" } else { "" },
        if is_open { " open" } else { "" },
        escaped(&row.title()),
        class(row.grade()),
        row.outcome.word()
    );
    if let Some(error) = row.error {
        let _ = writeln!(out, "<pre>{}</pre>", escaped_lines(&error.to_string()));
    }
    if let Some(words) = &row.words {
        platform::sides(out, &words.before, words.after.as_deref());
    }
    let loud = |it: &&RowFinding<'_>| it.finding.level == Level::Refuse;
    let (refusals, mut others): (Vec<_>, Vec<_>) = row.findings.iter().partition(loud);
    others.sort_by_key(|it| it.finding.level == Level::Note);
    findings(out, row, &refusals);
    facts(out, row);
    candidates(out, row.candidates);
    findings(out, row, &others);
    for it in row.report.iter().flat_map(|report| report.platforms.iter().map(move |it| (*report, it))) {
        platform::reported(out, it, budget);
    }
    row.inspected.iter().for_each(|it| platform::inspected(out, it, budget));
    out.push_str("</div>\n</details>\n");
}

fn findings(out: &mut String, row: &Row<'_>, findings: &[&RowFinding<'_>]) {
    for it in findings {
        let finding = &it.finding;
        let place = it.at.map_or_else(|| escaped(it.platform), |at| format!("line {}", at.line));
        let _ = writeln!(
            out,
            "<div class=\"f {0}\">\n<p><b class=\"level\">{0}</b> <a href=\"#rule-{1}\" title=\"{4}\"><code>{1}</code></a> <span class=\"dim\">{2}</span><br>{3}</p>",
            finding.level.word(),
            finding.rule,
            place,
            escaped(&finding.message),
            escaped(finding.rule.row().means)
        );
        // The words before and after are shown beside each other.
        let is_shown = row.words.is_some() && finding.rule == Rule::ShellForm;
        if !finding.evidence.is_empty() && !is_shown {
            let _ = writeln!(out, "<pre>{}</pre>", escaped_lines(&finding.evidence));
        }
        if !finding.fix.is_empty() {
            let _ = writeln!(out, "<p class=\"dim\">Fix: {}</p>", escaped(&finding.fix));
        }
        out.push_str("</div>\n");
    }
}

/// Each rule that the page names, explained once: the page may be read where there is no manual.
fn explanations(out: &mut String, rows: &Rows<'_>) {
    let rules = rows.rules();
    if rules.is_empty() {
        return;
    }
    out.push_str("<h2>Rules</h2>\n<p class=\"dim\"><code>underpin explain RULE</code> prints the same.</p>\n");
    for rule in rules {
        let row = rule.row();
        let _ = writeln!(
            out,
            "<div class=\"f\" id=\"rule-{rule}\">\n<p><code>{rule}</code><br>{}</p>\n<p>{}</p>\n<pre>{}</pre>\n<p class=\"dim\">Fix: {}</p>\n</div>",
            escaped(row.means),
            escaped(row.why),
            escaped_lines(row.example),
            escaped(rule.fix())
        );
    }
}

/// From where to where, and what else there is to know of it.
fn facts(out: &mut String, row: &Row<'_>) {
    let mut facts: Vec<(&str, String)> = row.report.map(moved).unwrap_or_default();
    facts.extend(row.facts.iter().map(|(name, value)| (*name, format!("<code>{}</code>", escaped(value)))));
    if facts.is_empty() {
        return;
    }
    out.push_str("<table class=\"facts\">\n<tbody>\n");
    for (name, value) in facts {
        let _ = writeln!(out, "<tr><th>{name}</th><td>{value}</td></tr>");
    }
    out.push_str("</tbody>\n</table>\n");
}

fn moved(report: &Report) -> Vec<(&'static str, String)> {
    let named = |reference: &str, digest: &str| format!("<code>{}@{}</code>", escaped(reference), escaped(digest));
    let inputs = [("Source", &report.source), ("New base", &report.base)];
    let inputs = inputs.into_iter().map(|(name, it)| (name, named(&it.reference, &it.digest)));
    let targets = report.targets.iter().map(|target| ("Target", named(&target.reference, &target.digest)));
    inputs.chain(targets).collect()
}

/// The bases that were tried, with what excluded each.
fn candidates(out: &mut String, bases: &[ReportedBase]) {
    if bases.is_empty() {
        return;
    }
    out.push_str(
        "<table class=\"list\">\n<thead><tr><th>Base</th><th>Fits</th><th>Excluded by</th></tr></thead>\n<tbody>\n",
    );
    for base in bases {
        let reasons: Vec<String> = base.excluded_by.iter().map(|exclusion| escaped(&exclusion.line())).collect();
        let _ = writeln!(
            out,
            "<tr><td><code>{}</code></td><td>{}</td><td>{}</td></tr>",
            escaped(&base.reference),
            escaped(&base.verdict_words()),
            reasons.join("<br>")
        );
    }
    out.push_str("</tbody>\n</table>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn savings_and_names_are_short() {
        assert_eq!(change(1000, 30), "−97 %");
        assert_eq!((change(10, 10), change(10, 25), change(0, 5)), ("±0 %".into(), "+150 %".into(), "+500 %".into()));
        assert_eq!(short("gcr.io/distroless/static:nonroot@sha256:00"), "static:nonroot");
        assert_eq!(
            (short("oci:bases:debian"), short("docker.io/library/debian:12")),
            ("oci:bases:debian", "debian:12")
        );
    }
}
