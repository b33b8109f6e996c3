//! Many images on one sheet: what the formats for people and for CI systems are made from.

use super::model::{Report, ReportedFinding};
use super::text::old_base_line;
use crate::error::Error;

/// A report that can be written in every format.
pub trait Reportable {
    /// Lines for people.
    fn text(&self) -> String;
    /// One JSON document.
    fn json(&self) -> String;
    fn sheet(&self) -> Sheet<'_>;
}

#[derive(Debug)]
pub struct Sheet<'a> {
    pub command: &'static str,
    pub rows: Vec<Row<'a>>,
}

/// One image.
#[derive(Debug)]
pub struct Row<'a> {
    pub image: &'a str,
    /// `rebased`, `unchanged`, `planned`, `excepted`, `passed`, `refused` or `failed`.
    pub outcome: &'a str,
    pub findings: Vec<RowFinding<'a>>,
    pub report: Option<&'a Report>,
    pub error: Option<&'a Error>,
}

#[derive(Debug, Clone, Copy)]
pub struct RowFinding<'a> {
    pub platform: &'a str,
    pub finding: &'a ReportedFinding,
}

impl<'a> Row<'a> {
    /// The row of one move.
    #[must_use]
    pub fn of(report: &'a Report) -> Self {
        let findings = report.platforms.iter().flat_map(|platform| {
            platform.findings.iter().map(|finding| RowFinding { platform: &platform.platform, finding })
        });
        Self {
            image: &report.source.reference,
            outcome: report.outcome.word(),
            findings: findings.collect(),
            report: Some(report),
            error: None,
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

    /// The old bases of the platforms, each once.
    pub(super) fn old_bases(&self) -> Vec<String> {
        let platforms = self.report.iter().flat_map(|report| &report.platforms);
        let mut bases: Vec<String> =
            platforms.filter_map(|platform| platform.old_base.as_ref()).map(old_base_line).collect();
        bases.dedup();
        bases
    }

    /// The sizes of all platforms together, before and after.
    pub(super) fn sizes(&self) -> Option<(u64, u64)> {
        let platforms = &self.report?.platforms;
        let sum = |size: fn(&super::model::Size) -> u64| {
            platforms.iter().fold(0_u64, |sum, platform| sum.saturating_add(size(&platform.size)))
        };
        Some((sum(|size| size.before), sum(|size| size.after)))
    }
}
