//! What a collection on a node would do: the same for a dry run and a real one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::containerd::ContainerdImage as Reference;
use super::grpc::{CallFailure, FailureKind};
use super::{ClusterNode, PinSupport, Survey};
use crate::store::disk::{Cache, LockGuard, LockMode, LockWait, Timestamp, create_private, line, lock_directory};
use crate::store::gc::{DiskSpace, GcPolicy, GcSelection, GcTarget, Protection, RemovedImage, select};
use oci::Digest;
use oci::error::{Error, Kind, Result};

/// Whether protected images are pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinMode {
    Set,
    Leave,
}

/// What is wanted of a collection.
#[derive(Debug, Clone, Copy)]
pub struct NodeRequest<'a> {
    pub protection: &'a Protection,
    pub policy: GcPolicy,
    pub pins: PinMode,
}

/// What a collection would do.
#[derive(Debug)]
pub struct NodePlan {
    pub survey: Survey,
    pub selection: GcSelection,
    /// References to be pinned.
    pub pins: Vec<Reference>,
    /// Where the images lie, if the runtime says so.
    directory: Option<PathBuf>,
}

impl ClusterNode {
    /// What a collection would do now. Nothing is changed.
    pub fn plan(&self, order: NodeRequest<'_>) -> Result<NodePlan> {
        let survey = self.survey()?;
        let after = survey.record.collected.filter(|_| matches!(order.policy.target, GcTarget::Size(_)));
        let usage = self.usage(after)?;
        let wanted = usage.excess(order.policy.target).map_err(|error| error.fact("node", self.endpoint()))?;
        let now = Timestamp::now();
        let policy = self.what_is_known(order.policy, &survey, now);
        let selection = select(&survey.inventory, order.protection, &policy, wanted, now);
        let pins = match order.pins {
            PinMode::Set => self.pins(&survey, order.protection)?,
            PinMode::Leave => Vec::new(),
        };
        Ok(NodePlan { survey, selection, pins, directory: usage.directory() })
    }

    /// An image that was never seen in use may have been in use until a moment before the node was
    /// first looked at. So nothing is too old until the node has been known for that long, which is
    /// the kubelet's rule too.
    fn what_is_known(&self, policy: GcPolicy, survey: &Survey, now: Timestamp) -> GcPolicy {
        let known = now.since(survey.record.since);
        match policy.max_age {
            Some(most) if known <= most => {
                self.notices.warn(format!(
                    "nothing is removed for its age yet: the use of images on this node has been recorded for only {} s",
                    known.as_secs()
                ));
                GcPolicy { max_age: None, ..policy }
            }
            _ => policy,
        }
    }

    fn pins(&self, survey: &Survey, protection: &Protection) -> Result<Vec<Reference>> {
        let Some(unpinned) = &survey.unpinned else {
            return Err(Error::input("only containerd's images can be pinned")
                .fact("node", self.endpoint())
                .fact("runtime", self.runtime())
                .hint("CRI-O pins the `pinned_images` of its own configuration; run without --pin"));
        };
        let runtime = self.runtime();
        match self.pin_support() {
            PinSupport::Told => {}
            PinSupport::NotTold => self.notices.warn(format!(
                "{runtime} does not tell the kubelet what is pinned, so the kubelet may remove it: it takes containerd 1.6.33, 1.7.3 or newer"
            )),
            PinSupport::Unknown => self.notices.warn(format!(
                "whether {runtime} tells the kubelet what is pinned is not known: it takes containerd 1.6.33, 1.7.3 or newer"
            )),
        }
        let protected = survey.inventory.images.iter().filter(|image| protection.covers(image));
        Ok(protected.filter_map(|image| unpinned.get(&image.digest)).flatten().cloned().collect())
    }
}

impl NodePlan {
    pub(super) fn id(&self, digest: Digest) -> String {
        self.survey.ids.get(&digest).cloned().unwrap_or_else(|| digest.to_string())
    }

    pub(super) fn available(&self) -> Option<u64> {
        self.directory.as_deref().and_then(|directory| DiskSpace::of(directory).ok()).map(|disk| disk.available)
    }
}

// Does on a node what was planned.
//
// Pins come first, then everything is looked at once more, then images go one by one. What came into
// use in between, was pinned, or got a name that is protected, stays.

/// What it did.
#[derive(Debug, Default)]
pub struct NodeOutcome {
    pub removed: Vec<RemovedImage>,
    /// Chosen, and meanwhile in use, pinned or protected.
    pub spared: Vec<RemovedImage>,
    /// How many bytes more the disk has now, where it can be asked.
    pub measured: Option<u64>,
}

