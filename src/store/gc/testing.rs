//! Images and inventories for tests.

use std::collections::BTreeMap;

use super::inventory::{Inventory, StoredContent, StoredImage};
use crate::store::disk::{ImageRecord, Timestamp};
use oci::{Digest, MediaType};

/// An image whose first part is its top and whose parts below are its manifests and layers.
pub fn image(reference: &str, parts: &[&[u8]], first_seen: u64, last_use: Option<u64>) -> StoredImage {
    let digests: Vec<Digest> = parts.iter().map(|part| Digest::of(part)).collect();
    let record = ImageRecord {
        reference: reference.to_owned(),
        digest: digests[0],
        media_type: MediaType::oci_manifest().as_str().to_owned(),
        first_seen: Timestamp::from_seconds(first_seen),
        last_use: last_use.map(Timestamp::from_seconds),
        platforms: digests.get(1).map(|child| ("linux/amd64".to_owned(), *child)).into_iter().collect(),
        parts: digests.into_iter().collect(),
    };
    StoredImage::new(record, 0).unwrap()
}

/// All parts of the images, each of 100 bytes, and what is loose.
pub fn inventory(images: Vec<StoredImage>, loose: &[(&[u8], u64)]) -> Inventory {
    let mut contents = BTreeMap::new();
    let one = |digest: Digest, touched| StoredContent {
        files: vec![digest.hex().into()],
        bytes: 100,
        touched: Timestamp::from_seconds(touched),
    };
    for part in images.iter().flat_map(|image| &image.parts) {
        contents.insert(*part, one(*part, 1));
    }
    for (name, touched) in loose {
        contents.insert(Digest::of(name), one(Digest::of(name), *touched));
    }
    Inventory { images, contents, unreadable: Vec::new() }
}
