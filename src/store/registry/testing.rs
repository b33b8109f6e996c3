//! A registry's double for tests: answers by script, misbehaves on demand, remembers everything.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::{Registry, RegistryOptions, Timeouts};
use crate::store::{Notice, Notices, Traffic};
use oci::Reference;

/// A request as it arrived.
#[derive(Debug, Clone, Default)]
pub(super) struct SeenRequest {
    pub(super) method: String,
    /// Path and query.
    pub(super) target: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl SeenRequest {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(super) fn line(&self) -> String {
        format!("{} {}", self.method, self.target)
    }
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Clean,
    /// The connection closes after so many bytes of the body.
    CutAt(usize),
    /// Nothing more comes after so many bytes, but the connection stays.
    StallAt(usize),
    /// No answer at all.
    NoAnswer,
    /// The body's length is told by the closing of the connection.
    ByClose,
    /// The body is repeated forever.
    Endless,
}

#[derive(Debug, Clone)]
pub(super) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    end: End,
    taken: usize,
}

impl Reply {
    pub(super) fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new(), end: End::Clean, taken: usize::MAX }
    }

    #[allow(clippy::needless_pass_by_value)]
    pub(super) fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    pub(super) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub(super) fn end(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    /// Takes only so many bytes of the request's body.
    pub(super) fn taking(mut self, bytes: usize) -> Self {
        self.taken = bytes;
        self
    }
}

/// Gets the request's head and how often the same method and path came before.
type Script = dyn Fn(&SeenRequest, usize) -> Reply + Send + Sync;

pub(super) struct FakeRegistry {
    /// `127.0.0.1:PORT`.
    pub(super) host: String,
    log: Arc<Mutex<Vec<SeenRequest>>>,
}

impl FakeRegistry {
    pub(super) fn start(script: impl Fn(&SeenRequest, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::listen(script, None)
    }

    /// The same, behind TLS.
    pub(super) fn start_tls(
        config: Arc<rustls::ServerConfig>,
        script: impl Fn(&SeenRequest, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::listen(script, Some(config))
    }

    fn listen(
        script: impl Fn(&SeenRequest, usize) -> Reply + Send + Sync + 'static,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (script, kept): (Arc<Script>, _) = (Arc::new(script), Arc::clone(&log));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (script, log, tls) = (Arc::clone(&script), Arc::clone(&kept), tls.clone());
                thread::spawn(move || match tls {
                    None => {
                        let stream = stream.unwrap();
                        serve(stream.try_clone().unwrap(), &stream, &*script, &log);
                    }
                    Some(config) => {
                        let (tcp, connection) = (stream.unwrap(), rustls::ServerConnection::new(config).unwrap());
                        let closer = tcp.try_clone().unwrap();
                        serve(rustls::StreamOwned::new(connection, tcp), &closer, &*script, &log);
                    }
                });
            }
        });
        Self { host, log }
    }

    pub(super) fn seen(&self) -> Vec<SeenRequest> {
        self.log.lock().unwrap().clone()
    }

    /// Method and target of every request.
    pub(super) fn lines(&self) -> Vec<String> {
        self.seen().iter().map(SeenRequest::line).collect()
    }

    pub(super) fn count(&self, start: &str) -> usize {
        self.lines().iter().filter(|line| line.starts_with(start)).count()
    }

    /// An image of this registry.
    pub(super) fn image(&self, rest: &str) -> Reference {
        format!("{}/{rest}", self.host).parse().unwrap()
    }
}

fn serve(stream: impl Read + Write, closer: &TcpStream, script: &Script, log: &Mutex<Vec<SeenRequest>>) {
    let mut stream = BufReader::new(stream);
    while let Some(mut seen) = head(&mut stream) {
        let key = |seen: &SeenRequest| format!("{} {}", seen.method, seen.target.split('?').next().unwrap());
        let before = log.lock().unwrap().iter().filter(|other| key(other) == key(&seen)).count();
        let reply = script(&seen, before);
        let length: usize = seen.header("content-length").map_or(0, |text| text.parse().unwrap());
        seen.body = vec![0; length.min(reply.taken)];
        let whole = stream.read_exact(&mut seen.body).is_ok();
        let is_head = seen.method == "HEAD";
        log.lock().unwrap().push(seen);
        if !whole || reply.taken < length || !answer(stream.get_mut(), &reply, is_head) {
            break;
        }
    }
    let _ = closer.shutdown(Shutdown::Both);
}

fn head(stream: &mut impl BufRead) -> Option<SeenRequest> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|got| *got > 0)?;
        match line.trim_end() {
            "" => break,
            text => lines.push(text.to_owned()),
        }
    }
    let mut first = lines.first()?.split(' ').map(str::to_owned);
    let headers = lines.iter().skip(1).filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Some(SeenRequest { method: first.next()?, target: first.next()?, headers, body: Vec::new() })
}

/// Sends a reply; `false` when the connection is to be closed.
fn answer(stream: &mut impl Write, reply: &Reply, is_head: bool) -> bool {
    if reply.end == End::NoAnswer {
        return false;
    }
    let headers: Vec<String> = reply.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = match reply.end {
        End::Endless | End::ByClose => "Connection: close\r\n".to_owned(),
        _ if is_head => String::new(),
        _ => format!("Content-Length: {}\r\n", reply.body.len()),
    };
    let mut bytes = format!("HTTP/1.1 {} X\r\n{}{length}\r\n", reply.status, headers.concat()).into_bytes();
    if is_head {
        return stream.write_all(&bytes).and_then(|()| stream.flush()).is_ok();
    }
    let until = match reply.end {
        End::CutAt(at) | End::StallAt(at) => at,
        _ => reply.body.len(),
    };
    bytes.extend_from_slice(&reply.body[..until]);
    let mut sent = stream.write_all(&bytes).and_then(|()| stream.flush()).is_ok();
    while sent && reply.end == End::Endless {
        sent = stream.write_all(&reply.body).is_ok();
    }
    if let End::StallAt(_) = reply.end {
        thread::sleep(Duration::from_secs(5));
    }
    sent && reply.end == End::Clean
}

/// A client in a hurry, with what it counted and said.
pub(super) struct Rig {
    pub(super) registry: Registry,
    pub(super) traffic: Traffic,
    pub(super) said: Arc<Mutex<Vec<Notice>>>,
}

impl Rig {
    pub(super) fn new() -> Self {
        Self::with(RegistryOptions::default())
    }

    pub(super) fn with(options: RegistryOptions) -> Self {
        // Short where a test waits for it, long where a busy machine might.
        let seconds = Duration::from_secs;
        let timeouts =
            Timeouts { connect: seconds(10), header: seconds(10), idle: seconds(1), ..Timeouts::scaled(200) };
        Self::paced(options, timeouts)
    }

    pub(super) fn paced(options: RegistryOptions, timeouts: Timeouts) -> Self {
        let options = RegistryOptions { timeouts, ..options };
        let (traffic, said) = (Traffic::default(), Arc::new(Mutex::new(Vec::new())));
        let kept = Arc::clone(&said);
        let notices = Notices::new(move |notice| kept.lock().unwrap().push(notice));
        let registry = Registry::new(options, traffic.clone(), notices).unwrap();
        Self { registry, traffic, said }
    }
}
