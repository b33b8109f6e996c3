//! What `check` found: for each image its base, and whether the policy allows it.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Serialize;

use super::inspection::InspectionPlatform;
use super::model::{Named, Report, ReportedFinding, ReportedOldBase};
use super::rows::{Grade, Row, RowFinding, RowOutcome, Rows};
use super::rules::explain_hint;
use super::text::{finding_lines, old_base_line};
use super::{Reportable, to_json};
use crate::policy::exceptions::Exception;
use crate::policy::{BaseVerdict, CurrentBase, Movable};
use crate::rules::{Finding, Level};
use oci::Platform;
use oci::error::{Error, printable, redacted};

/// All images that were checked.
#[derive(Debug, Serialize)]
pub struct CheckReport {
    pub schema: &'static str,
    pub outcome: CheckOutcome,
    pub images: Vec<CheckedRow>,
    /// Components of the exception list that match none of the images.
    pub unmatched: Vec<String>,
}

/// What became of all images together: the worst of them decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckOutcome {
    Passed,
    Refused,
    Failed,
}

impl From<Grade> for CheckOutcome {
    fn from(grade: Grade) -> Self {
        match grade {
            Grade::Good | Grade::Excepted => Self::Passed,
            Grade::Refused => Self::Refused,
            Grade::Failed => Self::Failed,
        }
    }
}

/// One image, or why it could not be checked.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum CheckedRow {
    Checked(Box<CheckedImage>),
    Failed {
        image: Named,
        verdict: RowOutcome,
        error: String,
        #[serde(skip)]
        cause: Error,
    },
}

#[derive(Debug, Serialize)]
pub struct CheckedImage {
    pub image: Named,
    pub component: String,
    pub verdict: RowOutcome,
    pub exception: Option<Exception>,
    pub platforms: Vec<CheckedPlatform>,
    pub movable: Movable,
    /// What stops it, or why that could not be found out.
    pub stops: Vec<String>,
    /// The plan of the trial move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Report>,
    /// Its platforms, for a page that shows their layers, where there is no plan that does.
    #[serde(skip)]
    pub inspected: Vec<InspectionPlatform>,
    /// Of all its platforms.
    #[serde(skip)]
    pub size: u64,
}

#[derive(Debug, Serialize)]
pub struct CheckedPlatform {
    pub platform: String,
    pub old_base: ReportedOldBase,
    /// The base by name, `scratch`, or nothing where it could not be named.
    pub base: Option<String>,
    pub standing: BaseVerdict,
    /// Hints at a base that could not be followed.
    pub notes: Vec<String>,
    pub findings: Vec<ReportedFinding>,
}

impl CheckedPlatform {
    #[must_use]
    pub fn new(
        platform: &Platform,
        old: &crate::examine::base::OldBase,
        current: &CurrentBase,
        verdict: BaseVerdict,
        findings: &[Finding],
    ) -> Self {
        let base = match current {
            CurrentBase::Scratch => Some("scratch".to_owned()),
            CurrentBase::Named(location) => Some(location.to_string()),
            CurrentBase::Unnamed => None,
        };
        let findings = findings.iter().map(ReportedFinding::from).collect();
        Self {
            platform: platform.to_string(),
            old_base: old.into(),
            base,
            standing: verdict,
            notes: old.remarks(),
            findings,
        }
    }
}

impl CheckedImage {
    #[must_use]
    pub fn new(
        image: Named,
        component: String,
        exception: Option<Exception>,
        platforms: Vec<CheckedPlatform>,
        movable: Movable,
        plan: Option<Report>,
    ) -> Self {
        let refused = platforms.iter().flat_map(|platform| &platform.findings).any(|it| it.level == Level::Refuse);
        let stops = match &movable {
            Movable::No(stops) => stops.clone(),
            Movable::Unknown(why) => vec![why.clone()],
            Movable::Already | Movable::Yes => Vec::new(),
        };
        let verdict = if refused { RowOutcome::Refused } else { RowOutcome::Passed };
        Self { image, component, verdict, exception, platforms, movable, stops, plan, inspected: Vec::new(), size: 0 }
    }

