//! A blob on its way up: found there, mounted from a neighbour, or sent.
//!
//! Sending is POST and one PUT (distribution-spec, "POST then PUT"), the only way that every registry knows; what is small
//! is sent with the POST where the registry takes it so. After an unclear answer the registry is asked whether it has the
//! blob before it is sent again, in a new session.

use std::io::Read;

use bytes::Bytes;
use reqwest::header::{CONTENT_RANGE, CONTENT_TYPE, HeaderName, LOCATION};
use reqwest::{Method, StatusCode, Url};

use super::client::{About, Call, RegistryAnswer, To};
use super::http_client::Payload;
use super::http_error::{self, Complaint, RequestFault};
use super::repository::Repository;
use super::retry::{Attempts, is_passing};
use super::token::TokenScope;
use super::url_policy::{self, Errand};
use crate::store::parallel::aside;
use crate::store::{Blob, Delivery, Stream};
use oci::error::{Error, Kind, Result};
use oci::{Digest, RepositoryName};

/// Below this size a blob is sent sooner than it is asked for.
const SMALL: u64 = 64 << 10;
const OCTETS: &str = "application/octet-stream";
const CHUNK_MINIMUM: HeaderName = HeaderName::from_static("oci-chunk-min-length");

/// A place that the registry opened for one blob.
pub(super) struct UploadSession {
    pub(super) place: Url,
    /// The smallest chunk that it takes.
    pub(super) minimum: u64,
}

/// What the registry made of a POST that may save the PUT: to mount a blob, or with its bytes.
enum Posted {
    /// It has the blob.
    Taken,
    /// It would rather have the bytes, here.
    UploadSession(UploadSession),
    Refused,
}

impl Repository {
    pub(super) async fn deliver(&self, blob: &Blob<'_>) -> Result<Delivery> {
        let digest = blob.descriptor.digest;
        if self.host().holdings.has(self.name(), digest) {
            return Ok(Delivery::AlreadyThere);
        }
        let delivery = self.deliver_anew(blob).await?;
        self.host().holdings.note(self.name(), [digest]);
        Ok(delivery)
    }

    /// The same for a blob that the repository is not known to have.
    async fn deliver_anew(&self, blob: &Blob<'_>) -> Result<Delivery> {
        let digest = blob.descriptor.digest;
        let is_neighbour = |name: &&RepositoryName| name.host() == self.name().host();
        let is_here = blob.held_by.iter().any(|name| name == self.name());
        let neighbour = blob.held_by.iter().find(is_neighbour).filter(|_| !is_here);
        let mut session = None;
        if let Some(neighbour) = neighbour {
            match self.mount(digest, neighbour).await? {
                Posted::Taken => return Ok(Delivery::Mounted),
                Posted::UploadSession(opened) => session = Some(opened),
                Posted::Refused => {}
            }
        } else if is_here || blob.descriptor.size > SMALL {
            if self.has(digest).await? {
                return Ok(Delivery::AlreadyThere);
            }
        } else {
            return self.deliver_new(blob).await.map(|()| Delivery::Sent);
        }
        self.send(blob, session).await?;
        Ok(Delivery::Sent)
    }

