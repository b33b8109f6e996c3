//! `underpin verify`: rebuilds an image from its recorded inputs and compares.

use clap::Args;

use super::Ended;
use super::args::{SayArgs, SessionArgs};
use super::console::{Console, Form};
use super::report_file::ReportArgs;
use crate::report::Reportable as _;
use crate::store::Session;
use crate::store::disk::note_location;
use crate::verify::{InputPlaces, verify};
use oci::Location;
use oci::error::Result;

/// Rebuild a rebased image from the inputs it records, and compare digests
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_flag = true)]
pub struct Verify {
    /// Image to verify, made by `underpin rebase`
    #[arg(value_name = "IMAGE")]
    image: String,
    #[command(flatten)]
    places: PlaceArgs,
    #[command(flatten)]
    pub(super) world: SessionArgs,
    #[command(flatten)]
    reports: ReportArgs,
    #[command(flatten)]
    pub(super) say: SayArgs,
}

/// Inputs are looked for under the names that the image records, and in the cache. Whatever these say must have the
/// recorded digests all the same.
#[derive(Debug, Args)]
struct PlaceArgs {
    /// Where the source is: a place that has the recorded digest [default: the recorded name, then the cache]
    #[arg(long, value_name = "REF", help_heading = "Inputs")]
    source: Option<String>,
    /// Where the new base is
    #[arg(long, value_name = "REF", help_heading = "Inputs")]
    base: Option<String>,
    /// Where the old base is
    #[arg(long, value_name = "REF", help_heading = "Inputs")]
    old_base: Option<String>,
    /// Where the log runner is
    #[arg(long, value_name = "REF", help_heading = "Inputs")]
    log_runner: Option<String>,
}

impl PlaceArgs {
    fn read(&self) -> Result<InputPlaces> {
        let parse = |text: &Option<String>| text.as_deref().map(str::parse::<Location>).transpose();
        Ok(InputPlaces {
            source: parse(&self.source)?,
            base: parse(&self.base)?,
            old_base: parse(&self.old_base)?,
            log_runner: parse(&self.log_runner)?,
        })
    }
}

const EXAMPLES: &str = "Examples:
  # do the recorded source, base and options give this image?
  underpin verify registry.example/app:v1-static

  # by digest
  underpin verify registry.example/app@sha256:...

  # the inputs were read from layouts, so the image records no names for them
  underpin verify oci:release:app --source oci:build:app --base oci:bases:static \\
      --old-base oci:bases:debian";

impl Verify {
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        let image = self.image.parse()?;
        let places = self.places.read()?;
        let given = [&places.source, &places.base, &places.old_base, &places.log_runner].into_iter().flatten();
        given.chain([&image]).for_each(note_location);
        let files = self.reports.open()?;
        let session = Session::new(&self.world.session_options()?, console.notices(), console.progress())?;
        let verification = verify(&session, &image, &places)?;
        console.say(&verification.text());
        if console.form == Form::Json {
            console.json(&verification.json());
        }
        Ok(console.ended(verification.grade().into(), files.write(&verification)))
    }
}