    /// What is known of an image that no move was tried for.
    fn untried(&self) -> Row<'_> {
        let mut bases: Vec<String> = self.platforms.iter().filter_map(|platform| platform.base.clone()).collect();
        bases.dedup();
        Row { bases, before: Some(self.size), inspected: &self.inspected, ..Row::new("", self.verdict) }
    }

    fn findings(&self) -> impl Iterator<Item = (&str, &ReportedFinding)> {
        self.platforms.iter().flat_map(|platform| platform.findings.iter().map(|it| (platform.platform.as_str(), it)))
    }
}

impl CheckReport {
    #[must_use]
    pub fn new(images: Vec<CheckedRow>, unmatched: Vec<String>) -> Self {
        let outcome = Grade::worst(images.iter().map(CheckedRow::verdict)).into();
        Self { schema: "underpin.check/v1", outcome, images, unmatched }
    }
}

impl CheckedRow {
    #[must_use]
    pub fn failed(reference: &str, cause: Error) -> Self {
        let image = Named { reference: redacted(reference), digest: String::new() };
        Self::Failed { image, verdict: RowOutcome::Failed, error: cause.what().to_owned(), cause }
    }

    const fn verdict(&self) -> RowOutcome {
        match self {
            Self::Checked(checked) => checked.verdict,
            Self::Failed { verdict, .. } => *verdict,
        }
    }
}

impl Reportable for CheckReport {
    fn json(&self) -> String {
        to_json(self)
    }

    fn text(&self) -> String {
        let mut out = String::new();
        for row in &self.images {
            match row {
                CheckedRow::Checked(checked) => checked_lines(&mut out, checked),
                CheckedRow::Failed { image, cause, .. } => {
                    let _ = writeln!(out, "failed   {}\n  {cause}", printable(&image.reference));
                }
            }
        }
        for component in &self.unmatched {
            let _ = writeln!(
                out,
                "note     {} is in the exception list but matches none of the images",
                printable(component)
            );
        }
        out.push_str(&explain_hint(self.rows().refused()));
        out
    }

    fn rows(&self) -> Rows<'_> {
        Rows { command: "check", thing: "image", list: self.images.iter().map(CheckedRow::row).collect() }
    }
}

impl CheckedRow {
    fn row(&self) -> Row<'_> {
        match self {
            Self::Checked(checked) => {
                let mut findings: Vec<RowFinding<'_>> = Vec::new();
                for (platform, finding) in checked.findings() {
                    // Most platforms have the same findings.
                    if !findings.iter().any(|there| *there.finding == *finding) {
                        findings.push(RowFinding::on(platform, finding));
                    }
                }
                let plan = checked.plan.as_ref().map(Row::of);
                let of_plan = plan.unwrap_or_else(|| checked.untried());
                let name = Cow::Borrowed(checked.image.reference.as_str());
                Row { name, outcome: checked.verdict, findings, ..of_plan }
            }
            Self::Failed { image, cause, .. } => Row::failed(&image.reference, cause),
        }
    }
}

fn checked_lines(out: &mut String, checked: &CheckedImage) {
    let _ = writeln!(out, "{:8} {}", checked.verdict.word(), printable(&checked.image.reference));
    for platform in &checked.platforms {
        let base = platform.base.as_deref().map_or_else(|| old_base_line(&platform.old_base), printable);
        let _ = writeln!(out, "  {}  based on {base} ({})", platform.platform, platform.standing.word());
        for note in &platform.notes {
            let _ = writeln!(out, "    {}", printable(note));
        }
    }
    let moves = match &checked.movable {
        Movable::Already => "base allowed".to_owned(),
        Movable::Yes => "can move now".to_owned(),
        Movable::No(stops) => format!("cannot move now: {}", stops.join("; ")),
        Movable::Unknown(why) => format!("could not try the move: {why}"),
    };
    let _ = writeln!(out, "  {}", printable(&moves));
    let mut said: Vec<&ReportedFinding> = Vec::new();
    for (_, finding) in checked.findings() {
        if !said.contains(&finding) {
            finding_lines(out, finding);
            said.push(finding);
        }
    }
}
