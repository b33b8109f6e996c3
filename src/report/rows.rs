//! One row for each thing that a command judged: what the formats for people and for CI systems are made from.

use std::borrow::Cow;

use super::model::{Report, ReportedFinding};
use super::text::old_base_line;
use crate::error::Error;
use crate::kube::Position;

/// A report that can be written in every format.
pub trait Reportable {
    /// Lines for people.
    fn text(&self) -> String;
    /// One JSON document, or one a line.
    fn json(&self) -> String;
    fn rows(&self) -> Rows<'_>;
}

#[derive(Debug)]
pub struct Rows<'a> {
    pub command: &'static str,
    /// What a row is about: `image`, `file`, `command`.
    pub thing: &'static str,
    pub list: Vec<Row<'a>>,
}

/// One thing that was judged.
#[derive(Debug)]
pub struct Row<'a> {
    /// The text file that it is a part of. Images and whole files are part of none.
    pub file: Option<&'a str>,
    pub name: Cow<'a, str>,
    /// One of [`OUTCOMES`].
    pub outcome: &'a str,
    pub findings: Vec<RowFinding<'a>>,
    /// What it stands on, each base once.
    pub bases: Vec<String>,
    pub before: Option<u64>,
    /// Nothing where it stays as it is.
    pub after: Option<u64>,
    pub report: Option<&'a Report>,
    pub error: Option<&'a Error>,
}

/// The words for what became of a thing, from good to bad.
pub(super) const OUTCOMES: [&str; 13] = [
    "rebased",
    "translated",
    "changed",
    "unchanged",
    "planned",
    "passed",
    "verified",
    "inspected",
    "kept",
    "to-change",
    "excepted",
    "refused",
    "failed",
];

#[derive(Debug, Clone)]
pub struct RowFinding<'a> {
    /// The platform that it is about; empty where there is none.
    pub platform: &'a str,
    /// Where in the text file.
    pub at: Option<Position>,
    pub finding: Cow<'a, ReportedFinding>,
}

impl<'a> RowFinding<'a> {
    /// Of a thing without platforms.
    #[must_use]
    pub const fn plain(finding: ReportedFinding, at: Option<Position>) -> Self {
        Self { platform: "", at, finding: Cow::Owned(finding) }
    }

    /// As it stands in a report.
    #[must_use]
    pub const fn on(platform: &'a str, finding: &'a ReportedFinding) -> Self {
        Self { platform, at: None, finding: Cow::Borrowed(finding) }
    }
}

impl<'a> Row<'a> {
    #[must_use]
    pub fn new(name: impl Into<Cow<'a, str>>, outcome: &'a str) -> Self {
        Self {
            file: None,
            name: name.into(),
            outcome,
            findings: Vec::new(),
            bases: Vec::new(),
            before: None,
            after: None,
            report: None,
            error: None,
        }
    }

    /// The row of something that could not be looked at.
    #[must_use]
    pub fn failed(name: impl Into<Cow<'a, str>>, error: &'a Error) -> Self {
        Self { error: Some(error), ..Self::new(name, "failed") }
    }

    /// The row of one move.
    #[must_use]
    pub fn of(report: &'a Report) -> Self {
        let findings = report
            .platforms
            .iter()
            .flat_map(|platform| platform.findings.iter().map(|it| RowFinding::on(&platform.platform, it)));
        let (before, after) = report.sizes();
        Self {
            findings: findings.collect(),
            bases: bases(report),
            before: Some(before),
            after: Some(after).filter(|_| report.moves()),
            report: Some(report),
            ..Self::new(&report.source.reference, report.outcome.word())
        }
    }

    /// Whether it is as it should be, is excused, or is not.
    pub(super) fn grade(&self) -> Grade {
        match self.outcome {
            "failed" => Grade::Failed,
            "refused" | "to-change" => Grade::Refused,
            "excepted" => Grade::Excepted,
            _ => Grade::Good,
        }
    }

    /// The findings that refuse.
    pub(super) fn refusals(&self) -> impl Iterator<Item = &RowFinding<'a>> {
        self.findings.iter().filter(|it| it.finding.level == "refuse")
    }

    /// The rules that have more than a note to say, each once.
    pub(super) fn rules(&self) -> Vec<&'static str> {
        let loud = self.findings.iter().filter(|it| it.finding.level != "note");
        let mut rules: Vec<&str> = loud.map(|it| it.finding.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }

    /// Name, and the file that it is a part of.
    pub(super) fn title(&self) -> Cow<'_, str> {
        match self.file {
            Some(file) => Cow::Owned(format!("{file}: {}", self.name)),
            None => Cow::Borrowed(&self.name),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grade {
    Good,
    Excepted,
    Refused,
    Failed,
}

impl Rows<'_> {
    /// `3 images: 2 rebased, 1 refused`
    pub(super) fn summary(&self) -> String {
        let count = |word: &str| self.list.iter().filter(|row| row.outcome == word).count();
        let counts = OUTCOMES.iter().map(|word| (count(word), word)).filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
        let plural = if self.list.len() == 1 { "" } else { "s" };
        format!("{} {}{plural}: {}", self.list.len(), self.thing, counts.join(", "))
    }
}

fn bases(report: &Report) -> Vec<String> {
    let mut bases: Vec<String> =
        report.platforms.iter().filter_map(|platform| platform.old_base.as_ref()).map(old_base_line).collect();
    bases.dedup();
    bases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_counts_every_outcome_there_is() {
        let list = OUTCOMES.iter().map(|word| Row::new("x", word)).collect();
        let rows = Rows { command: "batch", thing: "image", list };
        assert!(OUTCOMES.iter().all(|word| rows.summary().contains(&format!("1 {word}"))), "{}", rows.summary());
        assert_eq!(Rows { list: Vec::new(), ..rows }.summary(), "0 images: ");
    }
}
