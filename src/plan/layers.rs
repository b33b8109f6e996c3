//! Which layers the result has, and what becomes of each layer of source and new base.

use serde_json::{Map, Value};

use super::ImagePlan;
use crate::examine::PlatformSubject;
use crate::oci::{Descriptor, DiffId, ImageLayer, LayerType, is_dangerous};

/// What becomes of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Of the old base: gone.
    Stripped,
    /// Of the new base: under the application now.
    Base,
    /// Of the application: byte for byte as it was.
    Kept,
}

impl Fate {
    /// The word of the report, which others rely on.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Stripped => "stripped",
            Self::Base => "base",
            Self::Kept => "kept",
        }
    }
}

#[derive(Debug, Clone)]
pub struct PlannedLayer {
    pub descriptor: Descriptor,
    pub diff_id: DiffId,
    pub fate: Fate,
    pub why: String,
}

/// Every layer of source and new base with its fate: first what goes, then the result in order.
pub(super) fn fates(subject: &PlatformSubject, image: &ImagePlan) -> Vec<PlannedLayer> {
    let (below, above) = seam(subject);
    if let ImagePlan::AsIs(_) = image {
        let base = below.iter().map(|layer| planned(layer, Fate::Base, "of the new base already"));
        let own = above.iter().map(|layer| planned(layer, Fate::Kept, "of the application"));
        return base.chain(own).collect();
    }
    let gone = below.iter().map(|layer| planned(layer, Fate::Stripped, "of the old base"));
    gone.chain(result(subject)).collect()
}

/// The layers of the result, bottom first: the new base's, then the application's.
pub(super) fn result(subject: &PlatformSubject) -> Vec<PlannedLayer> {
    let base = subject.base.layers.iter().map(|layer| planned(layer, Fate::Base, "of the new base"));
    let (_, above) = seam(subject);
    let kept = above.iter().zip(&subject.layers).map(|(layer, index)| {
        // The media type that was declared may be wrong; what the bytes are is known.
        let truth = ImageLayer { kind: LayerType(index.compression), ..layer.clone() };
        planned(&truth, Fate::Kept, "of the application, byte for byte")
    });
    base.chain(kept).collect()
}

fn seam(subject: &PlatformSubject) -> (&[ImageLayer], &[ImageLayer]) {
    let layers = &subject.source.layers;
    layers.split_at(subject.old_base.layers.min(layers.len()))
}

fn planned(layer: &ImageLayer, fate: Fate, why: &str) -> PlannedLayer {
    let annotations: Map<String, Value> = layer
        .descriptor
        .annotations
        .iter()
        .filter(|(key, _)| !is_dangerous(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let mut descriptor = Descriptor::new(layer.kind.media_type(), layer.descriptor.digest, layer.descriptor.size);
    descriptor.annotations = annotations;
    PlannedLayer { descriptor, diff_id: layer.diff_id, fate, why: why.to_owned() }
}
