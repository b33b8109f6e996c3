//! An index: the images of several platforms, and what else was put beside them.

use serde_json::{Map, Value};

use super::descriptor::{Descriptor, annotations};
use super::digest::Digest;
use super::document::Document;
use super::media_type::DocumentKind;
use super::platform::Platform;
use crate::error::{Error, Result};

const CHILD_LIMIT: usize = 1_000;

#[derive(Debug, Clone)]
pub struct Index {
    pub children: Vec<IndexEntry>,
    pub annotations: Map<String, Value>,
}

#[derive(Debug, Clone)]
pub struct IndexEntry {
    pub descriptor: Descriptor,
    pub role: EntryRole,
}

/// What an entry of an index is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryRole {
    /// The image of a platform; `None` where the index does not say which.
    Image(Option<Platform>),
    /// An index inside the index.
    Nested,
    /// `BuildKit`'s statement about the manifest with this digest.
    Attestation(Option<Digest>),
    /// Something that is not an image.
    Other,
}

impl Index {
    pub fn read(document: &Document) -> Result<Self> {
        Self::check(document.object()).map_err(|error| error.fact("index", document.digest()))
    }

    fn check(object: &Map<String, Value>) -> Result<Self> {
        let Some(Value::Array(manifests)) = object.get("manifests") else {
            return Err(Error::input("the `manifests` of the index are not a list"));
        };
        if manifests.len() > CHILD_LIMIT {
            return Err(
                Error::input(format!("index has more than {CHILD_LIMIT} entries")).fact("entries", manifests.len())
            );
        }
        let children = manifests
            .iter()
            .enumerate()
            .map(|(at, entry)| Descriptor::read(entry, &format!("entry {}", at + 1)).map(IndexEntry::new))
            .collect::<Result<_>>()?;
        Ok(Self { children, annotations: annotations(object, "the index")? })
    }
}

impl IndexEntry {
    fn new(descriptor: Descriptor) -> Self {
        let role = role(&descriptor);
        Self { descriptor, role }
    }
}

fn role(descriptor: &Descriptor) -> EntryRole {
    let note = |key: &str| descriptor.annotations.get(key).and_then(Value::as_str);
    let is_attestation = note("vnd.docker.reference.type") == Some("attestation-manifest")
        || descriptor.platform.as_ref().is_some_and(Platform::is_unknown);
    if is_attestation {
        return EntryRole::Attestation(note("vnd.docker.reference.digest").and_then(|text| text.parse().ok()));
    }
    match DocumentKind::of(&descriptor.media_type) {
        Ok(DocumentKind::Manifest) => EntryRole::Image(descriptor.platform.clone()),
        Ok(DocumentKind::Index) => EntryRole::Nested,
        Err(_) => EntryRole::Other,
    }
}
