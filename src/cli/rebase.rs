//! `underpin rebase`: the main job. Its options are `plan::RebaseOptions`, in `src/plan/rebase_options.rs`.

use std::path::PathBuf;

use clap::Args;

use super::args::{MoveArgs, SayArgs, SessionArgs, signed};
use super::console::{Console, Form};
use super::report_file::{Images, ReportFiles, ResultReportArgs, SbomFiles};
use super::{Ended, plan};
use crate::report::{Outcome, Report, Reportable as _, losses_to_text, to_json, to_text};
use crate::run::{self, Rebased};
use crate::settings::Job;
use crate::store::Session;
use crate::store::disk::OutputFile;
use oci::error::{Error, Result};

/// Move an image to a new base and publish the result
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE, disable_help_flag = true)]
pub struct Rebase {
    /// Where to publish the result (repeatable)
    #[arg(short, long, value_name = "REF", required_unless_present = "dry_run", help_heading = "Where")]
    to: Vec<String>,
    #[command(flatten)]
    moving: MoveArgs,
    #[command(flatten)]
    pub(super) world: SessionArgs,
    /// Stop before anything is written, as `underpin plan` does
    #[arg(long, help_heading = "Output")]
    dry_run: bool,
    /// Write the digest of the result to this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    digest_file: Option<PathBuf>,
    #[command(flatten)]
    reports: ResultReportArgs,
    #[command(flatten)]
    pub(super) say: SayArgs,
}

/// Required without `--dry-run`, which clap would not show.
const USAGE: &str = "underpin rebase [OPTIONS] --to <REF> <SOURCE>";

const EXAMPLES: &str = "Examples:
  # move all platforms to gcr.io/distroless/static
  underpin rebase registry.example/app:v1 --to registry.example/app:v1-static

  # name the old base, pin the new one, and check the digest of the result
  underpin rebase registry.example/app:v1 --old-base debian:12 --expect-digest sha256:... \\
      --base gcr.io/distroless/static@sha256:... --to registry.example/app:v1-static

  # offline, from one OCI layout to another
  underpin rebase oci:build:app --base oci:bases:static --to oci:release:app";

impl Rebase {
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        let wishes = (self.reports.sbom_wish(), self.reports.listing(1));
        let job = Job { sbom: wishes.0, files: wishes.1, ..self.moving.job(&self.to)? };
        job.note_files();
        let files = self.open_files()?;
        let session = Session::new(&self.world.session_options()?, console.notices(), console.progress())?;
        let job = if self.dry_run { job } else { signed(job)? };
        if self.dry_run {
            let report = run::plan(&session, &job)?;
            return Ok(console.ended(plan::show(console, &report), files.write_reports(&report)));
        }
        let Rebased { report, attached } = run::rebase(&session, &job)?;
        let shown = show(console, &report);
        let written = files.write(&report);
        Ok(console.ended(console.ended(shown, attached.map_err(|error| published(error, &report))), written))
    }

    fn open_files(&self) -> Result<Files> {
        let digest = self.digest_file.as_deref().map(OutputFile::open).transpose()?;
        Ok(Files { digest, reports: self.reports.open()?, sboms: self.reports.sboms(Images::One)? })
    }
}

/// The files that the command line names, open and not written yet.
struct Files {
    digest: Option<OutputFile>,
    reports: ReportFiles,
    sboms: SbomFiles,
}

impl Files {
    fn write_reports(self, report: &Report) -> Result<()> {
        let sboms = self.sboms.write(&report.sboms);
        self.reports.write(report).and(sboms)
    }

    /// stdout has the result by now, so a failure says that it is published.
    fn write(self, report: &Report) -> Result<()> {
        let target = report.targets.first();
        let mut files = self;
        let digest =
            files.digest.take().zip(target).map(|(file, target)| file.write(format!("{}\n", target.digest).as_bytes()));
        let written = digest.unwrap_or(Ok(())).and(files.write_reports(report));
        written.map_err(|error| published(error, report))
    }
}

/// An error that came after the image was published names it.
fn published(error: Error, report: &Report) -> Error {
    match report.targets.first().filter(|_| report.outcome != Outcome::Refused) {
        Some(target) => error.fact("published", &target.pinned),
        None => error,
    }
}

/// stdout carries one pinned reference per target, or the JSON report.
fn show(console: &Console, report: &Report) -> Ended {
    match report.outcome {
        // Whoever wants quiet still wants to know why nothing was done.
        Outcome::Refused => console.insist(&to_text(report, console.detail())),
        Outcome::Rebased | Outcome::Unchanged | Outcome::Planned if console.is_quiet() => {
            console.insist(&losses_to_text(report));
        }
        Outcome::Rebased | Outcome::Unchanged | Outcome::Planned => console.say(&to_text(report, console.detail())),
    }
    match console.form {
        Form::Json => console.json(&to_json(report)),
        Form::Text => report.targets.iter().for_each(|target| console.data(&format!("{}\n", target.pinned))),
    }
    report.grade().into()
}
