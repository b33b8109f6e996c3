//! A node of a cluster: the images that its container runtime keeps, collected by the same policy and
//! with the same protection as the store.
//!
//! ```text
//! endpoint     where the runtime listens
//! wire         calls over its socket;       cri, containerd   their messages
//! runtime      what is asked of it
//! survey       what it said, as the collector sees it;   usage   how much room images take
//! plan         what goes and what is pinned;   collection   doing it
//! ```
//!
//! Everything is asked before anything is removed; an answer that fails or is not understood ends it.

mod collection;
mod containerd;
mod cri;
#[cfg(test)]
mod double;
mod endpoint;
mod plan;
mod runtime;
mod survey;
#[cfg(test)]
mod tests;
mod usage;
mod wire;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use collection::Outcome;
pub use endpoint::Endpoint;
pub use plan::{Order, Pins, Plan};
pub use survey::Survey;

use crate::error::{Error, Result};
use crate::store::Notices;
use crate::store::collect::versions;
use crate::store::disk::{NODES, NodeRecord, Timestamp, has_known_version};
use runtime::Runtime;
use survey::Heard;
use usage::Usage;
use wire::Deadlines;

/// How long to wait for a new measurement; containerd makes one every ten seconds.
const MEASURING: Duration = Duration::from_secs(30);

/// A node, and the store that remembers it.
pub struct Node {
    runtime: Runtime,
    /// The directory of the store.
    root: PathBuf,
    notices: Notices,
}

impl Node {
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

    /// What is on the node. Nothing is changed.
    pub fn survey(&self) -> Result<Survey> {
        let known = self.known()?;
        let heard = Heard {
            images: self.runtime.images()?,
            references: self.runtime.references()?,
            used: self.runtime.used()?,
        };
        let endpoint = self.endpoint().to_string();
        Survey::of(&heard, &endpoint, known.as_ref(), Timestamp::now()).map_err(|error| error.fact("node", endpoint))
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
            return Err(Error::input("the store has records of another version of underpin")
                .fact("path", newer.display())
                .hint("collect with the newest underpin that uses this store"));
        }
        NodeRecord::find(&self.endpoint().to_string(), &self.root)
    }
}
