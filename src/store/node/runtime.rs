//! What is asked of the runtime of a node: containerd, CRI-O, or another that speaks CRI v1.
//!
//! Over CRI everything is known but the images of pod sandboxes, when an image came, and, in older
//! versions, pins. containerd tells these itself, on the same socket; where it is another runtime,
//! CRI is all there is.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Instant;

use serde::Deserialize;

use super::containerd;
use super::cri::{self, FilesystemUsage, ImageSpec, Nothing};
use super::grpc::{CallFailure, Deadlines, ENTRY_LIMIT, FailureKind, GrpcConnection, Method};
use oci::error::{Error, Kind, Result};

/// Longer names are an attack.
const LONGEST_NAME: usize = 4096;
/// Of a text of the runtime's, so much is shown.
const LONGEST_SHOWN: usize = 100;

/// The part of a runtime's configuration that is read; nothing else of it is kept.
#[derive(Deserialize)]
struct RuntimeConfig {
    #[serde(rename = "sandboxImage")]
    sandbox_image: Option<String>,
}

pub struct Runtime {
    wire: GrpcConnection,
    /// Name and version.
    name: String,
    pins: PinSupport,
}

/// Whether the runtime tells a kubelet which images are pinned by their label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinSupport {
    Told,
    /// The kubelet removes what is pinned.
    NotTold,
    /// The version cannot be understood.
    Unknown,
}

impl PinSupport {
    /// containerd does so from 1.6.33, 1.7.3 and 2.0 on.
    fn of(version: &str) -> Self {
        let mut numbers = version.trim_start_matches('v').split('.').map(|part| {
            let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part.get(..end).and_then(|digits| digits.parse::<u32>().ok())
        });
        let mut next = || numbers.next().flatten();
        match (next(), next(), next()) {
            (Some(1), Some(..=5), _) => Self::NotTold,
            (Some(1), Some(6), Some(patch)) if patch < 33 => Self::NotTold,
            (Some(1), Some(7), Some(patch)) if patch < 3 => Self::NotTold,
            (Some(1), Some(_), Some(_)) | (Some(2..), Some(_), _) => Self::Told,
            _ => Self::Unknown,
        }
    }
}

impl Runtime {
    pub fn connect(endpoint: &Endpoint, deadlines: Deadlines) -> Result<Self> {
        let wire = GrpcConnection::connect(endpoint, deadlines)?;
        let version: cri::VersionResponse = match wire.call(cri::VERSION, Nothing {}) {
            Ok(version) => version,
            Err(failure) if failure.how == FailureKind::Unknown => {
                return Err(Error::new(
                    Kind::Network,
                    "there is no container runtime interface, CRI v1, at the endpoint",
                )
                .fact("node", endpoint)
                .hint("containerd has it from 1.6 on, unless its plugin `cri` is disabled"));
            }
            Err(failure) => return Err(failure.error),
        };
        let name = format!("{} {}", version.runtime_name, version.runtime_version);
        let name = name.trim().chars().take(LONGEST_SHOWN).collect();
        Ok(Self { wire, name, pins: PinSupport::of(&version.runtime_version) })
    }

