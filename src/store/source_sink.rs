//! The one interface for registry and disk.

use std::io::{Read, Seek as _, SeekFrom};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::disk::{Cache, DockerArchive, ImageRecord, Layout, OciArchive};
use super::engine::{EngineCopies, not_a_target};
use super::publish::Publication;
use super::registry::{PendingDigest, Registry};
use super::session::Network;
use super::{Notices, Progress};
use crate::attest::Attachment;
use oci::error::{Error, Kind, Result};
use oci::{Descriptor, Digest, Document, Location, MediaType, Referrer, RepositoryName};

/// Bytes on their way. Not verified: whoever reads them hashes them.
pub type Stream = Box<dyn Read + Send>;

/// A place that an image is read from.
pub trait Source: Send + Sync {
    /// The document that the location names. A tag is resolved here, once; success means that
    /// the bytes are a manifest or an index, and that they hash to the digest where one was given.
    fn top(&self) -> Result<Document>;

    /// The manifest or index that `of` describes; its bytes hash to `of.digest`.
    fn document(&self, of: &Descriptor) -> Result<Document>;

    /// The bytes of the blob from offset `from` on. Faults on the way are retried inside the
    /// stream; what it yields may still be wrong, and is never longer than `of.size - from`
    /// plus what was in flight.
    fn open(&self, of: &Descriptor, from: u64) -> Result<Stream>;

    /// The repository that a registry could mount blobs from; `None` for places on disk.
    fn repository(&self) -> Option<&RepositoryName>;

    /// The manifests that say they are about `subject`, with a filter those of that type; also those of which only the
    /// manifest itself tells.
    fn referrers(&self, subject: Digest, filter: Option<&str>) -> Result<Vec<Referrer>>;

    /// What another tag of the same place leads to; `None` where there is no such tag.
    fn tagged(&self, tag: &str) -> Result<Option<Document>>;

    /// All tags of the same place, sorted, each once.
    fn tags(&self) -> Result<Vec<String>>;
}

/// A place that an image is written to. Blobs first, then documents, the tag last: until
/// [`Sink::tag`] succeeds, nobody can see that anything was written.
pub trait Sink: Send + Sync {
    /// The digest that the target names now, or `None` where there is nothing.
    fn current(&self) -> Result<Option<Digest>>;

    /// The parts of an image that are not there whole, though the target names it: every part is looked at that this run
    /// has not seen there, registries by asking, files by reading. Up to `jobs` at once.
    fn missing_parts(&self, parts: &ImageParts, jobs: usize) -> Result<Vec<Digest>>;

    /// Makes sure that the blob is there. Success means that the place has verified its digest.
    fn put_blob(&self, blob: &Blob<'_>) -> Result<Delivery>;

    /// Whether manifests are put before blobs, where that may save requests and is safe: a place that takes manifests
    /// whose blobs it lacks is not relied on. Each call is for one image.
    fn offer_wish(&self) -> OfferWish {
        OfferWish::None
    }

    /// Puts the manifests of an image before their blobs, as was wished. Yields an answer for each.
    fn offer(&self, _wish: OfferWish, manifests: &[(&Document, PutUnder)]) -> Result<Vec<Offer>> {
        Ok(vec![Offer::NotMade; manifests.len()])
    }

    /// Puts a manifest by its digest: the child of an index.
    fn put_document(&self, document: &Document) -> Result<()>;

    /// Puts `top` and makes the target name it, atomically.
    fn tag(&self, top: &Document) -> Result<()>;

    /// Makes sure that the statements are attached to their subjects, which are there, as `image` says just put or found.
    /// Yields those that were not.
    fn attach(&self, attachments: &[Attachment], image: Publication) -> Result<Vec<Digest>>;
}

/// An image as the list of what a place must have of it.
#[derive(Debug, Clone)]
pub struct ImageParts {
    /// What the target names.
    pub top: Descriptor,
    /// The manifests below an index.
    pub children: Vec<Descriptor>,
    pub blobs: Vec<Descriptor>,
}

/// A blob that a sink should have.
pub struct Blob<'a> {
    pub descriptor: &'a Descriptor,
    /// Repositories, possibly of other registries, that have it: candidates for a mount.
    pub held_by: &'a [RepositoryName],
    /// Opens the bytes from the start; called again for each try.
    pub open: &'a (dyn Fn() -> Result<Stream> + Sync),
}

/// Whether a manifest is put before its blobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferWish {
    None,
    /// To find out whether the place names what it lacks: nothing may depend on the answer.
    Probe,
    /// The place is known to name what it lacks.
    Rely,
}

/// The name that a manifest is offered under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutUnder {
    Target,
    Digest,
}

/// What a place made of a manifest before its blobs were put there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offer {
    /// It has all of them, and has the manifest now.
    Taken,
    /// It has all but these.
    Lacks(Vec<Digest>),
    /// Nothing is known.
    NotMade,
}

/// How a blob got to where it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    AlreadyThere,
    Mounted,
    Sent,
}

/// Opens all sources and sinks of a run; they share connections, tokens and counters.
pub struct Opener {
    registry: Registry,
    notices: Notices,
    cache: Cache,
    network: Network,
    engines: EngineCopies,
}

