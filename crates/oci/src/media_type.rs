//! Media types, Docker's and OCI's. Output is all-OCI: mixed documents break podman and Quay.

use std::fmt;

use oci_spec::image::MediaType as Spec;

use crate::error::{Error, Result};

/// A media type as written, without parameters and in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MediaType(String);

const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar";
const DOCKER_FOREIGN: &str = "application/vnd.docker.image.rootfs.foreign.diff.tar";
const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const OCI_FOREIGN: &str = "application/vnd.oci.image.layer.nondistributable.v1.tar";

impl MediaType {
    #[must_use]
    pub fn new(text: &str) -> Self {
        let bare = text.split(';').next().unwrap_or_default();
        Self(bare.trim().to_ascii_lowercase())
    }

    #[must_use]
    pub fn oci_manifest() -> Self {
        Self(Spec::ImageManifest.to_string())
    }

    #[must_use]
    pub fn oci_index() -> Self {
        Self(Spec::ImageIndex.to_string())
    }

    #[must_use]
    pub fn oci_config() -> Self {
        Self(Spec::ImageConfig.to_string())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The types a registry must be told we accept; one missing and it may answer 404.
    #[must_use]
    pub fn accepted() -> [String; 4] {
        [
            Spec::ImageIndex.to_string(),
            Spec::ImageManifest.to_string(),
            DOCKER_INDEX.to_owned(),
            DOCKER_MANIFEST.to_owned(),
        ]
    }

    /// Whether a config descriptor of this type holds an image's config.
    #[must_use]
    pub fn is_image_config(&self) -> bool {
        self.0 == DOCKER_CONFIG || *self == Self::oci_config()
    }

    /// Whether this is one of OCI's own types.
    #[must_use]
    pub fn is_oci(&self) -> bool {
        self.0.starts_with("application/vnd.oci.")
    }
}

impl fmt::Display for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The two kinds of document a reference can resolve to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind {
    Manifest,
    Index,
}

impl DocumentKind {
    /// The kind that `media_type` means; schema 1 and everything unknown is refused by name.
    pub fn of(media_type: &MediaType) -> Result<Self> {
        let text = media_type.as_str();
        if text == DOCKER_MANIFEST || *media_type == MediaType::oci_manifest() {
            Ok(Self::Manifest)
        } else if text == DOCKER_INDEX || *media_type == MediaType::oci_index() {
            Ok(Self::Index)
        } else if text.starts_with("application/vnd.docker.distribution.manifest.v1") {
            Err(Error::input("image has a schema 1 manifest, which registries and runtimes no longer accept")
                .fact("media type", media_type)
                .hint("pull and push the image once with a tool that converts it to schema 2 or OCI"))
        } else {
            Err(Error::input("not an image manifest or index").fact("media type", media_type))
        }
    }
}

/// How the tar stream of a layer is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Compression {
    None,
    Gzip,
    Zstd,
}

/// The type of a layer that underpin supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerType(pub Compression);

impl LayerType {
    /// Foreign, encrypted and unknown layers are refused by name.
    pub fn of(media_type: &MediaType) -> Result<Self> {
        let text = media_type.as_str();
        let refuse = |what: &str| Err(Error::input(what.to_owned()).fact("media type", media_type));
        if text.starts_with(DOCKER_FOREIGN) || text.starts_with(OCI_FOREIGN) {
            return refuse("foreign layers are not supported: their bytes are not in the registry");
        }
        if text.ends_with("+encrypted") {
            return refuse("encrypted layers are not supported");
        }
        let suffix = text.strip_prefix(DOCKER_LAYER).or_else(|| text.strip_prefix(OCI_LAYER));
        match suffix {
            Some("") => Ok(Self(Compression::None)),
            Some(".gzip" | "+gzip") => Ok(Self(Compression::Gzip)),
            Some(".zstd" | "+zstd") => Ok(Self(Compression::Zstd)),
            _ => refuse("not a layer of a container image"),
        }
    }

    /// The OCI media type of a layer with this compression.
    #[must_use]
    pub fn media_type(self) -> MediaType {
        MediaType(match self.0 {
            Compression::None => Spec::ImageLayer.to_string(),
            Compression::Gzip => Spec::ImageLayerGzip.to_string(),
            Compression::Zstd => Spec::ImageLayerZstd.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_case_do_not_matter() {
        let written = MediaType::new("Application/vnd.OCI.image.manifest.v1+json; charset=utf-8");
        assert_eq!(written, MediaType::oci_manifest());
    }

    #[test]
    fn every_docker_layer_has_its_oci_twin() {
        for (docker, oci) in [
            ("application/vnd.docker.image.rootfs.diff.tar", "application/vnd.oci.image.layer.v1.tar"),
            ("application/vnd.docker.image.rootfs.diff.tar.gzip", "application/vnd.oci.image.layer.v1.tar+gzip"),
            ("application/vnd.docker.image.rootfs.diff.tar.zstd", "application/vnd.oci.image.layer.v1.tar+zstd"),
        ] {
            let kind = LayerType::of(&MediaType::new(docker)).unwrap();
            assert_eq!(kind.media_type().as_str(), oci);
            assert_eq!(LayerType::of(&MediaType::new(oci)).unwrap(), kind);
        }
    }

    #[test]
    fn refuses_foreign_encrypted_and_unknown_layers() {
        for bad in [
            "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
            "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
            "application/vnd.oci.image.layer.v1.tar+gzip+encrypted",
            "application/vnd.oci.image.layer.v1.tar+xz",
            "application/vnd.in-toto+json",
            "",
        ] {
            assert!(LayerType::of(&MediaType::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn schema_1_is_refused_by_name() {
        for text in [
            "application/vnd.docker.distribution.manifest.v1+prettyjws",
            "application/vnd.docker.distribution.manifest.v1+json",
        ] {
            let error = DocumentKind::of(&MediaType::new(text)).unwrap_err();
            assert!(error.what().contains("schema 1"), "{error}");
        }
    }
}
