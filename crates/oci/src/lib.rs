//! The values everything else is made of: digests, references, platforms and the OCI documents.
//!
//! Nothing here touches network or disk. A document is parsed and checked once; after that its
//! accessors cannot fail.
//!
//! ```
//! use oci::{Digest, Reference};
//!
//! let image: Reference = "nginx:1.27".parse()?;
//! assert_eq!(image.to_string(), "docker.io/library/nginx:1.27");
//! assert!("sha256:123".parse::<Digest>().is_err(), "a digest has 64 digits");
//! # Ok::<(), oci::error::Error>(())
//! ```

// Tests put files where they like, and tables of cases are long.
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::too_many_lines))]

mod annotation;
mod config;
mod descriptor;
mod digest;
mod document;
mod engine_image;
pub mod error;
mod image;
mod index;
pub mod json;
mod location;
mod manifest;
mod media_type;
mod platform;
mod reference;
mod referrer;
mod registry_host;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use annotation::{BASE_DIGEST, BASE_NAME, is_dangerous};
pub use config::{Config, HistoryEntry};
pub use descriptor::Descriptor;
pub use digest::{DiffId, Digest, Hashed, Hasher};
pub use document::{DOCUMENT_LIMIT, Document};
pub use engine_image::{Engine, EngineImage};
pub use image::{Image, ImageLayer};
pub use index::{EntryRole, Index, IndexEntry};
pub use location::{LocalImage, Location, TagPattern};
pub use manifest::Manifest;
pub use media_type::{Compression, DocumentKind, LayerType, MediaType};
pub use platform::Platform;
pub use reference::{Pinned, Reference, RepositoryName};
pub use referrer::{REFERRER_LIMIT, Referrer, ReferrerList, artifact_type, fallback_tag, subject, too_many};
pub use registry_host::{HostPattern, RegistryHost};
