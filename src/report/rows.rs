//! One row for each thing that a command judged: what the formats for people and for CI systems are made from.

use std::borrow::Cow;

use super::candidates::ReportedBase;
use super::inspection::InspectionPlatform;
use super::model::{Report, ReportedFinding};
use super::text::old_base_line;
use crate::kube::Position;
use crate::rules::{Level, Rule};
use oci::error::{Error, redacted};

/// A report that can be written in every format.
pub trait Reportable {
    /// The report as text.
    fn text(&self) -> String;
    /// One JSON document, or one a line.
    fn json(&self) -> String;
    fn rows(&self) -> Rows<'_>;

    /// How good the worst of it is.
    fn grade(&self) -> Grade {
        Grade::worst(self.rows().list.iter().map(|row| row.outcome))
    }
}

#[derive(Debug)]
pub struct Rows<'a> {
    pub command: &'static str,
    /// What a row is about: `image`, `file`, `command`.
    pub thing: &'static str,
    pub list: Vec<Row<'a>>,
}

/// One thing that a command judged.
#[derive(Debug)]
pub struct Row<'a> {
    /// The text file that it is a part of. Images and whole files are part of none.
    pub file: Option<&'a str>,
    pub name: Cow<'a, str>,
    pub outcome: RowOutcome,
    pub findings: Vec<RowFinding<'a>>,
    /// What it is based on, each base once.
    pub bases: Vec<String>,
    pub before: Option<u64>,
    /// `None` where it is not changed.
    pub after: Option<u64>,
    /// Where the result is, or would be.
    pub targets: Vec<String>,
    /// The command that it is about, where it is about one.
    pub words: Option<RowWords>,
    /// What else there is to know of it, by name.
    pub facts: Vec<(&'static str, String)>,
    /// The platforms of an image that was only looked at.
    pub inspected: &'a [InspectionPlatform],
    /// The bases that it was tried on.
    pub candidates: &'a [ReportedBase],
    pub report: Option<&'a Report>,
    pub error: Option<&'a Error>,
}

/// A command, and what it becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowWords {
    pub before: Vec<String>,
    /// `None` where it is refused.
    pub after: Option<Vec<String>>,
}

/// What became of a thing. Variants are ordered from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowOutcome {
    Rebased,
    Translated,
    Changed,
    Unchanged,
    Planned,
    Passed,
    Verified,
    Started,
    Inspected,
    Current,
    Kept,
    ToChange,
    Excepted,
    Outdated,
    Refused,
    /// It could not be told.
    Unknown,
    Failed,
}

/// How good an outcome is, from good to bad: what the exit code, the colour and the CI status are made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    Good,
    Excepted,
    Refused,
    Failed,
}

impl RowOutcome {
    /// The word that every format writes.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Rebased => "rebased",
            Self::Translated => "translated",
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
            Self::Planned => "planned",
            Self::Passed => "passed",
            Self::Verified => "verified",
            Self::Started => "started",
            Self::Inspected => "inspected",
            Self::Current => "current",
            Self::Kept => "kept",
            Self::ToChange => "to-change",
            Self::Excepted => "excepted",
            Self::Outdated => "outdated",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
        }
    }

    #[must_use]
    pub const fn grade(self) -> Grade {
        match self {
            Self::Rebased
            | Self::Translated
            | Self::Changed
            | Self::Unchanged
            | Self::Planned
            | Self::Passed
            | Self::Verified
            | Self::Started
            | Self::Inspected
            | Self::Current
            | Self::Kept => Grade::Good,
            Self::Excepted => Grade::Excepted,
            Self::ToChange | Self::Outdated | Self::Refused => Grade::Refused,
            Self::Unknown | Self::Failed => Grade::Failed,
        }
    }
}

impl Grade {
    /// The worst of all outcomes; nothing at all is good.
    #[must_use]
    pub fn worst(outcomes: impl Iterator<Item = RowOutcome>) -> Self {
        outcomes.map(RowOutcome::grade).max().unwrap_or(Self::Good)
    }
}

