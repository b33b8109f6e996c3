//! One run's way to everything outside: registries, cache, counters, and whom to tell.

use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;

use super::disk::{Cache, check_usable, line};
use super::fetch::{Bases, Fetcher};
use super::registry::{Credentials, Registry, RegistryOptions, Timeouts};
use super::{Notices, OnceMap, Opener, Progress, StoreAccess, Traffic};
use oci::error::Result;
use oci::{Digest, HostPattern, Location};

/// How a run deals with registries and the cache.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    pub cache: CacheChoice,
    pub insecure: Vec<HostPattern>,
    pub cacert: Option<PathBuf>,
    pub network: Network,
    pub jobs: usize,
    /// All waits of the registry client are divided by this; for tests of faults.
    pub pace: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheChoice {
    Directory(PathBuf),
    /// Where nobody named one: if it cannot be trusted, the run goes on without.
    Usual(PathBuf),
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    Online,
    Offline,
}

pub struct Session {
    pub tools: StoreAccess,
    pub traffic: Traffic,
    bases: Bases,
    resolved: OnceMap<Location, Option<Digest>>,
}

impl Session {
    /// Opens the cache and sets up the registry client; nothing is asked of the network yet.
    pub fn new(given: &SessionOptions, notices: Notices, progress: Progress) -> Result<Self> {
        let traffic = Traffic::default();
        let cache = match &given.cache {
            CacheChoice::Directory(directory) => Cache::open(directory, &notices)?,
            CacheChoice::Usual(directory) => match check_usable(directory) {
                Ok(()) => Cache::open(directory, &notices)?,
                Err(error) => {
                    notices.warn(format!("working without a cache: {}", line(&error)));
                    Cache::none()
                }
            },
            CacheChoice::None => Cache::none(),
        };
        let options = RegistryOptions {
            insecure: given.insecure.clone(),
            cacert: given.cacert.clone(),
            offline: given.network == Network::Offline,
            jobs: given.jobs,
            credentials: Credentials::from_env(),
            timeouts: Timeouts::scaled(given.pace),
        };
        let registry = Registry::new(options, traffic.clone(), notices.clone())?;
        let places = Opener::new(registry, notices.clone(), cache.clone(), given.network);
        let tools = StoreAccess { places, cache, notices, progress, limit: given.jobs, images: AtomicUsize::new(0) };
        Ok(Self { tools, traffic, bases: Bases::default(), resolved: OnceMap::default() })
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
