//! One platform's layers, config and manifest as bytes.

use serde_json::{Value, json};

use super::check::check;
use super::layer::{MadeLayer, Workshop, make};
use super::scratch::Made;
use super::{BlobOrigin, NeededBlob};
use crate::error::Result;
use crate::examine::PlatformSubject;
use crate::oci::{Descriptor, DiffId, Document, Image, Manifest, MediaType, json as document};
use crate::plan::{Body, Fate, ImagePlan, NewImage, PlannedLayer, PlatformPlan};

pub(super) struct Finished {
    pub document: Document,
    pub blobs: Vec<NeededBlob>,
    /// Beside the planned layers: those that were written.
    pub made: Vec<Option<MadeLayer>>,
}

pub(super) fn finish(plan: &PlatformPlan, subject: &PlatformSubject, workshop: &dyn Workshop) -> Result<Finished> {
    match &plan.image {
        ImagePlan::AsIs(image) => Ok(as_is(image, plan)),
        ImagePlan::New(new) => finish_new(plan, new, subject, workshop),
    }
}

fn as_is(image: &Image, plan: &PlatformPlan) -> Finished {
    let descriptors = image.layers.iter().map(|layer| &layer.descriptor).chain([&image.manifest.config]);
    let blobs = descriptors.map(|descriptor| NeededBlob { descriptor: descriptor.clone(), origin: BlobOrigin::Source });
    Finished { document: image.document.clone(), blobs: blobs.collect(), made: vec![None; plan.layers.len()] }
}

fn finish_new(
    plan: &PlatformPlan,
    new: &NewImage,
    subject: &PlatformSubject,
    workshop: &dyn Workshop,
) -> Result<Finished> {
    let made = plan.layers.iter().map(|layer| match &layer.body {
        Body::Written { new: layer, .. } => make(layer, subject, new.mtime, workshop).map(Some),
        Body::Inherited(_) => Ok(None),
    });
    let made = made.collect::<Result<Vec<Option<MadeLayer>>>>()?;
    let layers: Vec<Layer> =
        plan.layers.iter().zip(&made).filter_map(|(plan, made)| Layer::of(plan, made.as_ref())).collect();

    let mut config = new.config.clone();
    let diff_ids: Vec<String> = layers.iter().map(|layer| layer.diff_id.to_string()).collect();
    config.insert("rootfs".into(), json!({"type": "layers", "diff_ids": diff_ids}));
    let config = document::write(&Value::Object(config));
    let descriptor = Descriptor::of(MediaType::oci_config(), &config);
    let mut manifest = new.manifest.clone();
    manifest.insert("config".into(), descriptor.to_value());
    manifest.insert("layers".into(), layers.iter().map(|layer| layer.blob.descriptor.to_value()).collect());
    let document = Document::read(document::write(&Value::Object(manifest)), None)?;
    let image = Image::new(document.clone(), Manifest::read(&document)?, config.clone())?;
    let written: Vec<DiffId> = made.iter().flatten().map(|made| made.written.diff_id).collect();
    check(&image, &new.diff_ids, &written)?;

    let config = NeededBlob { descriptor, origin: BlobOrigin::Made(Made::of(config)) };
    let blobs = layers.into_iter().map(|layer| layer.blob).chain([config]).collect();
    Ok(Finished { document, blobs, made })
}

/// A layer of the result.
struct Layer {
    blob: NeededBlob,
    diff_id: DiffId,
}

impl Layer {
    fn of(plan: &PlannedLayer, made: Option<&MadeLayer>) -> Option<Self> {
        let origin = match (plan.fate, made) {
            (fate, _) if !fate.is_in_result() => return None,
            (_, Some(MadeLayer { written, made })) => {
                let blob = NeededBlob { descriptor: written.descriptor(), origin: BlobOrigin::Made(made.clone()) };
                return Some(Self { blob, diff_id: written.diff_id });
            }
            (Fate::Base, None) => BlobOrigin::Base,
            (_, None) => BlobOrigin::Source,
        };
        let Body::Inherited(inherited) = &plan.body else { return None };
        let blob = NeededBlob { descriptor: inherited.descriptor.clone(), origin };
        Some(Self { blob, diff_id: inherited.diff_id })
    }
}
