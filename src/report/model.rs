//! The report. Field names are the JSON keys of `docs/reports.md`: others rely on them.

use bytesize::ByteSize;
use serde::Serialize;

use super::candidates::ReportedBase;
use super::files::{FileListing, FileTree};
use super::rows::{Reportable, Row, RowOutcome, Rows};
use super::started::StartedPair;
use super::text::{Detail, to_text};
use super::to_json;
use crate::assemble::Assembled;
use crate::attest::Attachment;
use crate::attest::sbom::Sbom;
use crate::examine::base::{Rung, Sureness};
use crate::examine::packages::{Package, PackageChanges};
use crate::examine::{PlatformSubject, Subject};
use crate::plan::{Body, Brought, Bulk, ExecForm, Fate, FinalLayer, Pass, PlannedLayer, StartSeconds, TriedBase};
use crate::policy::MissingPlatform;
use crate::process::{Command, Executed, Helper, Role, Startup};
use crate::rules::{Finding, Level, Rule};
use crate::sandbox::PlatformStart;
use crate::store::Tally;
use crate::store::publish::{self, Receipt};
use elf::{Linkage, Program};
use oci::Location;
use shell::logs::Strategy;

/// What became of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Rebased,
    Unchanged,
    Planned,
    Refused,
}

impl Outcome {
    #[must_use]
    pub fn word(self) -> &'static str {
        RowOutcome::from(self).word()
    }
}

impl From<Outcome> for RowOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Rebased => Self::Rebased,
            Outcome::Unchanged => Self::Unchanged,
            Outcome::Planned => Self::Planned,
            Outcome::Refused => Self::Refused,
        }
    }
}

#[derive(Debug, Serialize)]
pub struct Report {
    pub schema: &'static str,
    pub outcome: Outcome,
    /// The digest of the result, also when it was only planned; `None` where the image was refused before assembly.
    pub digest: Option<String>,
    pub source: Named,
    pub base: Named,
    pub targets: Vec<Target>,
    pub platforms: Vec<ReportedPlatform>,
    /// The image that a log runner was taken from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_runner: Option<Named>,
    /// The bases that were tried, smallest first, where the base was to be chosen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<ReportedBase>,
    /// The statements about the result that are attached to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attestations: Vec<ReportedAttestation>,
    /// `None` where images of a batch shared it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Tally>,
    /// Of each platform, where they were asked for; they are documents of their own.
    #[serde(skip)]
    pub sboms: Vec<Sbom>,
    /// What was asked for: a refusal does not tell.
    #[serde(skip)]
    pub asked: AskedFor,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedFor {
    Rebase,
    Plan,
}

/// A statement about the result, or its signature.
#[derive(Debug, Clone, Serialize)]
pub struct ReportedAttestation {
    /// The digest of the manifest that was attached.
    pub digest: String,
    /// The index or manifest that it is about.
    pub subject: String,
    pub predicate_type: String,
    pub artifact_type: String,
    pub change: TargetChange,
}

impl ReportedAttestation {
    #[must_use]
    pub fn new(attachment: &Attachment, change: publish::Publication) -> Self {
        Self {
            digest: attachment.manifest.digest().to_string(),
            subject: attachment.subject.to_string(),
            predicate_type: attachment.predicate_type.clone(),
            artifact_type: attachment.referrer().artifact_type,
            change: change.into(),
        }
    }
}

/// An image by the reference it was given and the digest this resolved to.
#[derive(Debug, Serialize)]
pub struct Named {
    pub reference: String,
    pub digest: String,
}

#[derive(Debug, Serialize)]
pub struct Target {
    pub reference: String,
    pub digest: String,
    /// The published image by digest alone.
    pub pinned: String,
    pub change: TargetChange,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetChange {
    Written,
    AlreadyThere,
    Planned,
}

#[derive(Debug, Serialize)]
pub struct ReportedPlatform {
    pub platform: String,
    /// The digest of this platform's manifest in the result.
    pub digest: Option<String>,
    pub old_base: Option<ReportedOldBase>,
    pub layers: Vec<ReportedLayer>,
    pub entrypoint: ReportedWords,
    pub cmd: ReportedWords,
    pub logs: ReportedLogs,
    pub binaries: Vec<Binary>,
    pub findings: Vec<ReportedFinding>,
    pub size: Size,
    /// What `--bring` added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub brought: Vec<ReportedBrought>,
    /// The packages of source and result; `None` where neither has a package that is known of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packages: Option<ReportedPackages>,
    /// What `--start` showed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<StartedPair>,
}

/// How the packages of the source became those of the result.
#[derive(Debug, Serialize)]
pub struct ReportedPackages {
    pub left: Vec<ReportedPackage>,
    /// What the files of those that left took.
    pub left_bytes: u64,
    pub arrived: Vec<ReportedPackage>,
    pub changed: Vec<ReportedVersions>,
    pub stayed: Vec<ReportedPackage>,
    /// False where a package database was not read.
    pub complete: bool,
}

#[derive(Debug, Serialize)]
pub struct ReportedPackage {
    pub name: String,
    pub version: String,
    pub manager: &'static str,
}

/// A package that source and result have in other versions.
#[derive(Debug, Serialize)]
pub struct ReportedVersions {
    pub name: String,
    pub before: String,
    pub after: String,
    pub manager: &'static str,
}

impl ReportedPackages {
    pub(super) fn of(changes: &PackageChanges) -> Option<Self> {
        let packages = |packages: &[Package]| packages.iter().map(ReportedPackage::from).collect();
        let versions = changes.changed.iter().map(|changed| ReportedVersions {
            name: changed.name.clone(),
            before: changed.before.clone(),
            after: changed.after.clone(),
            manager: changed.manager.word(),
        });
        (!changes.is_empty()).then(|| Self {
            left: packages(&changes.left),
            left_bytes: changes.left_bytes,
            arrived: packages(&changes.arrived),
            changed: versions.collect(),
            stayed: packages(&changes.stayed),
            complete: !changes.is_partial,
        })
    }

