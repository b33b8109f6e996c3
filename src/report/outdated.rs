//! What `outdated` found: for each image its base, what the base's name leads to now, and by what the two differ.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::Serialize;

use super::model::{Named, ReportedFinding, ReportedPackages};
use super::rows::{Row, RowFinding, RowOutcome, Rows, counts};
use super::text::finding_lines;
use super::{Reportable, to_json};
use crate::examine::base::Rung;
use crate::examine::{BaseChange, FileChanges};
use crate::policy::Movable;
use crate::store::Tally;
use oci::Digest;
use oci::error::{Error, printable, redacted};

/// All images that were asked about.
#[derive(Debug, Serialize)]
pub struct OutdatedReport {
    pub schema: &'static str,
    pub outcome: RowOutcome,
    pub images: Vec<OutdatedImage>,
    /// Each pair of bases once; platforms name theirs by its number, from 0.
    pub changes: Vec<Arc<ReportedChange>>,
    pub traffic: Tally,
}

/// One image, and whether it could be moved to the newest build of its base.
#[derive(Debug, Serialize)]
pub struct OutdatedImage {
    pub image: Named,
    /// `current`, `outdated` or `unknown`: the worst of its platforms.
    pub outcome: RowOutcome,
    pub platforms: Vec<OutdatedPlatform>,
    /// Only of an image that is outdated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub movable: Option<Movable>,
    /// What stops it, or why that could not be found out.
    pub stops: Vec<String>,
    pub findings: Vec<ReportedFinding>,
    /// Why it could not be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip)]
    pub cause: Option<Error>,
}

#[derive(Debug, Serialize)]
pub struct OutdatedPlatform {
    pub platform: String,
    pub outcome: RowOutcome,
    /// How its base was found.
    pub how: Option<Rung>,
    /// The name that was asked for the newest build.
    pub base: Option<String>,
    /// The manifest of the base that the image is based on.
    pub current: Option<Digest>,
    /// The manifest that the name leads to now.
    pub newest: Option<Digest>,
    /// The number of the change.
    pub change: Option<usize>,
    /// Hints at a base that could not be followed, and what was assumed.
    pub notes: Vec<String>,
    #[serde(skip)]
    pub compared: Option<Arc<ReportedChange>>,
}

/// By what two builds of a base differ.
#[derive(Debug, Serialize)]
pub struct ReportedChange {
    pub from: Digest,
    pub to: Digest,
    /// In one line.
    pub summary: String,
    pub packages: Option<ReportedPackages>,
    /// Where packages do not explain the difference.
    pub files: Option<ReportedFiles>,
}

#[derive(Debug, Serialize)]
pub struct ReportedFiles {
    pub count: usize,
    /// The first of them.
    pub paths: Vec<String>,
}

/// Packages and files that one line names: it is told for every image, and the lists are told once.
const NAMED: usize = 6;

impl ReportedChange {
    #[must_use]
    pub fn new((from, to): (Digest, Digest), change: &BaseChange) -> Self {
        let packages = ReportedPackages::of(&change.packages);
        let files = change.files.as_ref().map(|FileChanges { count, paths }| ReportedFiles {
            count: *count,
            paths: paths.iter().map(ToString::to_string).collect(),
        });
        let summary = match (&files, &packages) {
            (Some(files), _) => files.summary(!change.packages.is_partial),
            (None, Some(packages)) => listed(packages_in_words(packages)),
            (None, None) => String::new(),
        };
        Self { from, to, summary, packages, files }
    }

    /// Two bases that could not be compared.
    #[must_use]
    pub const fn unread((from, to): (Digest, Digest), why: String) -> Self {
        Self { from, to, summary: why, packages: None, files: None }
    }
}

/// What changed, the changed ones first: `libc6 2.36-9 → 2.36-10`.
fn packages_in_words(packages: &ReportedPackages) -> Vec<String> {
    let mut words: Vec<(u8, String)> = Vec::new();
    for (mark, line) in packages.lines() {
        match mark {
            '~' => words.push((0, line)),
            '+' => words.push((1, format!("{line} arrived"))),
            '-' => words.push((2, format!("{line} left"))),
            _ => {}
        }
    }
    words.sort_by_key(|(order, _)| *order);
    words.into_iter().map(|(_, line)| line).collect()
}

fn listed(mut words: Vec<String>) -> String {
    let more = words.len().saturating_sub(NAMED);
    words.truncate(NAMED);
    let more = if more == 0 { String::new() } else { format!(", and {more} more") };
    words.join(", ") + &more
}

