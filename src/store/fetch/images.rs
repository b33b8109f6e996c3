//! Documents and images by descriptor, from the cache where it has them.

use std::collections::BTreeSet;
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};

use crate::store::disk::{Cache, ImageAccess, ImageUse};
use crate::store::{OnceMap, Source};
use oci::error::{Error, Result};
use oci::{DOCUMENT_LIMIT, Descriptor, Digest, Document, Image, Location, Manifest, MediaType, Platform};

pub(super) struct Loader<'a> {
    pub place: &'a dyn Source,
    pub cache: &'a Cache,
    pub small: &'a OnceMap<Digest, Arc<[u8]>>,
    pub memory: &'a ImageRecorder,
    pub jobs: usize,
}

impl Loader<'_> {
    /// The manifest or index that `of` describes.
    pub fn document(&self, of: &Descriptor) -> Result<Document> {
        let bytes = self.small.get(of.digest, || {
            if let Some(bytes) = self.cache.small(&of.digest) {
                return Ok(bytes.into());
            }
            let document = self.place.document(of)?;
            self.cache.keep_small(&of.digest, document.bytes());
            Ok(document.bytes().into())
        })?;
        self.memory.add(self.cache, None, [of.digest]);
        Document::read(bytes.to_vec(), Some(&of.media_type))
    }

    /// The image whose manifest is `document`.
    pub fn image(&self, document: Document) -> Result<Image> {
        let manifest = Manifest::read(&document)?;
        let config = self.verified(&manifest.config)?;
        let image = Image::new(document, manifest, config)?;
        let layers = image.layers.iter().map(|layer| layer.descriptor.digest);
        let parts = layers.chain([image.digest(), image.manifest.config.digest]);
        self.memory.add(self.cache, Some((image.config.platform(), image.digest())), parts);
        Ok(image)
    }

    /// A blob of at most 4 MiB, verified.
    pub fn small_blob(&self, of: &Descriptor) -> Result<Vec<u8>> {
        let bytes = self.verified(of)?;
        self.memory.add(self.cache, None, [of.digest]);
        Ok(bytes)
    }

    fn verified(&self, of: &Descriptor) -> Result<Vec<u8>> {
        let bytes = self.small.get(of.digest, || {
            if let Some(bytes) = self.cache.small(&of.digest) {
                return Ok(bytes.into());
            }
            let bytes = self.read_small(of)?;
            self.cache.keep_small(&of.digest, &bytes);
            Ok(bytes.into())
        })?;
        Ok(bytes.to_vec())
    }

    fn read_small(&self, of: &Descriptor) -> Result<Vec<u8>> {
        const TRIES: u32 = 3;
        if of.size > DOCUMENT_LIMIT {
            return Err(Error::input("blob is larger than 4 MiB").fact("digest", of.digest).fact("size", of.size));
        }
        let mut got = of.digest;
        for _ in 0..TRIES {
            let mut bytes = Vec::new();
            let stream = self.place.open(of, 0)?;
            stream
                .take(of.size + 1)
                .read_to_end(&mut bytes)
                .map_err(|error| Error::from_stream(error, "blob could not be read").fact("digest", of.digest))?;
            got = Digest::of(&bytes);
            if got == of.digest && bytes.len() as u64 == of.size {
                return Ok(bytes);
            }
        }
        Err(Error::integrity("blob is not what its digest and size say").fact("expected", of.digest).fact("got", got))
    }
}

/// One image of a run, as far as the store has been told.
pub(super) struct ImageRecorder {
    location: Location,
    digest: Digest,
    media_type: MediaType,
    /// What the record has.
    told: Mutex<Told>,
    recording: Recording,
}

#[derive(Default)]
struct Told {
    parts: BTreeSet<Digest>,
    platforms: BTreeSet<String>,
}

/// Whether the store keeps a record of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recording {
    On,
    /// Only its documents are read, of so many images that a record for each would take longer than the answer.
    Off,
}

impl ImageRecorder {
    pub fn new(location: &Location, top: &Document, recording: Recording) -> Self {
        let (digest, media_type) = (top.digest(), top.media_type().clone());
        Self { location: location.clone(), digest, media_type, told: Mutex::default(), recording }
    }

    /// These blobs belong to the image; with the platform whose manifest they were found by.
    pub fn add(&self, cache: &Cache, platform: Option<(&Platform, Digest)>, parts: impl IntoIterator<Item = Digest>) {
        // What is in the store is there under the name that it was fetched by.
        if matches!(self.location, Location::Cache(_)) || self.recording == Recording::Off {
            return;
        }
        let platform = platform.map(|(platform, manifest)| (platform.to_string(), manifest));
        let (parts, platforms) = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            let parts: Vec<Digest> =
                parts.into_iter().chain([self.digest]).filter(|part| told.parts.insert(*part)).collect();
            (parts, platform.into_iter().filter(|(name, _)| told.platforms.insert(name.clone())).collect::<Vec<_>>())
        };
        if parts.is_empty() && platforms.is_empty() {
            return;
        }
        let (location, digest, media_type) = (&self.location, self.digest, &self.media_type);
        let used = ImageAccess::Read;
        let record = cache.remember(&ImageUse { location, digest, media_type, platforms, parts, used });
        // What was known before need not be told again.
        if let Some(record) = record {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.parts.extend(record.parts);
            told.platforms.extend(record.platforms.into_keys());
        }
    }
}
