//! What others have stated about an image: its referrers, and cosign's tags of old.

use super::signatures::is_unreadable;
use super::{Fetcher, Opened};
use crate::attest::{BUNDLE, IN_TOTO, ReadStatement, SourceReferrer, unchecked_statement};
use crate::store::parallel;
use oci::error::Result;
use oci::{Descriptor, Digest, Location, Referrer, artifact_type, fallback_tag, subject};

/// The tags under which cosign 1 and 2 keep signatures, attestations and SBOMs: `sha256-HEX` with one of these.
const SUFFIXES: [&str; 3] = [".sig", ".att", ".sbom"];
/// Written into lists for an artifact with an empty config, whatever its type is.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";

impl Fetcher<'_> {
    /// Everything that is published about these manifests and indexes of the source, sorted.
    pub fn source_referrers(&self, source: &Location, subjects: &[Digest]) -> Result<Vec<SourceReferrer>> {
        let opened = self.source(source)?;
        let Some((first, others)) = subjects.split_first() else { return Ok(Vec::new()) };
        // Its answer tells whether there is an API to ask about the others.
        let mut found = about(&opened, *first)?;
        found.extend(
            parallel::map(others, self.tools.jobs(), |subject| about(&opened, *subject))?.into_iter().flatten(),
        );
        found.sort();
        found.dedup();
        Ok(found)
    }
}

/// A statement that is attached to an image. Nobody has checked who signed it.
#[derive(Debug)]
pub struct AttachedStatement {
    /// The manifest that holds it.
    pub digest: Digest,
    pub statement: ReadStatement,
}

impl Opened {
    /// The in-toto statements that are attached to a manifest or index, signed or not. What cannot be read is none.
    pub fn statements(&self, fetcher: &Fetcher<'_>, about: Digest) -> Result<Vec<AttachedStatement>> {
        let mut found = Vec::new();
        let may_be_one = |referrer: &Referrer| ["", EMPTY, BUNDLE, IN_TOTO].contains(&referrer.artifact_type.as_str());
        for referrer in self.place.referrers(about, None)?.into_iter().filter(may_be_one).take(MOST) {
            found.extend(readable(self.statement(fetcher, &referrer, about))?.flatten());
        }
        Ok(found)
    }

    fn statement(
        &self,
        fetcher: &Fetcher<'_>,
        referrer: &Referrer,
        about: Digest,
    ) -> Result<Option<AttachedStatement>> {
        let document = self.place.document(&referrer.descriptor)?;
        let layer = document.object().get("layers").and_then(|layers| layers.get(0));
        let layer = layer.and_then(|layer| Descriptor::read(layer, "the statement").ok());
        let Some(layer) = layer.filter(|_| subject(&document) == Some(about)) else { return Ok(None) };
        let statement = match layer.media_type.as_str() {
            IN_TOTO => ReadStatement::read(&self.loader(fetcher).small_blob(&layer)?).ok(),
            BUNDLE => unchecked_statement(&self.loader(fetcher).small_blob(&layer)?),
            _ => None,
        };
        Ok(statement.map(|statement| AttachedStatement { digest: document.digest(), statement }))
    }
}

/// What was read; `None` where it cannot be, however often one tries.
fn readable<T>(outcome: Result<T>) -> Result<Option<T>> {
    match outcome {
        Err(error) if is_unreadable(&error) => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// Statements about one image that are read.
const MOST: usize = 64;

fn about(opened: &Opened, of: Digest) -> Result<Vec<SourceReferrer>> {
    let mut found = Vec::new();
    for referrer in opened.place.referrers(of, None)? {
        let digest = referrer.descriptor.digest;
        let Some(kind) = kind(opened, referrer, of)? else { continue };
        found.push(SourceReferrer { digest, kind, found: "referrer".to_owned() });
    }
    for suffix in SUFFIXES {
        if let Some(document) = readable(opened.place.tagged(&format!("{}{suffix}", fallback_tag(&of))))?.flatten() {
            let layer = document.object().get("layers").and_then(|layers| layers.get(0));
            let kind = layer.and_then(|layer| layer.get("mediaType")).and_then(|kind| kind.as_str());
            let kind = kind.unwrap_or_else(|| artifact_type(&document)).to_owned();
            found.push(SourceReferrer { digest: document.digest(), kind, found: format!("tag {suffix}") });
        }
    }
    Ok(found)
}

/// The type of a referrer; where the list does not say it, as the manifest does. `None` for one that is about something
/// else, or that cannot be read.
fn kind(opened: &Opened, referrer: Referrer, of: Digest) -> Result<Option<String>> {
    if !["", EMPTY].contains(&referrer.artifact_type.as_str()) {
        return Ok(Some(referrer.artifact_type));
    }
    let document = readable(opened.place.document(&referrer.descriptor))?;
    let document = document.filter(|document| subject(document) == Some(of));
    Ok(document.map(|document| artifact_type(&document).to_owned()))
}
