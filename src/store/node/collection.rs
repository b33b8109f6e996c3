//! Does on a node what was planned.
//!
//! Pins come first, then everything is looked at once more, then images go one by one. What came into
//! use in between, was pinned, or got a name that is protected, stays.

use std::collections::BTreeSet;
use std::path::Path;

use super::Node;
use super::containerd::Image as Reference;
use super::plan::{Order, Plan};
use super::wire::{Failure, How};
use crate::error::{Error, Kind, Result};
use crate::oci::Digest;
use crate::store::collect::{Protection, Taken};
use crate::store::disk::{Cache, LockGuard, LockMode, LockWait, Timestamp, create_private, line, lock_directory};

/// What it did.
#[derive(Debug, Default)]
pub struct Outcome {
    pub removed: Vec<Taken>,
    /// Chosen, and meanwhile in use, pinned or protected.
    pub spared: Vec<Taken>,
    /// How many bytes more the disk has now, where it can be asked.
    pub measured: Option<u64>,
}

impl Node {
    /// Plans a collection and does it, alone.
    pub fn collect(&self, order: Order<'_>, patience: LockWait) -> Result<(Plan, Outcome)> {
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
                self.notices.warn(format!("others may collect on this node too: {}", line(&error)));
                Ok(None)
            }
            held => held.map(Some),
        }
    }

    fn pin(&self, references: &[Reference]) -> Result<()> {
        for (at, reference) in references.iter().enumerate() {
            match self.runtime.pin(reference) {
                Ok(()) => {}
                Err(Failure { how: How::NotFound, .. }) => {
                    self.notices.warn(format!("{} is gone and was not pinned", reference.name));
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
    fn remember(&self, cache: &Cache, plan: &Plan) {
        let Some(root) = cache.directory() else { return };
        let mut record = plan.survey.record.clone();
        if !plan.selection.images.is_empty() {
            record.collected = Some(Timestamp::now());
        }
        if let Err(error) = record.write(root) {
            self.notices.warn(format!("the times of use of this node's images were not kept: {}", line(&error)));
        }
    }

    fn remove(&self, plan: &Plan, protection: &Protection) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        if plan.selection.images.is_empty() {
            return Ok(outcome);
        }
        let now = self.survey()?.inventory.images;
        let kept = now.iter().filter(|image| image.claim.is_some() || protection.covers(image));
        let kept: BTreeSet<Digest> = kept.map(|image| image.digest).collect();
        let mut failed: Vec<Failure> = Vec::new();
        for taken in &plan.selection.images {
            if kept.contains(&taken.digest) {
                outcome.spared.push(taken.clone());
                continue;
            }
            match self.runtime.remove(&plan.id(taken.digest)) {
                Ok(()) | Err(Failure { how: How::NotFound, .. }) => outcome.removed.push(taken.clone()),
                Err(failure) => {
                    let is_lost = failure.how == How::Lost;
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
fn incomplete(node: &Node, plan: &Plan, outcome: &Outcome, failed: &[Failure]) -> Error {
    let what = Error::new(Kind::Network, "not all images could be removed from the node").fact("node", node.endpoint());
    let settled: BTreeSet<Digest> = outcome.removed.iter().chain(&outcome.spared).map(|taken| taken.digest).collect();
    let removed = outcome.removed.iter().map(|taken| ("removed", taken));
    let left = plan.selection.images.iter().filter(|taken| !settled.contains(&taken.digest));
    let told = removed.chain(left.map(|taken| ("not removed", taken)));
    let error = told.fold(what, |error, (word, taken)| error.fact(word, &taken.reference));
    let causes: BTreeSet<&String> = failed.iter().flat_map(|failure| failure.error.causes()).collect();
    causes.into_iter().take(3).fold(error, Error::cause)
}