    /// Whether the registry has the blob. Being refused the answer counts as no.
    pub(super) async fn has(&self, digest: Digest) -> Result<bool> {
        match self.client().send(&self.call(Method::HEAD, &format!("/blobs/{digest}"))).await {
            Ok(answer) => Ok(answer.status == StatusCode::OK),
            Err(error) if error.kind() == Kind::Auth => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A blob that is hardly there: a small one goes in one request where the registry takes it so.
    pub(super) async fn deliver_new(&self, blob: &Blob<'_>) -> Result<()> {
        let mut session = None;
        if blob.descriptor.size <= SMALL && self.host().takes_whole_blobs() {
            let bytes = aside(|| {
                let mut bytes = Vec::new();
                let read = (blob.open)()?.take(SMALL).read_to_end(&mut bytes);
                read.map_err(|error| Error::from_stream(error, "could not read what is to be sent"))?;
                Ok(bytes)
            })?;
            match self.post_whole(blob.descriptor.digest, bytes).await? {
                Posted::Taken => return Ok(()),
                Posted::UploadSession(opened) => session = Some(opened),
                Posted::Refused => {}
            }
            self.host().note_without_whole_blobs();
        }
        self.send(blob, session).await
    }

    /// Sends the bytes with the question (distribution-spec, "Single POST"). Registries that do not know it open a session.
    async fn post_whole(&self, digest: Digest, bytes: Vec<u8>) -> Result<Posted> {
        let call = self.call(Method::POST, &format!("/blobs/uploads/?digest={digest}"));
        let call = call.header(CONTENT_TYPE, OCTETS).payload(Payload::Bytes(Bytes::from(bytes)));
        self.posted(&call, || format!("{} does not take {digest} in one request", self.name())).await
    }

    async fn mount(&self, digest: Digest, from: &RepositoryName) -> Result<Posted> {
        let path = format!("/blobs/uploads/?mount={digest}&from={}", from.repository());
        let call = self.posting(&path).scope(TokenScope::push(self.name()).mounting([from]));
        self.posted(&call, || format!("{} does not mount {digest} from {from}", self.name())).await
    }

    /// Asks once, or when the registry has time; whatever else is not a clear yes is answered by an upload.
    async fn posted(&self, call: &Call<'_>, refusal: impl Fn() -> String) -> Result<Posted> {
        let (http, limits, mut attempts) = (&self.client().http, self.client().limits(call)?, Attempts::default());
        let outcome = loop {
            let outcome = self.client().attempt(call).await;
            let is_busy = outcome.as_ref().is_ok_and(|answer| answer.status == StatusCode::TOO_MANY_REQUESTS);
            if !is_busy || !attempts.again(http, &limits, &call.about(), &outcome).await? {
                break outcome;
            }
        };
        let why = match outcome {
            Ok(answer) if answer.status == StatusCode::CREATED && !leads_to_session(&answer) => {
                return Ok(Posted::Taken);
            }
            Ok(answer) if matches!(answer.status, StatusCode::CREATED | StatusCode::ACCEPTED) => {
                return session(&call.about(), &answer).map(Posted::UploadSession);
            }
            Ok(answer) => answer.status.to_string(),
            Err(fault) => fault.text(),
        };
        self.client().http.notices.detail(format!("{}: {why}", refusal()));
        Ok(Posted::Refused)
    }

    fn posting<'a>(&self, below: &str) -> Call<'a> {
        self.call(Method::POST, below).payload(Payload::Bytes(bytes::Bytes::new()))
    }

    /// Opens a session.
    pub(super) async fn begin(&self) -> Result<UploadSession> {
        let call = self.posting("/blobs/uploads/");
        let answer = self.client().send(&call).await?;
        if answer.status.is_success() {
            return session(&call.about(), &answer);
        }
        Err(http_error::refused(&call.about(), &answer, "the registry denies the upload"))
    }

    /// Sends the blob until the registry has it.
    async fn send(&self, blob: &Blob<'_>, mut session: Option<UploadSession>) -> Result<()> {
        let mut attempts = Attempts::default();
        loop {
            let opened = match session.take() {
                Some(opened) => opened,
                None => self.begin().await?,
            };
            let call = self.putting(blob, finishing(&opened.place, blob.descriptor.digest));
            let outcome = match self.client().attempt(&call).await {
                Ok(answer) if answer.status.is_success() => return Ok(()),
                Ok(answer) if answer.status == StatusCode::PAYLOAD_TOO_LARGE => return self.send_chunks(blob).await,
                Ok(answer) => unclear(&call.about(), answer)?,
                Err(fault) => Err(fault),
            };
            if self.is_settled(&mut attempts, &call, outcome, blob.descriptor.digest).await? {
                return Ok(());
            }
        }
    }

    /// After an unclear outcome: waits, then asks for the blob. `false`: it has to be sent again.
    pub(super) async fn is_settled(
        &self,
        attempts: &mut Attempts,
        call: &Call<'_>,
        outcome: Result<RegistryAnswer, RequestFault>,
        digest: Digest,
    ) -> Result<bool> {
        let http = &self.client().http;
        let about = call.about();
        let limits = match &call.to {
            To::Place(url) => http.limits(url),
            To::Path(_) => return Ok(false),
        };
        let goes_on = attempts.again(http, &limits, &about, &outcome).await?;
        if outcome.as_ref().is_err_and(|fault| !fault.is_worth_another_try()) {
            return Err(given_up(&about, outcome, attempts.made));
        }
        if self.has(digest).await? {
            return Ok(true);
        }
        if goes_on { Ok(false) } else { Err(given_up(&about, outcome, attempts.made)) }
    }

    fn putting<'a>(&self, blob: &Blob<'a>, place: Url) -> Call<'a> {
        let payload = match blob.descriptor.size {
            0 => Payload::Bytes(bytes::Bytes::new()),
            size => Payload::Blob { size, open: blob.open },
        };
        self.call_to(Method::PUT, To::Place(place)).header(CONTENT_TYPE, OCTETS).payload(payload)
    }
}

