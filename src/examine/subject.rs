//! What was fetched: everything the later stages need to know of source and new base.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::base::OldBase;
use layer::LayerIndex;
use oci::{Digest, Document, Image, ImageLayer, Location, Platform};

/// What was fetched. Invariant: every platform's new base is for exactly that platform, and the
/// layers above the old base have been read and verified.
#[derive(Debug)]
pub struct Fetched {
    pub subject: Subject,
    pub platforms: Vec<PlatformSubject>,
}

/// Source and new base as a whole.
#[derive(Debug, Clone)]
pub struct Subject {
    pub source: Origin,
    pub base: Origin,
    /// The image that a log runner is taken from, where one was named.
    pub runner: Option<Origin>,
    pub shape: Shape,
    /// The platforms that were asked for, sorted; empty where they are all that the source has.
    pub selected: Vec<Platform>,
    /// Platforms of the source that the new base does not have.
    pub missing: Vec<Platform>,
    /// Whether something stands beside the images, such as an attestation, that does not go along.
    pub leaves_behind: bool,
}

/// An image as it was named, and the document that the name led to.
#[derive(Debug, Clone)]
pub struct Origin {
    pub location: Location,
    pub top: Document,
}

impl Origin {
    /// The name as given, pinned to the document it led to.
    #[must_use]
    pub fn pinned(&self) -> String {
        self.location.pinned(self.top.digest())
    }
}

/// Whether the result is one manifest or an index of them.
#[derive(Debug, Clone)]
pub enum Shape {
    Single,
    /// The index as it was read; its annotations and unknown fields are carried over.
    Index(Map<String, Value>),
}

/// Source and new base for one platform.
#[derive(Debug, Clone)]
pub struct PlatformSubject {
    pub platform: Platform,
    /// The `platform` member of the source's index entry, with fields we do not know.
    pub entry: Option<Map<String, Value>>,
    /// Annotations of the source's index entry.
    pub entry_annotations: Map<String, Value>,
    pub source: Image,
    pub base: Image,
    pub old_base: OldBase,
    /// The indexes of the source's layers above the old base, in order.
    pub layers: Vec<Arc<LayerIndex>>,
    /// The indexes of the old base's layers, where a question could not be answered without them.
    pub old_layers: Vec<Arc<LayerIndex>>,
    /// The same of the new base's layers.
    pub base_layers: Vec<Arc<LayerIndex>>,
    /// The image that a log runner is taken from, where one was named.
    pub runner: Option<RunnerSubject>,
    /// What describes this platform's bytes and does not go along.
    pub left_behind: Vec<LeftBehind>,
}

impl PlatformSubject {
    /// The source's layers of the old base, and those above.
    #[must_use]
    pub fn source_layers(&self) -> (&[ImageLayer], &[ImageLayer]) {
        let layers = &self.source.layers;
        layers.split_at(self.old_base.layers.min(layers.len()))
    }
}

/// An image whose program can be put before another one's.
#[derive(Debug, Clone)]
pub struct RunnerSubject {
    pub location: Location,
    pub image: Image,
    pub layers: Vec<Arc<LayerIndex>>,
}

/// Something beside the image that describes bytes which will no longer be there.
#[derive(Debug, Clone)]
pub struct LeftBehind {
    pub what: &'static str,
    pub digest: Digest,
    /// The manifest it describes, where it says.
    pub of: Option<Digest>,
}
