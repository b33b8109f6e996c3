//! Sending a blob in chunks: only for registries that find one PUT too large.
//!
//! GHCR takes 4 MiB at most, so that is the size, unless the registry names a larger minimum. A
//! chunk that goes wrong is not resumed (ECR and ACR cannot): a new session begins.

use std::io::Read;

use bytes::Bytes;
use reqwest::header::{CONTENT_RANGE, CONTENT_TYPE, LOCATION};
use reqwest::{Method, StatusCode, Url};

use super::call::{Answer, Call, To};
use super::fault::Fault;
use super::repository::Repository;
use super::retry::Attempts;
use super::upload::{Session, finishing, next_place, unclear};
use super::wire::Payload;
use crate::error::{Error, Kind, Result};
use crate::store::engine::aside;
use crate::store::{Blob, Stream};

const CHUNK: u64 = 4 << 20;
/// A larger minimum would have to be held in memory.
const LARGEST_MINIMUM: u64 = 32 << 20;

/// How a try to send all chunks ended.
enum Try<'a> {
    Done,
    /// At this call, in this way.
    Unclear(Box<(Call<'a>, Result<Answer, Fault>)>),
}

impl<'a> Try<'a> {
    fn unclear(call: Call<'a>, outcome: Result<Answer, Fault>) -> Self {
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

    async fn try_chunks<'a>(&self, blob: &Blob<'_>, session: Session) -> Result<Try<'a>> {
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

    fn chunk_length(&self, session: &Session) -> Result<u64> {
        if session.minimum <= LARGEST_MINIMUM {
            return Ok(CHUNK.max(session.minimum));
        }
        let about = self.bare(&session.place).about();
        Err(about
            .error(Kind::Network, "the registry takes the blob neither whole nor in chunks of a sensible size")
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

fn next_or_same(call: &Call<'_>, answer: &Answer, place: Url) -> Result<Url> {
    if answer.headers.contains_key(LOCATION) { next_place(&call.about(), answer) } else { Ok(place) }
}

fn read_chunk(stream: Stream, length: u64) -> Result<(Bytes, Stream)> {
    let mut chunk = Vec::new();
    let mut limited = stream.take(length);
    limited.read_to_end(&mut chunk).map_err(|error| Error::from_stream(error, "cannot read the blob to upload"))?;
    Ok((chunk.into(), limited.into_inner()))
}

fn too_large(call: &Call<'_>, answer: &Answer) -> Error {
    let error = call.about().error(Kind::Input, "the blob is too large for this registry, in chunks too");
    error.fact("status", answer.status).fact("chunk", CHUNK)
}
