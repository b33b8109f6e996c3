//! The presubmit question: what does the image stand on, may it, and could it move?
//!
//! The same run as `plan`, and beside it the policy on bases and the exception list.

use crate::error::{Error, Result};
use crate::examine::base::{Choice, OldBase};
use crate::oci::{Location, Platform};
use crate::policy::exceptions::{ExceptionList, component_names};
use crate::policy::{BasePolicy, CurrentBase, Movable, judge_base};
use crate::report::{CheckedImage, CheckedPlatform, Named, Outcome, Report};
use crate::run;
use crate::settings::Job;
use crate::store::fetch::{Fetcher, Inspected, InspectedPlatform, OldBaseChoice};
use crate::world::World;

/// The image with what is held against it.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The move to an allowed base that is tried.
    pub job: &'a Job,
    pub policy: &'a BasePolicy,
    pub list: Option<&'a ExceptionList>,
}

/// What one platform stands on.
struct Stand {
    platform: Platform,
    old_base: OldBase,
    current: CurrentBase,
}

/// Looks at the image and judges it. That it must not stay as it is is an answer, not an error.
pub fn check(world: &World, question: &Question<'_>) -> Result<CheckedImage> {
    let fetcher = world.fetcher();
    let source = &question.job.request.source;
    let inspected = inspect(&fetcher, question.job)?;
    let stands = inspected.platforms.iter().map(|platform| stand(&fetcher, question, platform)).collect::<Vec<_>>();
    let (movable, plan) = movable(world, question, &stands);
    let recorded = question.list.and_then(|list| list.of(source));
    let component = component_names(source).first().map_or_else(|| source.to_string(), ToString::to_string);
    let platforms = stands.iter().map(|stand| {
        let (verdict, findings) = judge_base(question.policy, &stand.current, recorded, &movable, &component);
        CheckedPlatform::new(&stand.platform, &stand.old_base, &stand.current, verdict, &findings)
    });
    let platforms = platforms.collect();
    let origin = &inspected.origin;
    let image = Named { reference: origin.location.without_digest(), digest: origin.top.digest().to_string() };
    Ok(CheckedImage::new(image, component.clone(), recorded.cloned(), platforms, movable, plan))
}

fn inspect(fetcher: &Fetcher<'_>, job: &Job) -> Result<Inspected> {
    let choice = match &job.request.old_base {
        OldBaseChoice::Same(choice) => choice.clone(),
        OldBaseChoice::Each(_) => Choice::Detect,
    };
    fetcher.inspect(&job.request.source, &job.request.platforms, &choice)
}

/// The ladder's answer; where it has no name, the bases of the policy are held against the layers.
fn stand(fetcher: &Fetcher<'_>, question: &Question<'_>, of: &InspectedPlatform) -> Stand {
    let current = match CurrentBase::of(&of.old_base) {
        CurrentBase::Named(location) => CurrentBase::Named(location),
        unnamed => fetcher.footing(&of.image, &candidates(question)).map_or(unnamed, CurrentBase::Named),
    };
    Stand { platform: of.platform.clone(), old_base: of.old_base.clone(), current }
}

fn candidates(question: &Question<'_>) -> Vec<Location> {
    let job = question.job;
    let recorded = question.list.and_then(|list| list.of(&job.request.source));
    let recorded = recorded.and_then(|exception| exception.base.parse().ok());
    let mut all: Vec<Location> = job.request.known.clone();
    for location in question.policy.images().into_iter().chain(recorded).chain([job.request.base.clone()]) {
        if !all.contains(&location) {
            all.push(location);
        }
    }
    all
}

/// Tries the move, short of writing anything.
fn movable(world: &World, question: &Question<'_>, stands: &[Stand]) -> (Movable, Option<Report>) {
    if stands.iter().all(|stand| question.policy.allows(&stand.current)) {
        return (Movable::Already, None);
    }
    let mut job = question.job.clone();
    for stand in stands {
        if let CurrentBase::Named(location) = &stand.current {
            job.request.known.push(location.clone());
        }
    }
    match run::plan(world, &job) {
        Ok(report) if report.outcome == Outcome::Refused => (Movable::No(report.refusals()), Some(report)),
        Ok(report) => (Movable::Yes, Some(report)),
        Err(error) => (Movable::Unknown(Error::what(&error).to_owned()), None),
    }
}
