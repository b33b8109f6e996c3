//! `underpin batch`: many images from one file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use globset::{Glob, GlobSet, GlobSetBuilder};

use super::Ended;
use super::args::{SayArgs, SessionArgs, epoch, read_pod};
use super::console::{Console, Form};
use super::keys::{SigningKeys, beside};
use super::lock_file::LockFile;
use super::policy_args::{BatchLists, PolicyArgs, read_text, text_of};
use super::report_file::{Images, ReportFiles, ResultReportArgs};
use crate::attest::sbom::SbomWish;
use crate::batch::{
    self, BatchEffect, BatchEntry, BatchFile, LARGEST, Locking, Promotion, SCHEMA, Shard, read_promoter,
};
use crate::process::PodContainer;
use crate::report::{BatchOutcome, BatchReport, Reportable as _};
use crate::settings::Job;
use crate::store::Session;
use crate::store::disk::{OutputFile, read_edited};
use crate::yaml;
use oci::error::{Error, Result};

/// Move many images, listed in a YAML file
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_flag = true)]
pub struct Batch {
    /// Batch file
    #[arg(value_name = "FILE", required_unless_present = "schema")]
    file: Option<PathBuf>,
    /// Process only part I of N, counted from 0; `/N` takes I from `JOB_COMPLETION_INDEX`
    #[arg(long, value_name = "I/N")]
    shard: Option<String>,
    #[command(flatten)]
    lock: LockArgs,
    /// Process only images whose source or a target matches; `*` is anything (repeatable)
    #[arg(long, value_name = "PATTERN")]
    only: Vec<String>,
    /// Add the results to this manifest for the Kubernetes image promoter, or begin one
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    promoter: Option<PathBuf>,
    /// Registry, with or without a path, that the names in the promoter's manifest are relative to [default: the registry of the targets]
    #[arg(long, value_name = "REF", requires = "promoter", help_heading = "Output")]
    promoter_prefix: Option<String>,
    /// Print the JSON Schema of batch files
    #[arg(long, help_heading = "Output")]
    schema: bool,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    pub(super) world: SessionArgs,
    #[command(flatten)]
    reports: ResultReportArgs,
    #[command(flatten)]
    pub(super) say: SayArgs,
}

/// How underpin.lock is used.
#[derive(Debug, Args)]
struct LockArgs {
    /// Refuse anything that differs from underpin.lock, and do not update it
    #[arg(long, conflicts_with = "update_lock")]
    locked: bool,
    /// Resolve every tag again, and update underpin.lock
    #[arg(long)]
    update_lock: bool,
    /// Write underpin.lock and nothing else: images that it does not have are planned, not moved
    #[arg(long, conflicts_with_all = ["locked", "promoter"])]
    lock_only: bool,
}

const EXAMPLES: &str = "Examples:
  # all images of a release; what each tag resolves to is recorded in underpin.lock next to the file
  underpin batch images.yaml --report html=report.html

  # in CI: the same digests, or a refusal
  underpin batch images.yaml --locked

  # resolve every tag, and write underpin.lock without moving anything
  underpin batch images.yaml --lock-only

  # one image of them
  underpin batch images.yaml --only '*/app:*'

  # on one of sixteen machines
  underpin batch images.yaml --locked --shard 3/16

Exit codes: 0 every image was moved, was already up to date, or has an exception; 1 an image was refused; 2 an image failed.";

