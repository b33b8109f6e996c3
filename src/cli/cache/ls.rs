//! `underpin cache ls`: what is in the store, or on a node.

use clap::Args;

use super::node::NodeArgs;
use super::{StoreArgs, show};
use crate::cli::Ended;
use crate::cli::console::Console;
use crate::cli::environment::settings_file;
use crate::error::Result;
use crate::report::{CacheListing, NodeListing};

/// List cached images: shared and own size, age, last use, and what protects them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_flag = true)]
pub struct Ls {
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

const EXAMPLES: &str = "Examples:
  # what is in the cache
  underpin cache ls

  # the images of this node, and what protects them
  underpin cache ls --cri unix:///run/containerd/containerd.sock --protect-file protected.txt

  # unprotected images, for scripts
  underpin cache ls --json | jq '.images[] | select(.protected_by == [])'";

impl Ls {
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        if let Some(node) = self.node.connect(&self.store, console)? {
            let protection = self.store.protection(&settings_file()?)?;
            let listing = NodeListing::new(&node, &node.survey()?, node.used()?, &protection);
            show(console, &listing, NodeListing::to_text);
        } else {
            let (protection, inventory) = self.store.inventory(console)?;
            let listing = CacheListing::new(&self.store.folder()?, &inventory, &protection);
            show(console, &listing, CacheListing::to_text);
        }
        Ok(Ended::Done)
    }
}
