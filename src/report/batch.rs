//! What a batch did: for each image, and in total.

use std::borrow::Cow;
use std::fmt::Write as _;

use bytesize::ByteSize;
use serde::Serialize;

use super::model::{Report, ReportedFinding, Size, TargetChange};
use super::rows::{Grade, Reportable, Row, RowFinding, RowOutcome, Rows, counts};
use super::rules::explain_hint;
use super::text::finding_lines;
use super::to_json;
use crate::store::Tally;
use oci::error::{Error, printable};
use oci::{Digest, Location};

#[derive(Debug, Serialize)]
pub struct BatchReport {
    pub schema: &'static str,
    pub outcome: BatchOutcome,
    pub images: Vec<BatchRow>,
    pub traffic: Tally,
}

/// What became of all images together: the worst of them decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BatchOutcome {
    Done,
    Refused,
    Failed,
}

impl From<Grade> for BatchOutcome {
    fn from(grade: Grade) -> Self {
        match grade {
            Grade::Good | Grade::Excepted => Self::Done,
            Grade::Refused => Self::Refused,
            Grade::Failed => Self::Failed,
        }
    }
}

#[derive(Debug, Serialize)]
pub struct BatchRow {
    pub source: String,
    pub outcome: RowOutcome,
    /// The result by digest; empty where there is none.
    pub targets: Vec<BatchTarget>,
    pub size: Size,
    /// Findings beside those of the report.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<ReportedFinding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// `None` where the image was not examined: its targets were up to date, or it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    #[serde(skip)]
    pub cause: Option<Error>,
}

#[derive(Debug, Serialize)]
pub struct BatchTarget {
    pub reference: String,
    pub digest: String,
    pub pinned: String,
    pub change: TargetChange,
    #[serde(skip)]
    pub location: Location,
}

impl BatchTarget {
    #[must_use]
    pub fn new(location: &Location, digest: Digest, change: TargetChange) -> Self {
        let (reference, pinned) = (location.to_string(), location.by_digest(digest));
        Self { reference, digest: digest.to_string(), pinned, change, location: location.clone() }
    }
}

impl BatchReport {
    #[must_use]
    pub fn new(images: Vec<BatchRow>, traffic: Tally) -> Self {
        let outcome = Grade::worst(images.iter().map(|row| row.outcome)).into();
        Self { schema: "underpin.batch/v1", outcome, images, traffic }
    }
}

impl Reportable for BatchReport {
    fn json(&self) -> String {
        to_json(self)
    }

    /// What went wrong comes first.
    fn text(&self) -> String {
        let mut out = String::new();
        for row in self.worst_first() {
            explained(&mut out, row);
        }
        out.push_str(&explain_hint(self.rows().refused()));
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&self.table());
        let _ = writeln!(out, "\n{}", self.totals());
        out
    }

    fn rows(&self) -> Rows<'_> {
        Rows { command: "batch", thing: "image", list: self.worst_first().map(BatchRow::row).collect() }
    }
}

/// Why an image is not at its target.
fn explained(out: &mut String, row: &BatchRow) {
    if let Some(cause) = &row.cause {
        let _ = writeln!(out, "{}failed: {}\n{cause}", gap(out), printable(&row.source));
    }
    if row.outcome == RowOutcome::Refused {
        let _ = writeln!(out, "{}refused: {}", gap(out), printable(&row.source));
        let mut said: Vec<&ReportedFinding> = Vec::new();
        let row_of_image = row.row();
        for refusal in row_of_image.refusals() {
            // Most platforms have the same findings.
            if !said.contains(&&*refusal.finding) {
                finding_lines(out, &refusal.finding);
                said.push(&refusal.finding);
            }
        }
    }
}

/// An empty line between two images.
fn gap(out: &str) -> &'static str {
    if out.is_empty() { "" } else { "\n" }
}

/// `-83 %`
fn share(before: u64, after: u64) -> String {
    if before == 0 {
        return String::new();
    }
    let percent = u128::from(after) * 100 / u128::from(before);
    if percent <= 100 { format!("-{} %", 100 - percent) } else { format!("+{} %", percent - 100) }
}

impl BatchReport {
    /// The images that failed, those that were refused, and the others, each in the order of the file.
    fn worst_first(&self) -> impl Iterator<Item = &BatchRow> {
        let mut images: Vec<&BatchRow> = self.images.iter().collect();
        images.sort_by_key(|row| match row.outcome {
            RowOutcome::Failed => 0,
            RowOutcome::Refused => 1,
            _ => 2,
        });
        images.into_iter()
    }

