//! An HTTP server inside the test: a listener, a thread per connection, a closure that answers.

use std::io::{self, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::http::{Headers, read_chunked, read_head};

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
