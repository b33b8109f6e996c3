//! A registry as the store remembers it: what `--offline` reads.
//!
//! A tag leads where it led when it was last seen. What is not there is named. It is a failure to
//! reach the network, not an answer that there is no such image: nothing may be decided by it.

use std::io::{Seek as _, SeekFrom};

use super::disk::Cache;
use super::{Source, Stream};
use crate::error::{Error, Kind, Result};
use crate::oci::{Descriptor, Document, MediaType, Reference, RepositoryName};

pub(super) struct OfflineSource {
    cache: Cache,
    reference: Reference,
}

impl OfflineSource {
    pub fn new(cache: &Cache, reference: &Reference) -> Self {
        Self { cache: cache.clone(), reference: reference.clone() }
    }

    fn lacks(&self, what: &str) -> Error {
        Error::new(Kind::Network, format!("offline: the cache does not have {what}"))
            .fact("image", &self.reference)
            .hint("run once without --offline with the same --cache, or use oci: and archive locations")
    }
}

impl Source for OfflineSource {
    fn top(&self) -> Result<Document> {
        let record = self.cache.last_seen(&self.reference)?;
        let digest = self.reference.digest().or(record.as_ref().map(|record| record.digest));
        let digest = digest.ok_or_else(|| self.lacks("this tag: it has not been seen"))?;
        let bytes = self.cache.small(&digest);
        let bytes = bytes.ok_or_else(|| self.lacks("the manifest of the image").fact("digest", digest))?;
        let declared = record.filter(|record| record.digest == digest).map(|record| MediaType::new(&record.media_type));
        Document::read(bytes, declared.as_ref())
    }

    fn document(&self, of: &Descriptor) -> Result<Document> {
        let bytes = self.cache.small(&of.digest);
        let bytes = bytes.ok_or_else(|| self.lacks("a manifest of the image").fact("digest", of.digest))?;
        Document::read(bytes, Some(&of.media_type))
    }

    fn open(&self, of: &Descriptor, from: u64) -> Result<Stream> {
        let missing = || self.lacks("a blob of the image").fact("digest", of.digest).fact("size", of.size);
        let mut file = self.cache.blob(of).ok_or_else(missing)?;
        file.seek(SeekFrom::Start(from)).map_err(|error| Error::from_stream(error, "could not read the cache"))?;
        Ok(Box::new(file))
    }

    fn repository(&self) -> Option<&RepositoryName> {
        Some(self.reference.name())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::oci::{Digest, Location};
    use crate::store::Notices;
    use crate::store::disk::{ImageAccess, ImageUse};

    const TOP: &[u8] = br#"{"schemaVersion":2,"config":{},"layers":[]}"#;

    fn kept(cache: &Cache, name: &str) -> OfflineSource {
        OfflineSource::new(cache, &name.parse().unwrap())
    }

    #[test]
    fn a_tag_leads_where_it_led_and_what_is_missing_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path(), &Notices::silent()).unwrap();
        let (location, digest) = ("gcr.io/a/b:c".parse::<Location>().unwrap(), Digest::of(TOP));
        let never = kept(&cache, "gcr.io/a/b:c").top().unwrap_err();
        assert!(never.kind() == Kind::Network && never.to_string().contains("has not been seen"), "{never}");

        let media_type = MediaType::new("application/vnd.docker.distribution.manifest.v2+json");
        let (platforms, parts, used) = (Vec::new(), Vec::new(), ImageAccess::Read);
        cache.remember(&ImageUse { location: &location, digest, media_type: &media_type, platforms, parts, used });
        let no_bytes = kept(&cache, "gcr.io/a/b:c").top().unwrap_err();
        assert!(no_bytes.to_string().contains(&digest.to_string()), "{no_bytes}");

        cache.keep_small(&digest, TOP);
        let top = kept(&cache, "gcr.io/a/b:c").top().unwrap();
        assert_eq!((top.digest(), top.media_type()), (digest, &media_type), "the type that the registry gave it");
        assert_eq!(kept(&cache, &format!("gcr.io/a/b@{digest}")).top().unwrap().digest(), digest);
        assert!(kept(&cache, "gcr.io/a/b:d").top().is_err(), "another tag");
    }

    #[test]
    fn blobs_come_from_any_offset_or_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path(), &Notices::silent()).unwrap();
        let of = Descriptor::of(MediaType::oci_config(), b"content");
        let kept = kept(&cache, "gcr.io/a/b:c");
        assert!(kept.open(&of, 0).err().unwrap().to_string().contains(&of.digest.to_string()));
        cache.keep_small(&of.digest, b"content");
        let mut text = String::new();
        kept.open(&of, 3).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "tent");
    }
}
