//! One platform's layers, config and manifest as bytes.

use serde_json::{Map, Value, json};

use super::layer::{LayerSource, MadeLayer, make};
use super::scratch::Made;
use super::{BlobOrigin, NeededBlob};
use crate::plan::{Body, Fate, FinalLayer, ImagePlan, ImageResult, NewImage, Pass, PlannedLayer};
use oci::error::{Error, Result};
use oci::{Descriptor, DiffId, Document, Image, Manifest, MediaType, Platform, json as document};

/// One platform's image, made.
#[derive(Debug)]
pub struct AssembledImage {
    pub result: ImageResult,
    pub(super) platform: Platform,
    pub(super) document: Document,
    pub(super) blobs: Vec<NeededBlob>,
    /// The members of its entry in an index.
    pub(super) entry: Map<String, Value>,
    pub(super) entry_annotations: Map<String, Value>,
}

/// Makes the bytes that the draft of one platform describes.
pub fn image(pass: &Pass, source: &dyn LayerSource) -> Result<AssembledImage> {
    let (document, blobs, layers) = match &pass.draft.image {
        ImagePlan::AsIs(image) => passed_on(image, &pass.draft.planned),
        ImagePlan::New(new) => build(pass, new, source)?,
    };
    Ok(AssembledImage {
        result: ImageResult { digest: document.digest(), layers },
        platform: pass.subject.platform.clone(),
        document,
        blobs,
        entry: pass.draft.entry.clone(),
        entry_annotations: pass.draft.entry_annotations.clone(),
    })
}

type Parts = (Document, Vec<NeededBlob>, Vec<FinalLayer>);

fn passed_on(image: &Image, planned: &[PlannedLayer]) -> Parts {
    let descriptors = image.layers.iter().map(|layer| &layer.descriptor).chain([&image.manifest.config]);
    let blobs = descriptors.map(|descriptor| NeededBlob { descriptor: descriptor.clone(), origin: BlobOrigin::Source });
    let layers = planned.iter().filter_map(FinalLayer::inherited).collect();
    (image.document.clone(), blobs.collect(), layers)
}

fn build(pass: &Pass, new: &NewImage, source: &dyn LayerSource) -> Result<Parts> {
    let layers = pass.draft.planned.iter().map(|planned| finish(planned, pass, new.mtime, source));
    let layers = layers.collect::<Result<Vec<Finished>>>()?;
    let in_result = || layers.iter().filter(|layer| layer.last.planned.fate.is_in_result());

    let mut config = new.config.clone();
    let diff_ids: Vec<String> = in_result().map(|layer| layer.last.diff_id.to_string()).collect();
    config.insert("rootfs".into(), json!({"type": "layers", "diff_ids": diff_ids}));
    let config = document::write(&Value::Object(config));
    let descriptor = Descriptor::of(MediaType::oci_config(), &config);
    let mut manifest = new.manifest.clone();
    manifest.insert("config".into(), descriptor.to_value());
    manifest.insert("layers".into(), in_result().map(|layer| layer.blob.descriptor.to_value()).collect());
    let document = Document::read(document::write(&Value::Object(manifest)), None)?;
    let image = Image::new(document.clone(), Manifest::read(&document)?, config.clone())?;
    let written: Vec<DiffId> = layers.iter().filter(|layer| layer.is_made()).map(|layer| layer.last.diff_id).collect();
    check(&image, &new.diff_ids, &written)?;

    let config = NeededBlob { descriptor, origin: BlobOrigin::Made(Made::of(config)) };
    let blobs = in_result().map(|layer| layer.blob.clone()).chain([config]).collect();
    Ok((document, blobs, layers.into_iter().map(|layer| layer.last).collect()))
}

/// A planned layer whose bytes are there.
struct Finished {
    last: FinalLayer,
    blob: NeededBlob,
}

impl Finished {
    const fn is_made(&self) -> bool {
        matches!(self.blob.origin, BlobOrigin::Made(_))
    }
}

fn finish(planned: &PlannedLayer, pass: &Pass, mtime: i64, source: &dyn LayerSource) -> Result<Finished> {
    match &planned.body {
        Body::Inherited(of) => {
            let origin = if planned.fate == Fate::Base { BlobOrigin::Base } else { BlobOrigin::Source };
            let last = FinalLayer::new(planned, of.descriptor.digest, of.diff_id, of.descriptor.size);
            Ok(Finished { last, blob: NeededBlob { descriptor: of.descriptor.clone(), origin } })
        }
        Body::Written { new, .. } => {
            let MadeLayer { written, made } = make(new, &pass.subject, mtime, source)?;
            let last = FinalLayer::new(planned, written.digest, written.diff_id, written.size);
            let blob = NeededBlob { descriptor: written.descriptor(), origin: BlobOrigin::Made(made) };
            Ok(Finished { last, blob })
        }
    }
}

/// `image` was read back from the bytes that would be published; `expected` comes from the inputs,
/// `written` from the layers that were made. A well-known tool silently drops the first application
/// layer when history is missing: this is where we would notice.
pub(super) fn check(image: &Image, expected: &[Option<DiffId>], written: &[DiffId]) -> Result<()> {
    let mut written = written.iter().copied();
    let whole: Vec<Option<DiffId>> = expected.iter().map(|id| id.or_else(|| written.next())).collect();
    let got: Vec<Option<DiffId>> = image.diff_ids().iter().copied().map(Some).collect();
    if got == whole && written.next().is_none() {
        return Ok(());
    }
    let at = got.iter().zip(&whole).take_while(|(ours, theirs)| ours == theirs).count();
    Err(Error::integrity("the layers of the result are not new base + kept + added; nothing was published")
        .fact("differs at", format!("layer {}", at + 1))
        .fact("expected", format!("{} layers", expected.len()))
        .fact("got", format!("{} layers", image.layers.len()))
        .hint("this is a bug in underpin, please report it with the report of `underpin plan --json`"))
}
