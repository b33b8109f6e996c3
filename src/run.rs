//! The flow, stage by stage: fetch; for each platform examine, plan, process, policy; then assemble,
//! publish, report. One value per arrow; no stage calls an earlier one. A stage that needs more of the
//! world says so, and it is fetched here.

use crate::assemble::{self, Assembled};
use crate::error::Result;
use crate::examine::{Fetched, PlatformSubject, Subject};
use crate::oci::{Location, Platform};
use crate::plan::{self, Pass};
use crate::policy::exceptions::Exception;
use crate::policy::{self, MissingPlatform};
use crate::report::{Ending, Inspection, Outcome, Report};
use crate::rules::{Finding, Level, Rule};
use crate::settings::Job;
use crate::store::fetch::Fetcher;
use crate::store::publish::{self, Publisher, Receipt};
use crate::store::{LayerStore, Session};

/// Everything that is known before the first byte is made.
struct Judged {
    image: Subject,
    passes: Vec<Pass>,
    /// Platforms that the new base does not have.
    missing: Vec<MissingPlatform>,
}

impl Judged {
    fn refuses(&self) -> bool {
        let findings = self.passes.iter().flat_map(|pass| &pass.findings);
        let missing = self.missing.iter().map(|missing| &missing.finding);
        self.passes.is_empty() || findings.chain(missing).any(|finding| finding.level == Level::Refuse)
    }

    /// About the image as a whole, so every platform has it.
    fn add(&mut self, finding: &Finding) {
        self.passes.iter_mut().for_each(|pass| pass.findings.push(finding.clone()));
    }
}

/// The main job. A refusal is a report, not an error; then nothing has been written.
pub fn rebase(session: &Session, job: &Job) -> Result<Report> {
    let (judged, assembled) = prepare(session, job)?;
    let Some(assembled) = assembled.as_ref().filter(|_| !judged.refuses()) else {
        let assembled = assembled.as_ref().map(|assembled| (assembled, None));
        return Ok(report(session, job, &judged, assembled, Outcome::Refused));
    };
    let receipt = publisher(session, job).publish(assembled, &job.targets)?;
    let outcome = if is_unchanged(&judged, &receipt) { Outcome::Unchanged } else { Outcome::Rebased };
    Ok(report(session, job, &judged, Some((assembled, Some(&receipt))), outcome))
}

/// The same run stopped before anything is written.
pub fn plan(session: &Session, job: &Job) -> Result<Report> {
    let (judged, assembled) = prepare(session, job)?;
    let outcome = if judged.refuses() { Outcome::Refused } else { Outcome::Planned };
    let assembled = assembled.as_ref().map(|assembled| (assembled, None));
    Ok(report(session, job, &judged, assembled, outcome))
}

/// Whether the image could move, without making a byte of the result. What `fetcher` has read is not
/// read again.
pub fn judge(session: &Session, fetcher: &Fetcher<'_>, job: &Job) -> Result<Report> {
    let mut judged = consider(fetcher, job)?;
    note_exception(job, &mut judged);
    let outcome = if judged.refuses() { Outcome::Refused } else { Outcome::Planned };
    Ok(report(session, job, &judged, None, outcome))
}

/// Looks at one image for itself.
pub fn inspect(
    session: &Session,
    image: &Location,
    platforms: &[Platform],
    known_bases: &[Location],
) -> Result<Inspection> {
    let inspected = session.fetcher().inspect(image, platforms, (None, known_bases))?;
    Ok(Inspection::new(&inspected))
}

/// Makes the result of `job` again, in memory. `None` where the new base has none of its platforms.
pub(crate) fn derive(session: &Session, job: &Job) -> Result<Option<Assembled>> {
    let mut judged = consider(&session.fetcher(), job)?;
    if judged.passes.is_empty() {
        return Ok(None);
    }
    assemble(session, job, &mut judged).map(Some)
}

/// Judges the image, and assembles it unless it is refused: a refusal costs no compression.
fn prepare(session: &Session, job: &Job) -> Result<(Judged, Option<Assembled>)> {
    let mut judged = consider(&session.fetcher(), job)?;
    let assembled = if judged.refuses() { None } else { Some(assemble(session, job, &mut judged)?) };
    if let Some(finding) = assembled.as_ref().and_then(|assembled| unexpected(job, assembled)) {
        judged.add(&finding);
    }
    note_exception(job, &mut judged);
    Ok((judged, assembled))
}

