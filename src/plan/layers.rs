//! Which layers the result has, and what becomes of each layer of source and new base.

use serde_json::{Map, Value};

use crate::examine::{Becomes, Bulk, Leaving, Moved, MovedLayer, NewLayer, PlatformSubject};
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
    /// Of the application: written again without what belongs to the old system.
    Filtered,
    /// Nothing of the application was left in it.
    Dropped,
    /// New: what the application needs and the new base lacks, or what was extracted.
    Added,
}

impl Fate {
    /// The word of the report, which others rely on.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Stripped => "stripped",
            Self::Base => "base",
            Self::Kept => "kept",
            Self::Filtered => "filtered",
            Self::Dropped => "dropped",
            Self::Added => "added",
        }
    }

    /// Whether the result has the layer.
    #[must_use]
    pub const fn is_in_result(self) -> bool {
        !matches!(self, Self::Stripped | Self::Dropped)
    }
}

#[derive(Debug, Clone)]
pub struct PlannedLayer {
    pub fate: Fate,
    pub why: String,
    pub body: Body,
    /// What stays behind of it, by reason.
    pub leaving: Vec<Leaving>,
    pub staying: Bulk,
}

/// The bytes of a planned layer.
#[derive(Debug, Clone)]
pub enum Body {
    /// As they are in source or new base.
    Inherited(Inherited),
    /// Still to be written; the source's layer that it takes the place of, where there is one.
    Written { new: NewLayer, of: Option<Inherited> },
}

#[derive(Debug, Clone)]
pub struct Inherited {
    pub descriptor: Descriptor,
    pub diff_id: DiffId,
}

/// Every layer of source and new base with its fate: first what goes, then the result in order.
pub(super) fn fates(subject: &PlatformSubject, moved: &Moved, already_right: bool) -> Vec<PlannedLayer> {
    let layers = &subject.source.layers;
    let (below, above) = layers.split_at(subject.old_base.layers.min(layers.len()));
    if already_right {
        let base = below.iter().map(|layer| inherited(layer, Fate::Base, "of the new base already"));
        let own = above.iter().map(|layer| inherited(layer, Fate::Kept, "of the application"));
        return base.chain(own).collect();
    }
    let gone = below.iter().map(|layer| inherited(layer, Fate::Stripped, "of the old base"));
    let base = subject.base.layers.iter().map(|layer| inherited(layer, Fate::Base, "of the new base"));
    let own = above.iter().zip(&subject.layers).zip(&moved.layers).map(|((layer, index), moved)| {
        // The media type that was declared may be wrong; what the bytes are is known.
        let truth = ImageLayer { kind: LayerType(index.compression), ..layer.clone() };
        own(&truth, moved, moved_by(moved))
    });
    let extracted = moved.extracted.iter().filter(|layer| !layer.is_empty());
    let extracted = extracted.map(|layer| written(layer, "extracted from the source".to_owned()));
    let added = Some(&moved.added).filter(|added| !added.layer.is_empty());
    let added = added.map(|added| written(&added.layer, format!("adds {}", added.what.join(", "))));
    gone.chain(base).chain(own).chain(extracted).chain(added).collect()
}

fn moved_by(moved: &MovedLayer) -> &'static str {
    match (&moved.becomes, moved.staying.entries) {
        (Becomes::Kept, _) => "of the application, byte for byte",
        (Becomes::Filtered(_), _) => "of the application, without what belongs to the old system",
        (Becomes::Dropped, 0) => "nothing of the application in it",
        (Becomes::Dropped, _) => "what the application needs of it was extracted",
    }
}

fn own(layer: &ImageLayer, moved: &MovedLayer, why: &str) -> PlannedLayer {
    let (fate, new) = match &moved.becomes {
        Becomes::Kept => (Fate::Kept, None),
        Becomes::Filtered(new) => (Fate::Filtered, Some(new.clone())),
        Becomes::Dropped => (Fate::Dropped, None),
    };
    let mut planned = inherited(layer, fate, why);
    if let (Some(new), Body::Inherited(of)) = (new, &planned.body) {
        planned.body = Body::Written { new, of: Some(of.clone()) };
    }
    PlannedLayer { leaving: moved.leaving.clone(), staying: moved.staying, ..planned }
}

fn written(new: &NewLayer, why: String) -> PlannedLayer {
    let body = Body::Written { new: new.clone(), of: None };
    PlannedLayer { fate: Fate::Added, why, body, leaving: Vec::new(), staying: Bulk::default() }
}

fn inherited(layer: &ImageLayer, fate: Fate, why: &str) -> PlannedLayer {
    let annotations: Map<String, Value> = layer
        .descriptor
        .annotations
        .iter()
        .filter(|(key, _)| !is_dangerous(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let mut descriptor = Descriptor::new(layer.kind.media_type(), layer.descriptor.digest, layer.descriptor.size);
    descriptor.annotations = annotations;
    let body = Body::Inherited(Inherited { descriptor, diff_id: layer.diff_id });
    PlannedLayer { fate, why: why.to_owned(), body, leaving: Vec::new(), staying: Bulk::default() }
}
