//! What the source of one platform is. Nothing here depends on what was asked for.

use std::sync::Arc;

use super::oddity::{Oddity, oddities};
use super::ownership::{self, LayerOwnership};
use super::subject::PlatformSubject;
use crate::layer::LayerIndex;
use crate::oci::ImageLayer;
use crate::process::Command;

/// The facts that the later stages decide on.
#[derive(Debug)]
pub struct Facts {
    /// The command as it is.
    pub command: Command,
    /// The source's layers above the old base, in order.
    pub layers: Vec<LayerFacts>,
    /// The old base's layers, as far as they have been read.
    pub old_layers: Vec<LayerFacts>,
    pub oddities: Vec<Oddity>,
    /// What reading the layers brought up, such as a wrong media type.
    pub layer_notes: Vec<String>,
    /// The image is based on the new base already, in OCI's own media types.
    pub is_on_new_base: bool,
}

/// One layer of the source, read.
#[derive(Debug)]
pub struct LayerFacts {
    pub layer: ImageLayer,
    pub index: Arc<LayerIndex>,
    pub owners: LayerOwnership,
}

/// Finds the facts.
#[must_use]
pub fn look(subject: &PlatformSubject) -> Facts {
    let (below, above) = subject.source_layers();
    Facts {
        command: Command::of(&subject.source.config),
        layers: layers(above, &subject.layers),
        old_layers: layers(below, &subject.old_layers),
        oddities: oddities(&subject.source.config),
        layer_notes: layer_notes(subject),
        is_on_new_base: is_on_new_base(subject),
    }
}

fn layers(of: &[ImageLayer], read: &[Arc<LayerIndex>]) -> Vec<LayerFacts> {
    let facts = |(layer, index): (&ImageLayer, &Arc<LayerIndex>)| LayerFacts {
        layer: layer.clone(),
        index: Arc::clone(index),
        owners: ownership::of(index),
    };
    of.iter().zip(read).map(facts).collect()
}

fn layer_notes(subject: &PlatformSubject) -> Vec<String> {
    let notes = |layer: &Arc<LayerIndex>| {
        let digest = layer.digest.short();
        layer.notes.iter().map(|note| format!("layer {digest}: {note}")).collect::<Vec<_>>()
    };
    subject.layers.iter().flat_map(notes).collect()
}

fn is_on_new_base(subject: &PlatformSubject) -> bool {
    let source = &subject.source;
    // Bases may share all layers and differ in their config, as distroless' `latest` and `nonroot` do.
    let old = subject.old_base.image.as_ref().map(|image| image.config.digest());
    let is_based_on_it = old == Some(subject.base.config.digest()) && subject.base.is_under(source);
    let is_oci = source.document.media_type().is_oci()
        && source.manifest.config.media_type.is_oci()
        && source.layers.iter().all(|layer| layer.descriptor.media_type.is_oci());
    is_based_on_it && is_oci
}