impl Batch {
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        let Some(path) = self.file.as_deref().filter(|_| !self.schema) else {
            console.data(SCHEMA);
            return Ok(Ended::Done);
        };
        let entries = self.entries(path, self.reports.sbom_wish())?;
        for entry in &entries {
            entry.job.note_files();
        }
        let sboms = self.reports.sboms(Images::Many)?;
        let (shard, only) = (self.shard()?, self.only()?);
        let is_part = |(at, entry): &(usize, &BatchEntry)| {
            shard.has(*at) && only.as_ref().is_none_or(|only| matches(only, entry))
        };
        let part: Vec<&BatchEntry> = entries.iter().enumerate().filter(is_part).map(|(_, entry)| entry).collect();
        if only.as_ref().is_some_and(|only| !entries.iter().any(|entry| matches(only, entry))) {
            return Err(Error::usage("no image matches --only").fact("pattern", self.only.join(", ")));
        }
        let lock_file = LockFile::beside(path, self.locking());
        let lock = lock_file.read()?;
        let files = self.open_files(&lock_file, &part)?;
        let options = self.world.session_options()?;
        let session = Session::new(&options, console.notices(), console.progress())?;
        let notices = console.notices();
        let progress = console.images(part.len());
        let done = batch::run(
            &session,
            &batch::BatchRun {
                entries: part,
                lock,
                locking: self.locking(),
                effect: if self.lock.lock_only { BatchEffect::LockOnly } else { BatchEffect::Publish },
                jobs: options.jobs,
                note: &|line| lock_file.note(line),
                save: &|changes| lock_file.save(changes, &entries, &notices),
                tell: &|row| progress.done(&row.line()),
                write_sboms: &|documents| sboms.write(documents),
            },
        )?;
        drop(progress);
        let report = BatchReport::new(done.rows, session.traffic.tally());
        let ended = console.ended(show(console, &report), done.saved);
        Ok(console.ended(ended, files.write(&report)))
    }

    /// The images with their exceptions. Each needs a target.
    fn entries(&self, path: &Path, sbom: SbomWish) -> Result<Vec<BatchEntry>> {
        let policy = self.policy.read()?;
        let (mut lists, mut keys) = (BatchLists::beside(path), SigningKeys::default());
        let mut entries = read_batch(path)?.images;
        let files = self.reports.listing(entries.len());
        for entry in &mut entries {
            if entry.job.targets.is_empty() {
                return Err(yaml::wrong("the image has no `target`", entry.at).fact("path", path.display()));
            }
            let list = lists.list_for(entry, &policy)?;
            let key = entry.job.options.sign_key.as_ref().map(|key| keys.get(&beside(path, key)));
            let signer = key.transpose().map_err(|error| error.fact("at", entry.at))?;
            let pod = batch_pod(entry, path)?;
            let job = Job { pod, signer, sbom, files, ..entry.job.clone() };
            entry.replace_job(policy.apply_list(job, list.as_deref()));
        }
        Ok(entries)
    }

    fn shard(&self) -> Result<Shard> {
        let index = std::env::var("JOB_COMPLETION_INDEX").ok();
        self.shard.as_deref().map_or(Ok(Shard::WHOLE), |text| Shard::read(text, index.as_deref()))
    }

    /// The patterns of `--only`, where there are some.
    fn only(&self) -> Result<Option<GlobSet>> {
        let mut patterns = GlobSetBuilder::new();
        for pattern in &self.only {
            let wrong = |error| Error::usage("the pattern is not valid").fact("pattern", pattern).cause(error);
            patterns.add(Glob::new(pattern).map_err(wrong)?);
            // Hosts are in lower case, whatever the file has.
            if let Some((host, rest)) = pattern.split_once('/') {
                patterns.add(Glob::new(&format!("{}/{rest}", host.to_ascii_lowercase())).map_err(wrong)?);
            }
        }
        let wrong = |error| Error::usage("the patterns of --only are not valid").cause(error);
        (!self.only.is_empty()).then(|| patterns.build().map_err(wrong)).transpose()
    }

    const fn locking(&self) -> Locking {
        match (self.lock.locked, self.lock.update_lock) {
            (true, _) => Locking::Strict,
            (_, true) => Locking::Update,
            _ => Locking::Use,
        }
    }

    /// All files that will be written; the lock is saved again and again, so it is only tried.
    fn open_files(&self, lock: &LockFile, part: &[&BatchEntry]) -> Result<Files> {
        // `--locked` needs a lock, and is no way to a new one.
        let is_enough = lock.exists() && !self.lock.update_lock && !self.lock.lock_only;
        lock.open().map_err(|error| {
            error.hint(if is_enough {
                "pass --locked, which does not write underpin.lock"
            } else {
                "underpin.lock is written beside the batch file: copy that to where you can write"
            })
        })?;
        let prefix = self.promoter_prefix.clone();
        let promoter = self.promoter.as_deref().map(|path| PromoterFile::open(path, prefix, part));
        Ok(Files { promoter: promoter.transpose()?, reports: self.reports.open()? })
    }
}