/// Fetches, and takes every platform through the stages that need no bytes.
fn consider(fetcher: &Fetcher<'_>, job: &Job) -> Result<Judged> {
    let Fetched { subject: image, platforms } = fetcher.fetch(&job.request())?;
    let passes = platforms.into_iter().map(|platform| pass(fetcher, job, &image, platform));
    let passes = passes.collect::<Result<Vec<Pass>>>()?;
    let missing = policy::missing_platforms(&image, job.options.on_missing_platform);
    Ok(Judged { image, passes, missing })
}

/// One platform, once everything that it depends on is there.
fn pass(fetcher: &Fetcher<'_>, job: &Job, image: &Subject, mut subject: PlatformSubject) -> Result<Pass> {
    while let Some(need) = plan::need(&subject) {
        fetcher.supply(&job.request(), &mut subject, need)?;
    }
    let mut pass = plan::pass(image, subject, &job.options);
    pass.findings = policy::judge(&pass, &job.options.allow);
    Ok(pass)
}

/// Makes the bytes of every platform, and what holds them together.
fn assemble(session: &Session, job: &Job, judged: &mut Judged) -> Result<Assembled> {
    let layers = LayerStore::new(&session.tools, &job.request())?;
    let mut images = Vec::new();
    for pass in &mut judged.passes {
        let image = assemble::image(pass, &layers)?;
        pass.result = Some(image.result.clone());
        images.push(image);
    }
    let top = plan::top(&judged.image, &judged.passes, &job.options);
    assemble::join(&top, &judged.image, images)
}

fn unexpected(job: &Job, assembled: &Assembled) -> Option<Finding> {
    let expected = job.options.expect_digest.filter(|expected| *expected != assembled.top.digest())?;
    Some(
        Finding::new(Rule::DigestUnexpected, Level::Refuse, "the result is not the one that --expect-digest names")
            .evidence(format!("expected {expected}, got {}", assembled.top.digest()))
            .fix("compare source, base and options with those of the expected image (`underpin inspect` shows its annotations)"),
    )
}

/// An exception lets the image stay where it is; it does not make a refused move right.
fn note_exception(job: &Job, judged: &mut Judged) {
    if let Some(finding) = job.exception.as_ref().map(|exception| recorded(exception, judged)) {
        judged.add(&finding);
    }
}

fn recorded(exception: &Exception, judged: &Judged) -> Finding {
    let Exception { component, base, reason, line, .. } = exception;
    let evidence = format!("line {line} of the list: {component} | {base} | {reason}");
    if judged.refuses() {
        let message = format!("{component} is recorded as an exception and may stay on its base: {reason}");
        return Finding::new(Rule::ExceptionRecorded, Level::Note, message).evidence(evidence);
    }
    Finding::new(Rule::ExceptionRecorded, Level::Warn, format!("{component} is recorded as an exception, and can move"))
        .evidence(evidence)
        .fix(format!("once it has moved, remove its row: underpin exceptions FILE --remove {component}"))
}

fn publisher<'a>(session: &'a Session, job: &'a Job) -> Publisher<'a> {
    Publisher { tools: &session.tools, source: &job.source, base: &job.options.base }
}

fn is_unchanged(judged: &Judged, receipt: &Receipt) -> bool {
    let image_is_as_it_was = judged.passes.iter().all(|pass| pass.draft.passes_on());
    let targets_are_as_they_were =
        receipt.targets.iter().all(|target| target.change == publish::Publication::AlreadyThere);
    image_is_as_it_was || targets_are_as_they_were
}

fn report(
    session: &Session,
    job: &Job,
    judged: &Judged,
    made: Option<(&Assembled, Option<&Receipt>)>,
    outcome: Outcome,
) -> Report {
    Report::new(&Ending {
        image: &judged.image,
        passes: &judged.passes,
        missing: &judged.missing,
        assembled: made.map(|(assembled, _)| assembled),
        receipt: made.and_then(|(_, receipt)| receipt),
        targets: &job.targets,
        outcome,
        traffic: session.traffic.tally(),
    })
}
