//! HTTP/1.1 as bytes on a wire: just enough to ask, to answer and to pass on. It shares no code
//! with the client under test, so that the two cannot be wrong in the same way.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Headers in the order they came; names compare without case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(String, String)>);

impl Headers {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(key, _)| !key.eq_ignore_ascii_case(name));
    }

    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.remove(name);
        self.0.push((name.to_owned(), value.into()));
    }

    pub fn length(&self) -> Option<u64> {
        self.get("content-length").and_then(|text| text.trim().parse().ok())
    }

    pub fn is_chunked(&self) -> bool {
        self.get("transfer-encoding").is_some_and(|text| text.to_ascii_lowercase().contains("chunked"))
    }

    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        for (name, value) in &self.0 {
            write!(to, "{name}: {value}\r\n")?;
        }
        to.write_all(b"\r\n")
    }
}

/// Start line and headers, or `None` where the peer closed between two messages.
pub fn read_head(from: &mut impl BufRead) -> io::Result<Option<(String, Headers)>> {
    let Some(start) = read_line(from)? else { return Ok(None) };
    let mut headers = Headers::default();
    loop {
        let line = read_line(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if line.is_empty() {
            return Ok(Some((start, headers)));
        }
        let (name, value) = line.split_once(':').ok_or(io::ErrorKind::InvalidData)?;
        headers.0.push((name.trim().to_owned(), value.trim().to_owned()));
    }
}

fn read_line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if from.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    while line.last().is_some_and(|b| matches!(b, b'\r' | b'\n')) {
        line.pop();
    }
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}

/// The whole of a chunked body.
pub fn read_chunked(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(|_| io::ErrorKind::InvalidData)?;
        if size == 0 {
            while read_line(from)?.is_some_and(|trailer| !trailer.is_empty()) {}
            return Ok(body);
        }
        if from.take(size).read_to_end(&mut body)? as u64 != size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        read_line(from)?;
    }
}

