//! The report as text, without colours.

use std::collections::HashSet;
use std::fmt::Write as _;

use bytesize::ByteSize;

use super::candidates::base_lines;
use super::model::{
    Amount, Outcome, PackageWords, Report, ReportedBrought, ReportedFinding, ReportedLayer, ReportedOldBase,
    ReportedPackage, ReportedPackages, ReportedPlatform, TargetChange,
};
use super::rules::explain_hint;
use super::started::StartedPair;
use crate::plan::Fate;
use crate::rules::Level;
use oci::error::printable;

/// How much of the report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// What changed.
    Short,
    /// Every layer with its reason.
    Full,
}

/// The report as lines of text, each ending in a line feed.
#[must_use]
pub fn to_text(report: &Report, detail: Detail) -> String {
    let mut out = String::new();
    line(&mut out, format_args!("source    {}", pinned(&report.source.reference, &report.source.digest)));
    line(&mut out, format_args!("new base  {}", pinned(&report.base.reference, &report.base.digest)));
    base_lines(&mut out, "candidate", &report.candidates);
    for platform in &report.platforms {
        out.push('\n');
        platform_lines(&mut out, platform, (detail, PackageWords::of(report.outcome)));
    }
    out.push('\n');
    ending_lines(&mut out, report);
    out
}

/// What a move that was made in silence still has to say: what was lost by it.
#[must_use]
pub fn losses_to_text(report: &Report) -> String {
    let mut out = String::new();
    for platform in &report.platforms {
        let is_loss = |finding: &&ReportedFinding| finding.level == Level::Warn && finding.rule.is_about_loss();
        for finding in platform.findings.iter().filter(is_loss) {
            let text = format!("{} ({}: {})", finding.message, finding.rule, finding.evidence);
            line(&mut out, format_args!("warning: {}: {}", platform.platform, printable(&text)));
        }
    }
    out
}

fn platform_lines(out: &mut String, platform: &ReportedPlatform, (detail, words): (Detail, PackageWords)) {
    line(out, format_args!("{}", platform.platform));
    if let Some(old) = &platform.old_base {
        line(out, format_args!("  old base  {}", old_base_line(old)));
    }
    match detail {
        Detail::Full => platform.layers.iter().for_each(|layer| layer_line(out, layer)),
        Detail::Short => summary_line(out, &platform.layers),
    }
    command_lines(out, platform);
    for binary in &platform.binaries {
        let kind = [binary.linkage.word(), &binary.machine].join(" ");
        line(out, format_args!("  program   {} ({})", printable(&binary.path), kind.trim_end()));
    }
    for brought in &platform.brought {
        line(out, format_args!("  brought   {}", brought_line(brought)));
    }
    if let Some(packages) = &platform.packages {
        package_lines(out, (packages, words), (&platform.layers, detail));
    }
    if platform.old_base.is_some() {
        let before = ByteSize(platform.size.before);
        // A refused image has no size after the move.
        match &platform.digest {
            Some(_) => line(out, format_args!("  size      {before} → {}", ByteSize(platform.size.after))),
            None => line(out, format_args!("  size      {before}")),
        }
    }
    for start in platform.started.iter().flat_map(StartedPair::lines) {
        line(out, format_args!("  start     {}", printable(&start)));
    }
    for said in platform.started.iter().filter(|_| detail == Detail::Full).flat_map(StartedPair::differing_lines) {
        line(out, format_args!("            {}", printable(&said)));
    }
    for finding in &platform.findings {
        finding_lines(out, finding);
    }
}

/// How many packages left, arrived, changed and stayed; of those that left as many names as a line holds, in full
/// all of them.
fn package_lines(
    out: &mut String,
    (packages, words): (&ReportedPackages, PackageWords),
    (layers, detail): (&[ReportedLayer], Detail),
) {
    if detail == Detail::Short {
        let names = left_names(packages, layers);
        return line(out, format_args!("  packages  {}", packages.summary_with(words, &names)));
    }
    line(out, format_args!("  packages  {}", packages.summary(words)));
    packages.lines().for_each(|(mark, text)| line(out, format_args!("            {mark} {}", printable(&text))));
}

/// As long as a line of names may be.
const NAMES: usize = 46;

