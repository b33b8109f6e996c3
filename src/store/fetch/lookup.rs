//! What the ladder asks of the world, for one platform of the source.

use std::sync::Arc;

use serde_json::Value;

use super::layers::LayerReader;
use super::select::{Listed, Listing};
use super::{BaseAnswer, Fetcher, Opened};
use crate::examine::base::Lookup;
use layer::LayerIndex;
use oci::error::{Error, Kind, Result};
use oci::{Descriptor, Digest, Image, Location, Reference, RegistryHost};

/// What to do when a name leads to bytes that are not what they say they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Patience {
    /// Somebody may have tampered with them, and a result depends on the answer: stop.
    Fail,
    /// Only people read the answer: go on without the name.
    Note,
}

pub(super) struct Looker<'a> {
    fetcher: &'a Fetcher<'a>,
    source: &'a Opened,
    listed: &'a Listed,
    layers: &'a LayerReader<'a>,
    patience: Patience,
}

impl<'a> Looker<'a> {
    pub fn new(
        fetcher: &'a Fetcher<'a>,
        source: &'a Opened,
        listed: &'a Listed,
        layers: &'a LayerReader<'a>,
        patience: Patience,
    ) -> Self {
        Self { fetcher, source, listed, layers, patience }
    }

    fn look_up(&self, location: &Location) -> Result<Option<Image>> {
        let opened = self.fetcher.opened(location)?;
        let loader = opened.loader(self.fetcher);
        let listing = Listing::read(&loader, &opened.origin.top)?;
        Ok(listing.find(&loader, &self.listed.platform)?.map(|found| found.image))
    }

    /// What a name leads to; that it leads nowhere is an answer, too.
    pub fn answer(&self, location: &Location) -> Result<BaseAnswer> {
        let key = (location.clone(), self.listed.platform.clone(), self.patience);
        self.fetcher.bases.answers.get(key, || {
            if self.fetcher.bases.is_silent(location) {
                return Ok(Err("could not be reached (its registry did not answer before)".to_owned()));
            }
            match self.look_up(location) {
                Ok(Some(image)) => Ok(Ok(Arc::new(image))),
                Ok(None) => Ok(Err(format!("has no image for {}", self.listed.platform))),
                Err(error) => self.forgive(location, error).map(Err),
            }
        })
    }

    /// Why the image must not lead there, where it must not.
    pub fn forbids(&self, reference: &Reference) -> Option<String> {
        let forbidden = "is not looked up, since a public image must not lead to a private address";
        (!may_follow(&self.source.origin.location, reference)).then(|| forbidden.to_owned())
    }

    /// Why a name that was found in the image leads nowhere, unless that must end the run.
    fn forgive(&self, location: &Location, error: Error) -> Result<String> {
        match (error.kind(), self.patience) {
            (Kind::Missing, _) => Ok("could not be found".to_owned()),
            (Kind::Auth, _) => Ok("may not be read with these credentials".to_owned()),
            (Kind::Network, _) => {
                self.fetcher.bases.note_silent(location);
                Ok(format!("could not be reached ({})", error.what()))
            }
            (Kind::Integrity | Kind::Lock | Kind::Conflict, Patience::Fail) => Err(error.hint(format!(
                "the image names {location} as its base; pass --old-base with the image it was built on, or --old-base layers:N"
            ))),
            _ => Ok(format!("cannot be used ({})", error.what())),
        }
    }
}

impl Lookup for Looker<'_> {
    fn image(&self, location: &Location) -> Result<Option<Image>> {
        self.look_up(location)
    }

    fn clue(&self, reference: &Reference) -> Result<std::result::Result<Image, String>> {
        match self.forbids(reference) {
            Some(why) => Ok(Err(why)),
            None => Ok(self.answer(&Location::Registry(reference.clone()))?.map(Arc::unwrap_or_clone)),
        }
    }

    fn stored(&self, digest: Digest) -> Option<Image> {
        self.look_up(&Location::Cache(digest)).ok().flatten()
    }

    fn statements(&self) -> Result<Vec<Value>> {
        let loader = self.source.loader(self.fetcher);
        let mut statements = Vec::new();
        for child in &self.listed.attestations {
            let Ok(document) = loader.document(&child.descriptor) else { continue };
            for layer in provenance_layers(document.object()) {
                let Ok(bytes) = loader.small_blob(&layer) else { continue };
                statements.extend(serde_json::from_slice::<Value>(&bytes).ok());
            }
        }
        Ok(statements)
    }

    fn layer(&self, at: usize) -> Result<Arc<LayerIndex>> {
        let layer = self.listed.image.layers.get(at);
        self.layers.read(layer.ok_or_else(|| Error::input("the image has no such layer"))?)
    }
}

/// The in-toto blobs of an attestation manifest that hold SLSA provenance.
fn provenance_layers(manifest: &serde_json::Map<String, Value>) -> Vec<Descriptor> {
    let layers = manifest.get("layers").and_then(Value::as_array).into_iter().flatten();
    layers
        .filter_map(|layer| Descriptor::read(layer, "attestation").ok())
        .filter(|layer| {
            let predicate = layer.annotations.get("in-toto.io/predicate-type").and_then(Value::as_str);
            layer.media_type.as_str() == "application/vnd.in-toto+json"
                && predicate.is_none_or(|predicate| predicate.contains("slsa.dev/provenance"))
        })
        .collect()
}

/// Whether a name found in an image at `source` may be asked for.
#[must_use]
pub fn may_follow(source: &Location, name: &Reference) -> bool {
    // What is on our disk was put there by us.
    source.repository().is_none_or(|source| is_public(name.name().host()) || !is_public(source.host()))
}

/// Whether a registry host is a name of the public network, as far as it tells.
fn is_public(host: &RegistryHost) -> bool {
    host.address().is_none() && !host.is_loopback() && host.name().contains('.')
}

#[cfg(test)]
mod clue_place_tests {
    use super::*;

    #[test]
    fn images_from_outside_do_not_send_us_inside() {
        for (source, clue, allowed) in [
            ("gcr.io/a/b:c", "docker.io/library/debian:12", true),
            ("gcr.io/a/b:c", "169.254.169.254/x:y", false),
            ("gcr.io/a/b:c", "127.0.0.1:5000/x:y", false),
            ("gcr.io/a/b:c", "localhost:5000/x:y", false),
            ("gcr.io/a/b:c", "LocalHost:5000/x:y", false),
            ("gcr.io/a/b:c", "a.localhost:5000/x:y", false),
            ("gcr.io/a/b:c", "[::ffff:127.0.0.1]:5000/x:y", false),
            ("gcr.io/a/b:c", "[::1]:5000/x:y", false),
            ("127.0.0.1:5000/a:b", "127.0.0.1:5001/x:y", true),
            ("oci:a:b", "127.0.0.1:5001/x:y", true),
        ] {
            assert_eq!(may_follow(&source.parse().unwrap(), &clue.parse().unwrap()), allowed, "{source} -> {clue}");
        }
    }
}
