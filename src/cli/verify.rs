//! `underpin verify`: does it again from the recorded inputs and compares.

use clap::Args;

use super::Ended;
use super::args::{SayArgs, Work, WorldArgs};
use super::console::{Console, Form};
use super::report_file::ReportArgs;
use crate::error::Result;
use crate::report::Reportable as _;
use crate::verify::verify;
use crate::world::World;

/// Make a rebased image again from the inputs it records, and compare digests
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Verify {
    /// The image to verify: one that `underpin rebase` made
    #[arg(value_name = "IMAGE")]
    image: String,
    #[command(flatten)]
    reports: ReportArgs,
    #[command(flatten)]
    pub(super) world: WorldArgs,
    #[command(flatten)]
    pub(super) say: SayArgs,
}

const EXAMPLES: &str = "Examples:
  # is this image what its recorded source, base and options give?
  underpin verify registry.example/app:v1-static

  # exactly this one
  underpin verify registry.example/app@sha256:...";

impl Verify {
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        let image = self.image.parse()?;
        self.reports.check()?;
        let world = World::new(&self.world.surroundings(Work::OneImage)?, console.notices(), console.progress())?;
        let verification = verify(&world, &image)?;
        self.reports.write(&verification)?;
        console.say(&verification.text());
        if console.form == Form::Json {
            console.data(&format!("{}\n", verification.json()));
        }
        Ok(verification.grade().into())
    }
}
