//! One request and its response on their way through, with the fault in the right place.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::super::http::{Answer, method_and_target};
use super::super::http::{Headers, read_chunked, read_head, status_of};
use super::{Action, At, Cut, Seen, Shared};

type Client = BufReader<Box<dyn Wire>>;

/// What becomes of the connection.
pub(super) enum After {
    KeepOpen,
    End(Cut),
}

/// The request as it will be passed on.
struct Request {
    number: usize,
    method: String,
    target: String,
    headers: Headers,
}

impl Shared {
    pub(super) fn exchange(&self, client: &mut Client) -> io::Result<After> {
        let Some((start, headers)) = read_head(client)? else { return Ok(After::End(Cut::Fin)) };
        let (method, target) = method_and_target(&start);
        let (number, action) = self.record(&method, &target, &headers);
        if headers.get("expect").is_some() {
            client.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let mut request = Request { number, method, target, headers };
        match &action {
            Action::Answer(answer) => self.answer(client, &request, answer),
            Action::AnswerWith(answer) => {
                let seen = self.seen.lock().unwrap().get(number).cloned();
                seen.map_or(Ok(After::End(Cut::Fin)), |seen| self.answer(client, &request, &answer(&seen)))
            }
            Action::CutRequest(after, cut) => {
                let taken = io::copy(&mut client.take(*after), &mut io::sink())?;
                self.note(number, |seen| seen.up = taken);
                Ok(After::End(*cut))
            }
            Action::Lose | Action::Hang => {
                self.take_body(client, &request, &mut io::sink())?;
                Ok(After::End(if matches!(action, Action::Lose) { Cut::Rst } else { Cut::Stall }))
            }
            _ => {
                if let Action::Request(change) = &action {
                    change(&mut request.target, &mut request.headers);
                }
                self.pass_on(client, &request, &action)
            }
        }
    }

    fn record(&self, method: &str, target: &str, headers: &Headers) -> (usize, Action) {
        let seen = Seen {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: headers.clone(),
            at: Instant::now(),
            status: None,
            answered: None,
            up: 0,
            down: 0,
        };
        let action = self.rules.lock().unwrap().iter().find_map(|rule| rule.action_for(&seen));
        let mut all = self.seen.lock().unwrap();
        all.push(seen);
        (all.len() - 1, action.unwrap_or(Action::Pass))
    }

    fn answer(&self, client: &mut Client, request: &Request, answer: &Answer) -> io::Result<After> {
        self.take_body(client, request, &mut io::sink())?;
        self.note(request.number, |seen| {
            seen.status = Some(answer.status);
            seen.answered = Some(Instant::now());
        });
        answer.write(client.get_mut(), &request.method)?;
        Ok(After::KeepOpen)
    }

    /// Moves the request's body to `to`, where a chunked one has been taken apart already.
    fn take_body(&self, client: &mut Client, request: &Request, to: &mut impl Write) -> io::Result<()> {
        let length = request.headers.length().unwrap_or(0);
        let taken = io::copy(&mut client.take(length), to)?;
        self.note(request.number, |seen| seen.up += taken);
        if taken == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn pass_on(&self, client: &mut Client, request: &Request, action: &Action) -> io::Result<After> {
        let mut registry = TcpStream::connect(&self.upstream)?;
        let mut headers = request.headers.clone();
        headers.remove("expect");
        headers.set("Connection", "close");
        let chunked = if headers.is_chunked() { Some(read_chunked(client)?) } else { None };
        if let Some(body) = &chunked {
            headers.remove("transfer-encoding");
            headers.set("Content-Length", body.len().to_string());
        }
        write!(registry, "{} {} HTTP/1.1\r\n", request.method, request.target)?;
        headers.write(&mut registry)?;
        match chunked {
            Some(body) => {
                self.note(request.number, |seen| seen.up = body.len() as u64);
                registry.write_all(&body)?;
            }
            None => self.take_body(client, request, &mut registry)?,
        }
        self.hand_back(client, request, action, &mut BufReader::new(registry))
    }

    fn hand_back(
        &self,
        client: &mut Client,
        request: &Request,
        action: &Action,
        registry: &mut impl BufRead,
    ) -> io::Result<After> {
        let (mut start, mut headers) = read_head(registry)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let status = status_of(&start)?;
        match action {
            Action::Swallow => {
                io::copy(registry, &mut io::sink())?;
                return Ok(After::End(Cut::Fin));
            }
            Action::Cut(At::Head, cut) => return Ok(After::End(*cut)),
            Action::Response(change) => change(&mut headers),
            Action::Then(run) => run(),
            _ => {}
        }
        self.note(request.number, |seen| {
            seen.status = Some(status);
            seen.answered = Some(Instant::now());
        });
        let bodyless = request.method == "HEAD" || status == 204 || status == 304;
        let mut body: Box<dyn Read + '_> = if headers.is_chunked() && !bodyless {
            let whole = read_chunked(registry)?;
            headers.remove("transfer-encoding");
            headers.set("Content-Length", whole.len().to_string());
            Box::new(io::Cursor::new(whole))
        } else {
            Box::new(registry.take(if bodyless { 0 } else { headers.length().unwrap_or(u64::MAX) }))
        };
        headers.remove("connection");
        reframe(action, &mut start, &mut headers);
        let out = client.get_mut();
        write!(out, "{start}\r\n")?;
        headers.write(out)?;
        let mut sent = 0;
        let ended = send(out, &mut body, action, &mut sent);
        self.note(request.number, |seen| seen.down = sent);
        ended
    }
}

/// The head that belongs to a body of another length than the registry's.
fn reframe(action: &Action, start: &mut String, headers: &mut Headers) {
    match action {
        Action::Extra(more) => {
            let length = headers.length().unwrap_or(0) + more;
            headers.set("Content-Length", length.to_string());
        }
        Action::CloseDelimited(_) => {
            *start = start.replace("HTTP/1.1", "HTTP/1.0");
            headers.remove("content-length");
        }
        Action::Endless => {
            headers.remove("content-length");
            headers.set("Connection", "close");
        }
        _ => {}
    }
}

/// Sends the body with its fault, and says how the connection goes on.
fn send(out: &mut dyn Write, body: &mut dyn Read, action: &Action, sent: &mut u64) -> io::Result<After> {
    match action {
        Action::Cut(At::Body(at), cut) => {
            copy(out, &mut body.take(*at), sent)?;
            Ok(After::End(*cut))
        }
        Action::CloseDelimited(at) => {
            copy(out, &mut body.take(*at), sent)?;
            Ok(After::End(Cut::Fin))
        }
        Action::Corrupt(at) => {
            copy(out, &mut body.take(*at), sent)?;
            let mut byte = [0];
            body.read_exact(&mut byte)?;
            copy(out, &mut &[!byte[0]][..], sent)?;
            copy(out, body, sent)?;
            Ok(After::KeepOpen)
        }
        Action::Extra(more) => {
            copy(out, body, sent)?;
            copy(out, &mut io::repeat(b'x').take(*more), sent)?;
            Ok(After::KeepOpen)
        }
        Action::Endless => {
            copy(out, body, sent)?;
            copy(out, &mut io::repeat(b'x'), sent)?;
            Ok(After::End(Cut::Fin))
        }
        Action::Rate(rate) => {
            drip(out, body, *rate, sent)?;
            Ok(After::KeepOpen)
        }
        _ => {
            copy(out, body, sent)?;
            Ok(After::KeepOpen)
        }
    }
}

fn copy(out: &mut dyn Write, from: &mut dyn Read, sent: &mut u64) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let size = from.read(&mut buffer)?;
        if size == 0 {
            return out.flush();
        }
        out.write_all(&buffer[..size])?;
        *sent += size as u64;
    }
}

