//! A node of a cluster: the images that its container runtime keeps, collected by the same policy and
//! with the same protection as the cache.
//!
//! ```text
//! runtime      where the runtime listens, and what is asked of it
//! grpc         calls over its socket;   cri, containerd   their messages
//! survey       its answers as the collector sees them, and how much space images take
//! collection   what is removed and what is pinned, planned and done
//! ```
//!
//! Everything is asked before anything is removed; an answer that fails or is not understood ends it.

mod collection;
mod containerd;
mod cri;
mod grpc;
mod runtime;
mod survey;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use collection::{NodeOutcome, NodePlan, NodeRequest, PinMode};
pub use runtime::{Endpoint, PinSupport};
pub use survey::Survey;

use crate::store::Notices;
use crate::store::disk::{NODES, NodeRecord, Timestamp, has_known_version};
use crate::store::gc::versions;
use grpc::Deadlines;
use oci::error::{Error, Result};
use runtime::Runtime;
use survey::{RuntimeAnswers, Usage};

/// How long to wait for a new measurement; containerd makes one every ten seconds.
const MEASURING: Duration = Duration::from_secs(30);

/// A node, and the cache that remembers it.
pub struct ClusterNode {
    runtime: Runtime,
    /// The directory of the cache.
    root: PathBuf,
    notices: Notices,
}

impl ClusterNode {
    pub fn connect(endpoint: &Endpoint, root: &Path, notices: &Notices) -> Result<Self> {
        let runtime = Runtime::connect(endpoint, Deadlines::default())?;
        Ok(Self { runtime, root: root.to_owned(), notices: notices.clone() })
    }

    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        self.runtime.endpoint()
    }

    /// Name and version of its runtime.
    #[must_use]
    pub fn runtime(&self) -> &str {
        self.runtime.name()
    }

    /// Whether a kubelet learns what is pinned.
    #[must_use]
    pub fn pin_support(&self) -> PinSupport {
        self.runtime.pin_support()
    }

    /// What is on the node. Nothing is changed.
    pub fn survey(&self) -> Result<Survey> {
        let known = self.known()?;
        let answers = RuntimeAnswers {
            images: self.runtime.images()?,
            references: self.runtime.references()?,
            used: self.runtime.used()?,
        };
        let endpoint = self.endpoint().to_string();
        Survey::new(&answers, &endpoint, known.as_ref(), Timestamp::now()).map_err(|error| error.fact("node", endpoint))
    }

    /// How many bytes images take, as the runtime says.
    pub fn used(&self) -> Result<u64> {
        self.usage(None)?.total().map_err(|error| error.fact("node", self.endpoint()))
    }

    /// How much room images take, measured after that moment.
    fn usage(&self, after: Option<Timestamp>) -> Result<Usage> {
        let deadline = Instant::now() + MEASURING;
        loop {
            let usage = Usage(self.runtime.image_disks()?);
            if !after.is_some_and(|moment| usage.is_older_than(moment)) {
                return Ok(usage);
            }
            if Instant::now() > deadline {
                return Err(Error::input("the runtime has not measured its images since the last collection")
                    .fact("node", self.endpoint())
                    .hint("run again in a minute"));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// What was remembered of the node. What cannot be read stops a collection.
    fn known(&self) -> Result<Option<NodeRecord>> {
        if !self.root.is_dir() || !has_known_version(&self.root)? {
            return Ok(None);
        }
        let here = self.root.join(NODES);
        if let Some(newer) = versions(&self.root.join("nodes"))?.into_iter().find(|directory| *directory != here) {
            return Err(Error::input("the cache has records of another version of underpin")
                .fact("path", newer.display())
                .hint("run `cache gc` with the newest underpin that uses this cache"));
        }
        NodeRecord::find(&self.endpoint().to_string(), &self.root)
    }
}