impl ClusterNode {
    /// Plans a collection and does it, alone.
    pub fn collect(&self, order: NodeRequest<'_>, patience: LockWait) -> Result<(NodePlan, NodeOutcome)> {
        let cache = Cache::open(&self.root, &self.notices)?;
        let _alone = self.alone(cache.directory(), patience)?;
        let plan = self.plan(order)?;
        self.pin(&plan.pins)?;
        let before = plan.available();
        // Also before, in case that we are killed meanwhile.
        self.remember(&cache, &plan);
        let outcome = self.remove(&plan, order.protection);
        self.remember(&cache, &plan);
        let mut outcome = outcome?;
        outcome.measured = before.zip(plan.available()).map(|(before, after)| after.saturating_sub(before));
        Ok((plan, outcome))
    }

    /// Two collections on one node would each believe that the other's images are still there.
    fn alone(&self, root: Option<&Path>, patience: LockWait) -> Result<Option<LockGuard>> {
        let Some(directory) = root.map(|root| root.join("nodes")) else { return Ok(None) };
        let held = create_private(&directory)
            .and_then(|()| lock_directory(&directory, LockMode::Exclusive, patience, &self.notices));
        match held {
            Err(error) if error.kind() == Kind::Io => {
                self.notices.warn(format!("could not lock out other collections on this node: {}", line(&error)));
                Ok(None)
            }
            held => held.map(Some),
        }
    }

    fn pin(&self, references: &[Reference]) -> Result<()> {
        for (at, reference) in references.iter().enumerate() {
            match self.runtime.pin(reference) {
                Ok(()) => {}
                Err(CallFailure { how: FailureKind::NotFound, .. }) => {
                    self.notices.warn(format!("{} no longer exists and was not pinned", reference.name));
                }
                Err(failure) => {
                    let error = failure.error.fact("not pinned", &reference.name).fact("removed", "nothing");
                    let done = references.iter().take(at);
                    return Err(done.fold(error, |error, reference| error.fact("pinned", &reference.name)));
                }
            }
        }
        Ok(())
    }

    /// That it is not remembered must not keep a full disk from being collected.
    fn remember(&self, cache: &Cache, plan: &NodePlan) {
        let Some(root) = cache.directory() else { return };
        let mut record = plan.survey.record.clone();
        if !plan.selection.images.is_empty() {
            record.collected = Some(Timestamp::now());
        }
        if let Err(error) = record.write(root) {
            self.notices.warn(format!("could not record when this node's images were used: {}", line(&error)));
        }
    }

    fn remove(&self, plan: &NodePlan, protection: &Protection) -> Result<NodeOutcome> {
        let mut outcome = NodeOutcome::default();
        if plan.selection.images.is_empty() {
            return Ok(outcome);
        }
        let now = self.survey()?.inventory.images;
        let kept = now.iter().filter(|image| image.hold.is_some() || protection.covers(image));
        let kept: BTreeSet<Digest> = kept.map(|image| image.digest).collect();
        let mut failed: Vec<CallFailure> = Vec::new();
        for taken in &plan.selection.images {
            if kept.contains(&taken.digest) {
                outcome.spared.push(taken.clone());
                continue;
            }
            match self.runtime.remove(&plan.id(taken.digest)) {
                Ok(()) | Err(CallFailure { how: FailureKind::NotFound, .. }) => outcome.removed.push(taken.clone()),
                Err(failure) => {
                    let is_lost = failure.how == FailureKind::Lost;
                    failed.push(failure);
                    if is_lost {
                        break;
                    }
                }
            }
        }
        if failed.is_empty() { Ok(outcome) } else { Err(incomplete(self, plan, &outcome, &failed)) }
    }
}

/// Names what was removed and what was not.
fn incomplete(node: &ClusterNode, plan: &NodePlan, outcome: &NodeOutcome, failed: &[CallFailure]) -> Error {
    let what = Error::new(Kind::Network, "not all images could be removed from the node").fact("node", node.endpoint());
    let settled: BTreeSet<Digest> = outcome.removed.iter().chain(&outcome.spared).map(|taken| taken.digest).collect();
    let removed = outcome.removed.iter().map(|taken| ("removed", taken));
    let left = plan.selection.images.iter().filter(|taken| !settled.contains(&taken.digest));
    let told = removed.chain(left.map(|taken| ("not removed", taken)));
    let error = told.fold(what, |error, (word, taken)| error.fact(word, &taken.reference));
    let causes: BTreeSet<&String> = failed.iter().flat_map(|failure| failure.error.causes()).collect();
    causes.into_iter().take(3).fold(error, Error::cause)
}
