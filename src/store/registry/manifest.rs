//! Manifests and indexes: read by tag or digest, resolved, put.
//!
//! A digest is what the bytes hash to. What the registry says in `Docker-Content-Digest` is never
//! believed over the bytes, only held against them.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, LOCATION};
use reqwest::{Method, StatusCode};
use tokio::time::sleep;

use super::EarlyDigest;
use super::client::{About, Call, RegistryAnswer, Want};
use super::http_client::Payload;
use super::http_error::{self, Complaint, beginning};
use super::repository::Repository;
use super::token::TokenScope;
use oci::error::{Error, Kind, Result};
use oci::{DOCUMENT_LIMIT, Digest, Document, MediaType, RepositoryName};

const CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");
/// Times that a manifest with a wrong digest is fetched again.
const REFETCHES: u32 = 2;
/// Waits for blobs that the registry took but does not see yet: 1, 2, 4 s.
const SETTLING: [u32; 3] = [1, 2, 4];

/// The bytes of a manifest, with the type that the registry gave them, if it says more than "JSON".
pub(super) struct FetchedManifest {
    pub(super) bytes: Vec<u8>,
    pub(super) declared: Option<MediaType>,
}

impl Repository {
    /// Fetches the manifest `target`; where a digest is expected, the bytes hash to it.
    pub(super) async fn fetch(&self, target: &str, expected: Option<Digest>) -> Result<FetchedManifest> {
        let call = self.manifest_call(Method::GET, target).want(Want::LimitedBody(DOCUMENT_LIMIT));
        let mut refetches = 0;
        loop {
            let answer = self.client().send(&call).await?;
            if answer.status != StatusCode::OK {
                return Err(http_error::refused(&call.about(), &answer, unreadable(answer.status)));
            }
            let declared = declared_type(&call.about(), &answer)?;
            let Some(mismatch) = expected.and_then(|expected| mismatch(&answer, expected)) else {
                return Ok(FetchedManifest { bytes: answer.body, declared });
            };
            if refetches == REFETCHES {
                return Err(mismatch.error(&call.about(), answer.attempts + refetches));
            }
            refetches += 1;
            self.client().http.notices.warn(format!("{}: digest mismatch, fetching again", call.about().request));
        }
    }

    /// Reads fetched bytes; what is wrong with them is told together with where they came from.
    pub(super) fn read(&self, bytes: Vec<u8>, declared: Option<&MediaType>) -> Result<Document> {
        let about = self.manifest_call(Method::GET, "").about();
        Document::read(bytes, declared)
            .map_err(|error| error.fact("registry", about.registry).fact("image", about.image))
    }

    pub(super) fn manifest_call<'a>(&self, method: Method, target: &str) -> Call<'a> {
        let call = self.call(method, &format!("/manifests/{target}"));
        MediaType::accepted().iter().fold(call, |call, accepted| call.header(ACCEPT, accepted))
    }

    /// The digest that `target` has now. `None` also where a repository that does not exist yet is
    /// hidden behind a refusal: putting something there will tell.
    pub(super) async fn resolve(&self, target: &str) -> Result<Option<Digest>> {
        let head = match self.client().send(&self.manifest_call(Method::HEAD, target)).await {
            Err(error) if error.kind() == Kind::Auth => return Ok(None),
            outcome => outcome?,
        };
        match (head.status.as_u16(), content_digest(&head)) {
            (200, Some(digest)) => return Ok(Some(digest)),
            (401 | 404, _) => return Ok(None),
            _ => {}
        }
        let call = self.manifest_call(Method::GET, target).want(Want::LimitedBody(DOCUMENT_LIMIT));
        let answer = self.client().send(&call).await?;
        match answer.status.as_u16() {
            200 => Ok(Some(Digest::of(&answer.body))),
            401 | 403 | 404 => Ok(None),
            _ => Err(http_error::refused(
                &call.about(),
                &answer,
                "the registry does not report the current digest of the target",
            )),
        }
    }

    /// The digest that `target` has now, asked with a token that also allows to mount from `from`, so that none has to be
    /// asked for later. Where one request does not make it clear, [`Self::resolve`] finds out.
    pub(super) async fn resolve_early(&self, target: &str, from: &[RepositoryName]) -> EarlyDigest {
        let neighbours = from.iter().filter(|name| name.host() == self.name().host() && *name != self.name());
        let scope = TokenScope::push(self.name()).mounting(neighbours);
        let call = self.manifest_call(Method::HEAD, target).scope(scope);
        let Ok(head) = self.client().attempt(&call).await else { return EarlyDigest::Unclear };
        match (head.status.as_u16(), content_digest(&head)) {
            (200, Some(digest)) => EarlyDigest::Is(digest),
            (404, _) => EarlyDigest::Nothing,
            _ => EarlyDigest::Unclear,
        }
    }

    /// Puts `top` under a tag. A tag that may not be changed is no obstacle when it is right already.
    pub(super) async fn put_tag(&self, top: &Document, tag: &str) -> Result<()> {
        match self.put_manifest(top, tag).await {
            Err(error) if error.kind() == Kind::Conflict => match self.resolve(tag).await {
                Ok(Some(current)) if current == top.digest() => Ok(()),
                Ok(Some(current)) => Err(error.fact("tag is", current).fact("wanted", top.digest())),
                _ => Err(error),
            },
            outcome => outcome,
        }
    }

    /// Puts a document under a tag or its digest, and makes sure that it is there.
    pub(super) async fn put_manifest(&self, document: &Document, target: &str) -> Result<()> {
        self.put_answered(document, target).await.map(drop)
    }