    /// What all results together are smaller by.
    fn saved(&self) -> String {
        let is_there = |row: &&BatchRow| matches!(row.outcome, RowOutcome::Rebased | RowOutcome::Unchanged);
        let (before, after) = self
            .images
            .iter()
            .filter(is_there)
            .fold((0, 0), |(before, after), row| (before + row.size.before, after + row.size.after));
        match before.checked_sub(after) {
            Some(saved @ 1..) => {
                format!("{} saved of {} ({})\n", ByteSize(saved), ByteSize(before), share(before, after))
            }
            _ => String::new(),
        }
    }

    fn table(&self) -> String {
        let mut table = comfy_table::Table::new();
        table
            .load_style(comfy_table::presets::NOTHING)
            .set_header(["image", "outcome", "before", "after", "", "result"]);
        for image in self.worst_first() {
            let row = image.row();
            let result = match (&image.error, image.targets.first()) {
                (Some(error), _) => error.clone(),
                (None, Some(target)) => target.pinned.clone(),
                (None, None) => row.rules().join(", "),
            };
            let size = |bytes: Option<u64>| bytes.map(|bytes| ByteSize(bytes).to_string()).unwrap_or_default();
            let share = row.before.zip(row.after).map(|(before, after)| share(before, after)).unwrap_or_default();
            let cells = [
                image.source.clone(),
                image.outcome.word().to_owned(),
                size(row.before),
                size(row.after),
                share,
                result,
            ];
            table.add_row(cells.map(|cell| printable(&cell)));
        }
        table.lines().flat_map(|line| [line.trim_end().to_owned(), "\n".to_owned()]).collect()
    }

    fn totals(&self) -> String {
        let counts = counts(self.images.iter().map(|row| row.outcome));
        let Tally { requests, bytes_down, bytes_up, mounted, already_there } = self.traffic;
        let (down, up) = (ByteSize(bytes_down), ByteSize(bytes_up));
        format!(
            "{}{} images: {counts}; {requests} requests, {down} down, {up} up, {mounted} mounted, {already_there} already there",
            self.saved(),
            self.images.len()
        )
    }
}

impl BatchRow {
    /// What became of the image, in a line.
    #[must_use]
    pub fn line(&self) -> String {
        let result = match (&self.error, self.targets.first()) {
            (Some(error), _) => error.clone(),
            (None, Some(target)) => target.pinned.clone(),
            (None, None) => self.row().rules().join(", "),
        };
        format!("{} {}  {result}", self.outcome.word(), self.source).trim_end().to_owned()
    }

    fn row(&self) -> Row<'_> {
        let mut row = match &self.report {
            Some(report) => Row::of(report),
            None => Row::new("", self.outcome),
        };
        row.name = Cow::Borrowed(&self.source);
        row.outcome = self.outcome;
        row.error = self.cause.as_ref();
        row.targets = self.targets.iter().map(|target| target.reference.clone()).collect();
        row.findings.extend(self.findings.iter().map(|finding| RowFinding::on("", finding)));
        if self.report.is_none() && self.size.before > 0 {
            (row.before, row.after) = (Some(self.size.before), Some(self.size.after));
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(source: &str, outcome: RowOutcome, before: u64, after: u64) -> BatchRow {
        BatchRow {
            source: source.to_owned(),
            outcome,
            targets: Vec::new(),
            size: Size { before, after },
            findings: Vec::new(),
            error: (outcome == RowOutcome::Failed).then(|| "lost".to_owned()),
            report: None,
            cause: (outcome == RowOutcome::Failed).then(|| Error::input("lost")),
        }
    }

    #[test]
    fn a_summary_begins_with_what_went_wrong_and_ends_with_what_was_saved() {
        let images = vec![
            row("one", RowOutcome::Rebased, 4096, 1024),
            row("two", RowOutcome::Refused, 8192, 0),
            row("three", RowOutcome::Failed, 0, 0),
            row("four", RowOutcome::Unchanged, 4096, 1024),
        ];
        let text = BatchReport::new(images, Tally::default()).text();
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} in {text}"));
        let order = [
            "failed: three",
            "refused: two",
            "image ",
            "three",
            "two",
            "one",
            "four",
            "6.0 KiB saved of 8.0 KiB (-75 %)",
        ];
        let mut from = 0;
        for part in order {
            from += text[from..].find(part).unwrap_or_else(|| panic!("{part} is not next in {}", &text[from..]));
        }
        assert!(at("4 images: ") > at("saved of"), "{text}");
        let grown = BatchReport::new(vec![row("one", RowOutcome::Rebased, 1, 2)], Tally::default()).text();
        assert!(!grown.contains("saved"), "{grown}");
    }
}