/// `: curl, tini, …`. What the image had installed itself comes first: somebody chose it.
fn left_names(packages: &ReportedPackages, layers: &[ReportedLayer]) -> String {
    let own: HashSet<&str> = layers.iter().flat_map(|layer| &layer.leaves).map(|leaves| leaves.what.as_str()).collect();
    let is_own = |it: &&ReportedPackage| own.contains(format!("package {} {}", it.name, it.version).as_str());
    let (chosen, others): (Vec<_>, Vec<_>) = packages.left.iter().partition(is_own);
    let mut text = String::new();
    for it in chosen.into_iter().chain(others) {
        let name = printable(&it.name);
        if !text.is_empty() && text.chars().count() + name.chars().count() > NAMES {
            text.push_str(", …");
            break;
        }
        let separator = if text.is_empty() { ": " } else { ", " };
        let _ = write!(text, "{separator}{name}");
    }
    text
}

/// `package iptables 1.8.9-2 (126 entries, 2.3 MiB), with libxtables12`
pub(super) fn brought_line(brought: &ReportedBrought) -> String {
    let Amount { entries: count, bytes } = brought.amount;
    let with = if brought.with.is_empty() { String::new() } else { format!(", with {}", brought.with.join(", ")) };
    printable(&format!("{} ({}, {}){with}", brought.line, entries(count), ByteSize(bytes)))
}

/// The old base with just enough of its digest; the whole of it is in the JSON report.
pub(super) fn old_base_line(old: &ReportedOldBase) -> String {
    let name = match (&old.reference, old.layers) {
        (Some(reference), _) => shortened(reference),
        (None, 0) => "none".to_owned(),
        (None, _) => "unnamed".to_owned(),
    };
    format!("{} ({}, by {}, {})", printable(&name), plural(old.layers, "layer"), old.how.word(), old.sure.word())
}

fn shortened(pinned: &str) -> String {
    match pinned.split_once("@sha256:") {
        Some((name, hex)) => format!("{name}@sha256:{}…", hex.get(..12).unwrap_or(hex)),
        None => pinned.to_owned(),
    }
}

fn layer_line(out: &mut String, layer: &ReportedLayer) {
    let mark = match layer.fate {
        Fate::Stripped | Fate::Dropped => '-',
        Fate::Base | Fate::Added => '+',
        Fate::Kept | Fate::Filtered => '=',
    };
    let short = layer.digest.get(7..19).unwrap_or(&layer.digest);
    let size = ByteSize(layer.size).to_string();
    line(out, format_args!("  {mark} {:8}  {short}  {size:>10}  {}", layer.fate.word(), printable(&layer.why)));
    leaving_lines(out, layer);
}

/// What is removed from a filtered layer and what stays: packages by name, the rest by kind.
fn leaving_lines(out: &mut String, layer: &ReportedLayer) {
    let Some(stays) = layer.stays else { return };
    let packages = layer.leaves.iter().filter(|leaves| leaves.is_package).count();
    let leaving: u64 = layer.leaves.iter().map(|leaves| leaves.amount.bytes).sum();
    let (before, after) = (ByteSize(leaving.saturating_add(stays.bytes)), ByteSize(stays.bytes));
    line(out, format_args!("               {}, {before} → {after}", plural(packages, "package")));
    for leaves in &layer.leaves {
        let size = ByteSize(leaves.amount.bytes).to_string();
        line(
            out,
            format_args!("               - {} ({}, {size})", printable(&leaves.what), entries(leaves.amount.entries)),
        );
    }
    if stays.entries > 0 {
        line(out, format_args!("               = application ({}, {after})", entries(stays.entries)));
    }
}

fn entries(count: usize) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") }
}

fn summary_line(out: &mut String, layers: &[ReportedLayer]) {
    let count = |fate: Fate| layers.iter().filter(|layer| layer.fate == fate).count();
    let (stripped, base, kept) = (count(Fate::Stripped), count(Fate::Base), count(Fate::Kept));
    let mut text = format!("{stripped} stripped, {base} from the new base, {kept} kept");
    for fate in [Fate::Filtered, Fate::Dropped, Fate::Added] {
        if count(fate) > 0 {
            let _ = write!(text, ", {} {}", count(fate), fate.word());
        }
    }
    line(out, format_args!("  layers    {text}"));
}

fn command_lines(out: &mut String, platform: &ReportedPlatform) {
    let before: Vec<&String> = platform.entrypoint.before.iter().chain(&platform.cmd.before).collect();
    let after: Vec<&String> = platform.entrypoint.after.iter().chain(&platform.cmd.after).collect();
    if platform.old_base.is_none() {
        return;
    }
    if before == after {
        line(out, format_args!("  command   {}", words(&before)));
    } else {
        line(out, format_args!("  command   {}", words(&before)));
        line(out, format_args!("       now  {}", words(&after)));
    }
}

