//! The presubmit question: what is the image based on, is that allowed, and could it move?
//!
//! The same run as `plan`, and beside it the policy on bases and the exception list.

use crate::examine::base::{OldBase, Rung};
use crate::plan::DEFAULT_BASE;
use crate::policy::exceptions::{ExceptionList, component_names};
use crate::policy::{BasePolicy, CurrentBase, Movable, TriedMove, judge_alone, judge_base};
use crate::report::{CheckedImage, CheckedPlatform, FileListing, InspectionPlatform, Named, Outcome, Report};
use crate::run;
use crate::settings::Job;
use crate::store::Session;
use crate::store::fetch::{Fetcher, Inspected, InspectedPlatform};
use oci::error::{CommandLine, Error, Result};
use oci::{Location, Platform};

/// The image with what is held against it.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The move to an allowed base that is tried.
    pub job: &'a Job,
    pub policy: &'a BasePolicy,
    pub list: Option<&'a ExceptionList>,
}

/// What one platform is based on.
struct Stand {
    platform: Platform,
    old_base: OldBase,
    current: CurrentBase,
}

/// Looks at the image and judges it. That it must not stay as it is is an answer, not an error.
pub fn check(session: &Session, question: &Question<'_>) -> Result<CheckedImage> {
    let fetcher = session.fetcher();
    let source = &question.job.source;
    let inspected = inspect(&fetcher, question.job)?;
    let stands = inspected.platforms.iter().map(|platform| stand(&fetcher, question, platform)).collect::<Vec<_>>();
    let unsigned = run::unsigned_source(&fetcher, question.job)?;
    let (movable, plan) = movable((session, &fetcher), question, &stands);
    let recorded = question.list.and_then(|list| list.exception_for(source));
    let component = component_names(source).first().map_or_else(|| source.to_string(), ToString::to_string);
    let is_staying = matches!(movable, Movable::Already);
    let platforms = stands.iter().zip(&inspected.platforms).map(|(stand, inspected)| {
        let command = move_command(question.job, stand, plan.as_ref());
        let tried = TriedMove { component: &component, movable: &movable, command: &command };
        let (verdict, mut findings) = judge_base(question.policy, &stand.current, recorded, &tried);
        // Where it is to stay it must also start.
        if is_staying {
            findings.extend(judge_alone(&inspected.start, &stand.platform));
        }
        findings.extend(unsigned.iter().cloned());
        if let CurrentBase::Named(base) = &stand.current {
            findings.extend(run::unsigned_base(&fetcher, question.job, ("base", base), None)?);
        }
        Ok(CheckedPlatform::new(&stand.platform, &stand.old_base, &stand.current, verdict, &findings))
    });
    let platforms = platforms.collect::<Result<Vec<_>>>()?;
    let origin = &inspected.origin;
    let image = Named { reference: origin.location.without_digest(), digest: origin.top.digest().to_string() };
    let image = CheckedImage::new(image, component.clone(), recorded.cloned(), platforms, movable, plan);
    let size = inspected.platforms.iter().fold(0_u64, |sum, it| sum.saturating_add(it.image.size()));
    Ok(CheckedImage { inspected: shown(&inspected, question.job.files, &image), size, ..image })
}

/// A page shows the layers of an image also where no move was tried.
fn shown(inspected: &Inspected, files: FileListing, checked: &CheckedImage) -> Vec<InspectionPlatform> {
    let is_page = files != FileListing::None && checked.plan.is_none();
    inspected.platforms.iter().filter(|_| is_page).map(|it| InspectionPlatform::new(it, files)).collect()
}

fn inspect(fetcher: &Fetcher<'_>, job: &Job) -> Result<Inspected> {
    let options = &job.options;
    fetcher.inspect(&job.source, &options.platforms, (options.old_base.as_ref(), &options.known_bases))
}

/// The ladder's answer; where it has no name, the layers are compared with the bases that somebody named.
fn stand(fetcher: &Fetcher<'_>, question: &Question<'_>, of: &InspectedPlatform) -> Stand {
    let current = match CurrentBase::of(&of.old_base) {
        CurrentBase::Named(location) => CurrentBase::Named(location),
        unnamed => fetcher.footing(&of.image, &candidates(question)).map_or(unnamed, CurrentBase::Named),
    };
    Stand { platform: of.platform.clone(), old_base: of.old_base.clone(), current }
}

/// The command that makes the move that was tried; only its target is left to the reader.
fn move_command(job: &Job, stand: &Stand, plan: Option<&Report>) -> CommandLine {
    let options = &job.options;
    let mut command = CommandLine::underpin("rebase").arg(&job.source);
    match (&options.old_base, &stand.current) {
        (Some(old_base), _) => command = command.flag("--old-base", old_base),
        // What the image itself does not name was compared with bases that `rebase` does not know of.
        (None, CurrentBase::Named(base)) if stand.old_base.reference.is_none() || stand.old_base.how == Rung::Known => {
            command = command.flag("--known-base", base);
        }
        _ => {}
    }
    let chosen = options.base.location().map(ToString::to_string);
    let base = chosen.or_else(|| plan.map(|plan| plan.base.reference.clone()));
    if let Some(base) = base.filter(|base| *base != DEFAULT_BASE) {
        command = command.flag("--base", base);
    }
    options
        .platforms
        .iter()
        .fold(command, |command, platform| command.flag("--platform", platform))
        .flag("--to", "TARGET")
}

fn candidates(question: &Question<'_>) -> Vec<Location> {
    let job = question.job;
    let recorded = question.list.and_then(|list| list.exception_for(&job.source));
    let recorded = recorded.map(|exception| question.policy.recorded_images(&exception.base)).unwrap_or_default();
    let mut all: Vec<Location> = job.options.known_bases.clone();
    let base = job.options.base.location();
    for location in question.policy.comparable(base).into_iter().chain(recorded).chain(base.cloned()) {
        if !all.contains(&location) {
            all.push(location);
        }
    }
    all
}

/// Tries the move, short of writing anything.
fn movable(
    (session, fetcher): (&Session, &Fetcher<'_>),
    question: &Question<'_>,
    stands: &[Stand],
) -> (Movable, Option<Report>) {
    if stands.iter().all(|stand| question.policy.allows(&stand.current)) {
        return (Movable::Already, None);
    }
    let mut job = question.job.clone();
    for stand in stands {
        if let CurrentBase::Named(location) = &stand.current {
            job.options.known_bases.push(location.clone());
        }
    }
    match run::judge(session, fetcher, &job) {
        Ok(report) if report.outcome == Outcome::Refused => (Movable::No(report.refusals()), Some(report)),
        Ok(report) => (Movable::Yes, Some(report)),
        Err(error) => (Movable::Unknown(Error::what(&error).to_owned()), None),
    }
}
