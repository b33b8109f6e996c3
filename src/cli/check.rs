//! `underpin check`: images against the base-image policy, for a presubmit.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::Ended;
use super::args::{SayArgs, SessionArgs, epoch, read_pod};
use super::batch::{batch_pod, read_batch};
use super::console::{Console, Form};
use super::policy_args::{BatchLists, Policy, PolicyArgs};
use super::report_file::ReportArgs;
use crate::check::{Question, check};
use crate::examine::base::OldBaseChoice;
use crate::plan::{BaseChoice, CommandFrom, DEFAULT_BASE, RebaseOptions};
use crate::policy::exceptions::ExceptionList;
use crate::policy::{BaseName, BasePolicy};
use crate::report::{CheckReport, CheckedRow, Reportable as _};
use crate::settings::Job;
use crate::store::Session;
use crate::store::parallel;
use oci::error::{Error, Result};
use oci::{Location, Platform};

/// Check images against the base-image policy
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_flag = true)]
pub struct Check {
    /// Images to check
    #[arg(value_name = "IMAGE", required_unless_present = "batch")]
    images: Vec<String>,
    /// Also check the images of this batch file
    #[arg(long, value_name = "FILE", help_heading = "Where")]
    batch: Option<PathBuf>,
    /// Base to try a move to; `auto` tries all allowed bases in their order [default: the first allowed base]
    #[arg(long, value_name = "REF|auto", help_heading = "Where")]
    base: Option<BaseChoice>,
    /// Check only this platform (repeatable) [default: all]
    #[arg(long, value_name = "OS/ARCH[/VARIANT]", help_heading = "Where")]
    platform: Vec<Platform>,
    /// Base the images were built on: an image, `scratch`, or `layers:N` for the first N layers [default: detect]
    #[arg(long, value_name = "REF|scratch|layers:N", help_heading = "Old base")]
    old_base: Option<OldBaseChoice>,
    /// Base to compare the images' layers with (repeatable)
    #[arg(long, value_name = "REF", help_heading = "Old base")]
    known_base: Vec<String>,
    /// Prove the start of this container of a Kubernetes manifest in place of the image's own command; for one image
    #[arg(long, value_name = "FILE#CONTAINER", help_heading = "Where")]
    command_from: Option<CommandFrom>,
    /// Allowed base, or `scratch` (repeatable) [default: gcr.io/distroless/static]
    #[arg(long, value_name = "REF", help_heading = "Policy")]
    allow_base: Vec<BaseName>,
    /// Base allowed with an exception (repeatable) [default: the debian-base of Kubernetes]
    #[arg(long, value_name = "REF", help_heading = "Policy")]
    exception_base: Vec<BaseName>,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    pub(super) world: SessionArgs,
    #[command(flatten)]
    reports: ReportArgs,
    #[command(flatten)]
    pub(super) say: SayArgs,
}

const EXAMPLES: &str = "Examples:
  # are these images on an allowed base, or on the exception list?
  underpin check --exceptions exceptions.md registry.example/kube-proxy:v1 registry.example/etcd:v3

  # all images of a release
  underpin check --batch batch.yaml --exceptions exceptions.md --report junit=junit.xml

  # by the policy of Kubernetes today
  underpin check --policy kubernetes --exceptions exceptions.md registry.example/etcd:v3

  # with your own bases
  underpin check registry.example/app:v1 \\
      --allow-base registry.example/static --exception-base registry.example/debian

Exit codes: 0 all pass; 1 a violation, or an exception that is no longer needed; 2 an image could not be read.";

/// An image to check, and the exception list that applies to it.
struct Asked {
    job: Job,
    list: Option<Arc<ExceptionList>>,
}

