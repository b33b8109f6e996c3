//! The rows as one HTML page without network access or scripts: a table with verdicts, and for each
//! image its layers to scale, its command, and the findings with their evidence.

use std::fmt::Write as _;

use bytesize::ByteSize;

use super::candidates::ReportedBase;
use super::model::{Report, ReportedLayer, ReportedPlatform};
use super::rows::{Grade, Row, Rows};
use super::text::brought_line;
use crate::error::printable;
use crate::plan::Fate;

const STYLE: &str = include_str!("html.css");

#[must_use]
pub fn to_html(rows: &Rows<'_>) -> String {
    let mut out = String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    // Nothing in the page may be fetched or run, whatever text came from an image.
    out.push_str(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n",
    );
    let _ = writeln!(out, "<title>underpin {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>", rows.command);
    let _ = writeln!(out, "<h1>underpin {}</h1>\n<p class=\"sum\">{}</p>", rows.command, escaped(&rows.summary()));
    table(&mut out, rows);
    for (at, row) in rows.list.iter().enumerate() {
        section(&mut out, at, row, rows.list.len());
    }
    explanations(&mut out, rows);
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

/// The rows with their verdicts; the columns about images only where rows have them.
fn table(out: &mut String, rows: &Rows<'_>) {
    let of_images = rows.list.iter().any(|row| row.before.is_some() || !row.bases.is_empty());
    let more = if of_images { "<th>Old base</th><th class=\"n\">Before</th><th class=\"n\">After</th>" } else { "" };
    let thing = escaped(rows.thing);
    let _ = writeln!(
        out,
        "<table>\n<thead><tr><th class=\"thing\">{thing}</th><th>Verdict</th>{more}<th>Findings</th></tr></thead>\n<tbody>"
    );
    for (at, row) in rows.list.iter().enumerate() {
        let size = |bytes: Option<u64>| bytes.map(|bytes| ByteSize(bytes).to_string()).unwrap_or_default();
        let cell = |bytes: Option<u64>| format!("<td class=\"n\">{}</td>", size(bytes));
        let bases = format!("<td>{}</td>", escaped(&row.bases.join(", ")));
        let more = if of_images { [bases, cell(row.before), cell(row.after)].concat() } else { String::new() };
        let _ = writeln!(
            out,
            "<tr><td><a href=\"#i{at}\"><code>{}</code></a></td><td class=\"v {}\">{}</td>{more}<td>{}</td></tr>",
            escaped(&row.title()),
            class(row),
            row.outcome.word(),
            escaped(&row.rules().join(", "))
        );
    }
    out.push_str("</tbody>\n</table>\n");
}

/// What needs attention is open; of many images the good ones are folded.
fn section(out: &mut String, at: usize, row: &Row<'_>, of: usize) {
    let open = if of <= 3 || row.grade() >= Grade::Refused { " open" } else { "" };
    let _ = writeln!(
        out,
        "<details id=\"i{at}\"{open}>\n<summary><h2><code>{}</code></h2> <span class=\"v {}\">{}</span></summary>\n<div class=\"in\">",
        escaped(&row.title()),
        class(row),
        row.outcome.word()
    );
    if let Some(error) = row.error {
        let _ = writeln!(out, "<pre>{}</pre>", escaped_lines(&error.to_string()));
    }
    if let Some(report) = row.report {
        moved(out, report);
    }
    candidates(out, row.candidates);
    findings(out, row);
    for platform in row.report.iter().flat_map(|report| &report.platforms) {
        platform_section(out, platform);
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
            "<div class=\"f {0}\">\n<p><b>{0}</b> <a href=\"#rule-{1}\" title=\"{4}\"><code>{1}</code></a> <span class=\"dim\">{2}</span><br>{3}</p>",
            finding.level.word(),
            finding.rule,
            place,
            escaped(&finding.message),
            escaped(finding.rule.row().means)
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

/// From where to where.
fn moved(out: &mut String, report: &Report) {
    out.push_str("<table>\n<tbody>\n");
    let named = |reference: &str, digest: &str| format!("<code>{}@{}</code>", escaped(reference), escaped(digest));
    let _ =
        writeln!(out, "<tr><th>Source</th><td>{}</td></tr>", named(&report.source.reference, &report.source.digest));
    let _ = writeln!(out, "<tr><th>New base</th><td>{}</td></tr>", named(&report.base.reference, &report.base.digest));
    for target in &report.targets {
        let _ = writeln!(out, "<tr><th>Target</th><td>{}</td></tr>", named(&target.reference, &target.digest));
    }
    out.push_str("</tbody>\n</table>\n");
}

/// The bases that were tried, with what excluded each.
fn candidates(out: &mut String, bases: &[ReportedBase]) {
    if bases.is_empty() {
        return;
    }
    out.push_str("<table>\n<thead><tr><th>Base</th><th>Fits</th><th>Excluded by</th></tr></thead>\n<tbody>\n");
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

fn platform_section(out: &mut String, platform: &ReportedPlatform) {
    if platform.old_base.is_none() {
        return;
    }
    let _ = writeln!(out, "<h3>{}</h3>", escaped(&platform.platform));
    bars(out, platform);
    commands(out, platform);
    started(out, platform);
    layers(out, platform);
    packages(out, platform);
}

/// The packages, folded: a system has hundreds.
fn packages(out: &mut String, platform: &ReportedPlatform) {
    let Some(packages) = &platform.packages else { return };
    let _ = writeln!(
        out,
        "<details>\n<summary>Packages: {}</summary>\n<table>\n<thead><tr><th>Package</th><th>Before</th><th>After</th></tr></thead>\n<tbody>",
        escaped(&packages.summary())
    );
    let row = |out: &mut String, name: &str, before: &str, after: &str| {
        let (name, before, after) = (escaped(name), escaped(before), escaped(after));
        let _ = writeln!(out, "<tr><td><code>{name}</code></td><td>{before}</td><td>{after}</td></tr>");
    };
    packages.left.iter().for_each(|it| row(out, &it.name, &it.version, ""));
    packages.arrived.iter().for_each(|it| row(out, &it.name, "", &it.version));
    packages.changed.iter().for_each(|it| row(out, &it.name, &it.before, &it.after));
    packages.stayed.iter().for_each(|it| row(out, &it.name, &it.version, &it.version));
    out.push_str("</tbody>\n</table>\n</details>\n");
}

/// What `--start` showed.
fn started(out: &mut String, platform: &ReportedPlatform) {
    let Some(started) = &platform.started else { return };
    for line in started.lines() {
        let _ = writeln!(out, "<p>start: {}</p>", escaped(&line));
    }
    let differing = started.differing_lines();
    if !differing.is_empty() {
        let _ = writeln!(out, "<pre>{}</pre>", escaped_lines(&differing.join("\n")));
    }
}

/// A layer as it is in one of the two images.
struct BarSegment {
    fate: Fate,
    size: u64,
    title: String,
}

impl BarSegment {
    fn before(layer: &ReportedLayer) -> Option<Self> {
        match (layer.fate, &layer.source) {
            (Fate::Filtered, Some(source)) => Some(Self::new(layer, source.size)),
            (Fate::Stripped | Fate::Kept | Fate::Dropped, _) => Some(Self::new(layer, layer.size)),
            (Fate::Filtered, None) | (Fate::Base | Fate::Added, _) => None,
        }
    }

    fn after(layer: &ReportedLayer) -> Option<Self> {
        layer.fate.is_in_result().then(|| Self::new(layer, layer.size))
    }

    fn new(layer: &ReportedLayer, size: u64) -> Self {
        Self { fate: layer.fate, size, title: format!("{}, {}: {}", layer.fate.word(), ByteSize(size), layer.why) }
    }
}

/// Both images on one scale: the wider one takes the whole width.
fn bars(out: &mut String, platform: &ReportedPlatform) {
    let before: Vec<BarSegment> = platform.layers.iter().filter_map(BarSegment::before).collect();
    let after: Vec<BarSegment> = platform.layers.iter().filter_map(BarSegment::after).collect();
    let total = |segments: &[BarSegment]| segments.iter().fold(0_u64, |sum, segment| sum.saturating_add(segment.size));
    let whole = total(&before).max(total(&after)).max(1);
    // A refused image has no size after the move.
    let shown = [Some(("Before", &before)), platform.digest.is_some().then_some(("After", &after))];
    for (name, segments) in shown.into_iter().flatten() {
        let _ = write!(out, "<div class=\"row\"><b>{name}</b><div class=\"bar\">");
        for segment in segments {
            let width = per_mille(segment.size, whole);
            let _ = write!(
                out,
                "<span class=\"{}\" style=\"width:{}.{}%\" title=\"{}\">{}</span>",
                segment.fate.word(),
                width / 10,
                width % 10,
                escaped(&segment.title),
                // A word only where it fits.
                if width >= 70 { segment.fate.word() } else { "" }
            );
        }
        let _ = writeln!(out, "</div><span>{}</span></div>", ByteSize(total(segments)));
    }
}

fn per_mille(part: u64, whole: u64) -> u128 {
    u128::from(part) * 1000 / u128::from(whole.max(1))
}

fn commands(out: &mut String, platform: &ReportedPlatform) {
    let line = |entrypoint: &[String], cmd: &[String]| {
        let words: Vec<String> = entrypoint.iter().chain(cmd).map(|word| escaped(&format!("{word:?}"))).collect();
        if words.is_empty() { "none".to_owned() } else { format!("[{}]", words.join(", ")) }
    };
    let before = line(&platform.entrypoint.before, &platform.cmd.before);
    let after = line(&platform.entrypoint.after, &platform.cmd.after);
    out.push_str("<table>\n<tbody>\n");
    if before == after {
        let _ = writeln!(out, "<tr><th>Command</th><td><code>{before}</code></td></tr>");
    } else {
        let _ = writeln!(out, "<tr><th>Command before</th><td><code>{before}</code></td></tr>");
        let _ = writeln!(out, "<tr><th>Command after</th><td><code>{after}</code></td></tr>");
    }
    for binary in &platform.binaries {
        let (path, machine) = (escaped(&binary.path), escaped(&binary.machine));
        let _ =
            writeln!(out, "<tr><th>Program</th><td><code>{path}</code> {} {machine}</td></tr>", binary.linkage.word());
    }
    for brought in &platform.brought {
        let _ = writeln!(out, "<tr><th>Brought</th><td>{}</td></tr>", escaped(&brought_line(brought)));
    }
    out.push_str("</tbody>\n</table>\n");
}

fn layers(out: &mut String, platform: &ReportedPlatform) {
    out.push_str(
        "<table>\n<thead><tr><th>Layer</th><th>Fate</th><th class=\"n\">Size</th><th>Why</th></tr></thead>\n<tbody>\n",
    );
    for layer in &platform.layers {
        let short = layer.digest.get(..19).unwrap_or(&layer.digest);
        let _ = writeln!(
            out,
            "<tr><td><code>{}</code></td><td>{}</td><td class=\"n\">{}</td><td>{}</td></tr>",
            escaped(short),
            layer.fate.word(),
            ByteSize(layer.size),
            escaped(&layer.why)
        );
    }
    out.push_str("</tbody>\n</table>\n");
}

/// `text` for the inside of an element or a quoted attribute: text from an image stays text. Control
/// characters are shown as escapes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Two code points that are not characters.
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// The same with the line feeds that we set ourselves, as in the caret below a command.
fn escaped_lines(text: &str) -> String {
    text.split('\n').map(escaped).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_of_an_image_becomes_markup() {
        assert_eq!(escaped("<a href=\"x\">'&'"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;");
        assert_eq!(escaped("a\u{0}\u{1b}[m\nb\u{ffff}"), "a\\u{0}\\u{1b}[m\\nb\u{fffd}");
        assert_eq!(escaped_lines("a<\n^"), "a&lt;\n^");
    }
}
