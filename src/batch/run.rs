//! Runs a batch: several images at once, each with its own outcome, and keeps the lock up to date.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::file::BatchEntry;
use super::lock::{Changes, Lock, Locked};
use crate::attest::sbom::Sbom;
use crate::report::{BatchRow, BatchTarget, Outcome, Report, ReportedFinding, RowOutcome, Size, TargetChange};
use crate::rules::{Level, Rule};
use crate::run as flow;
use crate::settings::Job;
use crate::store::{Session, parallel, publish};
use oci::error::{Error, Kind, Result};
use oci::{Digest, Location};

/// How the lock is used in this run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locking {
    /// Pinned digests are used; new images are added.
    Use,
    /// Whatever differs from it is refused.
    Strict,
    /// Every name is resolved again.
    Update,
}

/// What a run changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchEffect {
    /// Targets, and the lock.
    Publish,
    /// The lock and nothing else: images are planned, and what is in the lock stays.
    LockOnly,
}

/// The images to rebase, and how to save the lock.
pub struct BatchRun<'a> {
    pub entries: Vec<&'a BatchEntry>,
    pub lock: Lock,
    pub locking: Locking,
    pub effect: BatchEffect,
    pub jobs: usize,
    /// Notes what became of one image, so that a run that is killed has not lost it.
    pub note: &'a (dyn Fn(&str) -> Result<()> + Sync),
    /// Saves the lock; called at the end.
    pub save: &'a (dyn Fn(&Changes) -> Result<()> + Sync),
    /// Tells of an image that is done.
    pub tell: &'a (dyn Fn(&BatchRow) + Sync),
    /// Writes what is a document of its own, image by image: all of them together may be large.
    pub write_sboms: &'a (dyn Fn(&[Sbom]) -> Result<()> + Sync),
}

/// The lock during the run.
struct LockWriter<'a> {
    changes: Mutex<Changes>,
    note: &'a (dyn Fn(&str) -> Result<()> + Sync),
    /// Whether it was said that nothing can be noted.
    has_warned: AtomicBool,
}

/// What a batch has done.
pub struct BatchDone {
    /// In the order of the entries.
    pub rows: Vec<BatchRow>,
    /// Whether the lock and the SBOMs could be saved: the images are where they are also if not.
    pub saved: Result<()>,
}

/// Rebases all images.
pub fn run(session: &Session, batch: &BatchRun<'_>) -> Result<BatchDone> {
    let keeper = LockWriter { changes: Mutex::default(), note: batch.note, has_warned: AtomicBool::new(false) };
    let written = Mutex::new(Ok(()));
    let rows = parallel::map(&batch.entries, batch.jobs, |entry| {
        let _turn = session.tools.begin_image();
        let (mut row, change) = one(session, entry, batch);
        if let Some(report) = &mut row.report
            && let Err(error) = (batch.write_sboms)(&std::mem::take(&mut report.sboms))
        {
            let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
            *written = std::mem::replace(&mut *written, Ok(())).and(Err(error.fact("image", &entry.job.source)));
        }
        if batch.locking != Locking::Strict {
            keeper.keep(session, entry, change);
        }
        (batch.tell)(&row);
        Ok(row)
    })?;
    let saved = match batch.locking {
        Locking::Strict => Ok(()),
        Locking::Use | Locking::Update => {
            (batch.save)(&keeper.changes.into_inner().unwrap_or_else(PoisonError::into_inner))
        }
    };
    let written = written.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(BatchDone { rows, saved: saved.and(written) })
}

impl LockWriter<'_> {
    fn keep(&self, session: &Session, entry: &BatchEntry, change: LockChange) {
        let locked = match change {
            LockChange::None => return,
            LockChange::Forget => None,
            LockChange::Put(locked) => Some(*locked),
        };
        let noted = (self.note)(&Changes::journal_line(entry, locked.as_ref()));
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).put(entry, locked);
        // Whether the lock can be written counts at the end; until then the work continues.
        if let Err(error) = noted
            && !self.has_warned.swap(true, Ordering::Relaxed)
        {
            session.tools.notices.warn(format!("could not write underpin.lock.journal: {}", error.what()));
        }
    }
}

/// What changes in the lock for an image.
enum LockChange {
    None,
    Put(Box<Locked>),
    /// It has no result any more: its entry is out of date.
    Forget,
}

/// One image: its row, and the change of its entry in the lock.
fn one(session: &Session, entry: &BatchEntry, batch: &BatchRun<'_>) -> (BatchRow, LockChange) {
    let locked = batch.lock.entry_for(entry).filter(|_| batch.locking != Locking::Update);
    let outcome = match batch.effect {
        BatchEffect::Publish => attempt(session, entry, locked, batch.locking),
        BatchEffect::LockOnly => plan(session, entry, locked),
    };
    match outcome {
        Ok(done) => done,
        Err(error) => (failed(&entry.job, error), LockChange::None),
    }
}

fn attempt(
    session: &Session,
    entry: &BatchEntry,
    locked: Option<&Locked>,
    locking: Locking,
) -> Result<(BatchRow, LockChange)> {
    if locking == Locking::Strict && locked.is_none() && entry.job.exception.is_some() {
        // What stays where it is has no result that a lock could have.
        let report = flow::plan(session, &entry.job)?;
        if report.outcome == Outcome::Refused {
            return Ok((moved(&entry.job, report), LockChange::None));
        }
    }
    if locking == Locking::Strict
        && let Some(drift) = drift(session, entry, locked)?
    {
        return Ok((refused(&entry.job, drift), LockChange::None));
    }
    let Some(locked) = locked else { return rebase(session, entry, &entry.job) };
    // What is attached to it would have to be looked at, too.
    if !entry.job.options.attaches() && is_finished(session, &entry.job.targets, locked.result)? {
        return Ok((finished(&entry.job, locked), LockChange::None));
    }
    let mut job = locked.pin(&entry.job)?;
    if locking == Locking::Strict {
        job.options.expect_digest.get_or_insert(locked.result);
    }
    let pinned_and_gone = |error: Error| match error.kind() {
        Kind::Missing => error.hint("underpin.lock pins this digest; --update-lock resolves every name again"),
        _ => error,
    };
    rebase(session, entry, &job).map_err(pinned_and_gone)
}

