//! From a plan to final bytes and digests. Decides nothing; what it needs of the world, the bytes of
//! the source's layers and space to work in, it asks for through [`LayerSource`].

mod image;
mod layer;
mod scratch;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::examine::Subject;
use crate::plan::Top;
use oci::error::{Error, Result};
use oci::{Descriptor, Digest, Document, Platform, json};

pub use image::{AssembledImage, image};
pub use layer::{LayerSource, MadeLayer};
pub use scratch::{Made, MadeBytes, Scratch, Workspace};

/// The finished result. Invariant: every blob and child that `top` leads to is listed, and every
/// image has passed the check on its layers.
#[derive(Debug)]
pub struct Assembled {
    pub top: Document,
    /// The manifests below an index; empty for a single manifest.
    pub children: Vec<Document>,
    pub blobs: Vec<NeededBlob>,
    /// The manifest of each platform.
    pub platforms: Vec<(Platform, Digest)>,
}

/// A blob that every target must have.
#[derive(Debug, Clone)]
pub struct NeededBlob {
    pub descriptor: Descriptor,
    pub origin: BlobOrigin,
}

/// Where the bytes of a blob are.
#[derive(Debug, Clone)]
pub enum BlobOrigin {
    Source,
    Base,
    Made(Made),
}

/// Joins the images of all platforms under the document that the target will name.
pub fn join(top: &Top, subject: &Subject, images: Vec<AssembledImage>) -> Result<Assembled> {
    let (top, is_index) = match top {
        Top::Source => (subject.source.top.clone(), true),
        Top::Index(object) => (index(object, &images)?, true),
        Top::Single => {
            let only = images.first().map(|image| image.document.clone());
            (only.ok_or_else(|| Error::input("there is no platform left to rebase"))?, false)
        }
    };
    let (mut children, mut blobs, mut platforms) = (Vec::new(), Vec::new(), Vec::new());
    for image in images {
        platforms.push((image.platform, image.document.digest()));
        children.extend(is_index.then_some(image.document));
        blobs.extend(image.blobs);
    }
    Ok(Assembled {
        top,
        children: once(children, Document::digest),
        blobs: once(blobs, |blob| blob.descriptor.digest),
        platforms,
    })
}

fn index(object: &Map<String, Value>, images: &[AssembledImage]) -> Result<Document> {
    let entries = images.iter().map(|image| {
        let mut descriptor = image.document.descriptor();
        descriptor.platform_object = Some(image.entry.clone());
        descriptor.annotations.clone_from(&image.entry_annotations);
        descriptor.to_value()
    });
    let mut object = object.clone();
    object.insert("manifests".into(), entries.collect());
    Document::read(json::write(&Value::Object(object)), None)
}

/// The items without those whose digest came before.
fn once<T>(items: Vec<T>, digest: impl Fn(&T) -> Digest) -> Vec<T> {
    let mut seen = HashSet::new();
    items.into_iter().filter(|item| seen.insert(digest(item))).collect()
}