/// `2 rebased, 1 refused`, from good to bad.
pub(super) fn counts(outcomes: impl Iterator<Item = RowOutcome>) -> String {
    let mut outcomes: Vec<RowOutcome> = outcomes.collect();
    outcomes.sort_unstable();
    let counts = outcomes.chunk_by(PartialEq::eq).filter_map(|same| Some((same.len(), same.first()?.word())));
    counts.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
}

#[derive(Debug, Clone)]
pub struct RowFinding<'a> {
    /// The platform that it is about; empty where there is none.
    pub platform: &'a str,
    /// Where in the text file.
    pub at: Option<Position>,
    pub finding: Cow<'a, ReportedFinding>,
}

impl<'a> RowFinding<'a> {
    /// A finding that is not about one platform.
    #[must_use]
    pub const fn plain(finding: ReportedFinding, at: Option<Position>) -> Self {
        Self { platform: "", at, finding: Cow::Owned(finding) }
    }

    /// As it is in a report.
    #[must_use]
    pub const fn on(platform: &'a str, finding: &'a ReportedFinding) -> Self {
        Self { platform, at: None, finding: Cow::Borrowed(finding) }
    }
}

impl<'a> Row<'a> {
    #[must_use]
    pub fn new(name: impl Into<Cow<'a, str>>, outcome: RowOutcome) -> Self {
        Self {
            file: None,
            name: name.into(),
            outcome,
            findings: Vec::new(),
            bases: Vec::new(),
            before: None,
            after: None,
            targets: Vec::new(),
            words: None,
            facts: Vec::new(),
            inspected: &[],
            candidates: &[],
            report: None,
            error: None,
        }
    }

    /// The row of something that could not be examined.
    #[must_use]
    pub fn failed(name: impl Into<Cow<'a, str>>, error: &'a Error) -> Self {
        let name = redacted(&name.into());
        Self { error: Some(error), ..Self::new(name, RowOutcome::Failed) }
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
            targets: report.targets.iter().map(|target| target.reference.clone()).collect(),
            candidates: &report.candidates,
            report: Some(report),
            ..Self::new(&report.source.reference, report.outcome.into())
        }
    }

    /// How good its outcome is.
    pub(super) const fn grade(&self) -> Grade {
        self.outcome.grade()
    }

    /// The findings that refuse.
    pub(super) fn refusals(&self) -> impl Iterator<Item = &RowFinding<'a>> {
        self.findings.iter().filter(|it| it.finding.level == Level::Refuse)
    }

    /// The rules of all findings but notes, each once.
    pub(super) fn rules(&self) -> Vec<&'static str> {
        let loud = self.findings.iter().filter(|it| it.finding.level != Level::Note);
        let mut rules: Vec<&str> = loud.map(|it| it.finding.rule.id()).collect();
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

impl Rows<'_> {
    /// The rules that refuse, in the order of the rows.
    pub(super) fn refused(&self) -> impl Iterator<Item = Rule> {
        self.list.iter().flat_map(Row::refusals).map(|it| it.finding.rule)
    }

    /// The rules of all findings, each once, by id.
    pub(super) fn rules(&self) -> Vec<Rule> {
        let mut rules: Vec<Rule> = self.list.iter().flat_map(|row| &row.findings).map(|it| it.finding.rule).collect();
        rules.sort_unstable_by_key(|rule| rule.id());
        rules.dedup();
        rules
    }

    /// `3 images: 2 rebased, 1 refused`
    pub(super) fn summary(&self) -> String {
        let plural = if self.list.len() == 1 { "" } else { "s" };
        format!("{} {}{plural}: {}", self.list.len(), self.thing, counts(self.list.iter().map(|row| row.outcome)))
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
        use RowOutcome::{Excepted, Failed, Rebased, Refused, ToChange};
        let outcomes = [Failed, Rebased, Excepted, Rebased, Refused, ToChange];
        let list = outcomes.map(|outcome| Row::new("x", outcome)).into();
        let rows = Rows { command: "batch", thing: "image", list };
        assert_eq!(rows.summary(), "6 images: 2 rebased, 1 to-change, 1 excepted, 1 refused, 1 failed");
        assert_eq!(Rows { list: Vec::new(), ..rows }.summary(), "0 images: ");
    }
}