    /// The same, with what the registry answered.
    pub(super) async fn put_answered(&self, document: &Document, target: &str) -> Result<RegistryAnswer> {
        let call = self
            .call(Method::PUT, &format!("/manifests/{target}"))
            .header(CONTENT_TYPE, document.media_type().as_str())
            .payload(Payload::Bytes(Bytes::copy_from_slice(document.bytes())));
        let mut settling = SETTLING.iter();
        loop {
            let answer = self.client().send(&call).await?;
            if answer.status.is_success() {
                self.confirm(document, target, &call, &answer).await?;
                return Ok(answer);
            }
            let complaint = Complaint::of(&answer.body);
            match settling.next().filter(|_| complaint.is(&UNSETTLED)) {
                Some(factor) => sleep(self.settle_pause(*factor)).await,
                None => return Err(not_taken(&call.about(), &answer, &complaint)),
            }
        }
    }

    fn settle_pause(&self, factor: u32) -> Duration {
        self.client().http.timeouts.settle * factor
    }

    /// A registry that names another digest has other bytes. One that does not say which it took is asked.
    pub(super) async fn confirm(
        &self,
        document: &Document,
        target: &str,
        call: &Call<'_>,
        answer: &RegistryAnswer,
    ) -> Result<()> {
        let ours = document.digest();
        let got = match content_digest(answer) {
            Some(digest) if digest == ours && answer.headers.contains_key(LOCATION) => return Ok(()),
            Some(digest) if digest != ours => digest,
            _ => Digest::of(&self.fetch(target, None).await?.bytes),
        };
        if got == ours {
            return Ok(());
        }
        Err(Mismatch { expected: ours, got }.error(&call.about(), answer.attempts))
    }
}

fn content_digest(answer: &RegistryAnswer) -> Option<Digest> {
    answer.text(CONTENT_DIGEST)?.trim().parse().ok()
}

struct Mismatch {
    expected: Digest,
    got: Digest,
}

impl Mismatch {
    fn error(&self, about: &About, attempts: u32) -> Error {
        about
            .error(Kind::Integrity, "the manifest does not have the expected digest")
            .fact("expected", self.expected)
            .fact("got", self.got)
            .fact("attempts", attempts)
    }
}

/// How an answer differs from what was asked for by digest. A header that contradicts the right
/// bytes counts too: such a registry does not know what it serves (CVE-2025-24882).
fn mismatch(answer: &RegistryAnswer, expected: Digest) -> Option<Mismatch> {
    let claimed = content_digest(answer).filter(|claimed| *claimed != expected);
    let got = Some(Digest::of(&answer.body)).filter(|got| *got != expected);
    got.or(claimed).map(|got| Mismatch { expected, got })
}

/// The type of a manifest's bytes, where `Content-Type` says one.
fn declared_type(about: &About, answer: &RegistryAnswer) -> Result<Option<MediaType>> {
    let Some(text) = answer.text(CONTENT_TYPE) else { return Ok(None) };
    let declared = MediaType::new(text);
    match declared.as_str() {
        "text/html" | "application/xhtml+xml" => {
            let error =
                about.error(Kind::Input, "this is a web page, not a manifest: is a proxy or portal in between?");
            let error = error.fact("status", answer.status).fact("content type", text);
            Err(error.fact("begins", beginning(&answer.body).unwrap_or_default()))
        }
        "" | "application/json" | "text/plain" | "application/octet-stream" | "binary/octet-stream" => Ok(None),
        _ => Ok(Some(declared)),
    }
}

fn unreadable(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "the registry does not have this image",
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "the registry denies access to this image",
        _ => "the registry does not serve this manifest",
    }
}

/// Complaints that pass: the registry does not see a part yet that it took a moment ago, or, as
/// distribution does, trips over somebody else who puts the same tag at this moment.
const UNSETTLED: [&str; 4] = ["MANIFEST_BLOB_UNKNOWN", "BLOB_UNKNOWN", "MANIFEST_UNKNOWN", "DIGEST_INVALID"];

/// Why a registry does not take a manifest.
fn not_taken(about: &About, answer: &RegistryAnswer, complaint: &Complaint) -> Error {
    const FIXED: [&str; 4] = ["immutable", "cannot be overwritten", "already exists", "overwrite"];
    const TYPES: [&str; 5] = ["media type", "mediatype", "media-type", "manifest invalid", "manifest_invalid"];
    let (kind, what) = match answer.status.as_u16() {
        409 | 412 => (Kind::Conflict, "the target tag cannot be changed"),
        400 | 403 if complaint.mentions(&FIXED) => (Kind::Conflict, "the target tag cannot be changed"),
        413 => (Kind::Input, "the manifest is too large for this registry"),
        415 => (Kind::Input, "the registry refuses OCI media types"),
        400 | 422 if complaint.mentions(&TYPES) => {
            (Kind::Input, "the registry refuses the manifest: it may not know OCI media types")
        }
        400 | 404 if complaint.mentions(&["unknown"]) => {
            (Kind::Network, "the registry does not find parts of the image that it accepted before")
        }
        _ => return http_error::refused(about, answer, "the registry does not accept the manifest"),
    };
    let error = http_error::explained(about.error(kind, what), answer.status, answer.attempts, complaint);
    match kind {
        Kind::Conflict => error.hint("choose another tag, or allow this one to change in the registry's settings"),
        _ => error,
    }
}
