//! Calls to the runtime of a node: gRPC over its Unix socket. Every call has a limit of time, of size and of entries, and
//! every failure names the endpoint and the method.

use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Buf as _;
use http::uri::PathAndQuery;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint as Address};
use tonic::{Code, Request, Status};
use tonic_prost::ProstEncoder;

use super::runtime::Endpoint;
use crate::store::parallel::AsyncRuntime;
use oci::error::{Error, Kind, Result};

/// The kubelet's own limit: a node that needs more than that has no kubelet.
const ANSWER_LIMIT: usize = 16 << 20;
/// Some hundred bytes are needed for an image or a container; no node has so many of them. An entry of two bytes takes a
/// hundred in memory, so that the limit of bytes would not do.
pub const ENTRY_LIMIT: usize = 100_000;

const STRANGER: &str = "is it the socket of a CRI runtime, such as /run/containerd/containerd.sock?";

/// How long a runtime may take.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    pub connect: Duration,
    /// For one call. The kubelet's own limit.
    pub call: Duration,
    /// For the calls about all containers.
    pub containers: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { connect: seconds(10), call: seconds(120), containers: seconds(600) }
    }
}

/// A method by its path, and the namespace that containerd wants to know for its own.
#[derive(Debug, Clone, Copy)]
pub struct Method {
    pub path: &'static str,
    pub namespace: Option<&'static str>,
}

pub struct GrpcConnection {
    channel: Channel,
    engine: AsyncRuntime,
    endpoint: Endpoint,
    deadlines: Deadlines,
    /// Whether anything that came from there was gRPC.
    has_answered: AtomicBool,
}

impl GrpcConnection {
    pub fn connect(endpoint: &Endpoint, deadlines: Deadlines) -> Result<Self> {
        let engine = AsyncRuntime::new()?;
        let address = Address::from_shared(endpoint.to_string()).map_err(|error| unreachable(endpoint, &error))?;
        let address = address.connect_timeout(deadlines.connect);
        let limited =
            async { tokio::time::timeout(deadlines.connect, address.connect()).await.map_err(|_| silent(endpoint)) };
        let channel = engine.run(limited)?.map_err(|error| unreachable(endpoint, &error))?;
        Ok(Self { channel, engine, endpoint: endpoint.clone(), deadlines, has_answered: AtomicBool::new(false) })
    }

    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub fn deadlines(&self) -> Deadlines {
        self.deadlines
    }

    /// A call whose failure, whatever it is, is the end.
    pub fn ask<Q, A>(&self, method: Method, message: Q) -> Result<A>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        self.call(method, message).map_err(|failure| failure.error)
    }

    pub fn call<Q, A>(&self, method: Method, message: Q) -> Result<A, CallFailure>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let mut request = Request::new(message);
        if let Some(namespace) = method.namespace {
            request.metadata_mut().insert("containerd-namespace", MetadataValue::from_static(namespace));
        }
        let mut client = Grpc::new(self.channel.clone()).max_decoding_message_size(ANSWER_LIMIT);
        let calling = async {
            client.ready().await.map_err(disconnected)?;
            client.unary(request, PathAndQuery::from_static(method.path), LimitedCodec::<Q, A>(PhantomData)).await
        };
        let limited = async { Ok(tokio::time::timeout(self.deadlines.call, calling).await) };
        match self.engine.run(limited) {
            Ok(Ok(Ok(answer))) => {
                self.has_answered.store(true, Ordering::Relaxed);
                Ok(answer.into_inner())
            }
            Ok(Ok(Err(status))) => Err(self.failure(method, &status)),
            Ok(Err(_)) => Err(self.failure(method, &Status::deadline_exceeded("it did not answer in time"))),
            Err(error) => Err(CallFailure { how: FailureKind::Lost, error }),
        }
    }

    fn failure(&self, method: Method, status: &Status) -> CallFailure {
        // What the runtime itself says has no cause here.
        let is_lost_on_the_way = std::error::Error::source(status).is_some();
        let how = match status.code() {
            _ if is_lost_on_the_way => FailureKind::Lost,
            Code::Unimplemented => FailureKind::Unknown,
            Code::NotFound => FailureKind::NotFound,
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => FailureKind::Lost,
            _ => FailureKind::Refused,
        };
        let error = Error::new(Kind::Network, "a request to the runtime of the node failed")
            .fact("node", &self.endpoint)
            .fact("method", method.path)
            .fact("status", format_args!("{:?}", status.code()))
            .cause(said(status));
        // What else listens there may be found out only after the connection was made.
        let is_stranger = is_lost_on_the_way && !self.has_answered.load(Ordering::Relaxed);
        CallFailure { how, error: if is_stranger { error.hint(STRANGER) } else { error } }
    }
}

