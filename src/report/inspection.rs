//! What `inspect` shows of one image.

use std::fmt::Write as _;

use bytesize::ByteSize;
use serde::Serialize;
use serde_json::{Map, Value};

use super::candidates::{ReportedBase, base_lines};
use super::files::{FileListing, FileTree};
use super::model::{Binary, Named, ReportedFinding, ReportedOldBase};
use super::rows::{Reportable, Row, RowFinding, RowOutcome, Rows};
use super::text::{finding_lines, old_base_line};
use super::to_json;
use crate::examine::LeftBehind;
use crate::plan::TriedBase;
use crate::policy::judge_alone;
use crate::process::{Command, Start};
use crate::rules::Rule;
use crate::store::fetch::{Inspected, InspectedPlatform};
use elf::GoFacts;
use oci::error::{Result, printable};
use oci::{HistoryEntry, Location};

#[derive(Debug, Serialize)]
pub struct Inspection {
    pub schema: &'static str,
    pub image: Named,
    pub platforms: Vec<InspectionPlatform>,
    pub attestations: Vec<String>,
    /// The bases that were asked about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bases: Vec<ReportedBase>,
}

#[derive(Debug, Serialize)]
pub struct InspectionPlatform {
    pub platform: String,
    pub digest: String,
    pub config: String,
    pub created: Option<String>,
    pub old_base: ReportedOldBase,
    /// Files in the layers of a base that is a guess, which no package owns: a move would refuse to lose them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unproven_files: Vec<String>,
    pub notes: Vec<String>,
    pub layers: Vec<InspectionLayer>,
    pub entrypoint: Vec<String>,
    pub cmd: Vec<String>,
    pub user: String,
    pub working_dir: String,
    pub annotations: Map<String, Value>,
    /// The program that a container starts, and its Go build facts.
    pub program: Option<Binary>,
    /// Every executable above the base, where the image has no command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Binary>,
    /// What keeps the image from starting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<ReportedFinding>,
    pub go: Option<GoFacts>,
    pub size: u64,
}

#[derive(Debug, Serialize)]
pub struct InspectionLayer {
    pub digest: String,
    pub diff_id: String,
    pub size: u64,
    pub origin: LayerOrigin,
    pub created_by: Option<String>,
    /// Its files, for a page that lists them; JSON does not.
    #[serde(skip)]
    pub files: Option<FileTree>,
}

/// Whose layer it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerOrigin {
    OldBase,
    Application,
}

impl LayerOrigin {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::OldBase => "old-base",
            Self::Application => "application",
        }
    }
}

impl Inspection {
    #[must_use]
    pub fn new<'b>(
        inspected: &Inspected,
        bases: impl Iterator<Item = (&'b Location, Result<TriedBase>)>,
        files: FileListing,
    ) -> Self {
        let origin = &inspected.origin;
        Self {
            schema: "underpin.inspect/v1",
            image: Named { reference: origin.location.without_digest(), digest: origin.top.digest().to_string() },
            platforms: inspected.platforms.iter().map(|it| InspectionPlatform::new(it, files)).collect(),
            attestations: inspected.left_behind.iter().map(|left: &LeftBehind| left.digest.to_string()).collect(),
            bases: bases.map(|(location, attempt)| ReportedBase::of_attempt(location, &attempt)).collect(),
        }
    }
}

impl InspectionPlatform {
    pub(crate) fn new(inspected: &InspectedPlatform, files: FileListing) -> Self {
        let InspectedPlatform { platform, image, old_base: old, start, unproven, .. } = inspected;
        let command = Command::of(&image.config);
        let container = image.config.container();
        let text = |key: &str| container.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            platform: platform.to_string(),
            digest: image.digest().to_string(),
            config: image.config.digest().to_string(),
            created: image.config.object().get("created").and_then(Value::as_str).map(str::to_owned),
            old_base: old.into(),
            unproven_files: unproven.iter().map(ToString::to_string).collect(),
            notes: old.remarks(),
            layers: layers(inspected, files),
            entrypoint: command.entrypoint.unwrap_or_default(),
            cmd: command.cmd.unwrap_or_default(),
            user: text("User"),
            working_dir: text("WorkingDir"),
            annotations: image.manifest.annotations.clone(),
            program: start.start.program().map(Binary::from),
            programs: start.open.iter().map(Binary::from).collect(),
            findings: judge_alone(start, platform).iter().map(ReportedFinding::from).collect(),
            go: go(&start.start).cloned(),
            size: image.size(),
        }
    }
}

fn go(start: &Start) -> Option<&GoFacts> {
    start.program()?.program.as_ref()?.go.as_ref()
}

