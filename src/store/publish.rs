//! From the assembled result to its targets: blobs, then manifests, the tag last.

use std::collections::HashSet;
use std::io::Read as _;

use super::disk::{ImageAccess, ImageUse};
use super::layer_store::inherited;
use super::registry::{EarlyDigest, PendingDigest};
use super::standing;
use super::{Blob, ImageParts, Offer, OfferWish, PutUnder, Sink, Source, StoreAccess, Stream, parallel};
use crate::assemble::{Assembled, BlobOrigin, NeededBlob};
use crate::attest::Attachment;
use oci::error::{Error, Kind, Result};
use oci::{DOCUMENT_LIMIT, Descriptor, Digest, Document, DocumentKind, Index, Location, Manifest, RepositoryName};

pub use super::standing::{Standing, stop};

/// What was published, target by target.
#[derive(Debug)]
pub struct Receipt {
    pub targets: Vec<Published>,
}

#[derive(Debug)]
pub struct Published {
    pub location: Location,
    pub digest: Digest,
    pub change: Publication,
}

impl Published {
    /// The error of a later target says what is published all the same.
    fn told(error: Error, published: &Self) -> Error {
        error.fact("published", published.location.pinned(published.digest))
    }
}

/// What was done to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publication {
    Written,
    /// Nothing: it named the result before, and every part was seen to be there.
    AlreadyThere,
}

/// The digests that targets named when the run began, asked for while the image is read.
pub struct EarlyAnswers(Vec<Option<PendingDigest>>);

impl EarlyAnswers {
    /// Begins to ask. Layers will be mounted from `mounts_from`.
    #[must_use]
    pub fn ask(tools: &StoreAccess, targets: &[Location], mounts_from: &[&Location]) -> Self {
        // Where other images keep the registry busy, it is asked in turn.
        let ask = |target| (tools.jobs() > 1).then(|| tools.places.ask(target, mounts_from)).flatten();
        Self(targets.iter().map(ask).collect())
    }
}

/// What publishing needs of the world, and where the inherited blobs are.
pub struct Publisher<'a> {
    pub tools: &'a StoreAccess,
    pub source: &'a Location,
    pub base: &'a Location,
}

