//! One platform of an image: its layers to scale and with their files, its command, its packages, its start.

use std::fmt::Write as _;

use bytesize::ByteSize;

use super::escape::{escaped, escaped_lines};
use super::tree::{self, RowBudget};
use crate::plan::Fate;
use crate::report::inspection::{InspectionPlatform, LayerOrigin};
use crate::report::model::{
    Outcome, PackageWords, Report, ReportedLayer, ReportedPackage, ReportedPackages, ReportedPlatform,
};
use crate::report::text::brought_line;

/// What is shown of a platform: of one that is refused there is no "after".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Whole,
    /// It would move, and has not been assembled.
    Planned,
    SourceOnly,
}

pub(super) fn reported(out: &mut String, (report, platform): (&Report, &ReportedPlatform), budget: &mut RowBudget) {
    if platform.old_base.is_none() {
        return;
    }
    let shown = match (report.outcome, &platform.digest) {
        (Outcome::Refused, _) => Shown::SourceOnly,
        (_, Some(_)) => Shown::Whole,
        (_, None) => Shown::Planned,
    };
    let _ = writeln!(out, "<h3>{}</h3>", escaped(&platform.platform));
    bars(out, platform, shown);
    commands(out, platform, shown);
    started(out, platform);
    for layer in platform.layers.iter().filter(|layer| shown != Shown::SourceOnly || is_of_source(layer.fate)) {
        layer_row(out, (layer, shown), budget);
    }
    if let Some(it) = platform.packages.as_ref().filter(|_| shown != Shown::SourceOnly) {
        packages(out, it);
    }
}

const fn is_of_source(fate: Fate) -> bool {
    !matches!(fate, Fate::Base | Fate::Added)
}

/// A layer as it is in one of the two images.
struct BarSegment {
    class: &'static str,
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
        let title = format!("{}, {}: {}", layer.fate.word(), ByteSize(size), layer.why);
        Self { class: layer.fate.word(), size, title }
    }
}

fn total(segments: &[BarSegment]) -> u64 {
    segments.iter().fold(0, |sum, segment| sum.saturating_add(segment.size))
}

/// Both images on one scale: the wider one takes the whole width.
fn bars(out: &mut String, platform: &ReportedPlatform, shown: Shown) {
    let before: Vec<BarSegment> = platform.layers.iter().filter_map(BarSegment::before).collect();
    let after: Vec<BarSegment> = platform.layers.iter().filter_map(BarSegment::after).collect();
    let whole = total(&before).max(total(&after));
    bar(out, "Before", &before, if shown == Shown::Whole { whole } else { total(&before) });
    if shown == Shown::Whole {
        bar(out, "After", &after, whole);
    }
    let meanings = [
        (Fate::Stripped, "of the old base", "stripped: of the old base"),
        (Fate::Kept, "of the application", "kept: of the application, byte for byte"),
        (Fate::Filtered, "of the application, with packages", "filtered: of the application, without packages"),
        (Fate::Dropped, "without anything of the application", "dropped: nothing of the application in it"),
        (Fate::Base, "", "base: of the new base"),
        (Fate::Added, "", "added: what the application needs"),
    ];
    let is_there = |fate: Fate| platform.layers.iter().any(|layer| layer.fate == fate);
    out.push_str("<ul class=\"legend\">");
    for (fate, alone, meaning) in meanings.into_iter().filter(|(fate, ..)| is_there(*fate)) {
        let meaning = if shown == Shown::SourceOnly { alone } else { meaning };
        if !meaning.is_empty() {
            let _ = write!(out, "<li><span class=\"sw {}\"></span>{meaning}</li>", fate.word());
        }
    }
    out.push_str("</ul>\n");
}

fn bar(out: &mut String, name: &str, segments: &[BarSegment], whole: u64) {
    let _ = write!(out, "<div class=\"row\"><b>{name}</b><div class=\"bar\">");
    for segment in segments {
        let width = u128::from(segment.size) * 1000 / u128::from(whole.max(1));
        let _ = write!(
            out,
            "<span class=\"{}\" style=\"width:{}.{}%\" title=\"{}\"></span>",
            segment.class,
            width / 10,
            width % 10,
            escaped(&segment.title)
        );
    }
    let _ = writeln!(out, "</div><span class=\"n\">{}</span></div>", ByteSize(total(segments)));
}

/// The words as a JSON list, as a config has them.
fn words(of: &[String]) -> String {
    let words: Vec<String> = of.iter().map(|word| escaped(&format!("{word:?}"))).collect();
    if words.is_empty() { "none".to_owned() } else { format!("[{}]", words.join(", ")) }
}

/// A command before and after, side by side; one where it stays as it is, or will not be.
pub(super) fn sides(out: &mut String, before: &[String], after: Option<&[String]>) {
    match after.filter(|after| *after != before) {
        None => {
            let _ =
                writeln!(out, "<div class=\"sides one\"><div><h4>Command</h4><pre>{}</pre></div></div>", words(before));
        }
        Some(after) => {
            let _ = writeln!(
                out,
                "<div class=\"sides\"><div><h4>Command before</h4><pre>{}</pre></div><div><h4>Command after</h4><pre>{}</pre></div></div>",
                words(before),
                words(after)
            );
        }
    }
}

