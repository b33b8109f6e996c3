//! Connections passed on byte for byte: for TLS, which the fault proxy cannot look into.

use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::http::{Listener, method_and_target, read_head};

/// What happens to the first TLS connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    Passed,
    /// Answered with a `close_notify` alert.
    CloseNotify,
    /// Never answered.
    Silence,
}

/// A tunnel to one host, and how many connections came.
pub struct Tunnel {
    listener: Listener,
    connections: Arc<AtomicUsize>,
}

impl Tunnel {
    /// Every connection but perhaps the first goes to `upstream`.
    pub fn to(upstream: &str, first: First) -> Self {
        let connections = Arc::new(AtomicUsize::new(0));
        let (count, upstream) = (Arc::clone(&connections), upstream.to_owned());
        let listener = Listener::start(move |mut client, stopped| {
            if count.fetch_add(1, Ordering::Relaxed) > 0 || first == First::Passed {
                pass(client, &upstream);
                return;
            }
            let _ = client.read(&mut [0; 4096]);
            if first == First::CloseNotify {
                let _ = client.write_all(&[21, 3, 3, 0, 2, 1, 0]);
                return;
            }
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Self { listener, connections }
    }

    /// An HTTP proxy that takes `CONNECT` to whatever host to `upstream`: the way to a registry
    /// with a name that is not this machine's.
    pub fn connect(upstream: &str) -> Self {
        let connections = Arc::new(AtomicUsize::new(0));
        let (count, upstream) = (Arc::clone(&connections), upstream.to_owned());
        let listener = Listener::start(move |client, _| {
            count.fetch_add(1, Ordering::Relaxed);
            let mut reader = BufReader::new(client);
            let Ok(Some((start, _))) = read_head(&mut reader) else { return };
            let mut client = reader.into_inner();
            if method_and_target(&start).0 != "CONNECT" {
                let _ = client.write_all(b"HTTP/1.1 405 Only CONNECT\r\nContent-Length: 0\r\n\r\n");
                return;
            }
            let _ = client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n");
            pass(client, &upstream);
        });
        Self { listener, connections }
    }

    pub fn host(&self) -> String {
        self.listener.host()
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

fn pass(client: TcpStream, upstream: &str) {
    let Ok(upstream) = TcpStream::connect(upstream) else { return };
    let (Ok(mut from), Ok(mut to)) = (client.try_clone(), upstream.try_clone()) else { return };
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let (mut from, mut to) = (upstream, client);
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

#[test]
fn a_tunnel_passes_everything_but_the_first_where_told() {
    use super::http::{Answer, serve};
    use super::http::{ask, get};
    let server = serve(|_| Answer::new(200).body("here"));
    let open = Tunnel::to(&server.host(), First::Passed);
    assert_eq!((get(&open.host(), "/", &[]).text().as_str(), open.connections()), ("here", 1));
    let shut = Tunnel::to(&server.host(), First::CloseNotify);
    assert!(ask("GET", &shut.host(), "/", &[], b"").is_err());
    assert_eq!(get(&shut.host(), "/", &[]).text(), "here");
    let proxy = Tunnel::connect(&server.host());
    let mut stream = TcpStream::connect(proxy.host()).unwrap();
    write!(stream, "CONNECT registry.test:443 HTTP/1.1\r\nHost: registry.test:443\r\n\r\n").unwrap();
    let mut connected = [0; b"HTTP/1.1 200 Connected\r\n\r\n".len()];
    stream.read_exact(&mut connected).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    assert!(connected.starts_with(b"HTTP/1.1 200 Connected") && all.ends_with("here"), "{all}");
}
