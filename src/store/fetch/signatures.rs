//! Whether an image is signed as the policy demands: looked for where cosign, now and of old, and notation put signatures.
//!
//! The rule this file owns: only a signature that counts makes an image signed. What cannot be looked up is an error, and
//! what was looked at and does not count is told, with the reason.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use serde_json::Value;

use super::{Fetcher, Opened};
use crate::attest::{BUNDLE, EnvelopeForm, NOTATION, SIMPLE_SIGNATURE, SIMPLE_SIGNING, SignatureDemand};
use crate::error::{Kind, Result};
use crate::oci::{Descriptor, Digest, Document, DocumentKind, Index, Location, artifact_type, fallback_tag, subject};
use crate::store::disk::Timestamp;

/// Signatures of one image that are looked at.
const MOST: usize = 64;

/// What came of looking for a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureSearch {
    Found,
    /// What was looked for, and why what was found does not count, one line each.
    Missing(Vec<String>),
}

impl Fetcher<'_> {
    /// Looks for a signature of the source that one of the keys made.
    pub fn source_signature(&self, image: &Location, demand: &SignatureDemand) -> Result<SignatureSearch> {
        let opened = self.source(image)?;
        search(self, &opened, demand).map_err(|error| error.fact("image", image))
    }

    /// The same for a base, which is looked at once a run. A manifest is signed with the index that lists it.
    pub fn base_signature(&self, image: &Location, demand: &SignatureDemand) -> Result<Arc<SignatureSearch>> {
        let found = self.searched(image, demand)?;
        let SignatureSearch::Missing(looked) = &*found else { return Ok(found) };
        let Some(index) = self.index_of(image)? else { return Ok(found) };
        let by_index = self.searched(&index, demand)?;
        match &*by_index {
            SignatureSearch::Found => Ok(by_index),
            SignatureSearch::Missing(more) => {
                Ok(Arc::new(SignatureSearch::Missing(looked.iter().chain(more).cloned().collect())))
            }
        }
    }

    fn searched(&self, image: &Location, demand: &SignatureDemand) -> Result<Arc<SignatureSearch>> {
        self.bases.signatures.get((image.clone(), demand.files.clone()), || {
            let opened = self.opened(image)?;
            search(self, &opened, demand).map(Arc::new).map_err(|error| error.fact("image", image))
        })
    }

    /// The index that a tag leads to, where the location also names one of its manifests.
    fn index_of(&self, image: &Location) -> Result<Option<Location>> {
        let tag = match image {
            Location::Registry(reference) => reference.tag(),
            _ => image.local().and_then(|local| local.tag.as_deref()),
        };
        let (Some(digest), Some(_)) = (image.digest(), tag) else { return Ok(None) };
        let tagged: Location = image.without_digest().parse()?;
        let opened = match self.opened(&tagged) {
            Err(error) if error.kind() == Kind::Missing => return Ok(None),
            opened => opened?,
        };
        let lists = opened.top().kind() == DocumentKind::Index
            && Index::read(opened.top())?.children.iter().any(|child| child.descriptor.digest == digest);
        Ok(lists.then_some(tagged))
    }
}

fn search(fetcher: &Fetcher<'_>, opened: &Opened, demand: &SignatureDemand) -> Result<SignatureSearch> {
    let image = opened.top().digest();
    let mut looked = Vec::new();
    if among_referrers(fetcher, opened, (image, demand), &mut looked)?
        || under_tag(fetcher, opened, (image, demand), &mut looked)?
    {
        return Ok(SignatureSearch::Found);
    }
    Ok(SignatureSearch::Missing(looked))
}

/// cosign 3 and notation: manifests that refer to the image.
fn among_referrers(
    fetcher: &Fetcher<'_>,
    opened: &Opened,
    (image, demand): (Digest, &SignatureDemand),
    looked: &mut Vec<String>,
) -> Result<bool> {
    // One question for both kinds where both count.
    let filter = demand.certificates.is_empty().then_some(BUNDLE);
    let before = looked.len();
    for referrer in opened.place.referrers(image, filter)?.iter().take(MOST) {
        let document = opened.place.document(&referrer.descriptor)?;
        let Some(layer) = layers(&document).into_iter().next().filter(|_| subject(&document) == Some(image)) else {
            continue;
        };
        let bytes = || opened.loader(fetcher).small_blob(&layer);
        let media_type = layer.media_type.as_str();
        let judged = match EnvelopeForm::of(media_type).filter(|_| artifact_type(&document) == NOTATION) {
            _ if media_type == BUNDLE => demand.accepts_bundle(&bytes()?, image),
            Some(form) => {
                let now = Timestamp::now().time().duration_since(UNIX_EPOCH).unwrap_or_default();
                demand.accepts_notation((form, &bytes()?), image, now)
            }
            None => continue,
        };
        match judged {
            Ok(()) => return Ok(true),
            Err(rejection) => looked.push(format!("referrer {}: {rejection}", referrer.descriptor.digest)),
        }
    }
    if looked.len() == before {
        looked.push(format!("referrers of {image}: no signature"));
    }
    Ok(false)
}

/// cosign 1 and 2: payloads under a tag of the image's digest.
fn under_tag(
    fetcher: &Fetcher<'_>,
    opened: &Opened,
    (image, demand): (Digest, &SignatureDemand),
    looked: &mut Vec<String>,
) -> Result<bool> {
    let tag = format!("{}.sig", fallback_tag(&image));
    let Some(document) = opened.place.tagged(&tag)? else {
        looked.push(format!("tag {tag}: not there"));
        return Ok(false);
    };
    for layer in layers(&document).into_iter().take(MOST) {
        if layer.media_type.as_str() != SIMPLE_SIGNING {
            looked.push(format!("tag {tag}: it signs another type of payload: {:?}", layer.media_type.as_str()));
            continue;
        }
        let Some(signature) = layer.annotations.get(SIMPLE_SIGNATURE).and_then(Value::as_str) else {
            looked.push(format!("tag {tag}: a payload without a signature"));
            continue;
        };
        let payload = opened.loader(fetcher).small_blob(&layer)?;
        match demand.accepts_simple(&payload, signature, image) {
            Ok(()) => return Ok(true),
            Err(rejection) => looked.push(format!("tag {tag}: {rejection}")),
        }
    }
    Ok(false)
}

fn layers(document: &Document) -> Vec<Descriptor> {
    let layers = document.object().get("layers").and_then(Value::as_array).into_iter().flatten();
    layers.filter_map(|layer| Descriptor::read(layer, "a layer of the signature").ok()).collect()
}
