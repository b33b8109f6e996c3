//! `underpin inspect`: shows one image.

use clap::Args;

use super::Ended;
use super::args::{SayArgs, SessionArgs};
use super::console::{Console, Form};
use super::report_file::ReportArgs;
use crate::report::{Inspection, Reportable as _};
use crate::run;
use crate::store::Session;
use crate::store::disk::note_location;
use oci::error::Result;
use oci::{Location, Platform};

/// Show an image's layers and where they come from, its base and how it was found, and its command
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_flag = true)]
pub struct Inspect {
    /// Image to examine
    #[arg(value_name = "IMAGE")]
    image: String,
    /// Show only this platform (repeatable)
    #[arg(long, value_name = "OS/ARCH[/VARIANT]")]
    platform: Vec<String>,
    /// Base to compare the image's layers with (repeatable)
    #[arg(long, value_name = "REF")]
    known_base: Vec<String>,
    /// Could the image move to these bases? Lists what excludes each
    #[arg(long, value_name = "REF", num_args = 1..)]
    bases: Vec<Location>,
    #[command(flatten)]
    pub(super) world: SessionArgs,
    #[command(flatten)]
    reports: ReportArgs,
    #[command(flatten)]
    pub(super) say: SayArgs,
}

const EXAMPLES: &str = "Examples:
  # the layers of an image, its base and its command
  underpin inspect registry.example/app:v1

  # one platform of an image in a directory, for scripts
  underpin inspect oci:build:app --platform linux/arm64 --json

  # is it built on this base?
  underpin inspect registry.example/app:v1 --known-base registry.example/debian

  # to which of these bases could it move, and what excludes the others?
  underpin inspect registry.example/app:v1 --bases gcr.io/distroless/static gcr.io/distroless/base";

impl Inspect {
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        let image = self.image.parse()?;
        let platforms = self.platform.iter().map(|text| text.parse()).collect::<Result<Vec<Platform>>>()?;
        let known = self.known_base.iter().map(|text| text.parse()).collect::<Result<Vec<Location>>>()?;
        known.iter().chain([&image]).chain(&self.bases).for_each(note_location);
        let files = self.reports.open()?;
        let session = Session::new(&self.world.session_options()?, console.notices(), console.progress())?;
        let listing = self.reports.listing(1);
        let inspection: Inspection = run::inspect(&session, &image, &platforms, (&known, &self.bases), listing)?;
        match console.form {
            Form::Json => console.json(&inspection.json()),
            Form::Text => console.show(&inspection.text()),
        }
        Ok(console.ended(Ended::Done, files.write(&inspection)))
    }
}
