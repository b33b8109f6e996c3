//! `underpin verify`: rebuilds an image from its recorded inputs and compares.

use clap::Args;

use super::Ended;
use super::args::{SayArgs, SessionArgs, Work};
use super::console::{Console, Form};
use super::report_file::ReportArgs;
use crate::error::Result;
use crate::report::Reportable as _;
use crate::store::Session;
use crate::verify::verify;

/// Rebuild a rebased image from the inputs it records, and compare digests
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_flag = true)]
pub struct Verify {
    /// Image to verify, made by `underpin rebase`
    #[arg(value_name = "IMAGE")]
    image: String,
    #[command(flatten)]
    pub(super) world: SessionArgs,
    #[command(flatten)]
    reports: ReportArgs,
    #[command(flatten)]
    pub(super) say: SayArgs,
}

const EXAMPLES: &str = "Examples:
  # do the recorded source, base and options give this image?
  underpin verify registry.example/app:v1-static

  # by digest
  underpin verify registry.example/app@sha256:...";

impl Verify {
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        let image = self.image.parse()?;
        self.reports.check()?;
        let session =
            Session::new(&self.world.session_options(Work::OneImage)?, console.notices(), console.progress())?;
        let verification = verify(&session, &image)?;
        self.reports.write(&verification)?;
        console.say(&verification.text());
        if console.form == Form::Json {
            console.data(&format!("{}\n", verification.json()));
        }
        Ok(verification.grade().into())
    }
}
