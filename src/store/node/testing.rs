//! A runtime for tests that does what no real one does on demand: fails, hangs, changes its mind. It
//! answers unary gRPC calls on a Unix socket, by path.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, Request, Response};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::runtime::Runtime as Threads;

use super::grpc::Method;
use super::runtime::Endpoint;

#[derive(Debug, Clone)]
pub enum Answer {
    Message(Vec<u8>),
    /// A gRPC status.
    Status(u16),
    /// Bytes instead of a message with its length.
    Raw(Vec<u8>),
    /// The beginning of an answer that does not go on.
    Stall(Vec<u8>),
    Hang,
}

/// The answers of each method in turn, of which the last is given forever, and the calls that came.
#[derive(Default)]
struct State {
    answers: HashMap<&'static str, Vec<Answer>>,
    calls: Vec<(String, Vec<u8>)>,
}

pub struct FakeRuntime {
    directory: TempDir,
    state: Arc<Mutex<State>>,
    _threads: Threads,
}

impl FakeRuntime {
    /// What is not told otherwise is not implemented.
    pub fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let threads = Threads::new().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let listener = threads.block_on(async { UnixListener::bind(directory.path().join("socket")).unwrap() });
        threads.spawn(serve(listener, Arc::clone(&state)));
        Self { directory, state, _threads: threads }
    }

    pub fn endpoint(&self) -> Endpoint {
        self.directory.path().join("socket").display().to_string().parse().unwrap()
    }

    /// From now on the method is answered like this.
    pub fn answers(&self, method: Method, answers: &[Answer]) {
        self.state.lock().unwrap().answers.insert(method.path, answers.to_vec());
    }

    pub fn says(&self, method: Method, message: &impl prost::Message) {
        self.answers(method, &[Answer::Message(message.encode_to_vec())]);
    }

    /// The messages that came for a method.
    pub fn asked<M: prost::Message + Default>(&self, method: Method) -> Vec<M> {
        let state = self.state.lock().unwrap();
        let calls = state.calls.iter().filter(|(path, _)| path == method.path);
        calls.map(|(_, message)| M::decode(&message[..]).unwrap()).collect()
    }
}

async fn serve(listener: UnixListener, state: Arc<Mutex<State>>) {
    while let Ok((socket, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let mut connection = h2::server::handshake(socket).await.unwrap();
            while let Some(Ok((request, respond))) = connection.accept().await {
                tokio::spawn(reply(request, respond, Arc::clone(&state)));
            }
        });
    }
}

async fn reply(request: Request<RecvStream>, mut respond: SendResponse<Bytes>, state: Arc<Mutex<State>>) {
    let path = request.uri().path().to_owned();
    let mut body = request.into_body();
    let mut bytes = Vec::new();
    while let Some(Ok(chunk)) = body.data().await {
        bytes.extend_from_slice(&chunk);
    }
    let answer = {
        let mut state = state.lock().unwrap();
        // A flag and four bytes of length stand before the message.
        state.calls.push((path.clone(), bytes.split_off(5)));
        match state.answers.get_mut(path.as_str()) {
            None => Answer::Status(12),
            Some(answers) if answers.len() > 1 => answers.remove(0),
            Some(answers) => answers[0].clone(),
        }
    };
    let stalls = matches!(answer, Answer::Stall(_));
    let (bytes, status) = match answer {
        Answer::Hang => return std::future::pending().await,
        Answer::Status(status) => (Vec::new(), status),
        Answer::Raw(bytes) | Answer::Stall(bytes) => (bytes, 0),
        Answer::Message(message) => {
            let length = u32::try_from(message.len()).unwrap().to_be_bytes();
            ([&[0][..], &length, &message].concat(), 0)
        }
    };
    let head = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
    let mut send = respond.send_response(head, false).unwrap();
    if !bytes.is_empty() {
        let _ = send.send_data(bytes.into(), false);
    }
    if stalls {
        return std::future::pending().await;
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", status.into());
    trailers.insert("grpc-message", "as told".parse().unwrap());
    let _ = send.send_trailers(trailers);
}
