//! What an image is called: the names by which an entry can protect it.

use crate::oci::{Digest, Location};

/// One name of an image, in all its forms.
#[derive(Debug, Clone)]
pub struct Name {
    /// How it can be written: by tag, by digest.
    pub texts: Vec<String>,
    /// What it says, or `None` for a name that is no reference: a pattern can match it all the same.
    pub location: Option<Location>,
    /// The digests that name this image under the location.
    pub digests: Vec<Digest>,
}

impl Name {
    /// A name as a runtime wrote it, and the digest of the manifest that it leads to, where that is known.
    #[must_use]
    pub fn written(text: &str, manifest: Option<Digest>) -> Self {
        let location = text.parse::<Location>().ok();
        let said = location.as_ref().and_then(Location::digest);
        let pinned = location.as_ref().zip(manifest).map(|(location, digest)| location.by_digest(digest));
        let texts = std::iter::once(text.to_owned()).chain(pinned.filter(|pinned| pinned != text)).collect();
        Self { texts, location, digests: said.into_iter().chain(manifest).collect() }
    }

    /// Whether the exact reference names this image. A digest names the bytes, wherever in the image
    /// they stand as a manifest; a tag names what it led to when it was last seen.
    pub(super) fn is(&self, named: &Location) -> bool {
        match (named, &self.location) {
            (Location::Registry(named), Some(Location::Registry(at))) => {
                let same = named.name() == at.name();
                same && named.digest().map_or_else(
                    || named.effective_tag() == at.effective_tag(),
                    |digest| self.digests.contains(&digest),
                )
            }
            (named, Some(at)) => named == at || (named.digest().is_none() && named.to_string() == at.without_digest()),
            (_, None) => false,
        }
    }

    pub(super) fn is_on(&self, host: &str) -> bool {
        matches!(&self.location, Some(Location::Registry(at)) if at.name().host().eq_ignore_ascii_case(host))
    }
}