    /// `3 left (37.7 MiB), 1 arrived, 2 changed, 5 stayed`, without what there is none of.
    pub(super) fn summary(&self, words: PackageWords) -> String {
        self.summary_with(words, "")
    }

    /// The same with what comes behind the number of those that left.
    pub(super) fn summary_with(&self, words: PackageWords, names: &str) -> String {
        let size = if self.left_bytes > 0 { format!(" ({})", ByteSize(self.left_bytes)) } else { String::new() };
        let left = (!self.left.is_empty()).then(|| format!("{} {}{size}{names}", self.left.len(), words.left));
        let others = [
            (self.arrived.len(), words.arrived),
            (self.changed.len(), words.changed),
            (self.stayed.len(), words.stayed),
        ];
        let others = others.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
        let others = Some(others.collect::<Vec<_>>().join(", ")).filter(|others| !others.is_empty());
        let note = if self.complete { "" } else { " (a package database could not be read)" };
        let separator = if names.is_empty() { ", " } else { "; " };
        left.into_iter().chain(others).collect::<Vec<_>>().join(separator) + note
    }

    /// What became of each, with a mark before it: `~ libc6 2.36-9 → 2.36-10`.
    pub(super) fn lines(&self) -> impl Iterator<Item = (char, String)> {
        let each = |mark: char, packages: &'_ [ReportedPackage]| {
            packages
                .iter()
                .map(|it| (mark, format!("{} {}", it.name, it.version).trim_end().to_owned()))
                .collect::<Vec<_>>()
        };
        let changed = self.changed.iter().map(|it| ('~', format!("{} {} → {}", it.name, it.before, it.after)));
        let others = [each('-', &self.left), each('+', &self.arrived)].concat();
        others.into_iter().chain(changed).chain(each('=', &self.stayed))
    }
}

/// What is said of packages.
#[derive(Debug, Clone, Copy)]
pub(super) struct PackageWords {
    pub left: &'static str,
    pub arrived: &'static str,
    pub changed: &'static str,
    stayed: &'static str,
}

impl PackageWords {
    /// Of an image that was refused nothing has left.
    pub(super) const fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Refused => {
                Self { left: "would leave", arrived: "would arrive", changed: "would change", stayed: "would stay" }
            }
            Outcome::Rebased | Outcome::Unchanged | Outcome::Planned => {
                Self { left: "left", arrived: "arrived", changed: "changed", stayed: "stayed" }
            }
        }
    }
}

impl From<&Package> for ReportedPackage {
    fn from(package: &Package) -> Self {
        Self { name: package.name.clone(), version: package.version.clone(), manager: package.manager.word() }
    }
}

/// Something of the source that `--bring` named.
#[derive(Debug, Serialize)]
pub struct ReportedBrought {
    pub name: String,
    /// `package`, `program` or `path`.
    pub kind: &'static str,
    /// As a report for people names it.
    #[serde(skip)]
    pub line: String,
    #[serde(flatten)]
    pub amount: Amount,
    /// Packages that parts of it belong to, such as its libraries.
    pub with: Vec<String>,
}

