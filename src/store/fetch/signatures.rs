//! Whether an image is signed as the policy demands: looked for where cosign, now and of old, and notation put signatures.
//!
//! The rule this file owns: only a signature that counts makes an image signed, and each one is judged by itself, so that
//! nobody can hide a good one behind others. What was looked at and does not count, or cannot be read, is told with the
//! reason; what could not be looked at is an error, unless a good one was found elsewhere.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use serde_json::Value;

use super::{Fetcher, Opened};
use crate::attest::{BUNDLE, EnvelopeForm, NOTATION, Rejection, SIMPLE_SIGNATURE, SIMPLE_SIGNING, SignatureDemand};
use crate::plan::Epoch;
use crate::store::disk::Timestamp;
use crate::store::{Source, parallel};
use oci::error::{Error, Kind, Result};
use oci::{
    Descriptor, Digest, Document, DocumentKind, Index, Location, Referrer, artifact_type, fallback_tag, subject,
};

/// Candidates in one place that are looked at. Whoever may push can put more of them there than anybody can read.
const MOST: usize = 256;
/// Lines that are told of one search.
const TOLD: usize = 128;
/// No signature is larger; an attestation may be.
const LARGEST: u64 = 256 << 10;
/// When a manifest was made, where the list repeats it.
const CREATED: &str = "org.opencontainers.image.created";
/// Written into lists for an artifact with an empty config, whatever its type is.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// What came of looking for a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureSearch {
    Found,
    /// What was looked for, and why what was found does not count, one line each.
    Missing(Vec<String>),
}

impl Fetcher<'_> {
    /// Looks for a signature of the source that one of the keys made.
    pub fn source_signature(&self, image: &Location, demand: &SignatureDemand) -> Result<SignatureSearch> {
        let opened = self.source(image)?;
        self.search(&opened, demand).map_err(|error| error.fact("image", image))
    }

    /// Looks for a signature of a base, once a run. A manifest is signed with the index that lists it.
    pub fn base_signature(&self, image: &Location, demand: &SignatureDemand) -> Result<Arc<SignatureSearch>> {
        let found = self.searched(image, demand);
        if found.as_ref().is_ok_and(|found| **found == SignatureSearch::Found) {
            return found;
        }
        // What keeps one search from its end need not keep the other.
        let by_index = match self.index_of(image) {
            Ok(None) => return found,
            Ok(Some(index)) => self.searched(&index, demand),
            Err(error) => Err(error),
        };
        if by_index.as_ref().is_ok_and(|found| **found == SignatureSearch::Found) {
            return by_index;
        }
        let lines = |search: Arc<SignatureSearch>| match &*search {
            SignatureSearch::Found => Vec::new(),
            SignatureSearch::Missing(looked) => looked.clone(),
        };
        Ok(Arc::new(SignatureSearch::Missing([lines(found?), lines(by_index?)].concat())))
    }

    fn searched(&self, image: &Location, demand: &SignatureDemand) -> Result<Arc<SignatureSearch>> {
        self.bases.signatures.get((image.clone(), demand.files.clone()), || {
            let opened = self.opened(image)?;
            self.search(&opened, demand).map(Arc::new).map_err(|error| error.fact("image", image))
        })
    }

    fn search(&self, opened: &Opened, demand: &SignatureDemand) -> Result<SignatureSearch> {
        let (image, jobs) = (opened.top().digest(), self.tools.jobs());
        let blob = |of: &Descriptor| opened.loader(self).small_blob(of);
        Search { place: opened.place.as_ref(), blob: &blob, image, demand, jobs }.run()
    }

    /// The index that a tag leads to, where the location also names one of its manifests. One that cannot be read is none.
    fn index_of(&self, image: &Location) -> Result<Option<Location>> {
        match self.listing_of(image) {
            Err(error) if is_unreadable(&error) => Ok(None),
            listing => listing,
        }
    }

    fn listing_of(&self, image: &Location) -> Result<Option<Location>> {
        let tag = match image {
            Location::Registry(reference) => reference.tag(),
            _ => image.local().and_then(|local| local.tag.as_deref()),
        };
        let (Some(digest), Some(_)) = (image.digest(), tag) else { return Ok(None) };
        let tagged: Location = image.without_digest().parse()?;
        let opened = self.opened(&tagged)?;
        let lists = opened.top().kind() == DocumentKind::Index
            && Index::read(opened.top())?.children.iter().any(|child| child.descriptor.digest == digest);
        Ok(lists.then_some(tagged))
    }
}