pub(super) fn finding_lines(out: &mut String, finding: &ReportedFinding) {
    line(out, format_args!("  {} [{}] {}", finding.level.word(), finding.rule, printable(&finding.message)));
    for evidence in evidence_lines(&finding.evidence) {
        line(out, format_args!("         {}", printable(evidence)));
    }
    if !finding.fix.is_empty() {
        line(out, format_args!("         fix: {}", printable(&finding.fix)));
    }
}

/// A mark under a construct has a line of its own. Any other line break may come from an image and is
/// escaped.
fn evidence_lines(evidence: &str) -> impl Iterator<Item = &str> {
    let is_mark = |line: &str| line.ends_with('^') && line.trim_start_matches(' ').bytes().all(|byte| byte == b'^');
    let (text, mark) = match evidence.rsplit_once('\n') {
        Some((text, mark)) if is_mark(mark) => (text, Some(mark)),
        _ => (evidence, None),
    };
    std::iter::once(text).filter(|text| !text.is_empty()).chain(mark)
}

fn ending_lines(out: &mut String, report: &Report) {
    if report.outcome == Outcome::Refused {
        let to = match report.candidates.len() {
            0 => "the new base".to_owned(),
            count => format!("any of {}; the findings are for the one with the fewest", plural(count, "candidate")),
        };
        line(out, format_args!("refused: {} cannot move to {to}", printable(&report.source.reference)));
        line(out, format_args!("hint: fix each `refuse` above, then run again"));
        let findings = report.platforms.iter().flat_map(|platform| &platform.findings);
        let refused = findings.filter(|finding| finding.level == Level::Refuse).map(|finding| finding.rule);
        out.push_str(&explain_hint(refused));
        return;
    }
    if let Some(digest) = report.digest.as_ref().filter(|_| report.targets.is_empty()) {
        line(out, format_args!("would be  {digest}"));
    }
    for target in &report.targets {
        let word = match (target.change, report.outcome) {
            (TargetChange::Planned, _) => "would be",
            (TargetChange::AlreadyThere, _) => "up to date",
            (TargetChange::Written, Outcome::Unchanged) => "copied",
            (TargetChange::Written, _) => "rebased",
        };
        line(out, format_args!("{word}  {}  {}", printable(&target.reference), target.digest));
    }
    for attestation in &report.attestations {
        let word = if attestation.change == TargetChange::Written { "attached " } else { "attached before" };
        let subject = shortened(&format!("@{}", attestation.subject));
        line(
            out,
            format_args!(
                "{word}  {} about {}",
                printable(&attestation.predicate_type),
                subject.trim_start_matches('@')
            ),
        );
    }
    let Some(traffic) = &report.traffic else { return };
    let (down, up) = (ByteSize(traffic.bytes_down), ByteSize(traffic.bytes_up));
    let requests = plural(usize::try_from(traffic.requests).unwrap_or(usize::MAX), "request");
    line(
        out,
        format_args!(
            "traffic   {requests}, {down} down, {up} up, {} mounted, {} already there",
            traffic.mounted, traffic.already_there
        ),
    );
}

/// Words as one would type them in a shell: quoted where they would otherwise be split.
fn words(words: &[&String]) -> String {
    let mut text = String::new();
    for word in words {
        let plain = !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_./=:,@%+".contains(c));
        let separator = if text.is_empty() { "" } else { " " };
        let _ = if plain { write!(text, "{separator}{word}") } else { write!(text, "{separator}{word:?}") };
    }
    if text.is_empty() { "none".to_owned() } else { printable(&text) }
}

fn pinned(reference: &str, digest: &str) -> String {
    format!("{}@{digest}", printable(reference))
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn line(out: &mut String, line: std::fmt::Arguments<'_>) {
    let _ = writeln!(out, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_under_what_it_marks_and_an_image_adds_no_lines() {
        for (evidence, expected) in [
            ("", vec![]),
            ("a | b\n  ^", vec!["a | b", "  ^"]),
            ("a\nb\n ^^", vec!["a\nb", " ^^"]),
            ("a\n  refuse [x] forged", vec!["a\n  refuse [x] forged"]),
            ("a\n", vec!["a\n"]),
            ("a\n  ^ b", vec!["a\n  ^ b"]),
        ] {
            assert_eq!(evidence_lines(evidence).collect::<Vec<_>>(), expected, "{evidence:?}");
        }
    }
}