/// What the lock has of an image, or what it will have.
fn plan(session: &Session, entry: &BatchEntry, locked: Option<&Locked>) -> Result<(BatchRow, LockChange)> {
    let (row, change) = match locked {
        Some(locked) => (finished(&entry.job, locked), LockChange::None),
        None => ended(entry, flow::plan(session, &entry.job)?)?,
    };
    // Nothing is published, so there is no target to tell of.
    Ok((BatchRow { targets: Vec::new(), ..row }, change))
}

fn rebase(session: &Session, entry: &BatchEntry, job: &Job) -> Result<(BatchRow, LockChange)> {
    let flow::Rebased { report, attached } = flow::rebase(session, job)?;
    attached
        .map_err(|error| report.targets.iter().fold(error, |error, target| error.fact("published", &target.pinned)))?;
    ended(entry, report)
}

fn ended(entry: &BatchEntry, report: Report) -> Result<(BatchRow, LockChange)> {
    let result = report.digest.as_deref().filter(|_| report.outcome != Outcome::Refused);
    let change = match result {
        Some(digest) => LockChange::Put(Box::new(Locked::record(entry, &report, digest.parse()?)?)),
        None => LockChange::Forget,
    };
    Ok((moved(&entry.job, report), change))
}

/// Whether every target has the result, with all of its parts.
fn is_finished(session: &Session, targets: &[Location], result: Digest) -> Result<bool> {
    for target in targets {
        if !publish::is_published(&session.tools, target, result)? {
            return Ok(false);
        }
    }
    Ok(!targets.is_empty())
}

/// What differs from the lock: the options, or what a name resolves to now.
fn drift(session: &Session, entry: &BatchEntry, locked: Option<&Locked>) -> Result<Option<ReportedFinding>> {
    let finding = |message: &str, evidence: String| ReportedFinding {
        rule: Rule::LockDrift,
        level: Level::Refuse,
        message: message.to_owned(),
        evidence,
        fix: "review the change, then accept it with --update-lock".to_owned(),
    };
    let Some(locked) = locked else {
        let evidence = format!("{} at {}", entry.job.source, entry.at);
        return Ok(Some(finding("underpin.lock has no entry for this image with these options", evidence)));
    };
    let (source, options) = (&entry.job.source, &entry.job.options);
    let runner = options.log_runner.as_ref().zip(locked.pins.log_runner);
    let base = locked.base(&entry.job)?;
    let base = base.as_ref().map(|base| (base, locked.pins.base));
    for (location, pinned) in [(source, locked.pins.source)].into_iter().chain(base).chain(runner) {
        let now = resolve(session, location)?;
        if now != Some(pinned) {
            let now = now.map_or_else(|| "nothing".to_owned(), |digest| digest.to_string());
            return Ok(Some(finding(
                "a name resolves to another digest than underpin.lock has",
                format!("{location}: {pinned} in the lock, {now} now"),
            )));
        }
    }
    Ok(None)
}

/// What a name resolves to now; a pinned one needs no request.
fn resolve(session: &Session, location: &Location) -> Result<Option<Digest>> {
    match location {
        _ if location.digest().is_some() => Ok(location.digest()),
        Location::Registry(_) => session.resolve_once(location),
        _ => Ok(Some(session.tools.places.source(location)?.top()?.digest())),
    }
}

fn bare(job: &Job, outcome: RowOutcome) -> BatchRow {
    let (targets, findings) = (Vec::new(), Vec::new());
    let source = job.source.to_string();
    BatchRow { source, outcome, targets, size: Size::default(), findings, error: None, report: None, cause: None }
}

fn failed(job: &Job, error: Error) -> BatchRow {
    BatchRow { error: Some(error.what().to_owned()), cause: Some(error), ..bare(job, RowOutcome::Failed) }
}

fn refused(job: &Job, finding: ReportedFinding) -> BatchRow {
    BatchRow { findings: vec![finding], ..bare(job, RowOutcome::Refused) }
}

/// Every target named the result already.
fn finished(job: &Job, locked: &Locked) -> BatchRow {
    let targets = job.targets.iter().map(|target| BatchTarget::new(target, locked.result, TargetChange::AlreadyThere));
    let size = Size { before: locked.before, after: locked.after };
    BatchRow { targets: targets.collect(), size, ..bare(job, RowOutcome::Unchanged) }
}

/// The row of a report. A component of the exception list that cannot move stays where it is,
/// which is no failure of the batch.
fn moved(job: &Job, mut report: Report) -> BatchRow {
    let outcome = match (report.outcome, &job.exception) {
        (Outcome::Refused, Some(_)) => RowOutcome::Excepted,
        (outcome, _) => outcome.into(),
    };
    let published =
        job.targets.iter().zip(&report.targets).filter_map(|(location, target)| {
            Some(BatchTarget::new(location, target.digest.parse().ok()?, target.change))
        });
    let (before, after) = report.sizes();
    let size = Size { before, after };
    let targets = published.collect();
    // Images share one world, so only the batch knows its traffic.
    report.traffic = None;
    BatchRow { targets, size, report: Some(report), ..bare(job, outcome) }
}