impl Opener {
    #[must_use]
    pub fn new(registry: Registry, notices: Notices, cache: Cache, network: Network) -> Self {
        Self { registry, notices, cache, network, engines: EngineCopies::default() }
    }

    pub fn source(&self, location: &Location) -> Result<Box<dyn Source>> {
        Ok(match location {
            Location::Registry(reference) if self.network == Network::Online => {
                Box::new(self.registry.source(reference))
            }
            Location::Registry(_) | Location::Cache(_) => Box::new(CachedImage::new(&self.cache, location)),
            Location::Layout(local) => Box::new(Layout::source(local)?),
            Location::OciArchive(local) => Box::new(OciArchive::source(local)?),
            Location::DockerArchive(local) => Box::new(DockerArchive::source(local)?),
            Location::Engine(image) => return self.source(&self.engines.location(image, &self.notices)?),
        })
    }

    /// Begins to ask what a target names now, where that takes time.
    #[must_use]
    pub fn ask(&self, target: &Location, mounts_from: &[&Location]) -> Option<PendingDigest> {
        let Location::Registry(reference) = target else { return None };
        let from = mounts_from.iter().filter_map(|location| location.repository().cloned()).collect();
        (self.network == Network::Online).then(|| self.registry.ask(reference, from))
    }

    pub fn sink(&self, location: &Location) -> Result<Box<dyn Sink>> {
        let notices = &self.notices;
        Ok(match location {
            Location::Registry(reference) => Box::new(self.registry.sink(reference)),
            Location::Layout(local) => Box::new(Layout::sink(local, notices)?),
            Location::OciArchive(local) => Box::new(OciArchive::sink(local, notices)?),
            Location::DockerArchive(local) => Box::new(DockerArchive::sink(local, notices)?),
            Location::Engine(image) => return Err(not_a_target(image)),
            Location::Cache(_) => return Err(Error::usage("an image cannot be published to the cache")),
        })
    }
}

/// What fetching and publishing work with.
pub struct StoreAccess {
    pub places: Opener,
    pub cache: Cache,
    pub notices: Notices,
    pub progress: Progress,
    /// How many transfers at once.
    pub limit: usize,
    /// How many images are worked on.
    pub images: AtomicUsize,
}

impl StoreAccess {
    /// How many transfers of one image at once: the images that are worked on share the limit.
    #[must_use]
    pub fn jobs(&self) -> usize {
        (self.limit / self.images.load(Ordering::Relaxed).max(1)).max(1)
    }

    /// One more image is worked on, until what this yields is dropped.
    #[must_use]
    pub fn begin_image(&self) -> ImageTurn<'_> {
        self.images.fetch_add(1, Ordering::Relaxed);
        ImageTurn(&self.images)
    }
}

/// An image of several that is worked on.
pub struct ImageTurn<'a>(&'a AtomicUsize);

impl Drop for ImageTurn<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An image as the cache has it: by name while the network may not be used, or by digest alone.
struct CachedImage {
    cache: Cache,
    location: Location,
}

impl CachedImage {
    fn new(cache: &Cache, location: &Location) -> Self {
        Self { cache: cache.clone(), location: location.clone() }
    }

    fn lacks(&self, what: &str) -> Error {
        match &self.location {
            Location::Cache(digest) => Error::missing(format!("the cache does not have {what}")).fact("image", digest),
            location => Error::new(Kind::Network, format!("offline: the cache does not have {what}"))
                .fact("image", location)
                .hint("run once without --offline with the same --cache, or use oci: and archive locations"),
        }
    }

    /// What the cache remembers of the name.
    fn record(&self) -> Result<Option<ImageRecord>> {
        match &self.location {
            Location::Registry(reference) => self.cache.last_seen(reference),
            _ => Ok(None),
        }
    }
}

impl Source for CachedImage {
    fn top(&self) -> Result<Document> {
        let record = self.record()?;
        let digest = self.location.digest().or(record.as_ref().map(|record| record.digest));
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
        self.location.repository()
    }

    fn referrers(&self, subject: Digest, _: Option<&str>) -> Result<Vec<Referrer>> {
        Err(self.lacks("what is attached to the image: only its registry knows").fact("digest", subject))
    }

    fn tagged(&self, tag: &str) -> Result<Option<Document>> {
        Err(self.lacks("the other tags of its repository").fact("tag", tag))
    }

    fn tags(&self) -> Result<Vec<String>> {
        Err(self.lacks("the list of tags: only the registry knows it"))
    }
}

#[cfg(test)]
mod offline_source_tests {
    use std::io::Read as _;

    use super::*;
    use crate::store::Notices;
    use crate::store::disk::{ImageAccess, ImageUse};
    use oci::{Digest, Location};

    const TOP: &[u8] = br#"{"schemaVersion":2,"config":{},"layers":[]}"#;

    fn kept(cache: &Cache, name: &str) -> CachedImage {
        CachedImage::new(cache, &name.parse().unwrap())
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

        let by_digest = |digest: Digest| CachedImage::new(&cache, &Location::Cache(digest)).top();
        assert_eq!(by_digest(digest).unwrap().digest(), digest);
        assert_eq!(by_digest(Digest::of(b"another")).unwrap_err().kind(), Kind::Missing);
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
