//! Opens the source or sink that a location names: a new kind of location is added here.

use super::disk::{Cache, DockerArchive, Layout, OciArchive};
use super::offline_source::OfflineSource;
use super::registry::Registry;
use super::{Notices, Progress, Sink, Source};
use crate::error::Result;
use crate::oci::Location;

/// Opens all sources and sinks of a run; they share connections, tokens and counters.
pub struct Opener {
    registry: Registry,
    notices: Notices,
    /// What is read instead of registries while the network may not be used.
    offline: Option<Cache>,
}

impl Opener {
    #[must_use]
    pub fn new(registry: Registry, notices: Notices, offline: Option<Cache>) -> Self {
        Self { registry, notices, offline }
    }

    pub fn source(&self, location: &Location) -> Result<Box<dyn Source>> {
        Ok(match location {
            Location::Registry(reference) => match &self.offline {
                Some(cache) => Box::new(OfflineSource::new(cache, reference)),
                None => Box::new(self.registry.source(reference)),
            },
            Location::Layout(local) => Box::new(Layout::source(local)?),
            Location::OciArchive(local) => Box::new(OciArchive::source(local)?),
            Location::DockerArchive(local) => Box::new(DockerArchive::source(local)?),
        })
    }

    pub fn sink(&self, location: &Location) -> Result<Box<dyn Sink>> {
        let notices = &self.notices;
        Ok(match location {
            Location::Registry(reference) => Box::new(self.registry.sink(reference)),
            Location::Layout(local) => Box::new(Layout::sink(local, notices)?),
            Location::OciArchive(local) => Box::new(OciArchive::sink(local, notices)?),
            Location::DockerArchive(local) => Box::new(DockerArchive::sink(local, notices)?),
        })
    }
}

/// What fetching and publishing work with.
pub struct StoreAccess {
    pub places: Opener,
    pub cache: Cache,
    pub notices: Notices,
    pub progress: Progress,
    /// How many transfers at once.
    pub jobs: usize,
}
