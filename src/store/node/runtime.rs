//! What is asked of the runtime of a node: containerd, CRI-O, or another that speaks CRI v1.
//!
//! Over CRI everything is known but the images of pod sandboxes, when an image came, and, in older
//! versions, pins. containerd tells these itself, on the same socket; where it is another runtime,
//! CRI is all there is.

use serde_json::Value;

use super::cri::{self, FilesystemUsage, ImageSpec};
use super::endpoint::Endpoint;
use super::wire::{Deadlines, Failure, How, Method, Wire};
use super::{containerd, cri::Nothing};
use crate::error::{Error, Kind, Result};

pub struct Runtime {
    wire: Wire,
    /// Name and version.
    name: String,
}

impl Runtime {
    pub fn connect(endpoint: &Endpoint, deadlines: Deadlines) -> Result<Self> {
        let wire = Wire::connect(endpoint, deadlines)?;
        let version: cri::VersionResponse = match wire.call(cri::VERSION, Nothing {}) {
            Ok(version) => version,
            Err(failure) if failure.how == How::Unknown => {
                return Err(Error::new(
                    Kind::Network,
                    "there is no container runtime interface, CRI v1, at the endpoint",
                )
                .fact("node", endpoint)
                .hint("containerd has it from 1.6 on, unless its plugin `cri` is disabled"));
            }
            Err(failure) => return Err(failure.error),
        };
        let name = format!("{} {}", version.runtime_name, version.runtime_version).trim().to_owned();
        Ok(Self { wire, name })
    }

    pub fn endpoint(&self) -> &Endpoint {
        self.wire.endpoint()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn images(&self) -> Result<Vec<cri::Image>> {
        Ok(self.wire.ask::<_, cri::ListImagesResponse>(cri::LIST_IMAGES, Nothing {})?.images)
    }

    /// containerd's references, or `None` where it is not containerd.
    pub fn references(&self) -> Result<Option<Vec<containerd::Image>>> {
        let answer = self.ask_containerd::<containerd::ListImagesResponse>(containerd::LIST_IMAGES)?;
        Ok(answer.map(|answer| answer.images))
    }

    /// Whatever containers in any state, sandboxes and the runtime itself call the images that they need.
    pub fn used(&self) -> Result<Vec<String>> {
        let answer: cri::ListContainersResponse = self.wire.ask(cri::LIST_CONTAINERS, Nothing {})?;
        let mut used: Vec<String> = Vec::new();
        for container in answer.containers {
            used.extend(container.image.map(|spec| spec.image));
            used.extend([container.image_ref, container.image_id]);
        }
        let own = self.ask_containerd::<containerd::ListContainersResponse>(containerd::LIST_CONTAINERS)?;
        used.extend(own.into_iter().flat_map(|answer| answer.containers).map(|container| container.image));
        used.extend(self.sandbox_image()?);
        used.retain(|name| !name.is_empty());
        Ok(used)
    }

    /// The image that sandboxes are made from, as containerd before 2.0 and CRI-O say in their status.
    fn sandbox_image(&self) -> Result<Option<String>> {
        let status: cri::StatusResponse = self.wire.ask(cri::STATUS, cri::StatusRequest { verbose: true })?;
        let Some(config) = status.info.get("config") else { return Ok(None) };
        let config: Value = serde_json::from_str(config).map_err(|error| {
            Error::new(Kind::Network, "the runtime describes itself in a way that is not understood")
                .fact("node", self.endpoint())
                .cause(error)
        })?;
        Ok(config.get("sandboxImage").and_then(Value::as_str).map(str::to_owned))
    }

    pub fn image_disks(&self) -> Result<Vec<FilesystemUsage>> {
        Ok(self.wire.ask::<_, cri::ImageFsInfoResponse>(cri::IMAGE_FS_INFO, Nothing {})?.image_filesystems)
    }

    /// Removes an image with all its names.
    pub fn remove(&self, id: &str) -> Result<(), Failure> {
        let image = Some(ImageSpec { image: id.to_owned() });
        self.wire.call::<_, Nothing>(cri::REMOVE_IMAGE, cri::RemoveImageRequest { image }).map(|Nothing {}| ())
    }

    /// Pins a reference of containerd's.
    pub fn pin(&self, reference: &containerd::Image) -> Result<(), Failure> {
        self.wire.call::<_, Nothing>(containerd::UPDATE_IMAGE, reference.pin()).map(|Nothing {}| ())
    }

    fn ask_containerd<A: prost::Message + Default + 'static>(&self, method: Method) -> Result<Option<A>> {
        match self.wire.call(method, Nothing {}) {
            Ok(answer) => Ok(Some(answer)),
            Err(failure) if failure.how == How::Unknown => Ok(None),
            Err(failure) => Err(failure.error),
        }
    }
}