/// Twenty portions each second.
fn drip(out: &mut dyn Write, from: &mut dyn Read, rate: u64, sent: &mut u64) -> io::Result<()> {
    loop {
        let before = *sent;
        copy(out, &mut from.take((rate / 20).max(1)), sent)?;
        if *sent == before {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

// The connection to the client, and the ways in which it can end.

/// Plain TCP or TLS: a conversation is read and written in turns, so one type does for both.
pub trait Wire: Read + Write + Send {}
impl<T: Read + Write + Send> Wire for T {}

pub fn wire(stream: TcpStream, tls: Option<&Arc<rustls::ServerConfig>>) -> io::Result<Box<dyn Wire>> {
    Ok(match tls {
        None => Box::new(stream),
        Some(config) => {
            let session = rustls::ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
            Box::new(rustls::StreamOwned::new(session, stream))
        }
    })
}

/// Makes the coming close a reset. What was sent has arrived before: a reset throws away
/// whatever still waits in the send buffer, and "reset at byte N" should mean N.
pub fn reset(stream: &TcpStream) {
    wait_until_sent(stream);
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let size = libc::socklen_t::try_from(size_of::<libc::linger>()).unwrap();
    // SAFETY: the descriptor is open while `stream` lives, and the pointer is to a live
    // `linger` of the size given. A failure only turns the reset into an orderly close.
    unsafe {
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast(), size);
    }
}

fn wait_until_sent(stream: &TcpStream) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while unsent(stream) > 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Bytes that the peer has not acknowledged.
fn unsent(stream: &TcpStream) -> libc::c_int {
    let mut count: libc::c_int = 0;
    // SAFETY: SIOCOUTQ (the same number as TIOCOUTQ) writes one int to a live pointer.
    unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    count
}

/// Says nothing until the client gives up or the proxy stops.
pub fn stall(stream: &TcpStream, stopped: &AtomicBool) {
    let _ = stream.set_nonblocking(true);
    let mut byte = [0];
    while !stopped.load(Ordering::Relaxed) {
        match stream.peek(&mut byte) {
            Ok(0) => return,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}