/// Whether what an answer says was created is a place to send the blob to, and not the blob.
fn leads_to_session(answer: &RegistryAnswer) -> bool {
    let place = answer.text(LOCATION).unwrap_or_default();
    let path = place.split('?').next().unwrap_or_default();
    // A repository may have `blobs/uploads` in its name: what follows it last counts.
    path.rsplit_once("/blobs/").is_some_and(|(_, below)| below.starts_with("uploads/"))
}

/// The session that an answer opens; or why its `Location` is not gone to.
pub(super) fn session(about: &About, answer: &RegistryAnswer) -> Result<UploadSession> {
    let place = next_place(about, answer)?;
    let minimum = answer.text(CHUNK_MINIMUM).and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    Ok(UploadSession { place, minimum })
}

pub(super) fn next_place(about: &About, answer: &RegistryAnswer) -> Result<Url> {
    url_policy::follow_redirect(&answer.url, answer.text(LOCATION), Errand::Upload).map_err(|why| {
        about
            .error(Kind::Network, "the registry names an upload URL that underpin does not send data to")
            .fact("status", answer.status)
            .cause(why)
            .hint("if the registry is behind a proxy, check that it knows its own scheme and host (X-Forwarded-Proto)")
    })
}

/// The place that ends a session. All parameters that the registry put there stay.
pub(super) fn finishing(place: &Url, digest: Digest) -> Url {
    let mut url = place.clone();
    url.query_pairs_mut().append_pair("digest", &digest.to_string());
    url
}

/// Sorts a refusal of bytes: what may pass, or what may be a session that was lost, is unclear.
pub(super) fn unclear(about: &About, answer: RegistryAnswer) -> Result<Result<RegistryAnswer, RequestFault>> {
    let complaint = Complaint::of(&answer.body);
    let is_lost = complaint.is(&["BLOB_UPLOAD_UNKNOWN", "BLOB_UPLOAD_INVALID"])
        || matches!(answer.status, StatusCode::NOT_FOUND | StatusCode::RANGE_NOT_SATISFIABLE);
    if is_passing(answer.status) {
        return Ok(Ok(answer));
    }
    if is_lost {
        return Ok(Err(RequestFault::NoAnswer(format!("the upload session is lost ({})", answer.status))));
    }
    if complaint.is(&["DIGEST_INVALID"]) {
        let error =
            about.error(Kind::Integrity, "the registry reports that the uploaded bytes do not match the blob's digest");
        return Err(http_error::explained(error, answer.status, answer.attempts, &complaint));
    }
    Err(http_error::refused(about, &answer, "the registry does not accept the blob"))
}

fn given_up(about: &About, outcome: Result<RegistryAnswer, RequestFault>, attempts: u32) -> Error {
    match outcome {
        Ok(answer) => {
            http_error::refused(about, &RegistryAnswer { attempts, ..answer }, "the registry does not accept the blob")
        }
        Err(fault) => http_error::lost(about, fault, attempts),
    }
}

// Sending a blob in chunks: only for registries that find one PUT too large.
//
// GHCR takes 4 MiB at most, so that is the size, unless the registry names a larger minimum. A
// chunk that goes wrong is not resumed (ECR and ACR cannot): a new session begins.

const CHUNK: u64 = 4 << 20;
/// A larger minimum would have to be held in memory.
const LARGEST_MINIMUM: u64 = 32 << 20;

