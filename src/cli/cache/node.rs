//! `--cri`: the `cache` commands on the images of a node.

use clap::Args;

use super::{StoreArgs, show_collection};
use crate::cli::Ended;
use crate::cli::console::Console;
use crate::report::NodeCollection;
use crate::store::disk::LockWait;
use crate::store::node::{ClusterNode, Endpoint, NodeRequest, PinSupport};
use oci::error::{Result, printable};

const CRI_HELP: &str = "Use the images of a node instead of the cache; ENDPOINT is the socket of its container runtime, such as unix:///run/containerd/containerd.sock";

#[derive(Debug, Args)]
pub(super) struct NodeArgs {
    #[arg(long, value_name = "ENDPOINT", help = CRI_HELP)]
    cri: Option<Endpoint>,
}

/// Whether a collection is done or only told.
#[derive(Debug, Clone, Copy)]
pub(super) enum Deed {
    Told,
    Done(LockWait),
}

impl NodeArgs {
    pub(super) fn is_given(&self) -> bool {
        self.cri.is_some()
    }

    /// The node that was named. What is known of its images lies in the store.
    pub(super) fn connect(&self, store: &StoreArgs, console: &Console) -> Result<Option<ClusterNode>> {
        let Some(endpoint) = &self.cri else { return Ok(None) };
        ClusterNode::connect(endpoint, &store.folder()?, &console.notices()).map(Some)
    }
}

/// Collects on a node, and reports.
pub(super) fn collect(node: &ClusterNode, order: NodeRequest<'_>, deed: Deed, console: &Console) -> Result<Ended> {
    let collection = match deed {
        Deed::Told => NodeCollection::planned(node, &node.plan(order)?),
        Deed::Done(patience) => {
            let (plan, outcome) = node.collect(order, patience)?;
            NodeCollection::done(node, &plan, &outcome)
        }
    };
    show_collection(console, &collection, NodeCollection::to_text, collection.warning());
    Ok(Ended::Done)
}

/// Why `--require` does nothing.
pub(super) fn not_told(node: &ClusterNode) -> String {
    let runtime = printable(node.runtime());
    let why = if node.pin_support() == PinSupport::NotTold { "does not tell" } else { "is not known to tell" };
    format!(
        "refused: {runtime} {why} the kubelet which images are pinned, so the kubelet could remove them\nhint: use containerd 1.6.33, 1.7.3 or newer, or leave --require out to set the pins all the same\n"
    )
}
