//! Documents and images by descriptor, from the cache where it has them.

use std::io::Read;
use std::sync::Arc;

use super::memory::Memory;
use crate::error::{Error, Result};
use crate::oci::{DOCUMENT_LIMIT, Descriptor, Digest, Document, Image, Manifest};
use crate::store::disk::Cache;
use crate::store::{OnceMap, Source};

pub(super) struct Loader<'a> {
    pub place: &'a dyn Source,
    pub cache: &'a Cache,
    pub small: &'a OnceMap<Digest, Arc<[u8]>>,
    pub memory: &'a Memory,
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