/// How a try to send all chunks ended.
enum Try<'a> {
    Done,
    /// At this call, in this way.
    Unclear(Box<(Call<'a>, Result<RegistryAnswer, RequestFault>)>),
}

impl<'a> Try<'a> {
    fn unclear(call: Call<'a>, outcome: Result<RegistryAnswer, RequestFault>) -> Self {
        Self::Unclear(Box::new((call, outcome)))
    }
}

impl Repository {
    pub(super) async fn send_chunks(&self, blob: &Blob<'_>) -> Result<()> {
        let mut attempts = Attempts::default();
        loop {
            let session = self.begin().await?;
            match self.try_chunks(blob, session).await? {
                Try::Done => return Ok(()),
                Try::Unclear(unclear) => {
                    let (call, outcome) = *unclear;
                    if self.is_settled(&mut attempts, &call, outcome, blob.descriptor.digest).await? {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn try_chunks<'a>(&self, blob: &Blob<'_>, session: UploadSession) -> Result<Try<'a>> {
        let length = self.chunk_length(&session)?;
        let mut stream = aside(blob.open)?;
        let mut place = session.place;
        let mut sent = 0;
        while sent < blob.descriptor.size {
            let (chunk, rest) = aside(move || read_chunk(stream, length))?;
            stream = rest;
            if chunk.is_empty() {
                return Err(Error::integrity("the blob to upload is shorter than its descriptor says")
                    .fact("blob", blob.descriptor.digest)
                    .fact("size", blob.descriptor.size)
                    .fact("got", sent));
            }
            let end = sent + chunk.len() as u64;
            let call = self.patching(place.clone(), chunk, &format!("{sent}-{}", end - 1));
            match self.client().attempt(&call).await {
                Ok(answer) if answer.status.is_success() => place = next_or_same(&call, &answer, place)?,
                Ok(answer) if answer.status == StatusCode::PAYLOAD_TOO_LARGE => return Err(too_large(&call, &answer)),
                Ok(answer) => return Ok(Try::unclear(self.bare(&place), unclear(&call.about(), answer)?)),
                Err(fault) => return Ok(Try::unclear(self.bare(&place), Err(fault))),
            }
            sent = end;
        }
        let place = finishing(&place, blob.descriptor.digest);
        let call = self.call_to(Method::PUT, To::Place(place)).payload(Payload::Bytes(Bytes::new()));
        match self.client().attempt(&call).await {
            Ok(answer) if answer.status.is_success() => Ok(Try::Done),
            Ok(answer) => unclear(&call.about(), answer).map(|outcome| Try::unclear(call, outcome)),
            Err(fault) => Ok(Try::unclear(call, Err(fault))),
        }
    }

    fn chunk_length(&self, session: &UploadSession) -> Result<u64> {
        if session.minimum <= LARGEST_MINIMUM {
            return Ok(CHUNK.max(session.minimum));
        }
        let about = self.bare(&session.place).about();
        Err(about
            .error(Kind::Network, "the registry accepts the blob neither whole nor in chunks of a usable size")
            .fact("smallest chunk", session.minimum))
    }

    fn patching<'a>(&self, place: Url, chunk: Bytes, range: &str) -> Call<'a> {
        self.call_to(Method::PATCH, To::Place(place))
            .header(CONTENT_TYPE, "application/octet-stream")
            .header(CONTENT_RANGE, range)
            .payload(Payload::Bytes(chunk))
    }

    /// The call without its chunk, for messages.
    fn bare<'a>(&self, place: &Url) -> Call<'a> {
        self.call_to(Method::PATCH, To::Place(place.clone()))
    }
}

fn next_or_same(call: &Call<'_>, answer: &RegistryAnswer, place: Url) -> Result<Url> {
    if answer.headers.contains_key(LOCATION) { next_place(&call.about(), answer) } else { Ok(place) }
}

fn read_chunk(stream: Stream, length: u64) -> Result<(Bytes, Stream)> {
    let mut chunk = Vec::new();
    let mut limited = stream.take(length);
    limited.read_to_end(&mut chunk).map_err(|error| Error::from_stream(error, "cannot read the blob to upload"))?;
    Ok((chunk.into(), limited.into_inner()))
}

fn too_large(call: &Call<'_>, answer: &RegistryAnswer) -> Error {
    let error = call.about().error(Kind::Input, "the blob is too large for this registry, even in chunks");
    error.fact("status", answer.status).fact("chunk", CHUNK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finishing_keeps_every_parameter() {
        let digest = Digest::of(b"");
        for (place, expected) in [
            ("https://a/u?_state=q%3D%3D&x", "https://a/u?_state=q%3D%3D&x&digest=sha256%3A"),
            ("https://a/u", "https://a/u?digest=sha256%3A"),
        ] {
            let url = finishing(&place.parse().unwrap(), digest);
            assert!(url.as_str().starts_with(expected), "{url}");
            assert!(url.query_pairs().any(|(key, value)| key == "digest" && value == digest.to_string()));
        }
    }
}
