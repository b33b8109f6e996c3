//! `underpin cache ls`: what is in the store.

use clap::Args;

use super::StoreArgs;
use crate::cli::Ended;
use crate::cli::console::{Console, Form};
use crate::error::Result;
use crate::report::{StoreListing, to_json};

/// List the images in the store: sizes shared and own, age, last use, and what protects them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Ls {
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

const EXAMPLES: &str = "Examples:
  # what is kept
  underpin cache ls

  # the images that nothing protects, for scripts
  underpin cache ls --json | jq '.images[] | select(.protected_by == [])'";

impl Ls {
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        let (protection, inventory) = self.store.inventory(console)?;
        let listing = StoreListing::new(&self.store.folder()?, &inventory, &protection);
        match console.form {
            Form::Json => console.data(&format!("{}\n", to_json(&listing))),
            Form::Text => console.data(&listing.to_text()),
        }
        Ok(Ended::Done)
    }
}
