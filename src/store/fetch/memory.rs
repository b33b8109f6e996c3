//! Tells the store what belongs to an image, as soon as it is known: before a layer is fetched, the
//! record says whose it is.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::oci::{Digest, Document, Location, MediaType, Platform};
use crate::store::disk::{Cache, ImageAccess, ImageUse};

/// One image of a run, as far as the store has been told.
pub(super) struct Memory {
    location: Location,
    digest: Digest,
    media_type: MediaType,
    told: Mutex<BTreeSet<Digest>>,
}

impl Memory {
    pub fn new(location: &Location, top: &Document) -> Self {
        let told = Mutex::default();
        Self { location: location.clone(), digest: top.digest(), media_type: top.media_type().clone(), told }
    }

    /// These blobs belong to the image; with the platform whose manifest they were found by.
    pub fn add(&self, cache: &Cache, platform: Option<(&Platform, Digest)>, parts: impl IntoIterator<Item = Digest>) {
        let fresh: Vec<Digest> = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            parts.into_iter().chain([self.digest]).filter(|part| told.insert(*part)).collect()
        };
        if fresh.is_empty() && platform.is_none() {
            return;
        }
        cache.remember(&ImageUse {
            location: &self.location,
            digest: self.digest,
            media_type: &self.media_type,
            platforms: platform.map(|(platform, manifest)| (platform.to_string(), manifest)).into_iter().collect(),
            parts: fresh,
            used: ImageAccess::Read,
        });
    }
}