/// A search for a signature of one image.
struct Search<'a> {
    place: &'a dyn Source,
    /// Reads a small blob of the place, verified.
    blob: &'a (dyn Fn(&Descriptor) -> Result<Vec<u8>> + Sync),
    image: Digest,
    demand: &'a SignatureDemand,
    jobs: usize,
}

/// What came of one candidate.
enum Judged {
    Counts,
    /// It is no signature of this image.
    Other,
    /// Why it does not count.
    Rejected(String),
    /// Nobody knows whether it would count.
    Unclear(Error),
}

impl Judged {
    /// What cannot be read does not count, and says nothing about the others.
    fn of(error: Error) -> Self {
        if is_unreadable(&error) { Self::Rejected(unread(&error)) } else { Self::Unclear(error) }
    }
}

/// What was looked at.
#[derive(Default)]
struct Looked {
    lines: Vec<String>,
    more: usize,
    /// The first thing that kept the search from being complete.
    unclear: Option<Error>,
}

impl Looked {
    fn tell(&mut self, line: String) {
        if self.lines.len() < TOLD {
            self.lines.push(line);
        } else {
            self.more += 1;
        }
    }

    fn tell_error(&mut self, at: &str, error: Error) {
        if is_unreadable(&error) {
            self.tell(format!("{at}: {}", unread(&error)));
        } else {
            self.unclear.get_or_insert(error);
        }
    }

    fn end(mut self) -> Result<SignatureSearch> {
        if let Some(error) = self.unclear {
            return Err(error.fact("looked for", "a signature of the image; none was found in what could be read"));
        }
        if self.more > 0 {
            self.lines.push(format!("and {} more", self.more));
        }
        Ok(SignatureSearch::Missing(self.lines))
    }
}

