//! Each fault, seen by a plain client.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::super::http::{Answer, Listener, serve};
use super::super::http::{Reply, ask, get};
use super::*;

const SIZE: usize = 200_000;

fn content() -> Vec<u8> {
    (0..SIZE).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

/// Serves the content with ranges, takes anything that is PUT, and counts.
fn upstream() -> (Listener, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let server = serve(move |request| {
        count.fetch_add(1, Ordering::Relaxed);
        let from = request.headers.get("range").and_then(|range| range["bytes=".len()..].strip_suffix('-'));
        match (request.method.as_str(), from) {
            ("PUT", _) => Answer::new(201).header("Location", format!("/stored/{}", request.body.len())),
            (_, Some(from)) => Answer::new(206).body(&content()[from.parse::<usize>().unwrap()..]),
            _ => Answer::new(200).header("X-Kind", "whole").body(content()),
        }
    });
    (server, calls)
}

/// What a client with one connection gets: all bytes until the end, and how it ended.
fn raw(proxy: &Proxy, request: &str) -> (Vec<u8>, Option<ErrorKind>) {
    let mut stream = TcpStream::connect(proxy.host()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    write!(stream, "{request}\r\nHost: x\r\n\r\n").unwrap();
    let (mut all, mut buffer) = (Vec::new(), [0; 8192]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return (all, None),
            Ok(size) => all.extend_from_slice(&buffer[..size]),
            Err(error) => return (all, Some(error.kind())),
        }
    }
}

fn body_of(bytes: &[u8]) -> &[u8] {
    let at = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    &bytes[at + 4..]
}

fn faulty(action: Action) -> (Proxy, Listener) {
    let (upstream, _) = upstream();
    let proxy = Proxy::before(&upstream.host());
    proxy.script([on("*", "/blob").does(action)]);
    (proxy, upstream)
}

#[test]
fn passes_everything_on_and_remembers_it() {
    let (upstream, _) = upstream();
    let proxy = Proxy::before(&upstream.host());
    assert_eq!(get(&proxy.host(), "/blob?x=1", &[("X-Mine", "yes")]).body, content());
    assert_eq!(ask("HEAD", &proxy.host(), "/blob", &[], b"").unwrap().headers.length(), Some(SIZE as u64));
    assert_eq!(ask("PUT", &proxy.host(), "/in", &[], b"12345").unwrap().headers.get("location"), Some("/stored/5"));
    let seen = proxy.seen();
    assert_eq!(seen.iter().map(|seen| seen.method.as_str()).collect::<Vec<_>>(), ["GET", "HEAD", "PUT"]);
    assert_eq!((seen[0].headers.get("x-mine"), seen[0].down, seen[0].status), (Some("yes"), SIZE as u64, Some(200)));
    assert_eq!((seen[1].down, seen[2].up), (0, 5));
    assert_eq!((proxy.count("GET", "/blob*x="), proxy.count("*", ""), proxy.count("PUT", "/blob")), (1, 3, 0));
}

#[test]
fn cuts_the_response_where_and_how_it_is_told() {
    for (at, cut, end) in [
        (0, Cut::Rst, Some(ErrorKind::ConnectionReset)),
        (1, Cut::Rst, Some(ErrorKind::ConnectionReset)),
        (150_001, Cut::Rst, Some(ErrorKind::ConnectionReset)),
        (SIZE as u64 - 1, Cut::Fin, None),
        (4096, Cut::Stall, Some(ErrorKind::WouldBlock)),
    ] {
        let (proxy, _upstream) = faulty(Action::Cut(At::Body(at), cut));
        let (bytes, ended) = raw(&proxy, "GET /blob HTTP/1.1");
        assert_eq!((body_of(&bytes).len() as u64, ended), (at, end), "{cut:?} at {at}");
        assert_eq!(get(&proxy.host(), "/blob", &[]).body, content(), "the fault comes once");
    }
    let (proxy, _upstream) = faulty(Action::Cut(At::Head, Cut::Fin));
    assert_eq!(raw(&proxy, "GET /blob HTTP/1.1"), (Vec::new(), None));
}

#[test]
fn cuts_the_request_without_telling_the_registry() {
    for action in [Action::CutRequest(3, Cut::Rst), Action::CutRequest(0, Cut::Rst), Action::Lose] {
        let (upstream, served) = upstream();
        let proxy = Proxy::before(&upstream.host());
        proxy.script([on("PUT", "/blob").does(action)]);
        assert!(ask("PUT", &proxy.host(), "/blob", &[], b"12345").is_err());
        assert_eq!(served.load(Ordering::Relaxed), 0);
        assert_eq!(ask("PUT", &proxy.host(), "/blob", &[], b"12345").unwrap().status, 201);
    }
}

#[test]
fn swallows_the_response_after_the_registry_did_the_work() {
    let (upstream, served) = upstream();
    let proxy = Proxy::before(&upstream.host());
    proxy.script([on("PUT", "/blob").does(Action::Swallow)]);
    assert!(ask("PUT", &proxy.host(), "/blob", &[], b"12345").is_err());
    assert_eq!((served.load(Ordering::Relaxed), proxy.seen()[0].up), (1, 5));
}

#[test]
fn changes_bytes_and_lengths() {
    let (proxy, _up) = faulty(Action::Corrupt(7));
    let got = get(&proxy.host(), "/blob", &[]).body;
    let wrong: Vec<usize> =
        got.iter().zip(content()).enumerate().filter(|(_, (a, b))| *a != b).map(|(at, _)| at).collect();
    assert_eq!((got.len(), wrong), (SIZE, vec![7]));

    let (proxy, _up) = faulty(Action::Extra(1));
    assert_eq!(get(&proxy.host(), "/blob", &[]).body.len(), SIZE + 1);

    let (proxy, _up) = faulty(Action::CloseDelimited(1000));
    let (bytes, ended) = raw(&proxy, "GET /blob HTTP/1.1");
    assert!(bytes.starts_with(b"HTTP/1.0 200"), "the body has no length of its own");
    assert_eq!((body_of(&bytes).len(), ended), (1000, None));

    let (proxy, _up) = faulty(Action::Endless);
    let mut stream = TcpStream::connect(proxy.host()).unwrap();
    stream.write_all(b"GET /blob HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut start = vec![0; 10 * SIZE];
    stream.read_exact(&mut start).unwrap();
    assert!(!String::from_utf8_lossy(&start[..400]).to_lowercase().contains("content-length"));
}

#[test]
fn changes_headers_both_ways() {
    let reply = |action: Action| -> Reply {
        let (proxy, _up) = faulty(action);
        get(&proxy.host(), "/blob", &[("Range", "bytes=10-")])
    };
    assert_eq!(reply(Action::Pass).status, 206);
    assert_eq!((reply(Action::ignore_range()).status, reply(Action::ignore_range()).body.len()), (200, SIZE));
    assert_eq!(reply(Action::set_header("Content-Type", "text/html")).headers.get("content-type"), Some("text/html"));
    let (proxy, _up) = faulty(Action::drop_header("X-Kind"));
    assert_eq!(get(&proxy.host(), "/blob", &[]).headers.get("x-kind"), None);
    assert_eq!(get(&proxy.host(), "/blob", &[]).headers.get("x-kind"), Some("whole"));
    let (proxy, _up) = faulty(Action::map_header("X-Kind", |kind| format!("half of the {kind}")));
    assert_eq!(get(&proxy.host(), "/blob", &[]).headers.get("x-kind"), Some("half of the whole"));
}

#[test]
fn answers_by_itself_where_the_script_says_so() {
    let (upstream, served) = upstream();
    let proxy = Proxy::before(&upstream.host());
    proxy.script([
        on("GET", "/blob").times(2).does(Action::status(503)),
        on("GET", "/away").always().does(Action::redirect("http://elsewhere/")),
        on("GET", "/late").nth(2).does(Action::status(500)),
        on("GET", "/ranged").when(|seen| seen.has("range")).always().does(Action::status(416)),
    ]);
    let status = |target: &str| get(&proxy.host(), target, &[]).status;
    assert_eq!([status("/blob"), status("/blob"), status("/blob")], [503, 503, 200]);
    assert_eq!([status("/late"), status("/late"), status("/late")], [200, 500, 200]);
    assert_eq!(get(&proxy.host(), "/away", &[]).headers.get("location"), Some("http://elsewhere/"));
    assert_eq!((status("/ranged"), get(&proxy.host(), "/ranged", &[("Range", "bytes=1-")]).status), (200, 416));
    assert_eq!(served.load(Ordering::Relaxed), 4);
}

#[test]
fn is_as_slow_as_it_is_told() {
    let (upstream, _) = upstream();
    let proxy = Proxy::before(&upstream.host());
    proxy.script([on("GET", "/blob").does(Action::Rate(1_000_000))]);
    let start = Instant::now();
    assert_eq!(get(&proxy.host(), "/blob", &[]).body, content());
    assert!(start.elapsed() > Duration::from_millis(150), "{:?}", start.elapsed());
    proxy.script([on("GET", "/blob").does(Action::Hang)]);
    assert_eq!(raw(&proxy, "GET /blob HTTP/1.1"), (Vec::new(), Some(ErrorKind::WouldBlock)));
}