    pub fn endpoint(&self) -> &Endpoint {
        self.wire.endpoint()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn pin_support(&self) -> PinSupport {
        self.pins
    }

    pub fn images(&self) -> Result<Vec<cri::CriImage>> {
        let images = self.wire.ask::<_, cri::CriListImagesResponse>(cri::LIST_IMAGES, Nothing {})?.images;
        let names = images.iter().map(|image| image.repo_tags.len() + image.repo_digests.len()).sum::<usize>();
        let texts =
            images.iter().flat_map(|image| image.repo_tags.iter().chain(&image.repo_digests).chain([&image.id]));
        if names > ENTRY_LIMIT || texts.map(String::len).any(|length| length > LONGEST_NAME) {
            return Err(Error::input("the runtime lists images with names that no image has")
                .fact("node", self.endpoint())
                .fact("images", images.len())
                .fact("names", names));
        }
        Ok(images)
    }

    /// containerd's references, or `None` where it is not containerd.
    pub fn references(&self) -> Result<Option<Vec<containerd::ContainerdImage>>> {
        let answer = self.ask_containerd::<containerd::ContainerdListImagesResponse>(containerd::LIST_IMAGES)?;
        Ok(answer.map(|answer| answer.images))
    }

    /// Whatever containers in any state, sandboxes and the runtime itself call the images that they need.
    pub fn used(&self) -> Result<Vec<String>> {
        let answer: cri::CriListContainersResponse = self.wire.ask(cri::LIST_CONTAINERS, Nothing {})?;
        let mut used: Vec<String> = Vec::new();
        let until = Instant::now() + self.wire.deadlines().containers;
        for container in answer.containers {
            if Instant::now() > until {
                return Err(Error::new(
                    Kind::Network,
                    "the runtime of the node takes too long to describe its containers",
                )
                .fact("node", self.endpoint()));
            }
            used.extend(self.image_volumes(&container.id)?);
            used.extend(container.image.map(|spec| spec.image));
            used.extend([container.image_ref, container.image_id]);
        }
        let own = self.ask_containerd::<containerd::ContainerdListContainersResponse>(containerd::LIST_CONTAINERS)?;
        used.extend(own.into_iter().flat_map(|answer| answer.containers).map(|container| container.image));
        used.extend(self.sandbox_image()?);
        used.retain(|name| !name.is_empty());
        Ok(used)
    }

    /// The images that a container has mounted as volumes.
    fn image_volumes(&self, container: &str) -> Result<Vec<String>> {
        let request = cri::ContainerStatusRequest { container_id: container.to_owned() };
        match self.wire.call::<_, cri::ContainerStatusResponse>(cri::CONTAINER_STATUS, request) {
            Ok(answer) => {
                let mounts = answer.status.into_iter().flat_map(|status| status.mounts);
                Ok(mounts.filter_map(|mount| Some(mount.image?.image)).collect())
            }
            // It ended meanwhile.
            Err(failure) if failure.how == FailureKind::NotFound => Ok(Vec::new()),
            Err(failure) => Err(failure.error),
        }
    }

    /// The image that sandboxes are made from, as containerd before 2.0 and CRI-O say in their status.
    fn sandbox_image(&self) -> Result<Option<String>> {
        let status: cri::StatusResponse = self.wire.ask(cri::STATUS, cri::StatusRequest { verbose: true })?;
        let Some(config) = status.info.get("config") else { return Ok(None) };
        let config: RuntimeConfig = serde_json::from_str(config).map_err(|error| {
            Error::new(Kind::Network, "the runtime's status cannot be parsed")
                .fact("node", self.endpoint())
                .cause(error)
        })?;
        Ok(config.sandbox_image)
    }

    pub fn image_disks(&self) -> Result<Vec<FilesystemUsage>> {
        Ok(self.wire.ask::<_, cri::ImageFsInfoResponse>(cri::IMAGE_FS_INFO, Nothing {})?.image_filesystems)
    }

    /// Removes an image with all its names.
    pub fn remove(&self, id: &str) -> Result<(), CallFailure> {
        let image = Some(ImageSpec { image: id.to_owned() });
        self.wire.call::<_, Nothing>(cri::REMOVE_IMAGE, cri::RemoveImageRequest { image }).map(|Nothing {}| ())
    }

    /// Pins a reference of containerd's.
    pub fn pin(&self, reference: &containerd::ContainerdImage) -> Result<(), CallFailure> {
        self.wire.call::<_, Nothing>(containerd::UPDATE_IMAGE, reference.pin()).map(|Nothing {}| ())
    }

    fn ask_containerd<A: prost::Message + Default + 'static>(&self, method: Method) -> Result<Option<A>> {
        match self.wire.call(method, Nothing {}) {
            Ok(answer) => Ok(Some(answer)),
            Err(failure) if failure.how == FailureKind::Unknown => Ok(None),
            Err(failure) => Err(failure.error),
        }
    }
}

// Where the runtime of a node listens: a Unix socket, written as the kubelet writes it.

/// `unix:///PATH`; the path alone is accepted too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint(PathBuf);

impl Endpoint {
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let path = Path::new(text.strip_prefix("unix://").unwrap_or(text));
        if path.is_absolute() {
            return Ok(Self(path.to_owned()));
        }
        Err(Error::usage("a node is given by the socket of its runtime: unix:///PATH").fact("given", text))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.0.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_says_whether_a_kubelet_is_told_of_pins() {
        for (version, expected) in [
            ("1.6.20~ds1", PinSupport::NotTold),
            ("v1.6.32", PinSupport::NotTold),
            ("1.6.33", PinSupport::Told),
            ("1.7.0-rc.1", PinSupport::NotTold),
            ("1.7.2", PinSupport::NotTold),
            ("v1.7.3", PinSupport::Told),
            ("1.7.24~ds1", PinSupport::Told),
            ("1.5.18", PinSupport::NotTold),
            ("2.0.0-beta.1", PinSupport::Told),
            ("2.1.9+unknown", PinSupport::Told),
            ("", PinSupport::Unknown),
            ("1.7", PinSupport::Unknown),
            ("main", PinSupport::Unknown),
        ] {
            assert_eq!(PinSupport::of(version), expected, "{version}");
        }
    }

    #[test]
    fn an_endpoint_is_a_socket_and_has_one_name() {
        for text in ["unix:///run/containerd/containerd.sock", "/run/containerd/containerd.sock"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), "unix:///run/containerd/containerd.sock");
        }
        for bad in ["", "unix:", "unix://", "unix://run/x", "run/x", "tcp://127.0.0.1:1", "http://x", "npipe:////./x"] {
            assert!(bad.parse::<Endpoint>().is_err(), "{bad:?} was accepted");
        }
    }
}
