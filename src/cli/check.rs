//! `underpin check`: the presubmit on bases and exceptions.

use std::path::PathBuf;

use clap::Args;

use super::Ended;
use super::args::{SayArgs, WorldArgs, epoch};
use super::batch::read_batch;
use super::console::{Console, Form};
use super::policy_args::{Policy, PolicyArgs};
use super::report_file::ReportFile;
use crate::check::{Question, check};
use crate::error::Result;
use crate::oci::{Location, Platform};
use crate::policy::exceptions::ExceptionList;
use crate::policy::{BaseName, BasePolicy};
use crate::report::{CheckReport, CheckedRow, Reportable as _};
use crate::settings::{DEFAULT_BASE, Job, old_base};
use crate::store::fetch::Request;
use crate::store::parallel;
use crate::world::World;

/// Say which base images stand on, whether they may, and whether they could move
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Check {
    /// The images to check
    #[arg(value_name = "IMAGE", required_unless_present = "batch")]
    images: Vec<String>,
    /// Check the images of this batch file too
    #[arg(long, value_name = "FILE")]
    batch: Option<PathBuf>,
    /// A base that images may stand on, or `scratch` (repeatable) [default: gcr.io/distroless/static]
    #[arg(long, value_name = "REF")]
    allow_base: Vec<BaseName>,
    /// A base that images may stand on with an exception (repeatable) [default: debian-base of Kubernetes]
    #[arg(long, value_name = "REF")]
    exception_base: Vec<BaseName>,
    #[command(flatten)]
    policy: PolicyArgs,
    /// The base that a move is tried to [default: the first that is allowed]
    #[arg(long, value_name = "REF")]
    base: Option<String>,
    /// The base the images were built on [default: detect]
    #[arg(long, value_name = "REF|scratch|layers:N")]
    old_base: Option<String>,
    /// Check only this platform (repeatable) [default: all]
    #[arg(long, value_name = "OS/ARCH[/VARIANT]")]
    platform: Vec<String>,
    /// Write a report (repeatable); FORMAT is text, json, markdown, html, junit or sarif
    #[arg(long, value_name = "FORMAT=FILE")]
    report: Vec<ReportFile>,
    #[command(flatten)]
    pub(super) world: WorldArgs,
    #[command(flatten)]
    pub(super) say: SayArgs,
}

const EXAMPLES: &str = "Examples:
  # may these images stand on their bases?
  underpin check --exceptions exceptions.md registry.example/kube-proxy:v1 registry.example/etcd:v3

  # all images of a release
  underpin check --batch batch.yaml --exceptions exceptions.md --report junit=junit.xml

  # with bases of your own
  underpin check registry.example/app:v1 \\
      --allow-base registry.example/static --exception-base registry.example/debian

Exit codes: 0 all may; 1 one may not, or an exception is no longer needed; 2 an image could not be looked at.";

impl Check {
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        let policy = self.policy()?;
        let jobs = self.jobs(&policy.bases)?;
        self.report.iter().try_for_each(ReportFile::check)?;
        let surroundings = self.world.surroundings()?;
        let world = World::new(&surroundings, console.notices(), console.progress())?;
        let asked = if self.batch.is_some() { Asked::Everything } else { Asked::Few };
        let rows = parallel::map(&jobs, surroundings.jobs, |job| Ok(row(&world, job, &policy)))?;
        let report = CheckReport::new(rows, unmatched(&jobs, policy.list.as_ref(), asked));
        self.report.iter().try_for_each(|file| file.write(&report))?;
        match console.form {
            Form::Json => console.data(&format!("{}\n", report.json())),
            Form::Text => console.data(&report.text()),
        }
        Ok(ended(&report))
    }

    fn policy(&self) -> Result<Policy> {
        let mut policy = self.policy.read()?;
        if !self.allow_base.is_empty() {
            policy.bases.allowed.clone_from(&self.allow_base);
        }
        if !self.exception_base.is_empty() {
            policy.bases.with_exception.clone_from(&self.exception_base);
        }
        Ok(policy)
    }

    fn jobs(&self, policy: &BasePolicy) -> Result<Vec<Job>> {
        let base = self.base.as_deref().map_or_else(|| default_base(policy), str::parse)?;
        let choice = self.old_base.as_deref().map(old_base).transpose()?;
        let platforms = self.platform.iter().map(|text| text.parse()).collect::<Result<Vec<Platform>>>()?;
        let job = |image: &String| {
            let mut job = Job::plain(image.parse()?, base.clone(), epoch()?);
            job.request.old_base = choice.clone().map_or(job.request.old_base, Into::into);
            job.request.platforms.clone_from(&platforms);
            job.options.platforms.clone_from(&platforms);
            Ok(job)
        };
        let mut jobs = self.images.iter().map(job).collect::<Result<Vec<Job>>>()?;
        for entry in self.batch.as_deref().map(read_batch).transpose()?.into_iter().flat_map(|file| file.images) {
            let base = self.base.as_ref().map_or(entry.job.request.base.clone(), |_| base.clone());
            jobs.push(Job { request: Request { base, ..entry.job.request.clone() }, ..entry.job });
        }
        Ok(jobs)
    }
}

fn default_base(policy: &BasePolicy) -> Result<Location> {
    let mut images = policy.allowed.iter().filter_map(|name| match name {
        BaseName::Image(location) => Some(location.clone()),
        BaseName::Scratch => None,
    });
    images.next().map_or_else(|| DEFAULT_BASE.parse(), Ok)
}

fn row(world: &World, job: &Job, policy: &Policy) -> CheckedRow {
    let question = Question { job, policy: &policy.bases, list: policy.list.as_ref() };
    match check(world, &question) {
        Ok(checked) => CheckedRow::Checked(Box::new(checked)),
        Err(error) => CheckedRow::failed(job.request.source.to_string(), error),
    }
}

/// Whether the images are all that a list could be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Everything,
    Few,
}

/// The components of the list that none of the images is, where all images were asked about.
fn unmatched(jobs: &[Job], list: Option<&ExceptionList>, asked: Asked) -> Vec<String> {
    let Some(list) = list.filter(|_| asked == Asked::Everything) else { return Vec::new() };
    let matched: std::collections::HashSet<&str> = jobs
        .iter()
        .filter_map(|job| list.of(&job.request.source))
        .map(|exception| exception.component.as_str())
        .collect();
    let components = list.exceptions().iter().map(|exception| exception.component.as_str());
    components.filter(|component| !matched.contains(component)).map(str::to_owned).collect()
}

fn ended(report: &CheckReport) -> Ended {
    match report.outcome {
        "passed" => Ended::Done,
        "refused" => Ended::Refused,
        _ => Ended::Failed,
    }
}
