//! From a plan to final bytes and digests. Decides nothing; what it needs of the world, the bytes of
//! the source's layers and space to work in, it asks for through [`Workshop`].

mod check;
mod image;
mod layer;
#[cfg(test)]
pub mod sample;
mod scratch;

use std::collections::HashSet;

use serde_json::Value;

use crate::error::Result;
use crate::examine::Subject;
use crate::oci::{Descriptor, Digest, Document, Platform, json};
use crate::plan::{Plan, PlatformPlan, Top};

pub use layer::{MadeLayer, Workshop};
pub use scratch::{Made, Nameless, Scratch};

/// The finished result. Invariant: every blob and child that `top` leads to is listed, and every
/// image has passed the check on its layers.
#[derive(Debug)]
pub struct Assembled {
    pub top: Document,
    /// The manifests below an index; empty for a single manifest.
    pub children: Vec<Document>,
    pub blobs: Vec<NeededBlob>,
    pub platforms: Vec<AssembledPlatform>,
}

/// One platform's image in the result.
#[derive(Debug)]
pub struct AssembledPlatform {
    pub platform: Platform,
    pub digest: Digest,
    /// Beside the layers of the platform's plan: those that were written.
    pub made: Vec<Option<MadeLayer>>,
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

/// Makes the bytes that the plan describes.
pub fn build(plan: &Plan, subject: &Subject, workshop: &dyn Workshop) -> Result<Assembled> {
    let mut manifests = Vec::new();
    let mut blobs = Vec::new();
    let mut platforms = Vec::new();
    for (platform, subject) in plan.platforms.iter().zip(&subject.platforms) {
        let finished = image::finish(platform, subject, workshop)?;
        let (digest, made) = (finished.document.digest(), finished.made);
        platforms.push(AssembledPlatform { platform: platform.platform.clone(), digest, made });
        blobs.extend(finished.blobs);
        manifests.push(finished.document);
    }
    let (top, children) = match &plan.top {
        Top::Source => (subject.source.top.clone(), manifests),
        Top::Index(object) => (index(object, &plan.platforms, &manifests)?, manifests),
        Top::Single => (single(manifests)?, Vec::new()),
    };
    Ok(Assembled {
        top,
        children: once(children, Document::digest),
        blobs: once(blobs, |blob| blob.descriptor.digest),
        platforms,
    })
}

fn single(manifests: Vec<Document>) -> Result<Document> {
    let only = manifests.into_iter().next();
    only.ok_or_else(|| crate::error::Error::input("there is no platform left to rebase"))
}

fn index(object: &serde_json::Map<String, Value>, plans: &[PlatformPlan], manifests: &[Document]) -> Result<Document> {
    let entries = plans.iter().zip(manifests).map(|(plan, manifest)| {
        let mut descriptor = manifest.descriptor();
        descriptor.platform_object = Some(plan.entry.clone());
        descriptor.annotations.clone_from(&plan.entry_annotations);
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
