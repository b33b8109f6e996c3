//! `underpin cache ls`: what is in the store, or on a node.

use clap::Args;
use serde::Serialize;

use super::StoreArgs;
use super::node::NodeArgs;
use crate::cli::Ended;
use crate::cli::console::{Console, Form};
use crate::cli::environment::settings_file;
use crate::error::Result;
use crate::report::{NodeListing, StoreListing, to_json};

/// List the images in the store: sizes shared and own, age, last use, and what protects them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Ls {
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

const EXAMPLES: &str = "Examples:
  # what is kept
  underpin cache ls

  # the images of this node, and what keeps them
  underpin cache ls --cri unix:///run/containerd/containerd.sock --protect-file protected.txt

  # the images that nothing protects, for scripts
  underpin cache ls --json | jq '.images[] | select(.protected_by == [])'";

fn shown<L: Serialize>(form: Form, listing: &L, to_text: impl Fn(&L) -> String) -> String {
    match form {
        Form::Json => format!("{}\n", to_json(listing)),
        Form::Text => to_text(listing),
    }
}

impl Ls {
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        let data = if let Some(node) = self.node.connect(&self.store, console)? {
            let protection = self.store.protection(&settings_file()?)?;
            let listing = NodeListing::new(&node, &node.survey()?, node.used()?, &protection);
            shown(console.form, &listing, NodeListing::to_text)
        } else {
            let (protection, inventory) = self.store.inventory(console)?;
            let listing = StoreListing::new(&self.store.folder()?, &inventory, &protection);
            shown(console.form, &listing, StoreListing::to_text)
        };
        console.data(&data);
        Ok(Ended::Done)
    }
}