impl Search<'_> {
    fn run(&self) -> Result<SignatureSearch> {
        let mut looked = Looked::default();
        if self.is_among_referrers(&mut looked)? || self.is_under_tag(&mut looked)? {
            return Ok(SignatureSearch::Found);
        }
        looked.end()
    }

    /// cosign 3 and notation: manifests that refer to the image.
    fn is_among_referrers(&self, looked: &mut Looked) -> Result<bool> {
        let place = format!("referrers of {}", self.image);
        let (candidates, before) = (self.referrers(&place, looked), looked.lines.len());
        let told = |referrer: &Referrer| format!("referrer {}", referrer.descriptor.digest);
        if self.is_any_good((&place, &candidates), told, |referrer| self.judge_referrer(referrer), looked)? {
            return Ok(true);
        }
        if looked.lines.len() == before {
            looked.tell(format!("{place}: no signature"));
        }
        Ok(false)
    }

    /// What may be a signature, as the lists say; the newest first, as far as they tell. Dates can be forged, but all that
    /// they decide is what is read first.
    fn referrers(&self, place: &str, looked: &mut Looked) -> Vec<Referrer> {
        let wanted = [(BUNDLE, !self.demand.keys.is_empty()), (NOTATION, !self.demand.certificates.is_empty())];
        let (mut found, mut seen) = (Vec::new(), HashSet::new());
        for (kind, _) in wanted.into_iter().filter(|(_, is_wanted)| *is_wanted) {
            match self.place.referrers(self.image, Some(kind)) {
                Ok(listed) => found.extend(listed.into_iter().filter(|referrer| {
                    ["", EMPTY, kind].contains(&referrer.artifact_type.as_str())
                        && seen.insert(referrer.descriptor.digest)
                })),
                Err(error) => looked.tell_error(place, error),
            }
        }
        // Where nothing is dated, lists have the newest last.
        found.reverse();
        found.sort_by_key(|referrer| {
            Reverse(referrer.annotation(CREATED).and_then(Epoch::from_rfc3339).map(|date| date.0))
        });
        found
    }

    fn judge_referrer(&self, referrer: &Referrer) -> Judged {
        let document = match self.place.document(&referrer.descriptor) {
            Ok(document) if subject(&document) == Some(self.image) => document,
            Ok(_) => return Judged::Other,
            Err(error) => return Judged::of(error),
        };
        let Some(layer) = layers(&document).into_iter().next() else { return Judged::Other };
        let media_type = layer.media_type.as_str();
        match EnvelopeForm::of(media_type).filter(|_| artifact_type(&document) == NOTATION) {
            _ if media_type == BUNDLE => self.judge_blob(&layer, |bytes| self.demand.accepts_bundle(bytes, self.image)),
            Some(form) => self.judge_blob(&layer, |bytes| {
                let now = Timestamp::now().time().duration_since(UNIX_EPOCH).unwrap_or_default();
                self.demand.accepts_notation((form, bytes), self.image, now)
            }),
            None => Judged::Other,
        }
    }

    /// cosign 1 and 2: payloads under a tag of the image's digest.
    fn is_under_tag(&self, looked: &mut Looked) -> Result<bool> {
        let tag = format!("{}.sig", fallback_tag(&self.image));
        let place = format!("tag {tag}");
        let document = match self.place.tagged(&tag) {
            Ok(Some(document)) => document,
            Ok(None) => {
                looked.tell(format!("{place}: not there"));
                return Ok(false);
            }
            Err(error) => {
                looked.tell_error(&place, error);
                return Ok(false);
            }
        };
        let mut payloads = Vec::new();
        for layer in layers(&document) {
            let signature = layer.annotations.get(SIMPLE_SIGNATURE).and_then(Value::as_str).map(str::to_owned);
            match signature {
                _ if layer.media_type.as_str() != SIMPLE_SIGNING => {
                    looked.tell(format!("{place}: it signs another type of payload: {:?}", layer.media_type.as_str()));
                }
                Some(signature) => payloads.push((layer, signature)),
                None => looked.tell(format!("{place}: a payload without a signature")),
            }
        }
        // cosign adds them at the end.
        payloads.reverse();
        let judge = |(payload, signature): &(Descriptor, String)| {
            self.judge_blob(payload, |bytes| self.demand.accepts_simple(bytes, signature, self.image))
        };
        self.is_any_good((&place, &payloads), |_| place.clone(), judge, looked)
    }

    fn judge_blob(&self, of: &Descriptor, judge: impl Fn(&[u8]) -> Result<(), Rejection>) -> Judged {
        if of.size > LARGEST {
            return Judged::Rejected(format!("it is larger than {} KiB", LARGEST >> 10));
        }
        match (self.blob)(of).map(|bytes| judge(&bytes)) {
            Ok(Ok(())) => Judged::Counts,
            Ok(Err(rejection)) => Judged::Rejected(rejection.to_string()),
            Err(error) => Judged::of(error),
        }
    }

    /// Judges candidates, some at once, until one counts.
    fn is_any_good<T: Sync>(
        &self,
        (place, candidates): (&str, &[T]),
        told: impl Fn(&T) -> String,
        judge: impl Fn(&T) -> Judged + Sync,
        looked: &mut Looked,
    ) -> Result<bool> {
        let read = candidates.get(..MOST).unwrap_or(candidates);
        for some in read.chunks(self.jobs.max(1)) {
            for (candidate, judged) in some.iter().zip(parallel::map(some, self.jobs, |one| Ok(judge(one)))?) {
                match judged {
                    Judged::Counts => return Ok(true),
                    Judged::Other => {}
                    Judged::Rejected(why) => looked.tell(format!("{}: {why}", told(candidate))),
                    Judged::Unclear(error) => drop(looked.unclear.get_or_insert(error)),
                }
            }
        }
        if read.len() < candidates.len() {
            let line = format!("{place}: only the newest {MOST} of {} candidates were looked at", candidates.len());
            looked.lines.insert(0, line);
        }
        Ok(false)
    }
}

/// Whether a thing is there and cannot be used, or is not there: looking again would not help.
pub(super) fn is_unreadable(error: &Error) -> bool {
    matches!(error.kind(), Kind::Missing | Kind::Input | Kind::Integrity)
}

fn unread(error: &Error) -> String {
    format!("it cannot be read: {}", error.what())
}

fn layers(document: &Document) -> Vec<Descriptor> {
    let layers = document.object().get("layers").and_then(Value::as_array).into_iter().flatten();
    layers.filter_map(|layer| Descriptor::read(layer, "a layer of the signature").ok()).collect()
}

#[cfg(test)]
mod tests;