impl Publisher<'_> {
    /// Makes every target name the result. A target that already does, and has all of it, is left alone.
    pub fn publish(&self, assembled: &Assembled, targets: &[Location], early: EarlyAnswers) -> Result<Receipt> {
        let origins =
            Origins { source: self.tools.places.source(self.source)?, base: self.tools.places.source(self.base)? };
        // A target that cannot take the result is found before the first one has it.
        let sinks = targets.iter().map(|target| self.usable(assembled, target)).collect::<Result<Vec<_>>>()?;
        std::thread::scope(|scope| {
            if self.tools.jobs() > 1 {
                // To sync files takes as long as to send them, so both are done at once.
                scope.spawn(|| self.keep(assembled, targets));
            } else {
                self.keep(assembled, targets);
            }
            let mut published = Vec::new();
            for ((target, sink), early) in targets.iter().zip(sinks).zip(early.0) {
                let outcome = current(assembled, sink.as_ref(), early).and_then(|current| match current {
                    Some(digest) if digest == assembled.top.digest() => {
                        self.mend(assembled, target, sink.as_ref(), &origins)
                    }
                    current => self.publish_to(assembled, (target, current), sink.as_ref(), &origins),
                });
                let change = outcome.map_err(|error| published.iter().fold(error, Published::told))?;
                self.remember(assembled, target);
                published.push(Published { location: target.clone(), digest: assembled.top.digest(), change });
            }
            Ok(Receipt { targets: published })
        })
    }

    /// Attaches statements about the result to it, at every target that has it. Yields for each statement whether any of
    /// them lacked it.
    pub fn attach(&self, attachments: &[Attachment], receipt: &Receipt) -> Result<Vec<Publication>> {
        let mut written = HashSet::new();
        for target in &receipt.targets {
            let attached =
                self.tools.places.sink(&target.location).and_then(|sink| sink.attach(attachments, target.change));
            written.extend(attached.map_err(|error| {
                error
                    .fact("target", &target.location)
                    .hint("the result itself is published; run again to attach the rest")
            })?);
        }
        let is_written = |attachment: &Attachment| written.contains(&attachment.manifest.digest());
        let change = |attachment: &Attachment| {
            if is_written(attachment) { Publication::Written } else { Publication::AlreadyThere }
        };
        Ok(attachments.iter().map(change).collect())
    }

    /// Keeps what was made and is small. The inherited layers are kept on their way.
    fn keep(&self, assembled: &Assembled, targets: &[Location]) {
        if !targets.iter().any(|target| matches!(target, Location::Registry(_))) {
            return;
        }
        let cache = &self.tools.cache;
        for document in assembled.children.iter().chain([&assembled.top]) {
            cache.keep_small(&document.digest(), document.bytes());
        }
        for blob in &assembled.blobs {
            let BlobOrigin::Made(made) = &blob.origin else { continue };
            let mut bytes = Vec::new();
            if blob.descriptor.size <= DOCUMENT_LIMIT && made.open().read_to_end(&mut bytes).is_ok() {
                cache.keep_small(&blob.descriptor.digest, &bytes);
            }
        }
    }

    /// A published image is known by its name, as one that was fetched is.
    fn remember(&self, assembled: &Assembled, target: &Location) {
        let Location::Registry(_) = target else { return };
        let blobs = assembled.blobs.iter().map(|blob| blob.descriptor.digest);
        self.tools.cache.remember(&ImageUse {
            location: target,
            digest: assembled.top.digest(),
            media_type: assembled.top.media_type(),
            platforms: assembled.platforms.iter().map(|(platform, digest)| (platform.to_string(), *digest)).collect(),
            parts: blobs.chain(assembled.children.iter().map(Document::digest)).collect(),
            used: ImageAccess::Written,
        });
    }

    fn usable(&self, assembled: &Assembled, target: &Location) -> Result<Box<dyn Sink>> {
        if matches!(target, Location::DockerArchive(_)) && assembled.top.kind() == DocumentKind::Index {
            return Err(Error::input("a docker archive holds one platform, but the result has an index")
                .fact("target", target)
                .hint("choose one with --platform, or write an oci-archive"));
        }
        self.tools.places.sink(target)
    }

    /// A target that names the result may have lost some of it: what is missing is put there again.
    fn mend(
        &self,
        assembled: &Assembled,
        target: &Location,
        sink: &dyn Sink,
        origins: &Origins,
    ) -> Result<Publication> {
        let missing = sink.missing_parts(&ImageParts::of(assembled), self.tools.jobs())?;
        let Some(first) = missing.first() else { return Ok(Publication::AlreadyThere) };
        let (count, digest) = (missing.len(), first.short());
        self.tools.notices.warn(format!(
            "{target} names the result but lacks {count} of its parts ({digest}): putting them there again"
        ));
        let blobs: Vec<&NeededBlob> = assembled.blobs.iter().collect();
        let children: Vec<&Document> = assembled.children.iter().collect();
        self.put_all(assembled, target, sink, (&blobs, &children, origins))
    }

    fn publish_to(
        &self,
        assembled: &Assembled,
        (target, current): (&Location, Option<Digest>),
        sink: &dyn Sink,
        origins: &Origins,
    ) -> Result<Publication> {
        let jobs = self.jobs_at(target);
        let mut blobs: Vec<&NeededBlob> = assembled.blobs.iter().collect();
        if matches!(target, Location::Registry(_)) {
            // To send one takes two requests, to mount one takes one.
            blobs.sort_by_key(|blob| !matches!(blob.origin, BlobOrigin::Made(_)));
        }
        let wish = sink.offer_wish();
        if wish == OfferWish::Rely {
            // What is hardly there goes before the manifest: a refusal that names nothing else is in vain. A new tag is
            // most often a new application, one that is moved the same application on a new base.
            let is_new = |blob: &&NeededBlob| match blob.origin {
                BlobOrigin::Made(_) => true,
                BlobOrigin::Source => current.is_none(),
                BlobOrigin::Base => false,
            };
            let new;
            (new, blobs) = blobs.into_iter().partition(is_new);
            parallel::map(&new, jobs, |blob| self.put_blob(sink, blob, origins))?;
        }
        let pinned = target.pinned(assembled.top.digest());
        let offer = || Offered::make(assembled, wish, sink);
        let offered = standing::published(&pinned, offer, |offered| offered.is_top_taken(assembled))?;
        if offered.is_top_taken(assembled) {
            return Ok(Publication::Written);
        }
        blobs.retain(|blob| !offered.is_there(blob));
        let children: Vec<&Document> = assembled.children.iter().filter(|child| !offered.is_taken(child)).collect();
        self.put_all(assembled, target, sink, (&blobs, &children, origins))
    }

    /// Blobs, then manifests, the tag last.
    fn put_all(
        &self,
        assembled: &Assembled,
        target: &Location,
        sink: &dyn Sink,
        (blobs, children, origins): (&[&NeededBlob], &[&Document], &Origins),
    ) -> Result<Publication> {
        let jobs = self.jobs_at(target);
        parallel::map(blobs, jobs, |blob| self.put_blob(sink, blob, origins))?;
        parallel::map(children, jobs, |child| sink.put_document(child))?;
        let pinned = target.pinned(assembled.top.digest());
        standing::published(&pinned, || sink.tag(&assembled.top), |()| true)?;
        Ok(Publication::Written)
    }

    /// How many parts are put at once. An archive is one stream of bytes: its parts go in one after the other, in a fixed
    /// order.
    fn jobs_at(&self, target: &Location) -> usize {
        if matches!(target, Location::Registry(_)) { self.tools.jobs() } else { 1 }
    }

    fn put_blob(&self, sink: &dyn Sink, blob: &NeededBlob, origins: &Origins) -> Result<()> {
        let of = &blob.descriptor;
        let held_by = origins.holders(&blob.origin);
        let open = || match &blob.origin {
            BlobOrigin::Made(made) => Ok(Box::new(made.open()) as Stream),
            BlobOrigin::Source => inherited(of, origins.source.as_ref(), self.tools),
            BlobOrigin::Base => inherited(of, origins.base.as_ref(), self.tools),
        };
        let watched = || Ok(self.tools.progress.watch(&format!("sending {}", of.digest.short()), of.size, open()?));
        sink.put_blob(&Blob { descriptor: of, held_by: &held_by, open: &watched })?;
        Ok(())
    }
}