/// An answer as it came over the wire.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Headers,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("not JSON ({error}): {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Asks `http://HOST/TARGET` on a connection of its own. What the peer cut short is an error.
pub fn ask(method: &str, host: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Reply> {
    let stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut out = Vec::new();
    write!(out, "{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n")?;
    write!(out, "Content-Length: {}\r\n", body.len())?;
    for (name, value) in headers {
        write!(out, "{name}: {value}\r\n")?;
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    (&stream).write_all(&out)?;
    read_reply(&mut BufReader::new(stream), method)
}

pub fn get(host: &str, target: &str, headers: &[(&str, &str)]) -> Reply {
    ask("GET", host, target, headers, b"").unwrap_or_else(|error| panic!("GET http://{host}{target}: {error}"))
}

/// The reply to a `method` request.
pub fn read_reply(from: &mut impl BufRead, method: &str) -> io::Result<Reply> {
    let (start, headers) = read_head(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = status_of(&start)?;
    let mut body = Vec::new();
    if method == "HEAD" || status == 204 || status == 304 {
        return Ok(Reply { status, headers, body });
    }
    if headers.is_chunked() {
        body = read_chunked(from)?;
    } else if let Some(length) = headers.length() {
        if from.take(length).read_to_end(&mut body)? as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    } else {
        from.read_to_end(&mut body)?;
    }
    Ok(Reply { status, headers, body })
}

pub fn status_of(start: &str) -> io::Result<u16> {
    start.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The value of `name` in the query of `target`, percent signs decoded.
pub fn query(target: &str, name: &str) -> Vec<String> {
    let pairs = target.split_once('?').map_or("", |(_, query)| query).split('&');
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .filter(|(key, _)| *key == name)
        .map(|(_, value)| decode(value))
        .collect()
}

/// `text` with `%XX` and `+` decoded, as in a form.
pub fn decode(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let pair: String = rest.by_ref().take(2).map(char::from).collect();
                out.push(u8::from_str_radix(&pair, 16).unwrap_or(b'?'));
            }
            other => out.push(other),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[test]
fn a_chunked_body_and_a_query_are_read_back() {
    let mut wire = BufReader::new(
        &b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"[..],
    );
    let reply = read_reply(&mut wire, "GET").unwrap();
    assert_eq!((reply.status, reply.text().as_str()), (200, "abcde"));
    assert_eq!(query("/token?scope=a%3Ab&scope=c+d&x", "scope"), ["a:b", "c d"]);
}

// An HTTP server inside the test: a listener, a thread per connection, a closure that answers.

/// A request as the server saw it.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    /// Path and query as written.
    pub target: String,
    pub headers: Headers,
    pub body: Vec<u8>,
}

#[derive(Debug, Clone)]
pub enum Body {
    Bytes(Vec<u8>),
    /// So many spaces: larger than anybody wants to hold.
    Fill(u64),
}

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Headers,
    pub body: Body,
}

impl Answer {
    pub fn new(status: u16) -> Self {
        Self { status, headers: Headers::default(), body: Body::Bytes(Vec::new()) }
    }

    pub fn json(status: u16, value: &serde_json::Value) -> Self {
        Self::new(status).header("Content-Type", "application/json").body(value.to_string())
    }

    /// The error form of the distribution spec.
    pub fn error(status: u16, code: &str, message: &str) -> Self {
        Self::json(status, &serde_json::json!({"errors": [{"code": code, "message": message}]}))
    }

    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.0.push((name.to_owned(), value.into()));
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Body::Bytes(body.into());
        self
    }

    /// Writes head and body; a `HEAD` request gets the length without the body.
    pub fn write(&self, to: &mut impl Write, method: &str) -> io::Result<()> {
        write!(to, "HTTP/1.1 {} Scripted\r\n", self.status)?;
        let mut headers = self.headers.clone();
        let length = match &self.body {
            Body::Bytes(bytes) => bytes.len() as u64,
            Body::Fill(size) => *size,
        };
        headers.set("Content-Length", length.to_string());
        headers.write(to)?;
        match &self.body {
            _ if method == "HEAD" => {}
            Body::Bytes(bytes) => to.write_all(bytes)?,
            Body::Fill(size) => {
                io::copy(&mut io::repeat(b' ').take(*size), to)?;
            }
        }
        to.flush()
    }
}

/// A listener that stops with its owner.
pub struct Listener {
    address: std::net::SocketAddr,
    stopped: Arc<AtomicBool>,
}

impl Listener {
    /// Hands every connection to `serve` on a thread of its own; `stopped` tells it when to leave.
    pub fn start(serve: impl Fn(TcpStream, &AtomicBool) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stopped = Arc::new(AtomicBool::new(false));
        let (stop, serve) = (Arc::clone(&stopped), Arc::new(serve));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let (stop, serve) = (Arc::clone(&stop), Arc::clone(&serve));
                std::thread::spawn(move || serve(stream, &stop));
            }
        });
        Self { address, stopped }
    }

    /// `127.0.0.1:PORT`
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

/// An HTTP server that answers with a closure.
pub fn serve(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Listener {
    Listener::start(move |stream, _| {
        let _ = converse(stream, &answer);
    })
}

fn converse(stream: TcpStream, answer: &impl Fn(&Request) -> Answer) -> io::Result<()> {
    let mut client = BufReader::new(stream);
    while let Some((start, headers)) = read_head(&mut client)? {
        let mut body = Vec::new();
        if headers.is_chunked() {
            body = read_chunked(&mut client)?;
        } else {
            (&mut client).take(headers.length().unwrap_or(0)).read_to_end(&mut body)?;
        }
        let (method, target) = method_and_target(&start);
        let request = Request { method, target, headers, body };
        answer(&request).write(client.get_mut(), &request.method)?;
        if request.headers.get("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
            break;
        }
    }
    Ok(())
}

pub fn method_and_target(start: &str) -> (String, String) {
    let mut words = start.split(' ').map(str::to_owned);
    (words.next().unwrap_or_default(), words.next().unwrap_or_default())
}

/// A port on which nobody listens.
pub fn dead_host() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn a_server_answers_and_stops_with_its_owner() {
    let server = serve(|request| Answer::new(200).body(format!("{} {}", request.method, request.target)));
    let host = server.host();
    assert_eq!(super::http::get(&host, "/a?b", &[]).text(), "GET /a?b");
    drop(server);
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(super::http::ask("GET", &host, "/", &[], b"").is_err());
}
