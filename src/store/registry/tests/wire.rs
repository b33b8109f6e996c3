//! HTTP that is meant to keep us busy or to confuse us: endless, contradictory, slow. Each ends in an error, in time and
//! within bounded memory.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::*;
use crate::store::registry::{RegistryOptions, Timeouts};
use crate::store::{Sink, Source};
use oci::error::{Error, Kind};

/// Answers whatever comes with `first`, and then with `more` for as long as somebody reads.
fn answering(first: &[u8], more: &[u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let (first, more) = (first.to_vec(), more.to_vec());
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let (first, more) = (first.clone(), more.clone());
            std::thread::spawn(move || talk(socket.unwrap(), &first, &more));
        }
    });
    host
}

fn talk(mut socket: TcpStream, first: &[u8], more: &[u8]) {
    let mut buffer = [0; 4096];
    let _ = socket.read(&mut buffer);
    let chunk = more.repeat((64 << 10) / more.len().max(1) + 1);
    let sent = socket.write_all(first);
    while sent.is_ok() && !more.is_empty() && socket.write_all(&chunk).is_ok() {}
    let _ = socket.read(&mut buffer);
}

fn rig() -> Rig {
    let (short, long) = (Duration::from_millis(150), Duration::from_secs(2));
    let timeouts = Timeouts { connect: short, header: short, idle: short, window: long, ..Timeouts::scaled(2000) };
    Rig::paced(RegistryOptions::default(), timeouts)
}

fn read(first: &[u8], more: &[u8]) -> Result<Document, Error> {
    let host = answering(first, more);
    rig().registry.source(&format!("{host}/a/b:c").parse().unwrap()).top()
}

/// The most memory that this process has had, in MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

#[test]
fn answers_without_end_are_left() {
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let with = |rest: &[u8]| [&chunked[..], rest].concat();
    let cases: Vec<(&str, Vec<u8>, Vec<u8>)> = vec![
        ("headers", b"HTTP/1.1 200 OK\r\n".to_vec(), b"X-A: b\r\n".to_vec()),
        ("one header", b"HTTP/1.1 200 OK\r\nX-A: ".to_vec(), b"a".to_vec()),
        ("the name of a header", b"HTTP/1.1 200 OK\r\n".to_vec(), b"a".to_vec()),
        ("a header that is folded", b"HTTP/1.1 200 OK\r\nX-A: b\r\n".to_vec(), b" c\r\n".to_vec()),
        ("a reason", b"HTTP/1.1 200 ".to_vec(), b"a".to_vec()),
        ("empty lines", Vec::new(), b"\r\n".to_vec()),
        ("100 Continue", Vec::new(), b"HTTP/1.1 100 Continue\r\n\r\n".to_vec()),
        ("102 Processing", Vec::new(), b"HTTP/1.1 102 Processing\r\nX: y\r\n\r\n".to_vec()),
        ("103 Early Hints", Vec::new(), b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n".to_vec()),
        ("a body", b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n".to_vec(), b"{".to_vec()),
        ("a body until the end", b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_vec(), b"[".to_vec()),
        ("the body of a failure", b"HTTP/1.1 400 No\r\nConnection: close\r\n\r\n".to_vec(), b"x".to_vec()),
        ("chunks", with(b""), [&b"3e8\r\n"[..], &[b'x'; 1000], b"\r\n"].concat()),
        ("an extension of a chunk", with(b"5;ext="), b"a".to_vec()),
        ("extensions of every chunk", with(b""), b"1;a=b;c=\"d\"\r\nx\r\n".to_vec()),
        ("the size of a chunk", with(&b"0".repeat(1 << 20)), Vec::new()),
        ("white space after a size", with(&[b"5", &b" ".repeat(1 << 20)[..]].concat()), Vec::new()),
        ("trailers", with(b"0\r\n"), b"X-A: b\r\n".to_vec()),
        ("one trailer", with(b"0\r\nX-A: "), b"a".to_vec()),
    ];
    let began = Instant::now();
    for some in cases.chunks(4) {
        std::thread::scope(|scope| {
            for (name, first, more) in some {
                scope.spawn(move || {
                    let error = read(first, more).unwrap_err();
                    assert!(error.to_string().len() < 4000, "{name}: {error}");
                });
            }
        });
    }
    assert!(began.elapsed() < Duration::from_secs(120), "{:?}", began.elapsed());
    assert!(peak() < 400, "{} MiB", peak());
}

#[test]
fn answers_that_stop_are_left() {
    for (name, first) in [
        ("before the first byte", &b""[..]),
        ("in the status", b"HTTP/1.1 2"),
        ("in a header", b"HTTP/1.1 200 OK\r\nX-A: b"),
        ("before the body", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
        ("in the body", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{"),
        ("in the size of a chunk", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5"),
        ("after 100 Continue", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ] {
        let error = read(first, b"").unwrap_err();
        assert_eq!(error.kind(), Kind::Network, "{name}: {error}");
    }
}

#[test]
fn answers_that_contradict_themselves_are_not_believed() {
    let body = String::from_utf8(manifest()).unwrap();
    let length = body.len();
    for head in [
        "HTTP/1.1 200 OK\r\nContent-Length: -1".to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616".to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Length: 0x10".to_owned(),
        format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nContent-Length: {}", length - 1),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX".to_owned(),
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade".to_owned(),
        "HTTP/2 200".to_owned(),
        "HTTP/0.9 200 OK".to_owned(),
        "HTTP/1.1 99 OK".to_owned(),
        "HTTP/1.1 1000 OK".to_owned(),
        "ICY 200 OK".to_owned(),
        format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}", length - 1),
    ] {
        let answer = format!("{head}\r\n\r\n{body}");
        assert!(read(answer.as_bytes(), b"").is_err(), "{head}");
    }
    for sizes in ["FFFFFFFFFFFFFFFFF", "-1", "0x5", "", "g"] {
        let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{sizes}\r\n{body}\r\n0\r\n\r\n");
        assert!(read(answer.as_bytes(), b"").is_err(), "{sizes:?}");
    }
    // The frames with which HTTP/2 begins.
    assert!(read(&[0, 0, 0, 4, 0, 0, 0, 0, 0], &[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]).is_err());
    let twin = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
    assert!(read(twin.as_bytes(), b"").is_ok());
}

/// An answer in the middle of an upload, or one that never comes, is an error, too.
#[test]
fn uploads_are_left_alike() {
    let parts = crate::store::ImageParts {
        top: document().descriptor(),
        children: vec![document().descriptor()],
        blobs: vec![blob_of(b"x")],
    };
    for (first, more) in [(&b"HTTP/1.1 200 OK\r\n"[..], &b"X-A: b\r\n"[..]), (b"", b"HTTP/1.1 100 Continue\r\n\r\n")] {
        let host = answering(first, more);
        let rig = rig();
        let sink = rig.registry.sink(&format!("{host}/a/b:c").parse().unwrap());
        assert!(sink.put_document(&document()).is_err() && sink.current().is_err());
        assert!(sink.missing_parts(&parts, 2).is_err());
    }
}