fn program_line(platform: &InspectionPlatform) -> String {
    let Some(program) = &platform.program else { return String::new() };
    let go = platform.go.as_ref().and_then(|go| go.version.clone()).unwrap_or_default();
    let words = [program.path.as_str(), program.linkage.word(), &program.machine, &go];
    words
        .into_iter()
        .chain(program.needed.iter().map(String::as_str))
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

fn layers(of: &InspectedPlatform, files: FileListing) -> Vec<InspectionLayer> {
    let image = &of.image;
    let made: Vec<&HistoryEntry> = image.config.history().iter().filter(|entry| !entry.is_empty_layer()).collect();
    let fits = made.len() == image.layers.len();
    let layer = |(at, layer): (usize, &oci::ImageLayer)| InspectionLayer {
        digest: layer.descriptor.digest.to_string(),
        diff_id: layer.diff_id.to_string(),
        size: layer.descriptor.size,
        origin: if at < of.old_base.layers { LayerOrigin::OldBase } else { LayerOrigin::Application },
        created_by: made.get(at).filter(|_| fits).map(|entry| entry.created_by().to_owned()),
        files: of.layers.get(at).and_then(|index| files.tree(index.entries.iter())),
    };
    image.layers.iter().enumerate().map(layer).collect()
}

impl Reportable for Inspection {
    fn text(&self) -> String {
        to_text(self)
    }

    fn json(&self) -> String {
        to_json(self)
    }

    fn rows(&self) -> Rows<'_> {
        let mut bases: Vec<String> = self.platforms.iter().map(|platform| old_base_line(&platform.old_base)).collect();
        bases.dedup();
        let note = |note: &String| ReportedFinding::note(Rule::OldBase, note.clone());
        let findings = self.platforms.iter().flat_map(|of| {
            of.notes.iter().map(move |it| RowFinding { platform: &of.platform, ..RowFinding::plain(note(it), None) })
        });
        let row = Row {
            findings: findings.collect(),
            candidates: &self.bases,
            inspected: &self.platforms,
            facts: vec![("Digest", self.image.digest.clone()), ("Old base", bases.join(", "))],
            bases,
            before: Some(self.platforms.iter().fold(0, |sum, platform| platform.size.saturating_add(sum))),
            ..Row::new(&self.image.reference, RowOutcome::Inspected)
        };
        Rows { command: "inspect", thing: "image", list: vec![row] }
    }
}

fn to_text(inspection: &Inspection) -> String {
    let mut out = format!("{}@{}\n", printable(&inspection.image.reference), inspection.image.digest);
    for platform in &inspection.platforms {
        let _ = writeln!(out, "\n{}  {}", platform.platform, platform.digest);
        platform_lines(&mut out, platform);
    }
    for digest in &inspection.attestations {
        let _ = writeln!(out, "\nattestation  {digest}");
    }
    if !inspection.bases.is_empty() {
        out.push('\n');
        base_lines(&mut out, "base", &inspection.bases);
    }
    out
}

/// So many files are named; the others are counted.
const NAMED: usize = 10;

fn unproven_lines(out: &mut String, files: &[String]) {
    if files.is_empty() {
        return;
    }
    let _ =
        writeln!(out, "              files in these layers that no package owns, and that may be the application's:");
    for file in files.iter().take(NAMED) {
        let _ = writeln!(out, "                {}", printable(file));
    }
    if let Some(more) = files.len().checked_sub(NAMED).filter(|more| *more > 0) {
        let _ = writeln!(out, "                and {more} more");
    }
}

fn platform_lines(out: &mut String, platform: &InspectionPlatform) {
    let _ = writeln!(out, "  old base    {}", old_base_line(&platform.old_base));
    for note in &platform.notes {
        let _ = writeln!(out, "              {}", printable(note));
    }
    unproven_lines(out, &platform.unproven_files);
    for layer in &platform.layers {
        let short = layer.digest.get(7..19).unwrap_or(&layer.digest);
        let size = ByteSize(layer.size).to_string();
        let by: String = layer.created_by.as_deref().unwrap_or_default().chars().take(60).collect();
        let line = format!("  {:11}  {short}  {size:>10}  {}", layer.origin.word(), printable(&by));
        let _ = writeln!(out, "{}", line.trim_end());
    }
    for (key, value) in &platform.annotations {
        let _ = writeln!(out, "  annotation  {} = {}", printable(key), printable(value.as_str().unwrap_or_default()));
    }
    for program in &platform.programs {
        let words = [program.path.as_str(), program.linkage.word(), &program.machine];
        let _ = writeln!(out, "  executable  {}", printable(words.join(" ").trim_end()));
    }
    for (name, value) in [
        ("entrypoint", format!("{:?}", platform.entrypoint)),
        ("cmd", format!("{:?}", platform.cmd)),
        ("program", program_line(platform)),
        ("user", platform.user.clone()),
        ("workdir", platform.working_dir.clone()),
        ("created", platform.created.clone().unwrap_or_default()),
        ("size", ByteSize(platform.size).to_string()),
    ] {
        if !value.is_empty() && value != "[]" {
            let _ = writeln!(out, "  {name:10}  {}", printable(&value));
        }
    }
    platform.findings.iter().for_each(|finding| finding_lines(out, finding));
}
