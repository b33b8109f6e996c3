//! `underpin cache verify`: reads every byte of the store.

use clap::Args;

use super::{StoreArgs, show};
use crate::cli::Ended;
use crate::cli::console::Console;
use crate::cli::environment::settings_file;
use crate::error::Result;
use crate::report::StoreCheck;

/// Hash everything in the store and remove what is damaged; exit 1 when something was
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Verify {
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

const EXAMPLES: &str = "Examples:
  # after a crash of the machine or a doubtful disk
  underpin cache verify

  # which images have to be fetched again
  underpin cache verify --json | jq -r '.damaged[].images[]'";

impl Verify {
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        // Not used here; but who verifies with a list wants to know that the list is sound.
        self.store.protection(&settings_file()?)?;
        let store = self.store.look(console)?;
        let checked = store.map(|store| store.verify(&console.notices())).transpose()?.unwrap_or_default();
        let check = StoreCheck::new(&self.store.folder()?, &checked);
        show(console, &check, StoreCheck::to_text);
        Ok(if check.damaged.is_empty() { Ended::Done } else { Ended::Refused })
    }
}
