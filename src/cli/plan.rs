//! `underpin plan`: the same run stopped before anything is written.

use clap::Args;

use super::Ended;
use super::args::{MoveArgs, SayArgs, SessionArgs};
use super::console::{Console, Form};
use super::report_file::{Images, ResultReportArgs};
use crate::report::{Detail, Report, Reportable as _, to_json, to_text};
use crate::run;
use crate::settings::Job;
use crate::store::Session;
use oci::error::Result;

/// Explain what `rebase` would do, without writing anything
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_flag = true)]
pub struct Plan {
    /// Where `rebase` would publish the result (repeatable)
    #[arg(short, long, value_name = "REF", help_heading = "Where")]
    to: Vec<String>,
    #[command(flatten)]
    moving: MoveArgs,
    #[command(flatten)]
    pub(super) world: SessionArgs,
    #[command(flatten)]
    reports: ResultReportArgs,
    #[command(flatten)]
    pub(super) say: SayArgs,
}

const EXAMPLES: &str = "Examples:
  # what happens to each layer, and how the old base was found
  underpin plan registry.example/app:v1

  # the same for scripts
  underpin plan registry.example/app:v1 --json | jq '.platforms[].old_base'";

impl Plan {
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        let wishes = (self.reports.sbom_wish(), self.reports.listing(1));
        let job = Job { sbom: wishes.0, files: wishes.1, ..self.moving.job(&self.to)? };
        job.note_files();
        let (files, sboms) = (self.reports.open()?, self.reports.sboms(Images::One)?);
        let session = Session::new(&self.world.session_options()?, console.notices(), console.progress())?;
        let report = run::plan(&session, &job)?;
        let written = sboms.write(&report.sboms);
        Ok(console.ended(show(console, &report), files.write(&report).and(written)))
    }
}

/// The explanation is what was asked for, so it is data.
pub(super) fn show(console: &Console, report: &Report) -> Ended {
    match console.form {
        Form::Json => console.json(&to_json(report)),
        Form::Text => console.show(&to_text(report, Detail::Full)),
    }
    report.grade().into()
}