/// The files that the command line names, open and not written yet.
struct Files {
    promoter: Option<PromoterFile>,
    reports: ReportFiles,
}

/// The manifest of the promoter, as it is and open.
struct PromoterFile {
    file: OutputFile,
    there: String,
    prefix: Option<String>,
}

impl PromoterFile {
    /// One that cannot be read, and a target that it cannot name, is an error before anything is published.
    fn open(path: &Path, prefix: Option<String>, part: &[&BatchEntry]) -> Result<Self> {
        let targets = part.iter().flat_map(|entry| &entry.job.targets);
        Promotion::of(targets.map(|target| (target, "")), prefix.as_deref())?;
        let file = OutputFile::open(path)?;
        // A pipe is written to, and has nothing to add to.
        let there = if path.is_file() { text_of(path, read_edited(path, LARGEST))? } else { String::new() };
        read_promoter(&there).map_err(|error| error.fact("path", path.display()))?;
        Ok(Self { file, there, prefix })
    }

    fn write(self, report: &BatchReport) -> Result<()> {
        let targets = report.images.iter().flat_map(|row| &row.targets);
        let published = targets.map(|target| (&target.location, target.digest.as_str()));
        let page = Promotion::of(published, self.prefix.as_deref())?.page(&self.there)?;
        if page == self.there { Ok(()) } else { self.file.write(page.as_bytes()) }
    }
}

impl Files {
    fn write(self, report: &BatchReport) -> Result<()> {
        let promoter = self.promoter.map(|file| file.write(report));
        promoter.unwrap_or(Ok(())).and(self.reports.write(report))
    }
}

/// The container whose start is to be proven; its manifest is relative to the directory of the batch file.
pub(super) fn batch_pod(entry: &BatchEntry, path: &Path) -> Result<Option<Arc<PodContainer>>> {
    let from = entry.job.options.command_from.as_ref();
    let pod = from.map(|from| read_pod(from, &path.with_file_name(&from.file))).transpose();
    pod.map_err(|error| error.fact("at", entry.at))
}

/// Whether the source or a target of the image is meant.
fn matches(only: &GlobSet, entry: &BatchEntry) -> bool {
    let names = [&entry.job.source].into_iter().chain(&entry.job.targets);
    names.map(ToString::to_string).any(|name| only.is_match(&name))
}

/// The file with its images.
pub(super) fn read_batch(path: &Path) -> Result<BatchFile> {
    let beside = |name: &str| read_text(&path.with_file_name(name), LARGEST);
    BatchFile::read(&read_text(path, LARGEST)?, epoch()?, &beside).map_err(|error| error.fact("path", path.display()))
}

/// stdout carries one pinned reference per target, or the JSON report.
fn show(console: &Console, report: &BatchReport) -> Ended {
    match report.outcome {
        BatchOutcome::Done => console.say(&report.text()),
        // Also with --quiet: why an image was not rebased.
        BatchOutcome::Refused | BatchOutcome::Failed => console.insist(&report.text()),
    }
    match console.form {
        Form::Json => console.json(&report.json()),
        Form::Text => {
            let targets = report.images.iter().flat_map(|row| &row.targets);
            targets.for_each(|target| console.data(&format!("{}\n", target.pinned)));
        }
    }
    report.grade().into()
}
