//! The flow, stage by stage: fetch, examine, judge, plan, assemble, publish, report.
//! One value per arrow; no stage calls an earlier one.

use crate::assemble::{self, Assembled};
use crate::error::Result;
use crate::examine::{self, Facts};
use crate::oci::Location;
use crate::plan::{self, ImagePlan, Plan};
use crate::policy::exceptions::Exception;
use crate::policy::{self, Finding, Findings, Level, Rule};
use crate::report::{Ending, Inspection, Outcome, Report};
use crate::settings::Job;
use crate::store::Bench;
use crate::store::publish::{self, Publisher, Receipt};
use crate::world::World;

/// Everything that is known before the first byte is written.
struct Prepared {
    facts: Facts,
    findings: Findings,
    plan: Plan,
    /// `None` where there is no platform to assemble.
    assembled: Option<Assembled>,
}

/// The main job. A refusal is a report, not an error; then nothing has been written.
pub fn rebase(world: &World, job: &Job) -> Result<Report> {
    let prepared = prepare(world, job)?;
    let Some(assembled) = prepared.assembled.as_ref().filter(|_| !prepared.findings.refuse()) else {
        return Ok(report(world, job, &prepared, None, Outcome::Refused));
    };
    let receipt = publisher(world, job).publish(assembled, &job.targets)?;
    let outcome = if is_unchanged(&prepared.plan, &receipt) { Outcome::Unchanged } else { Outcome::Rebased };
    Ok(report(world, job, &prepared, Some(&receipt), outcome))
}

/// The same run stopped before anything is written.
pub fn plan(world: &World, job: &Job) -> Result<Report> {
    let prepared = prepare(world, job)?;
    let refused = prepared.findings.refuse() || prepared.assembled.is_none();
    let outcome = if refused { Outcome::Refused } else { Outcome::Planned };
    Ok(report(world, job, &prepared, None, outcome))
}

/// Looks at one image for itself.
pub fn inspect(world: &World, image: &Location, platforms: &[crate::oci::Platform]) -> Result<Inspection> {
    let inspected = world.fetcher().inspect(image, platforms, &examine::base::Choice::Detect)?;
    Ok(Inspection::new(&inspected))
}

/// Makes the result of `job` again, in memory.
pub(crate) fn derive(world: &World, job: &Job) -> Result<Option<Assembled>> {
    Ok(prepare(world, job)?.assembled)
}

fn prepare(world: &World, job: &Job) -> Result<Prepared> {
    let subject = world.fetcher().fetch(&job.request)?;
    let facts = examine::look(subject, &job.options.wishes);
    let mut findings = policy::judge(&facts, job.on_missing, &job.options.allow);
    let plan = plan::draw(&facts, &job.options);
    let bench = Bench::new(&world.tools, &job.request)?;
    let assembled =
        if plan.platforms.is_empty() { None } else { Some(assemble::build(&plan, &facts.subject, &bench)?) };
    if let Some(finding) = assembled.as_ref().and_then(|assembled| unexpected(job, assembled)) {
        findings.platforms.iter_mut().for_each(|platform| platform.push(finding.clone()));
    }
    if let Some(finding) = job.exception.as_ref().map(|exception| recorded(exception, &findings)) {
        findings.platforms.iter_mut().for_each(|platform| platform.push(finding.clone()));
    }
    Ok(Prepared { facts, findings, plan, assembled })
}

fn unexpected(job: &Job, assembled: &Assembled) -> Option<Finding> {
    let expected = job.expect.filter(|expected| *expected != assembled.top.digest())?;
    Some(
        Finding::new(Rule::DigestUnexpected, Level::Refuse, "the result is not the one that --expect-digest names")
            .evidence(format!("expected {expected}, got {}", assembled.top.digest()))
            .fix("compare source, base and options with those of the expected image (`underpin inspect` shows its annotations)"),
    )
}

/// An exception lets the image stay where it is; it does not make a refused move right.
fn recorded(exception: &Exception, findings: &Findings) -> Finding {
    let Exception { component, base, reason, line, .. } = exception;
    let evidence = format!("line {line} of the list: {component} | {base} | {reason}");
    if findings.refuse() {
        let message = format!("{component} is recorded as an exception and may stay on its base: {reason}");
        return Finding::new(Rule::ExceptionRecorded, Level::Note, message).evidence(evidence);
    }
    Finding::new(Rule::ExceptionRecorded, Level::Warn, format!("{component} is recorded as an exception, and can move"))
        .evidence(evidence)
        .fix(format!("once it has moved, remove its row: underpin exceptions FILE --remove {component}"))
}

fn publisher<'a>(world: &'a World, job: &'a Job) -> Publisher<'a> {
    Publisher { tools: &world.tools, source: &job.request.source, base: &job.request.base }
}

fn is_unchanged(plan: &Plan, receipt: &Receipt) -> bool {
    let image_is_as_it_was = plan.platforms.iter().all(|platform| matches!(platform.image, ImagePlan::AsIs(_)));
    let targets_are_as_they_were = receipt.targets.iter().all(|target| target.change == publish::Change::AlreadyThere);
    image_is_as_it_was || targets_are_as_they_were
}

fn report(world: &World, job: &Job, prepared: &Prepared, receipt: Option<&Receipt>, outcome: Outcome) -> Report {
    Report::new(&Ending {
        facts: &prepared.facts,
        findings: &prepared.findings,
        plan: &prepared.plan,
        assembled: prepared.assembled.as_ref(),
        receipt,
        targets: &job.targets,
        outcome,
        traffic: world.traffic.tally(),
    })
}