impl ReportedFiles {
    fn summary(&self, packages_are_known: bool) -> String {
        let packages = if packages_are_known { "" } else { "; a package database could not be read" };
        if self.count == 0 {
            return format!("same files, other bytes{packages}");
        }
        let word = if self.count == 1 { "file differs" } else { "files differ" };
        let paths = listed(self.paths.iter().take(NAMED).cloned().collect());
        let more = if self.count > NAMED { ", ..." } else { "" };
        let same = if packages_are_known { "same packages, " } else { "" };
        format!("{same}{} {word}: {paths}{more}{packages}", self.count)
    }
}

impl OutdatedReport {
    #[must_use]
    pub fn new(mut images: Vec<OutdatedImage>, traffic: Tally) -> Self {
        let mut changes: Vec<Arc<ReportedChange>> = Vec::new();
        let mut numbers = std::collections::HashMap::new();
        for platform in images.iter_mut().flat_map(|image| &mut image.platforms) {
            platform.change = platform.compared.as_ref().map(|change| {
                *numbers.entry((change.from, change.to)).or_insert_with(|| {
                    changes.push(Arc::clone(change));
                    changes.len() - 1
                })
            });
        }
        let outcome = images.iter().map(|image| image.outcome).max().unwrap_or(RowOutcome::Current);
        Self { schema: "underpin.outdated/v1", outcome, images, changes, traffic }
    }
}

impl OutdatedImage {
    /// An image of which nothing could be told.
    #[must_use]
    pub fn unknown(reference: &str, cause: Error) -> Self {
        Self {
            image: Named { reference: redacted(reference), digest: String::new() },
            outcome: RowOutcome::Unknown,
            platforms: Vec::new(),
            movable: None,
            stops: Vec::new(),
            findings: Vec::new(),
            error: Some(cause.what().to_owned()),
            cause: Some(cause),
        }
    }

    fn row(&self) -> Row<'_> {
        let mut bases: Vec<String> = self.platforms.iter().filter_map(|platform| platform.base.clone()).collect();
        bases.dedup();
        Row {
            findings: self.findings.iter().map(|finding| RowFinding::on("", finding)).collect(),
            bases,
            error: self.cause.as_ref(),
            ..Row::new(&self.image.reference, self.outcome)
        }
    }
}

impl Reportable for OutdatedReport {
    fn json(&self) -> String {
        to_json(self)
    }

    fn text(&self) -> String {
        let mut out = String::new();
        for image in &self.images {
            image_lines(&mut out, image);
        }
        let Tally { requests, .. } = self.traffic;
        let plural = if self.images.len() == 1 { "" } else { "s" };
        let counts = counts(self.images.iter().map(|image| image.outcome));
        let _ = writeln!(out, "\n{} image{plural}: {counts}; {requests} requests", self.images.len());
        out
    }

    fn rows(&self) -> Rows<'_> {
        Rows { command: "outdated", thing: "image", list: self.images.iter().map(OutdatedImage::row).collect() }
    }
}

fn image_lines(out: &mut String, image: &OutdatedImage) {
    let _ = writeln!(out, "{:8} {}", image.outcome.word(), printable(&image.image.reference));
    if image.outcome != RowOutcome::Current {
        image.platforms.iter().for_each(|platform| platform_lines(out, platform));
    }
    if let Some(cause) = &image.cause {
        let _ = writeln!(out, "  {}", cause.to_string().trim_end().replace('\n', "\n  "));
    }
    let moves = match &image.movable {
        None => return,
        Some(Movable::Already) => "already there".to_owned(),
        Some(Movable::Yes) => "can move now".to_owned(),
        Some(Movable::No(stops)) => format!("cannot move now: {}", stops.join("; ")),
        Some(Movable::Unknown(why)) => format!("could not try the move: {why}"),
    };
    let _ = writeln!(out, "  {}", printable(&moves));
    let refusals = image.findings.iter().filter(|finding| finding.rule != crate::rules::Rule::BaseOutdated);
    refusals.for_each(|finding| finding_lines(out, finding));
}

fn platform_lines(out: &mut String, platform: &OutdatedPlatform) {
    let base = platform.base.as_deref().unwrap_or("no base");
    let _ = writeln!(out, "  {}  {} {}", platform.platform, printable(base), platform.outcome.word());
    if let (Some(current), Some(newest), RowOutcome::Outdated) = (platform.current, platform.newest, platform.outcome) {
        let _ = writeln!(out, "    {current} → {newest}");
    }
    if let Some(change) = &platform.compared {
        let _ = writeln!(out, "    {}", printable(&change.summary));
    }
    for note in &platform.notes {
        let _ = writeln!(out, "    {}", printable(note));
    }
}
