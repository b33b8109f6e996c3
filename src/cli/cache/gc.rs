//! `underpin cache gc`: collects what is not protected, in the store or on a node.

use std::time::Duration;

use clap::Args;

use super::node::{self, Deed, NodeArgs};
use super::{StoreArgs, show_collection};
use crate::cli::Ended;
use crate::cli::console::Console;
use crate::cli::environment::{configured_size, settings_file};
use crate::report::{CacheCollection, Done};
use crate::settings::{SettingsFile, duration, percent, size};
use crate::store::disk::{LockMode, LockWait};
use crate::store::gc::{GcPolicy, GcSelection, GcTarget};
use crate::store::node::{NodeRequest, PinMode, PinSupport};
use oci::error::Result;

/// An image that was just pulled has no container yet.
const KUBELETS_MIN_AGE: Duration = Duration::from_secs(120);
const SIZE_HELP: &str =
    "Remove images until the cache is no larger [default: $UNDERPIN_CACHE_MAX_SIZE, or as in the settings file]";

/// Remove images as the kubelet does: never-used images first, then the least recently used
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_flag = true)]
pub struct Gc {
    /// Start when the disk is this full [default: 85, if neither a size nor an age is given]
    #[arg(long, value_name = "PERCENT", requires = "low", conflicts_with = "max_size", value_parser = percent)]
    high: Option<u8>,
    /// Stop when the disk is no fuller than this [default: 80]
    #[arg(long, value_name = "PERCENT", requires = "high", value_parser = percent)]
    low: Option<u8>,
    #[arg(long, value_name = "SIZE", value_parser = size, help = SIZE_HELP)]
    max_size: Option<u64>,
    /// Keep images first seen more recently than this, even if space is needed [default: 0s; with --cri 2m]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    min_age: Option<Duration>,
    /// Remove images not used for longer than this, even if there is space
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    max_age: Option<Duration>,
    /// Show what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    node: NodeArgs,
    /// Pin protected images in containerd, so that the kubelet does not remove them either
    #[arg(long, requires = "cri")]
    pin: bool,
    /// Do nothing and exit 1 unless the runtime is known to tell the kubelet what is pinned
    #[arg(long, requires = "pin")]
    require: bool,
    /// How long to wait for other runs that use the cache
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "60s")]
    lock_timeout: Duration,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

const EXAMPLES: &str = "Examples:
  # with the kubelet's thresholds: at 85 percent of the disk, down to 80
  underpin cache gc --protect-file protected.txt

  # show what would be removed to shrink the cache to 20 GiB
  underpin cache gc --max-size 20GiB --protect gcr.io/distroless/static --dry-run

  # remove what was not used for a month
  underpin cache gc --max-age 30d --protect host:registry.example

  # the images of this node; images in use or pinned are kept
  underpin cache gc --cri unix:///run/containerd/containerd.sock \\
      --protect-file protected.txt --dry-run

  # only pin protected images, so that the kubelet keeps them
  underpin cache gc --cri unix:///run/containerd/containerd.sock \\
      --protect-file protected.txt --pin --high 100 --low 100

Exit codes: 0 done; 1 with --require, the runtime does not tell the kubelet what is pinned; 2 nothing, or not everything, could be done.";

impl Gc {
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        let settings = settings_file()?;
        // All that could be wrong is found before the store is touched.
        let policy = self.policy(&settings)?;
        let protection = self.store.protection(&settings)?;
        let patience = LockWait { stop: self.lock_timeout, ..LockWait::default() };
        if let Some(node) = self.node.connect(&self.store, console)? {
            if self.require && node.pin_support() != PinSupport::Told {
                console.insist(&node::not_told(&node));
                return Ok(Ended::Refused);
            }
            let pins = if self.pin { PinMode::Set } else { PinMode::Leave };
            let deed = if self.dry_run { Deed::Told } else { Deed::Done(patience) };
            return node::collect(&node, NodeRequest { protection: &protection, policy, pins }, deed, console);
        }
        let (mode, done) =
            if self.dry_run { (LockMode::Shared, Done::DryRun) } else { (LockMode::Exclusive, Done::Collected) };
        let selection = match self.store.open(console, mode, self.lock_timeout)? {
            None => GcSelection::default(),
            Some(store) if done == Done::DryRun => store.select(&protection, &policy)?,
            Some(store) => store.collect(&protection, &policy)?,
        };
        let collection = CacheCollection::new(&self.store.folder()?, &selection, done);
        show_collection(console, &collection, CacheCollection::to_text, collection.warning());
        Ok(Ended::Done)
    }

    fn policy(&self, settings: &SettingsFile) -> Result<GcPolicy> {
        // What is configured is how large the store may grow, and not a node's images.
        let (configured, youth) =
            if self.node.is_given() { (None, KUBELETS_MIN_AGE) } else { (configured_size(settings)?, Duration::ZERO) };
        let target = match (self.high, self.low, self.max_size.or(configured), self.max_age) {
            (Some(high), Some(low), ..) => GcTarget::Disk { high, low },
            (_, _, Some(most), _) => GcTarget::Size(most),
            (_, _, None, Some(_)) => GcTarget::Any,
            (_, _, None, None) => GcTarget::default(),
        };
        GcPolicy { target, min_age: self.min_age.unwrap_or(youth), max_age: self.max_age }.check()
    }
}
