//! `underpin verify`: does it again from the recorded inputs and compares.

use clap::Args;

use super::Ended;
use super::args::{SayArgs, Work, WorldArgs};
use super::console::{Console, Form};
use crate::error::Result;
use crate::report::to_json;
use crate::verify::{Verdict, Verification, verify};
use crate::world::World;

/// Make a rebased image again from the inputs it records, and compare digests
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Verify {
    /// The image to verify: one that `underpin rebase` made
    #[arg(value_name = "IMAGE")]
    image: String,
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
        let world = World::new(&self.world.surroundings(Work::OneImage)?, console.notices(), console.progress())?;
        let verification = verify(&world, &image)?;
        console.say(&text(&verification));
        if console.form == Form::Json {
            console.data(&format!("{}\n", to_json(&verification)));
        }
        Ok(match verification.outcome {
            Verdict::Same => Ended::Done,
            Verdict::Different => Ended::Refused,
        })
    }
}

fn text(verification: &Verification) -> String {
    let Verification { image, source, base, digest, derived, .. } = verification;
    let facts = format!("  source   {source}\n  base     {base}\n  digest   {digest}\n");
    match verification.outcome {
        Verdict::Same => format!("verified: {image} is what its inputs give\n{facts}"),
        Verdict::Different => format!("refused: {image} is not what its inputs give\n{facts}  derived  {derived}\n"),
    }
}
