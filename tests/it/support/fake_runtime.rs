//! A runtime of a node that is not containerd, and that says of its disk what it is told to: CRI-O, for what Debian does
//! not have of it. It answers CRI v1 on a Unix socket, has no images, and knows nothing of containerd's own interface.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, Request, Response};
use prost::Message as _;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::runtime::Runtime as Threads;

/// A disk with images, in the words of CRI.
#[derive(Clone, PartialEq, prost::Message)]
struct Disk {
    #[prost(message, optional, tag = "2")]
    id: Option<Text>,
    #[prost(message, optional, tag = "3")]
    used: Option<Number>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Text {
    #[prost(string, tag = "1")]
    value: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Number {
    #[prost(uint64, tag = "1")]
    value: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Disks {
    #[prost(message, repeated, tag = "1")]
    disks: Vec<Disk>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Version {
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, tag = "3")]
    version: String,
}

pub struct FakeRuntime {
    directory: TempDir,
    _threads: Threads,
}

impl FakeRuntime {
    /// With images at `mountpoint` that take `used` bytes, as far as it says so.
    pub fn start(mountpoint: Option<&str>, used: Option<u64>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let id = mountpoint.map(|value| Text { value: value.to_owned() });
        let disks = Disks { disks: vec![Disk { id, used: used.map(|value| Number { value }) }] }.encode_to_vec();
        let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = threads.block_on(async { UnixListener::bind(directory.path().join("socket")).unwrap() });
        threads.spawn(serve(listener, Arc::new(disks)));
        Self { directory, _threads: threads }
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }
}

async fn serve(listener: UnixListener, disks: Arc<Vec<u8>>) {
    while let Ok((socket, _)) = listener.accept().await {
        let disks = Arc::clone(&disks);
        tokio::spawn(async move {
            let mut connection = h2::server::handshake(socket).await.unwrap();
            while let Some(Ok((request, respond))) = connection.accept().await {
                reply(&request, respond, &disks);
            }
        });
    }
}

fn reply(request: &Request<RecvStream>, mut respond: SendResponse<Bytes>, disks: &[u8]) {
    const UNIMPLEMENTED: u16 = 12;
    let (message, status) = match request.uri().path() {
        "/runtime.v1.RuntimeService/Version" => {
            (Version { name: "cri-o".to_owned(), version: "1.30.0".to_owned() }.encode_to_vec(), 0)
        }
        "/runtime.v1.ImageService/ImageFsInfo" => (disks.to_vec(), 0),
        // Nothing of what was asked for is there.
        path if path.starts_with("/runtime.v1.") => (Vec::new(), 0),
        _ => (Vec::new(), UNIMPLEMENTED),
    };
    let head = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
    let mut send = respond.send_response(head, false).unwrap();
    if status == 0 {
        // A flag and four bytes of length stand before the message.
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let _ = send.send_data([&[0][..], &length, &message].concat().into(), false);
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", status.into());
    let _ = send.send_trailers(trailers);
}
