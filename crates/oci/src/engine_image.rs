//! An image that a container engine on this machine has, and the transports of other tools that underpin does not read.

use std::fmt;

use super::digest::Digest;
use crate::error::{Error, Result, typed_word};

/// An image of an engine, by the name that the engine knows it by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EngineImage {
    pub engine: Engine,
    pub name: String,
    /// The image that it was, once it has been read.
    pub digest: Option<Digest>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Docker's daemon.
    DockerDaemon,
    /// The storage of podman, buildah and CRI-O.
    ContainersStorage,
}

impl Engine {
    pub const ALL: [Self; 2] = [Self::DockerDaemon, Self::ContainersStorage];

    /// As skopeo writes it before the colon.
    #[must_use]
    pub const fn transport(self) -> &'static str {
        match self {
            Self::DockerDaemon => "docker-daemon",
            Self::ContainersStorage => "containers-storage",
        }
    }
}

impl fmt::Display for EngineImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.engine.transport(), self.name)
    }
}

/// The longest name that an engine is asked for.
const LONGEST: usize = 1024;

impl EngineImage {
    /// `given`, where it begins with the transport of an engine.
    pub(super) fn read(given: &str) -> Option<Result<Self>> {
        let mut engines = Engine::ALL.into_iter();
        let (engine, name) =
            engines.find_map(|engine| Some((engine, given.strip_prefix(engine.transport())?.strip_prefix(':')?)))?;
        let is_plain = !name.is_empty() && name.len() <= LONGEST && name.chars().all(|c| c.is_ascii_graphic());
        Some(if is_plain && !name.starts_with('-') {
            Ok(Self { engine, name: name.to_owned(), digest: None })
        } else {
            Err(Error::input("not a location: an engine knows no image by this name").fact("location", given))
        })
    }
}

/// Transports of skopeo and podman that nothing here reads. A short name on Docker Hub that is called so can be
/// written out.
const FOREIGN: [&str; 5] = ["dir", "sif", "ostree", "tarball", "docker-tarfile"];

/// Why `given` cannot be read, where it begins with another transport.
pub(super) fn foreign_transport(given: &str) -> Option<Error> {
    let (word, rest) = given.split_once(':')?;
    let transport = FOREIGN.into_iter().find(|transport| *transport == word)?;
    let error = Error::usage(format!("underpin does not read {transport}: locations")).fact("location", given);
    Some(match transport {
        "docker-tarfile" => error.hint(format!("an archive of `docker save` is docker-archive:{rest}")),
        _ => error
            .hint(format!("make an archive of it: skopeo copy {} oci-archive:image.tar:latest", typed_word(given)))
            .hint("then name it: oci-archive:image.tar:latest"),
    })
}
