//! Many images on one sheet: what the formats for people and for CI systems are made from.

use super::model::{Report, ReportedFinding};
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

    /// Whether the image is as it should be, or will be.
    #[must_use]
    pub fn is_good(&self) -> bool {
        !matches!(self.outcome, "refused" | "failed")
    }
}