impl From<&Brought> for ReportedBrought {
    fn from(brought: &Brought) -> Self {
        Self {
            name: brought.name.to_string(),
            kind: brought.kind.word(),
            line: brought.line(),
            amount: brought.bulk.into(),
            with: brought.with.clone(),
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct ReportedOldBase {
    pub how: Rung,
    pub sure: Sureness,
    pub reference: Option<String>,
    pub layers: usize,
}

#[derive(Debug, Serialize)]
pub struct ReportedLayer {
    pub digest: String,
    pub diff_id: String,
    pub size: u64,
    pub fate: Fate,
    pub why: String,
    /// The source's layer that a filtered one takes the place of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceLayer>,
    /// What is removed from it, by reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leaves: Vec<Leaves>,
    /// What stays in it, where something is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stays: Option<Amount>,
    /// Its files, for a page that lists them; JSON does not.
    #[serde(skip)]
    pub files: Option<FileTree>,
}

#[derive(Debug, Serialize)]
pub struct SourceLayer {
    pub digest: String,
    pub size: u64,
}

/// A part of a layer that is removed.
#[derive(Debug, Serialize)]
pub struct Leaves {
    /// `package NAME VERSION`, or what else it is.
    pub what: String,
    #[serde(skip)]
    pub is_package: bool,
    #[serde(flatten)]
    pub amount: Amount,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct Amount {
    pub entries: usize,
    pub bytes: u64,
}

impl From<Bulk> for Amount {
    fn from(bulk: Bulk) -> Self {
        Self { entries: bulk.entries, bytes: bulk.bytes }
    }
}

/// A program that was examined.
#[derive(Debug, Clone, Serialize)]
pub struct Binary {
    pub path: String,
    pub linkage: Linkage,
    pub machine: String,
    pub needed: Vec<String>,
}

impl From<&Executed> for Binary {
    fn from(executed: &Executed) -> Self {
        Self::new(executed.path.to_string(), executed.program.as_ref())
    }
}

impl Binary {
    fn new(path: String, program: Option<&Program>) -> Self {
        Self {
            path,
            linkage: program_linkage(program.map_or(Linkage::Other, |program| program.linkage)),
            machine: program.and_then(|program| program.machine.clone()).unwrap_or_default(),
            needed: program.map(|program| program.needed.clone()).unwrap_or_default(),
        }
    }

    /// The program that stays first, then what starts it, then the others.
    fn all(startup: &Startup) -> Vec<Self> {
        let program = startup.after.program();
        let is_other = |executed: &&Executed| program.is_none_or(|program| program.path != executed.path);
        let others = startup.after.chain.iter().filter(is_other).filter(|executed| executed.role != Role::Called);
        let chain = program.into_iter().chain(others).map(Self::from);
        chain.chain(startup.helpers.iter().map(Self::from)).collect()
    }
}

/// A library that is started as a program is neither, and the report has no word for it.
const fn program_linkage(linkage: Linkage) -> Linkage {
    match linkage {
        Linkage::SharedObject => Linkage::Other,
        linkage => linkage,
    }
}

#[derive(Debug, Default, Serialize)]
pub struct ReportedWords {
    pub before: Vec<String>,
    pub after: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct ReportedLogs {
    pub strategy: LogStrategy,
    pub file: Option<String>,
}

/// How the log file that the shell redirected to is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogStrategy {
    Klog,
    Runner,
    Stdout,
    /// The command has no log file.
    None,
}

impl From<&Strategy> for LogStrategy {
    fn from(strategy: &Strategy) -> Self {
        match strategy {
            Strategy::Klog(_) => Self::Klog,
            Strategy::Runner(_) => Self::Runner,
            Strategy::Stdout => Self::Stdout,
        }
    }
}

impl ReportedLogs {
    fn of(form: &ExecForm) -> Self {
        let strategy = form.log.as_ref().map_or(LogStrategy::None, |log| (&log.choice.strategy).into());
        Self { strategy, file: form.log.as_ref().map(|log| log.path.clone()) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReportedFinding {
    pub rule: Rule,
    pub level: Level,
    pub message: String,
    pub evidence: String,
    pub fix: String,
}

#[derive(Debug, Default, Serialize)]
pub struct Size {
    pub before: u64,
    pub after: u64,
}

/// Everything a run can end with.
pub struct Ending<'a> {
    pub image: &'a Subject,
    pub passes: &'a [Pass],
    pub missing: &'a [MissingPlatform],
    pub candidates: &'a [TriedBase],
    /// What was started for real, by platform, and how long it was watched.
    pub started: &'a [PlatformStart],
    pub seconds: Option<StartSeconds>,
    pub assembled: Option<&'a Assembled>,
    pub receipt: Option<&'a Receipt>,
    pub targets: &'a [Location],
    pub outcome: Outcome,
    pub traffic: Tally,
    /// Whether the files of each layer are listed.
    pub files: FileListing,
}

impl Report {
    #[must_use]
    pub fn new(ending: &Ending<'_>) -> Self {
        let image = ending.image;
        let named = |origin: &crate::examine::Origin| Named {
            reference: origin.location.without_digest(),
            digest: origin.top.digest().to_string(),
        };
        Self {
            schema: "underpin.report/v1",
            outcome: ending.outcome,
            digest: ending.assembled.map(|assembled| assembled.top.digest().to_string()),
            source: named(&image.source),
            base: named(&image.base),
            targets: targets(ending),
            platforms: platforms(ending),
            log_runner: image.runner.as_ref().map(named),
            candidates: ending.candidates.iter().map(ReportedBase::from).collect(),
            attestations: Vec::new(),
            traffic: Some(ending.traffic),
            sboms: Vec::new(),
            asked: AskedFor::Rebase,
        }
    }
}

impl Report {
    /// What refuses the move, each once over all platforms.
    #[must_use]
    pub fn refusals(&self) -> Vec<String> {
        let mut said = Vec::new();
        let findings = self.platforms.iter().flat_map(|platform| &platform.findings);
        for finding in findings.filter(|finding| finding.level == Level::Refuse) {
            let text = format!("{} [{}]", finding.message, finding.rule);
            if !said.contains(&text) {
                said.push(text);
            }
        }
        said
    }

    /// The sizes of all platforms together, before and after.
    #[must_use]
    pub fn sizes(&self) -> (u64, u64) {
        let sum = |size: fn(&Size) -> u64| {
            self.platforms.iter().fold(0_u64, |sum, platform| sum.saturating_add(size(&platform.size)))
        };
        (sum(|size| size.before), sum(|size| size.after))
    }

    /// Whether there is an image after the move whose size is known.
    #[must_use]
    pub fn moves(&self) -> bool {
        self.outcome != Outcome::Refused && self.digest.is_some()
    }
}

impl Reportable for Report {
    fn text(&self) -> String {
        to_text(self, Detail::Full)
    }

    fn json(&self) -> String {
        to_json(self)
    }

    fn rows(&self) -> Rows<'_> {
        let command = match self.asked {
            AskedFor::Rebase => "rebase",
            AskedFor::Plan => "plan",
        };
        Rows { command, thing: "image", list: vec![Row::of(self)] }
    }
}

fn targets(ending: &Ending<'_>) -> Vec<Target> {
    if let Some(receipt) = ending.receipt {
        let published = receipt.targets.iter();
        return published.map(|target| Target::new(&target.location, target.digest, target.change.into())).collect();
    }
    let Some(assembled) = ending.assembled.filter(|_| ending.outcome != Outcome::Refused) else { return Vec::new() };
    ending.targets.iter().map(|target| Target::new(target, assembled.top.digest(), TargetChange::Planned)).collect()
}

impl From<publish::Publication> for TargetChange {
    fn from(change: publish::Publication) -> Self {
        match change {
            publish::Publication::Written => Self::Written,
            publish::Publication::AlreadyThere => Self::AlreadyThere,
        }
    }
}

impl Target {
    fn new(location: &Location, digest: oci::Digest, change: TargetChange) -> Self {
        Self { reference: location.to_string(), digest: digest.to_string(), pinned: location.by_digest(digest), change }
    }
}

fn platforms(ending: &Ending<'_>) -> Vec<ReportedPlatform> {
    let missing = ending.missing.iter().map(|missing| ReportedPlatform {
        findings: missing.findings.iter().map(ReportedFinding::from).collect(),
        ..ReportedPlatform::unknown(missing.platform.to_string())
    });
    let platform = |pass: &Pass| {
        let start = ending.started.iter().find(|start| start.platform == pass.subject.platform);
        let started = start.zip(ending.seconds).map(|(start, seconds)| StartedPair::new(start, seconds));
        ReportedPlatform { started, ..platform(pass, ending.files) }
    };
    ending.passes.iter().map(platform).chain(missing).collect()
}

fn platform(pass: &Pass, files: FileListing) -> ReportedPlatform {
    let Pass { subject, facts, draft, startup, packages, findings, result, .. } = pass;
    let words = |of: fn(&Command) -> &Option<Vec<String>>| ReportedWords {
        before: of(&facts.command).clone().unwrap_or_default(),
        after: of(&draft.container.command).clone().unwrap_or_default(),
    };
    let layer = |reported: ReportedLayer, planned: &PlannedLayer| ReportedLayer {
        files: tree(subject, planned, files),
        ..reported
    };
    let layers = match result {
        Some(result) => result.layers.iter().map(|it| layer(ReportedLayer::of_result(it), &it.planned)).collect(),
        None => draft.planned.iter().map(|it| layer(ReportedLayer::of_plan(it), it)).collect(),
    };
    let in_result = result.iter().flat_map(|result| &result.layers).filter(|layer| layer.planned.fate.is_in_result());
    ReportedPlatform {
        digest: result.as_ref().map(|result| result.digest.to_string()),
        old_base: Some((&subject.old_base).into()),
        layers,
        entrypoint: words(|command| &command.entrypoint),
        cmd: words(|command| &command.cmd),
        logs: ReportedLogs::of(&draft.form),
        binaries: Binary::all(startup),
        findings: findings.iter().map(ReportedFinding::from).collect(),
        brought: draft.layers.bring.brought.iter().map(ReportedBrought::from).collect(),
        packages: ReportedPackages::of(packages),
        size: Size { before: subject.source.size(), after: in_result.map(|layer| layer.size).sum() },
        ..ReportedPlatform::unknown(subject.platform.to_string())
    }
}

/// The files of a layer: of one that is written those that it will have.
fn tree(subject: &PlatformSubject, layer: &PlannedLayer, files: FileListing) -> Option<FileTree> {
    match &layer.body {
        Body::Written { new, .. } => files.tree(new.entries().map(|(entry, _)| entry)),
        Body::Inherited(of) => {
            let mut read = subject.layers.iter().chain(&subject.old_layers).chain(&subject.base_layers);
            let index = read.find(|index| index.digest == of.descriptor.digest)?;
            files.tree(index.entries.iter())
        }
    }
}

impl ReportedPlatform {
    fn unknown(platform: String) -> Self {
        Self {
            platform,
            digest: None,
            old_base: None,
            layers: Vec::new(),
            entrypoint: ReportedWords::default(),
            cmd: ReportedWords::default(),
            logs: ReportedLogs { strategy: LogStrategy::None, file: None },
            binaries: Vec::new(),
            findings: Vec::new(),
            size: Size::default(),
            brought: Vec::new(),
            packages: None,
            started: None,
        }
    }
}

impl From<&crate::examine::base::OldBase> for ReportedOldBase {
    fn from(old: &crate::examine::base::OldBase) -> Self {
        Self { how: old.how, sure: old.sure, reference: old.reference.clone(), layers: old.layers }
    }
}

impl ReportedLayer {
    /// As it came out.
    fn of_result(layer: &FinalLayer) -> Self {
        Self {
            digest: layer.digest.to_string(),
            diff_id: layer.diff_id.to_string(),
            size: layer.size,
            ..Self::of_plan(&layer.planned)
        }
    }

    /// As it is planned; one that would be written has no digest yet.
    fn of_plan(layer: &PlannedLayer) -> Self {
        let (digest, diff_id, size) = match &layer.body {
            Body::Inherited(of) => (of.descriptor.digest.to_string(), of.diff_id.to_string(), of.descriptor.size),
            Body::Written { .. } => Default::default(),
        };
        let source = match &layer.body {
            Body::Written { of: Some(of), .. } => {
                Some(SourceLayer { digest: of.descriptor.digest.to_string(), size: of.descriptor.size })
            }
            _ => None,
        };
        let leaves = layer.leaving.iter().map(|leaving| Leaves {
            what: leaving.what.clone(),
            is_package: leaving.is_package,
            amount: leaving.bulk.into(),
        });
        let stays = (!layer.leaving.is_empty()).then(|| layer.staying.into());
        let (fate, why) = (layer.fate, layer.why.clone());
        Self { digest, diff_id, size, fate, why, source, leaves: leaves.collect(), stays, files: None }
    }
}

impl From<&Helper> for Binary {
    fn from(helper: &Helper) -> Self {
        Self::new(helper.path.to_string(), Some(&helper.program))
    }
}

impl ReportedFinding {
    /// Something to know that needs no action.
    #[must_use]
    pub const fn note(rule: Rule, message: String) -> Self {
        Self { rule, level: Level::Note, message, evidence: String::new(), fix: String::new() }
    }
}

impl From<&Finding> for ReportedFinding {
    fn from(finding: &Finding) -> Self {
        Self {
            rule: finding.rule,
            level: finding.level,
            message: finding.message.clone(),
            evidence: finding.evidence.clone(),
            fix: finding.fix.clone(),
        }
    }
}
