//! A manifest that is put before its parts: a registry that checks manifests names what it lacks, and what it has needs
//! no request of its own.
//!
//! Registries that take a manifest without its parts exist. So the answer is relied on only after the registry has
//! refused one in this run, has named a layer, and has shown every part that it did not name. Until then a manifest is
//! put by its digest, where nobody sees it.

use std::collections::HashSet;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;

use super::http_client::Payload;
use super::http_error::Complaint;
use super::repository::Repository;
use crate::store::{Offer, OfferWish, PutUnder};
use oci::error::Result;
use oci::{Digest, Document, Manifest};

/// What a registry made of a manifest.
enum Put {
    Taken,
    /// It lacks these.
    Lacks(HashSet<Digest>),
    /// Whatever it is, putting it after its parts will tell.
    Refused,
}

impl Repository {
    /// One answer for each manifest of an image.
    pub(super) async fn offer_all(&self, wish: OfferWish, manifests: &[(&Document, PutUnder)]) -> Result<Vec<Offer>> {
        let mut offers = Vec::new();
        for (document, under) in manifests {
            let manifest = Manifest::read(document)?;
            offers.push(match wish {
                OfferWish::Probe if offers.is_empty() => self.probe(document, &manifest).await?,
                OfferWish::Rely => self.rely(document, &manifest, *under).await?,
                OfferWish::None | OfferWish::Probe => Offer::NotMade,
            });
        }
        Ok(offers)
    }

    /// Puts the manifest by its digest, to see what the registry says. What it does not name is looked at.
    async fn probe(&self, document: &Document, manifest: &Manifest) -> Result<Offer> {
        let Put::Lacks(lacking) = self.put_once(document, &document.digest().to_string()).await? else {
            return Ok(Offer::NotMade);
        };
        if !manifest.layers.iter().any(|layer| lacking.contains(&layer.digest)) {
            return Ok(Offer::NotMade);
        }
        let parts = parts(manifest);
        for part in parts.difference(&lacking) {
            if !self.has(*part).await? {
                self.host().holdings.prove(self.name(), false);
                return Ok(Offer::NotMade);
            }
        }
        self.host().holdings.prove(self.name(), true);
        Ok(self.lacks(&parts, &lacking))
    }

    async fn rely(&self, document: &Document, manifest: &Manifest, under: PutUnder) -> Result<Offer> {
        let target = match under {
            PutUnder::Target => self.target(),
            PutUnder::Digest => document.digest().to_string(),
        };
        let parts = parts(manifest);
        match self.put_once(document, &target).await? {
            Put::Taken => {
                self.note_there(parts.iter().copied().collect());
                Ok(Offer::Taken)
            }
            Put::Lacks(lacking) => Ok(self.lacks(&parts, &lacking)),
            Put::Refused => Ok(Offer::NotMade),
        }
    }

    fn lacks(&self, parts: &HashSet<Digest>, lacking: &HashSet<Digest>) -> Offer {
        self.note_there(parts.difference(lacking).copied().collect());
        Offer::Lacks(parts.intersection(lacking).copied().collect())
    }

    /// The registry has these, as it says. Of some it was known.
    fn note_there(&self, mut there: Vec<Digest>) {
        let holdings = &self.host().holdings;
        there.retain(|digest| !holdings.has(self.name(), *digest));
        holdings.note_offer(self.name(), there.len());
        for _ in &there {
            self.client().http.traffic.already_there();
        }
        if !there.is_empty() {
            holdings.note(self.name(), there);
        }
    }

    async fn put_once(&self, document: &Document, target: &str) -> Result<Put> {
        let call = self
            .call(Method::PUT, &format!("/manifests/{target}"))
            .header(CONTENT_TYPE, document.media_type().as_str())
            .payload(Payload::Bytes(Bytes::copy_from_slice(document.bytes())));
        let answer = self.client().send(&call).await?;
        if answer.status.is_success() {
            self.confirm(document, target, &call, &answer).await?;
            return Ok(Put::Taken);
        }
        let is_about_parts = Complaint::of(&answer.body).is(&["MANIFEST_BLOB_UNKNOWN"]);
        let lacking = unknown_blobs(&answer.body).filter(|lacking| is_about_parts && !lacking.is_empty());
        Ok(lacking.map_or(Put::Refused, Put::Lacks))
    }
}

fn parts(manifest: &Manifest) -> HashSet<Digest> {
    manifest.layers.iter().chain([&manifest.config]).map(|part| part.digest).collect()
}

/// The blobs that a refusal names, where it is about nothing else.
fn unknown_blobs(body: &[u8]) -> Option<HashSet<Digest>> {
    let refusal: Value = serde_json::from_slice(body).ok()?;
    refusal.get("errors")?.as_array()?.iter().map(unknown_blob).collect()
}

/// distribution gives the digest as the detail, or in it.
fn unknown_blob(error: &Value) -> Option<Digest> {
    let is_about_blob = error.get("code")?.as_str()?.eq_ignore_ascii_case("MANIFEST_BLOB_UNKNOWN");
    let detail = error.get("detail")?;
    let within = || detail.get("digest").or_else(|| detail.get("Digest"))?.as_str();
    detail.as_str().or_else(within).filter(|_| is_about_blob)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_blobs_and_nothing_else() {
        let digest = Digest::of(b"a");
        let blob = |detail: String| format!(r#"{{"code":"MANIFEST_BLOB_UNKNOWN","message":"","detail":{detail}}}"#);
        let (text, object) = (blob(format!("\"{digest}\"")), blob(format!(r#"{{"digest":"{digest}"}}"#)));
        let other = r#"{"code":"MANIFEST_INVALID","detail":{}}"#;
        for (errors, named) in [
            (text.clone(), Some(1)),
            (object.clone(), Some(1)),
            (format!("{text},{object}"), Some(1)),
            (format!("{text},{}", blob(format!("\"{}\"", Digest::of(b"b")))), Some(2)),
            (format!("{text},{other}"), None),
            (blob("\"sha256:../x\"".to_owned()), None),
            (blob("{}".to_owned()), None),
            (other.to_owned(), None),
        ] {
            let body = format!(r#"{{"errors":[{errors}]}}"#);
            assert_eq!(unknown_blobs(body.as_bytes()).map(|named| named.len()), named, "{body}");
        }
        assert_eq!(unknown_blobs(b"<html>"), None);
    }
}
