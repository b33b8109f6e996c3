//! `underpin cache match`: what each entry protects.

use clap::Args;

use super::node::NodeArgs;
use super::{StoreArgs, show};
use crate::cli::Ended;
use crate::cli::console::Console;
use crate::cli::environment::settings_file;
use crate::error::{Result, printable};
use crate::report::EntryMatches;

/// Show which images each --protect entry matches, and warn if it matches none
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_flag = true)]
pub struct Match {
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

const EXAMPLES: &str = "Examples:
  # does the list protect what it should?
  underpin cache match --protect-file protected.txt

  # what would it protect on this node?
  underpin cache match --cri unix:///run/containerd/containerd.sock --protect-file protected.txt

  # try a pattern
  underpin cache match --protect 'regex:^registry\\.example/base/.*:v[0-9]+$'";

impl Match {
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        let node = self.node.connect(&self.store, console)?;
        let (protection, inventory) = match &node {
            Some(node) => (self.store.protection(&settings_file()?)?, node.survey()?.inventory),
            None => self.store.inventory(console)?,
        };
        let place = if node.is_some() { "on the node" } else { "in the cache" };
        let matched = EntryMatches::all(&inventory, &protection);
        show(console, &matched, |all| all.iter().map(EntryMatches::to_text).collect());
        if matched.is_empty() {
            console.say("no --protect entry was given, so nothing is protected\n");
        }
        for one in matched.iter().filter(|one| one.images.is_empty()) {
            console.say(&format!("warning: {} protects no image {place}\n", printable(&one.entry)));
        }
        Ok(Ended::Done)
    }
}