impl Check {
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        let policy = self.policy()?;
        let mut asked = self.asked(&policy)?;
        let listing = self.reports.listing(asked.len());
        for one in &mut asked {
            one.job.files = listing;
            one.job.note_files();
        }
        let files = self.reports.open()?;
        let options = self.world.session_options()?;
        let session = Session::new(&options, console.notices(), console.progress())?;
        let rows = parallel::map(&asked, options.jobs, |one| Ok(row(&session, one, &policy.bases)))?;
        // Only a batch file has all images that a list could speak of.
        let unmatched = if self.batch.is_some() { unmatched(&asked) } else { Vec::new() };
        let report = CheckReport::new(rows, unmatched);
        match console.form {
            Form::Json => console.json(&report.json()),
            Form::Text => console.show(&report.text()),
        }
        Ok(console.ended(report.grade().into(), files.write(&report)))
    }

    fn policy(&self) -> Result<Policy> {
        let mut policy = self.policy.read()?;
        if !self.allow_base.is_empty() {
            policy.bases.choose(&self.allow_base);
            policy.bases.allowed.clone_from(&self.allow_base);
        }
        if !self.exception_base.is_empty() {
            policy.bases.choose(&self.exception_base);
            policy.bases.with_exception.clone_from(&self.exception_base);
        }
        Ok(policy)
    }

    fn asked(&self, policy: &Policy) -> Result<Vec<Asked>> {
        if let (Some(from), true) = (&self.command_from, self.images.len() != 1) {
            return Err(Error::usage("--command-from is about one image")
                .fact("given", from)
                .hint("check one image, or give `command_from` in a batch file"));
        }
        let base = policy.versioned(self.base.clone().map_or_else(|| default_base(&policy.bases), Ok)?);
        let candidates = if base == BaseChoice::Auto { policy.candidates() } else { Vec::new() };
        let known = self.known_base.iter().map(|text| text.parse()).collect::<Result<Vec<Location>>>()?;
        let one = |image: &String| {
            let options = RebaseOptions {
                base: base.clone(),
                base_candidates: candidates.clone(),
                old_base: self.old_base.clone(),
                known_bases: known.clone(),
                platforms: self.platform.clone(),
                source_date_epoch: epoch()?,
                ..RebaseOptions::default()
            };
            let pod = self.command_from.as_ref().map(|from| read_pod(from, Path::new(&from.file))).transpose()?;
            let job = Job { demands: Arc::clone(&policy.demands), pod, ..Job::new(image.parse()?, options) };
            Ok(Asked { job, list: policy.list.clone() })
        };
        let mut asked = self.images.iter().map(one).collect::<Result<Vec<Asked>>>()?;
        let Some(path) = self.batch.as_deref() else { return Ok(asked) };
        let mut lists = BatchLists::beside(path);
        for entry in read_batch(path)?.images {
            let list = lists.list_for(&entry, policy)?;
            let pod = batch_pod(&entry, path)?;
            let mut job = Job { demands: Arc::clone(&policy.demands), pod, ..entry.job };
            job.options.known_bases.extend(known.iter().cloned());
            if self.base.is_some() {
                job.options.base = base.clone();
                job.options.base_candidates.clone_from(&candidates);
            }
            asked.push(Asked { job, list });
        }
        Ok(asked)
    }
}

fn default_base(policy: &BasePolicy) -> Result<BaseChoice> {
    policy.allowed_images().into_iter().next().map_or_else(|| DEFAULT_BASE.parse(), |base| Ok(base.into()))
}

fn row(session: &Session, asked: &Asked, policy: &BasePolicy) -> CheckedRow {
    let question = Question { job: &asked.job, policy, list: asked.list.as_deref() };
    match check(session, &question) {
        Ok(checked) => CheckedRow::Checked(Box::new(checked)),
        Err(error) => CheckedRow::failed(&asked.job.source.to_string(), error),
    }
}

/// The components in the lists that match none of the images.
fn unmatched(asked: &[Asked]) -> Vec<String> {
    let mut lists: Vec<&ExceptionList> = Vec::new();
    for list in asked.iter().filter_map(|one| one.list.as_deref()) {
        if !lists.iter().any(|there| std::ptr::eq(*there, list)) {
            lists.push(list);
        }
    }
    lists.into_iter().flat_map(|list| unmatched_of(list, asked)).collect()
}

fn unmatched_of(list: &ExceptionList, asked: &[Asked]) -> Vec<String> {
    let matched: HashSet<&str> = asked
        .iter()
        .filter_map(|one| list.exception_for(&one.job.source))
        .map(|exception| exception.component.as_str())
        .collect();
    let components = list.exceptions().iter().map(|exception| exception.component.as_str());
    components.filter(|component| !matched.contains(component)).map(str::to_owned).collect()
}
