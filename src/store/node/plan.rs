//! What a collection on a node would do: the same for a dry run and a real one.

use std::path::PathBuf;

use super::containerd::Image as Reference;
use super::{Node, Survey};
use crate::error::{Error, Result};
use crate::oci::Digest;
use crate::store::collect::{Disk, Policy, Protection, Room, Selection, select};
use crate::store::disk::Timestamp;

/// Whether protected images are pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pins {
    Set,
    Leave,
}

/// What is wanted of a collection.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    pub protection: &'a Protection,
    pub policy: Policy,
    pub pins: Pins,
}

/// What a collection would do.
#[derive(Debug)]
pub struct Plan {
    pub survey: Survey,
    pub selection: Selection,
    /// References to be pinned.
    pub pins: Vec<Reference>,
    /// Where the images lie, if the runtime says so.
    directory: Option<PathBuf>,
}

impl Node {
    /// What a collection would do now. Nothing is changed.
    pub fn plan(&self, order: Order<'_>) -> Result<Plan> {
        let survey = self.survey()?;
        let after = survey.record.collected.filter(|_| matches!(order.policy.room, Room::Size(_)));
        let usage = self.usage(after)?;
        let wanted = usage.excess(order.policy.room).map_err(|error| error.fact("node", self.endpoint()))?;
        let now = Timestamp::now();
        let policy = self.what_is_known(order.policy, &survey, now);
        let selection = select(&survey.inventory, order.protection, &policy, wanted, now);
        let pins = match order.pins {
            Pins::Set => self.pins(&survey, order.protection)?,
            Pins::Leave => Vec::new(),
        };
        Ok(Plan { survey, selection, pins, directory: usage.directory() })
    }

    /// An image that was never seen in use may have been in use until a moment before the node was
    /// first looked at. So nothing is too old until the node has been known for that long, which is
    /// the kubelet's rule too.
    fn what_is_known(&self, policy: Policy, survey: &Survey, now: Timestamp) -> Policy {
        let known = now.since(survey.record.since);
        match policy.max_age {
            Some(most) if known <= most => {
                self.notices.warn(format!(
                    "nothing is taken for its age yet: the use of images on this node is known for {} s only",
                    known.as_secs()
                ));
                Policy { max_age: None, ..policy }
            }
            _ => policy,
        }
    }

    fn pins(&self, survey: &Survey, protection: &Protection) -> Result<Vec<Reference>> {
        let Some(unpinned) = &survey.unpinned else {
            return Err(Error::input("only containerd's images can be pinned")
                .fact("node", self.endpoint())
                .fact("runtime", self.runtime())
                .hint("CRI-O pins what `pinned_images` in its own configuration says; leave out --pin"));
        };
        let protected = survey.inventory.images.iter().filter(|image| protection.covers(image));
        Ok(protected.filter_map(|image| unpinned.get(&image.digest)).flatten().cloned().collect())
    }
}

impl Plan {
    pub(super) fn id(&self, digest: Digest) -> String {
        self.survey.ids.get(&digest).cloned().unwrap_or_else(|| digest.to_string())
    }

    pub(super) fn available(&self) -> Option<u64> {
        self.directory.as_deref().and_then(|directory| Disk::of(directory).ok()).map(|disk| disk.available)
    }
}
