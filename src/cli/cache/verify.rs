//! `underpin cache verify`: reads every byte of the store.

use clap::Args;

use super::{StoreArgs, show};
use crate::cli::Ended;
use crate::cli::console::Console;
use crate::cli::environment::settings_file;
use crate::error::Result;
use crate::report::CacheCheck;

/// Check the hash of everything in the cache, and remove what is damaged; exit 1 if anything was
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_flag = true)]
pub struct Verify {
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

const EXAMPLES: &str = "Examples:
  # after a machine crash or disk errors
  underpin cache verify

  # which images must be fetched again
  underpin cache verify --json | jq -r '.damaged[].images[]'";

impl Verify {
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        // Not used here; but who verifies with a list wants to know that the list is sound.
        self.store.protection(&settings_file()?)?;
        let store = self.store.look(console)?;
        let checked = store.map(|store| store.verify(&console.notices())).transpose()?.unwrap_or_default();
        let check = CacheCheck::new(&self.store.folder()?, &checked);
        show(console, &check, CacheCheck::to_text);
        Ok(if check.damaged.is_empty() { Ended::Done } else { Ended::Refused })
    }
}
