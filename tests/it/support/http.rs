//! HTTP/1.1 as bytes on a wire: just enough to ask, to answer and to pass on. It shares no code
//! with the client under test, so that the two cannot be wrong in the same way.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
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