/// What a target made of the manifests of the result before all of their blobs were put there.
struct Offered {
    taken: HashSet<Digest>,
    /// Blobs that the target said it has: all of a manifest but those that it named.
    there: HashSet<Digest>,
}

impl Offered {
    fn make(assembled: &Assembled, wish: OfferWish, sink: &dyn Sink) -> Result<Self> {
        let (top, children) = (&assembled.top, &assembled.children);
        let single = (top.kind() == DocumentKind::Manifest).then_some((top, PutUnder::Target));
        let manifests: Vec<_> = children.iter().map(|child| (child, PutUnder::Digest)).chain(single).collect();
        let mut made = Self { taken: HashSet::new(), there: HashSet::new() };
        let mut lacking = HashSet::new();
        for ((manifest, _), offer) in manifests.iter().zip(sink.offer(wish, &manifests)?) {
            match offer {
                Offer::NotMade => continue,
                Offer::Taken => drop(made.taken.insert(manifest.digest())),
                Offer::Lacks(blobs) => lacking.extend(blobs),
            }
            let parts = Manifest::read(manifest)?;
            made.there.extend(parts.layers.iter().chain([&parts.config]).map(|part| part.digest));
        }
        made.there.retain(|digest| !lacking.contains(digest));
        Ok(made)
    }