/// Messages, of which an answer has a limited number of entries.
struct LimitedCodec<Q, A>(PhantomData<(Q, A)>);

impl<Q, A> Codec for LimitedCodec<Q, A>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    type Encode = Q;
    type Decode = A;
    type Encoder = ProstEncoder<Q>;
    type Decoder = LimitedDecoder<A>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> Self::Decoder {
        LimitedDecoder(PhantomData)
    }
}

struct LimitedDecoder<A>(PhantomData<A>);

impl<A: prost::Message + Default> Decoder for LimitedDecoder<A> {
    type Item = A;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<A>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        let malformed = |error: prost::DecodeError| Status::internal(error.to_string());
        let mut rest = bytes.clone();
        let mut entries = 0;
        while rest.has_remaining() {
            entries += 1;
            if entries > ENTRY_LIMIT {
                return Err(Status::out_of_range(format!("the answer has more than {ENTRY_LIMIT} entries")));
            }
            let (tag, wire_type) = decode_key(&mut rest).map_err(malformed)?;
            skip_field(wire_type, tag, &mut rest, DecodeContext::default()).map_err(malformed)?;
        }
        A::decode(bytes).map(Some).map_err(malformed)
    }
}

/// How a call ended that did not end well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// There is no such method.
    Unknown,
    /// There is no such thing.
    NotFound,
    /// Nobody knows whether it was done: the runtime is gone or too slow.
    Lost,
    Refused,
}

#[derive(Debug, Clone)]
pub struct CallFailure {
    pub how: FailureKind,
    pub error: Error,
}

fn unreachable(endpoint: &Endpoint, error: &tonic::transport::Error) -> Error {
    let hint = match io_kind(error) {
        Some(io::ErrorKind::NotFound) => "name the socket of a runtime that runs on this machine",
        Some(io::ErrorKind::PermissionDenied) => "the socket belongs to root: run as root",
        Some(io::ErrorKind::ConnectionRefused) => "nobody listens there, or it is no socket: is the runtime running?",
        _ => STRANGER,
    };
    let failed = Error::new(Kind::Network, "the runtime of the node cannot be reached");
    failed.fact("node", endpoint).cause(causes(error)).hint(hint)
}

fn silent(endpoint: &Endpoint) -> Error {
    Error::new(Kind::Network, "the runtime of the node does not answer").fact("node", endpoint)
}

/// The connection ended before the request was sent.
fn disconnected(error: tonic::transport::Error) -> Status {
    let mut status = Status::unavailable("the connection was lost");
    status.set_source(Arc::new(error));
    status
}

/// The runtime's message, and what happened in transport.
fn said(status: &Status) -> String {
    let source = std::error::Error::source(status).map(causes);
    source.map_or_else(|| status.message().to_owned(), |source| format!("{}: {source}", status.message()))
}

/// An error in one line with all its causes, each written once.
fn causes(error: &dyn std::error::Error) -> String {
    let mut said: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if !said.iter().any(|before| before.contains(&text)) {
            said.push(text);
        }
        next = error.source();
    }
    said.join(": ")
}

fn io_kind(error: &tonic::transport::Error) -> Option<io::ErrorKind> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<io::Error>() {
            return Some(found.kind());
        }
        next = error.source();
    }
    None
}
