//! What the `cache` commands show of a node.

use std::fmt::Write as _;

use bytesize::ByteSize;
use serde::Serialize;

use super::cache::{Done, Removed, ago};
use crate::store::disk::Timestamp;
use crate::store::gc::{HoldReason, Protection, StoredImage};
use crate::store::node::{ClusterNode, NodeOutcome, NodePlan, Survey};
use oci::error::printable;

#[derive(Debug, Serialize)]
pub struct NodeListing {
    pub schema: &'static str,
    pub node: String,
    pub runtime: String,
    pub images: Vec<NodeImage>,
    /// The space that images take, as the runtime reports it.
    pub used: u64,
    #[serde(skip)]
    now: Timestamp,
}

#[derive(Debug, Serialize)]
pub struct NodeImage {
    pub reference: String,
    /// The id.
    pub digest: String,
    pub names: Vec<String>,
    /// As the runtime reports it; what images share counts for each.
    pub size: u64,
    /// Seconds since 1970.
    pub first_seen: u64,
    pub last_use: Option<u64>,
    pub in_use: bool,
    pub pinned: bool,
    pub protected_by: Vec<String>,
}

impl NodeListing {
    #[must_use]
    pub fn new(node: &ClusterNode, survey: &Survey, used: u64, protection: &Protection) -> Self {
        let list = |image: &StoredImage| NodeImage {
            reference: image.reference.clone(),
            digest: image.digest.to_string(),
            names: names(image),
            size: survey.inventory.contents.get(&image.digest).map_or(0, |contents| contents.bytes),
            first_seen: image.first_seen.seconds(),
            last_use: image.last_use.map(Timestamp::seconds),
            in_use: image.hold == Some(HoldReason::InUse),
            pinned: survey.pinned.contains(&image.digest),
            protected_by: protection.entries_for(image),
        };
        let mut images: Vec<NodeImage> = survey.inventory.images.iter().map(list).collect();
        images.sort_by(|one, two| one.reference.cmp(&two.reference));
        let (endpoint, runtime) = (node.endpoint().to_string(), node.runtime().to_owned());
        Self { schema: "underpin.node-ls/v1", node: endpoint, runtime, images, used, now: Timestamp::now() }
    }

    /// The listing as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        for image in &self.images {
            let _ = writeln!(out, "{}", printable(&image.reference));
            let _ = writeln!(out, "  id         {}", image.digest);
            for name in image.names.iter().filter(|name| **name != image.reference) {
                let _ = writeln!(out, "  also       {}", printable(name));
            }
            let _ = writeln!(out, "  size       {}", ByteSize(image.size));
            let used = match (image.in_use, image.last_use) {
                (true, _) => "in use".to_owned(),
                (false, Some(at)) => format!("used {}", ago(self.now, at)),
                (false, None) => "not seen in use".to_owned(),
            };
            let _ = writeln!(out, "  age        first seen {}, {used}", ago(self.now, image.first_seen));
            if image.pinned {
                let _ = writeln!(out, "  pinned");
            }
            for entry in &image.protected_by {
                let _ = writeln!(out, "  protected  by {}", printable(entry));
            }
        }
        let runtime = printable(&self.runtime);
        let _ = writeln!(out, "{} images, {} used; {runtime}", self.images.len(), ByteSize(self.used));
        out
    }
}

fn names(image: &StoredImage) -> Vec<String> {
    image.names.iter().filter_map(|name| name.texts.first().cloned()).collect()
}

#[derive(Debug, Serialize)]
pub struct NodeCollection {
    pub schema: &'static str,
    pub node: String,
    pub runtime: String,
    pub dry_run: bool,
    /// The references that were pinned, or would be.
    pub pinned: Vec<String>,
    pub removed: Vec<Removed>,
    /// Chosen, and in use, pinned or protected before they could be removed.
    pub spared: Vec<Removed>,
    /// By the sizes that the runtime reports; what images share counts for each.
    pub freed: u64,
    /// How much more free space the disk has now, where that could be measured.
    pub measured: Option<u64>,
    pub wanted: u64,
    pub shortfall: u64,
    pub kept: KeptOnNode,
}

#[derive(Debug, Serialize)]
pub struct KeptOnNode {
    pub protected: usize,
    pub in_use: usize,
    pub pinned: usize,
    pub young: usize,
}

impl NodeCollection {
    /// What a collection would do.
    #[must_use]
    pub fn planned(node: &ClusterNode, plan: &NodePlan) -> Self {
        let outcome = NodeOutcome { removed: plan.selection.images.clone(), ..NodeOutcome::default() };
        Self::new(node, plan, &outcome, Done::DryRun)
    }

    /// What it did.
    #[must_use]
    pub fn done(node: &ClusterNode, plan: &NodePlan, outcome: &NodeOutcome) -> Self {
        Self::new(node, plan, outcome, Done::Collected)
    }

    fn new(node: &ClusterNode, plan: &NodePlan, outcome: &NodeOutcome, done: Done) -> Self {
        let selection = &plan.selection;
        let freed = outcome.removed.iter().map(|taken| taken.bytes).sum();
        Self {
            schema: "underpin.node-gc/v1",
            node: node.endpoint().to_string(),
            runtime: node.runtime().to_owned(),
            dry_run: done == Done::DryRun,
            pinned: plan.pins.iter().map(|reference| reference.name.clone()).collect(),
            removed: outcome.removed.iter().map(Removed::of).collect(),
            spared: outcome.spared.iter().map(Removed::of).collect(),
            freed,
            measured: outcome.measured,
            wanted: selection.wanted,
            shortfall: selection.wanted.saturating_sub(freed),
            kept: KeptOnNode {
                protected: selection.protected,
                in_use: selection.in_use,
                pinned: selection.pinned,
                young: selection.young,
            },
        }
    }

    /// The collection as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let (pin, remove, free) =
            if self.dry_run { ("would pin", "would remove", "would free") } else { ("pinned", "removed", "freed") };
        let mut out = String::new();
        for name in &self.pinned {
            let _ = writeln!(out, "{pin}  {}", printable(name));
        }
        for removed in &self.removed {
            let (name, size) = (printable(&removed.reference), ByteSize(removed.bytes));
            let _ = writeln!(out, "{remove}  {name}  {size} ({})", removed.why.word());
        }
        for spared in &self.spared {
            let _ = writeln!(out, "kept  {}  (now in use, pinned or protected)", printable(&spared.reference));
        }
        let KeptOnNode { protected, in_use, pinned, young } = self.kept;
        let kept = format!("kept {protected} protected, {in_use} in use, {pinned} pinned, {young} too young");
        let measured =
            self.measured.map_or_else(String::new, |more| format!(" ({} more free on the disk)", ByteSize(more)));
        let _ = writeln!(out, "{free} about {}{measured}; {kept}", ByteSize(self.freed));
        out
    }

    /// A warning, where less was freed than was asked for.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        (self.shortfall > 0).then(|| {
            let (wanted, short) = (ByteSize(self.wanted), ByteSize(self.shortfall));
            format!("could not free {short} of {wanted}: all other images are kept")
        })
    }
}
