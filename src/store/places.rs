//! Opens the place that a location names.

use super::disk::{Cache, DockerArchive, Layout, OciArchive};
use super::kept::Kept;
use super::registry::Registry;
use super::{Notices, Sink, Source};
use crate::error::Result;
use crate::oci::Location;

/// All places of a run; they share connections, tokens and counters.
pub struct Places {
    registry: Registry,
    notices: Notices,
    /// What stands for all registries while the network may not be used.
    offline: Option<Cache>,
}

impl Places {
    #[must_use]
    pub fn new(registry: Registry, notices: Notices, offline: Option<Cache>) -> Self {
        Self { registry, notices, offline }
    }

    pub fn source(&self, location: &Location) -> Result<Box<dyn Source>> {
        Ok(match location {
            Location::Registry(reference) => match &self.offline {
                Some(cache) => Box::new(Kept::new(cache, reference)),
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