    fn is_taken(&self, document: &Document) -> bool {
        self.taken.contains(&document.digest())
    }

    /// Whether the target names the result already.
    fn is_top_taken(&self, assembled: &Assembled) -> bool {
        self.is_taken(&assembled.top)
    }

    fn is_there(&self, blob: &NeededBlob) -> bool {
        self.there.contains(&blob.descriptor.digest)
    }
}

/// What the target names. An early answer tells if it is not the result: if it is, somebody may have moved the tag since.
fn current(assembled: &Assembled, sink: &dyn Sink, early: Option<PendingDigest>) -> Result<Option<Digest>> {
    match early.map(PendingDigest::wait) {
        Some(EarlyDigest::Nothing) => Ok(None),
        Some(EarlyDigest::Is(other)) if other != assembled.top.digest() => Ok(Some(other)),
        Some(EarlyDigest::Is(_) | EarlyDigest::Unclear) | None => sink.current(),
    }
}

impl ImageParts {
    fn of(assembled: &Assembled) -> Self {
        Self {
            top: assembled.top.descriptor(),
            children: assembled.children.iter().map(Document::descriptor).collect(),
            blobs: assembled.blobs.iter().map(|blob| blob.descriptor.clone()).collect(),
        }
    }

    /// The parts of a published image, by its documents: those of the cache, else those of its place.
    fn read(tools: &StoreAccess, target: &Location, digest: Digest) -> Result<Self> {
        let place = tools.places.source(&target.with_digest(digest))?;
        let top = match tools.cache.small(&digest) {
            Some(bytes) => Document::read(bytes, None)?,
            None => place.top()?,
        };
        let children = match top.kind() {
            DocumentKind::Index => Index::read(&top)?.children.into_iter().map(|child| child.descriptor).collect(),
            DocumentKind::Manifest => Vec::new(),
        };
        let manifests = parallel::map(&children, tools.jobs(), |child| match tools.cache.small(&child.digest) {
            Some(bytes) => Document::read(bytes, Some(&child.media_type)),
            None => place.document(child),
        })?;
        let manifests = manifests.iter().chain((top.kind() == DocumentKind::Manifest).then_some(&top));
        let mut blobs: Vec<Descriptor> = Vec::new();
        for manifest in manifests {
            let Manifest { config, layers, .. } = Manifest::read(manifest)?;
            blobs.extend(layers.into_iter().chain([config]));
        }
        let mut seen = HashSet::new();
        blobs.retain(|blob| seen.insert(blob.digest));
        Ok(Self { top: top.descriptor(), children, blobs })
    }
}

/// Whether the target names the image and has all of it. What cannot be read of it counts as missing: publishing it again
/// puts it right.
pub fn is_published(tools: &StoreAccess, target: &Location, digest: Digest) -> Result<bool> {
    let sink = tools.places.sink(target)?;
    if sink.current()? != Some(digest) {
        return Ok(false);
    }
    let missing = ImageParts::read(tools, target, digest).and_then(|parts| sink.missing_parts(&parts, tools.jobs()));
    match missing {
        Ok(missing) => Ok(missing.is_empty()),
        Err(error) if matches!(error.kind(), Kind::Missing | Kind::Input | Kind::Integrity) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The places that inherited blobs come from.
struct Origins {
    source: Box<dyn Source>,
    base: Box<dyn Source>,
}

impl Origins {
    /// The repositories that a registry could mount the blob from.
    fn holders(&self, origin: &BlobOrigin) -> Vec<RepositoryName> {
        let place = match origin {
            BlobOrigin::Made(_) => return Vec::new(),
            BlobOrigin::Source => &self.source,
            BlobOrigin::Base => &self.base,
        };
        place.repository().cloned().into_iter().collect()
    }
}
