//! One platform's config and manifest as bytes.

use serde_json::Value;

use super::check::check;
use super::{BlobOrigin, NeededBlob};
use crate::error::Result;
use crate::oci::{Descriptor, Document, Image, Manifest, MediaType, json};
use crate::plan::{Fate, ImagePlan, NewImage, PlatformPlan};

pub(super) struct Finished {
    pub document: Document,
    pub blobs: Vec<NeededBlob>,
}

pub(super) fn finish(plan: &PlatformPlan) -> Result<Finished> {
    match &plan.image {
        ImagePlan::AsIs(image) => Ok(as_is(image)),
        ImagePlan::New(new) => finish_new(plan, new),
    }
}

fn as_is(image: &Image) -> Finished {
    let descriptors = image.layers.iter().map(|layer| &layer.descriptor).chain([&image.manifest.config]);
    let blobs = descriptors.map(|descriptor| NeededBlob { descriptor: descriptor.clone(), origin: BlobOrigin::Source });
    Finished { document: image.document.clone(), blobs: blobs.collect() }
}

fn finish_new(plan: &PlatformPlan, new: &NewImage) -> Result<Finished> {
    let config = json::write(&Value::Object(new.config.clone()));
    let descriptor = Descriptor::of(MediaType::oci_config(), &config);
    let mut manifest = new.manifest.clone();
    manifest.insert("config".into(), descriptor.to_value());
    let document = Document::read(json::write(&Value::Object(manifest)), None)?;
    let image = Image::new(document.clone(), Manifest::read(&document)?, config.clone())?;
    check(&image, &new.diff_ids)?;

    let layers = plan.layers.iter().filter_map(|layer| {
        let origin = match layer.fate {
            Fate::Base => BlobOrigin::Base,
            Fate::Kept => BlobOrigin::Source,
            Fate::Stripped => return None,
        };
        Some(NeededBlob { descriptor: layer.descriptor.clone(), origin })
    });
    let blobs = layers.chain([NeededBlob { descriptor, origin: BlobOrigin::Here(config) }]).collect();
    Ok(Finished { document, blobs })
}
