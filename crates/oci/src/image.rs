//! The image of one platform: manifest and config, checked against each other.

use super::config::Config;
use super::descriptor::Descriptor;
use super::digest::{DiffId, Digest};
use super::document::Document;
use super::manifest::Manifest;
use super::media_type::LayerType;
use crate::error::{Error, Result};

/// Invariant: as many diff ids as layers, each layer of a supported type, and the config is
/// the one the manifest names.
#[derive(Debug, Clone)]
pub struct Image {
    pub document: Document,
    pub manifest: Manifest,
    pub config: Config,
    pub layers: Vec<ImageLayer>,
}

/// A layer as the manifest describes it, with the diff id the config gives it.
#[derive(Debug, Clone)]
pub struct ImageLayer {
    pub descriptor: Descriptor,
    pub diff_id: DiffId,
    pub kind: LayerType,
}

impl Image {
    /// Joins the two documents. `config` are verified bytes of the manifest's config descriptor.
    pub fn new(document: Document, manifest: Manifest, config: Vec<u8>) -> Result<Self> {
        let digest = document.digest();
        Self::check(document, manifest, config).map_err(|error| error.fact("manifest", digest))
    }

    fn check(document: Document, manifest: Manifest, config: Vec<u8>) -> Result<Self> {
        let config = Config::read(config)?;
        if config.digest() != manifest.config.digest {
            return Err(Error::integrity("the config is not the one the manifest names")
                .fact("expected", manifest.config.digest)
                .fact("got", config.digest()));
        }
        if config.diff_ids().len() != manifest.layers.len() {
            return Err(Error::input("the config and the manifest have different numbers of layers")
                .fact("layers", manifest.layers.len())
                .fact("diff ids", config.diff_ids().len()));
        }
        let layers = manifest
            .layers
            .iter()
            .zip(config.diff_ids())
            .map(|(descriptor, diff_id)| {
                let kind =
                    LayerType::of(&descriptor.media_type).map_err(|error| error.fact("layer", descriptor.digest))?;
                Ok(ImageLayer { descriptor: descriptor.clone(), diff_id: *diff_id, kind })
            })
            .collect::<Result<_>>()?;
        Ok(Self { document, manifest, config, layers })
    }

    #[must_use]
    pub fn digest(&self) -> Digest {
        self.document.digest()
    }

    #[must_use]
    pub fn diff_ids(&self) -> &[DiffId] {
        self.config.diff_ids()
    }

    /// Whether `other` is based on this image: its diff ids begin with ours.
    #[must_use]
    pub fn is_under(&self, other: &Self) -> bool {
        other.diff_ids().starts_with(self.diff_ids())
    }

    /// The bytes a registry holds for the layers.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.layers.iter().map(|layer| layer.descriptor.size).sum()
    }
}
