//! The world a run lives in: places, cache, counters, and whom to tell.

use crate::error::Result;
use crate::oci::{Digest, Location};
use crate::settings::{CacheChoice, Network, Surroundings};
use crate::store::disk::Cache;
use crate::store::fetch::{Bases, Fetcher};
use crate::store::registry::{Credentials, Registry, RegistryOptions, Timeouts};
use crate::store::{Notices, Once, Places, Progress, Tools, Traffic};

pub struct World {
    pub tools: Tools,
    pub traffic: Traffic,
    bases: Bases,
    resolved: Once<Location, Option<Digest>>,
}

impl World {
    /// Opens the cache and sets up the registry client; nothing is asked of the network yet.
    pub fn new(surroundings: &Surroundings, notices: Notices, progress: Progress) -> Result<Self> {
        let traffic = Traffic::default();
        let cache = match &surroundings.cache {
            CacheChoice::Folder(folder) => Cache::open(folder, &notices)?,
            CacheChoice::None => Cache::none(),
        };
        let options = RegistryOptions {
            insecure: surroundings.insecure.clone(),
            cacert: surroundings.cacert.clone(),
            offline: surroundings.network == Network::Offline,
            jobs: surroundings.jobs,
            credentials: Credentials::from_env(),
            timeouts: Timeouts::scaled(surroundings.pace),
        };
        let registry = Registry::new(options, traffic.clone(), notices.clone())?;
        let offline = (surroundings.network == Network::Offline).then(|| cache.clone());
        let places = Places::new(registry, notices.clone(), offline);
        let tools = Tools { places, cache, notices, progress, jobs: surroundings.jobs };
        Ok(Self { tools, traffic, bases: Bases::default(), resolved: Once::default() })
    }

    /// The digest that a tag of a registry leads to now, asked once a run.
    pub fn resolve_once(&self, location: &Location) -> Result<Option<Digest>> {
        self.resolved.get(location.clone(), || self.tools.places.sink(location)?.current())
    }

    #[must_use]
    pub fn fetcher(&self) -> Fetcher<'_> {
        Fetcher { tools: &self.tools, bases: &self.bases, sources: Bases::default() }
    }
}
