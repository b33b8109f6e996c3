//! Whether a repository still has the parts of an image that it names: registries lose blobs to collectors, to disks and
//! to hands.
//!
//! The rule this file owns: a part counts as there when the registry has said so in this run, with the size that it must
//! have. Where it says another size, the blob is read.

use std::io::Read as _;

use reqwest::header::CONTENT_LENGTH;
use reqwest::{Method, StatusCode};

use super::client::{Call, RegistryAnswer};
use super::download::Download;
use super::http_error;
use super::repository::Repository;
use crate::store::{ImageParts, parallel};
use oci::error::{Error, Kind, Result};
use oci::{Descriptor, Digest, Hashed, Hasher};

/// A part, by the API that serves it.
#[derive(Clone, Copy)]
enum Part<'a> {
    Manifest(&'a Descriptor),
    Blob(&'a Descriptor),
}

impl Part<'_> {
    const fn digest(self) -> Digest {
        match self {
            Self::Manifest(of) | Self::Blob(of) => of.digest,
        }
    }
}

impl Repository {
    /// The parts of an image that the repository does not have. Its top was seen when the target was resolved, and blobs
    /// that this run has seen or put there are not asked for again.
    pub(super) fn missing(&self, parts: &ImageParts, jobs: usize) -> Result<Vec<Digest>> {
        let holdings = &self.host().holdings;
        let blobs = parts.blobs.iter().filter(|blob| !holdings.has(self.name(), blob.digest));
        let looked_at: Vec<Part<'_>> = parts.children.iter().map(Part::Manifest).chain(blobs.map(Part::Blob)).collect();
        let found = parallel::map(&looked_at, jobs, |part| self.is_there(*part))?;
        let (there, missing): (Vec<_>, Vec<_>) = looked_at.into_iter().zip(found).partition(|(_, is_there)| *is_there);
        let blobs = there.into_iter().filter(|(part, _)| matches!(part, Part::Blob(_))).map(|(part, _)| part.digest());
        let blobs: Vec<Digest> = blobs.collect();
        if !blobs.is_empty() {
            holdings.note(self.name(), blobs);
        }
        Ok(missing.into_iter().map(|(part, _)| part.digest()).collect())
    }

    fn is_there(&self, part: Part<'_>) -> Result<bool> {
        let call = match part {
            Part::Manifest(of) => self.manifest_call(Method::HEAD, &of.digest.to_string()),
            Part::Blob(of) => self.call(Method::HEAD, &format!("/blobs/{}", of.digest)),
        };
        let answer = match self.runtime().run(self.client().send(&call)) {
            // Some registries deny what they do not have.
            Err(error) if error.kind() == Kind::Auth => return Ok(false),
            outcome => outcome?,
        };
        match (answer.status, part) {
            (StatusCode::OK, Part::Blob(of)) if is_of_another_size(&answer, of) => self.is_whole(of, &call, &answer),
            (StatusCode::OK, _) => Ok(true),
            (StatusCode::NOT_FOUND | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => Ok(false),
            _ => {
                let what = "the registry does not say whether it has a part of the image";
                Err(http_error::refused(&call.about(), &answer, what))
            }
        }
    }

    /// Reads the blob. A registry keeps what it has under a digest, so that sending the right bytes would not mend it.
    fn is_whole(&self, of: &Descriptor, call: &Call<'_>, head: &RegistryAnswer) -> Result<bool> {
        let mut hasher = Hasher::default();
        let copied = Download::open(self.clone(), of, 0)
            .and_then(|blob| std::io::copy(&mut blob.take(of.size), &mut hasher).map_err(unread));
        if copied.is_ok() && hasher.finish() == (Hashed { digest: of.digest, len: of.size }) {
            return Ok(true);
        }
        let error = call.about().error(Kind::Integrity, "the registry has damaged bytes for a part of the image");
        let error = error
            .fact("blob", of.digest)
            .fact("expected", format_args!("{} bytes", of.size))
            .fact("got", format_args!("{} bytes", head.text(CONTENT_LENGTH).unwrap_or_default()))
            .hint("delete the blob in the registry, which keeps what it has under a digest; then run again");
        Err(copied.err().into_iter().fold(error, |error, cause| error.cause(cause.what())))
    }
}

fn unread(error: std::io::Error) -> Error {
    Error::from_stream(error, "the blob could not be read")
}

fn is_of_another_size(answer: &RegistryAnswer, of: &Descriptor) -> bool {
    answer.text(CONTENT_LENGTH).and_then(|text| text.trim().parse::<u64>().ok()).is_some_and(|size| size != of.size)
}