fn commands(out: &mut String, platform: &ReportedPlatform, shown: Shown) {
    let before = [platform.entrypoint.before.as_slice(), &platform.cmd.before].concat();
    let after = [platform.entrypoint.after.as_slice(), &platform.cmd.after].concat();
    sides(out, &before, Some(after.as_slice()).filter(|_| shown != Shown::SourceOnly));
    if platform.binaries.is_empty() && platform.brought.is_empty() {
        return;
    }
    out.push_str("<table class=\"facts\">\n<tbody>\n");
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

fn layer_start(out: &mut String, line: &str) {
    let _ = writeln!(out, "<details class=\"layer\">\n<summary>{line}</summary>\n<div class=\"in\">");
}

const LAYER_END: &str = "</div>\n</details>\n";

/// A layer in one line, which opens where there is more to see of it.
fn layer_row(out: &mut String, (layer, shown): (&ReportedLayer, Shown), budget: &mut RowBudget) {
    let hex = layer.digest.strip_prefix("sha256:").unwrap_or(&layer.digest);
    let short = hex.get(..12).unwrap_or(hex);
    let size = if layer.digest.is_empty() { String::new() } else { ByteSize(layer.size).to_string() };
    // What is not done to it is not said.
    let word = match (shown, layer.fate) {
        (Shown::SourceOnly, Fate::Stripped) => LayerOrigin::OldBase.word(),
        (Shown::SourceOnly, _) => LayerOrigin::Application.word(),
        (_, fate) => fate.word(),
    };
    let line = format!(
        "<span class=\"sw {}\"></span><b>{word}</b><span class=\"size n\">{size}</span><code class=\"dim\">{}</code> {}",
        layer.fate.word(),
        escaped(short),
        escaped(&layer.why)
    );
    if layer.files.is_none() && layer.leaves.is_empty() {
        let _ = writeln!(out, "<div class=\"layer\">{line}</div>");
        return;
    }
    layer_start(out, &line);
    if !layer.leaves.is_empty() {
        let word = if shown == Shown::SourceOnly { "Would leave" } else { "Leaves" };
        let _ = writeln!(out, "<h4>{word}</h4>\n<ul class=\"pk\">");
        for leaves in &layer.leaves {
            let _ = writeln!(out, "<li>{} <i>{}</i></li>", escaped(&leaves.what), ByteSize(leaves.amount.bytes));
        }
        out.push_str("</ul>\n");
    }
    if let Some(files) = &layer.files {
        out.push_str("<h4>Files</h4>\n");
        tree::files(out, files, budget);
    }
    out.push_str(LAYER_END);
}

/// The packages, folded: a system has hundreds.
fn packages(out: &mut String, packages: &ReportedPackages) {
    let _ = writeln!(
        out,
        "<details>\n<summary>Packages: {}</summary>\n<div class=\"in\">\n<div class=\"sides\">",
        escaped(&packages.summary(PackageWords::of(Outcome::Rebased)))
    );
    let list = |out: &mut String, name: &str, list: &[ReportedPackage]| {
        let _ = writeln!(out, "<div><h4>{name}: {}</h4>\n<ul class=\"pk\">", list.len());
        for it in list {
            let _ = writeln!(out, "<li>{} <i>{}</i></li>", escaped(&it.name), escaped(&it.version));
        }
        out.push_str("</ul></div>\n");
    };
    list(out, "Left", &packages.left);
    list(out, "Arrived", &packages.arrived);
    out.push_str("</div>\n");
    if !packages.changed.is_empty() {
        out.push_str("<h4>Changed</h4>\n<ul class=\"pk\">\n");
        for it in &packages.changed {
            let (name, before, after) = (escaped(&it.name), escaped(&it.before), escaped(&it.after));
            let _ = writeln!(out, "<li>{name} <i>{before} → {after}</i></li>");
        }
        out.push_str("</ul>\n");
    }
    if !packages.stayed.is_empty() {
        list(out, "Stayed", &packages.stayed);
    }
    out.push_str("</div>\n</details>\n");
}

/// What `inspect` shows: one image, with nothing to come.
pub(super) fn inspected(out: &mut String, platform: &InspectionPlatform, budget: &mut RowBudget) {
    let _ = writeln!(out, "<h3>{}</h3>", escaped(&platform.platform));
    let class = |origin: LayerOrigin| match origin {
        LayerOrigin::OldBase => Fate::Stripped.word(),
        LayerOrigin::Application => Fate::Kept.word(),
    };
    let made_by = |by: &Option<String>| by.as_deref().unwrap_or_default().to_owned();
    let segments: Vec<BarSegment> = platform
        .layers
        .iter()
        .map(|layer| {
            let title = format!("{}, {}: {}", layer.origin.word(), ByteSize(layer.size), made_by(&layer.created_by));
            BarSegment { class: class(layer.origin), size: layer.size, title }
        })
        .collect();
    bar(out, "Layers", &segments, total(&segments));
    out.push_str("<ul class=\"legend\"><li><span class=\"sw stripped\"></span>of the base</li><li><span class=\"sw kept\"></span>of the application</li></ul>\n");
    sides(out, &[platform.entrypoint.as_slice(), &platform.cmd].concat(), None);
    for layer in &platform.layers {
        let hex = layer.digest.strip_prefix("sha256:").unwrap_or(&layer.digest);
        let line = format!(
            "<span class=\"sw {}\"></span><b>{}</b><span class=\"size n\">{}</span><code class=\"dim\">{}</code> <code>{}</code>",
            class(layer.origin),
            layer.origin.word(),
            ByteSize(layer.size),
            escaped(hex.get(..12).unwrap_or(hex)),
            escaped(&made_by(&layer.created_by))
        );
        match &layer.files {
            Some(files) => {
                layer_start(out, &line);
                tree::files(out, files, budget);
                out.push_str(LAYER_END);
            }
            None => {
                let _ = writeln!(out, "<div class=\"layer\">{line}</div>");
            }
        }
    }
}
