//! A proxy in front of a registry that does harm by script and remembers every request.

mod exchange;
mod rule;
#[cfg(test)]
mod tests;

use std::io::BufReader;
use std::net::TcpStream;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub use rule::{Action, At, Cut, Rule, contains, on};

use super::http::{Headers, Listener};
use exchange::After;

/// A request that came to the proxy, and what it cost.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    /// Path and query as written.
    pub target: String,
    pub headers: Headers,
    pub at: Instant,
    /// The status that was sent back, where one was, and when.
    pub status: Option<u16>,
    pub answered: Option<Instant>,
    /// Bytes of body taken from and given to the client.
    pub up: u64,
    pub down: u64,
}

/// How many requests had to wait for one another: the longest row of them in which each was sent after the one before
/// it was answered. Only of use where answers take longer than it takes to send requests that go out together.
pub fn sequential_steps(requests: &[Seen]) -> usize {
    let mut steps: Vec<usize> = Vec::new();
    for (number, request) in requests.iter().enumerate() {
        let before = requests[..number].iter().zip(&steps);
        let before = before.filter(|(earlier, _)| earlier.answered.is_some_and(|answered| answered <= request.at));
        steps.push(1 + before.map(|(_, steps)| *steps).max().unwrap_or(0));
    }
    steps.into_iter().max().unwrap_or(0)
}

impl Seen {
    pub fn has(&self, header: &str) -> bool {
        self.headers.get(header).is_some()
    }
}

pub struct Proxy {
    listener: Listener,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: String,
    tls: Option<Arc<rustls::ServerConfig>>,
    rules: Mutex<Vec<Rule>>,
    seen: Mutex<Vec<Seen>>,
}

impl Proxy {
    pub fn before(upstream: &str) -> Self {
        Self::start(upstream, None)
    }

    /// Speaks TLS to the client and plain HTTP to the registry.
    pub fn with_tls(upstream: &str, tls: Arc<rustls::ServerConfig>) -> Self {
        Self::start(upstream, Some(tls))
    }

    fn start(upstream: &str, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let upstream = upstream.to_owned();
        let shared = Arc::new(Shared { upstream, tls, rules: Mutex::default(), seen: Mutex::default() });
        let serving = Arc::clone(&shared);
        let listener = Listener::start(move |stream, stopped| {
            let _ = serving.converse(&stream, stopped);
        });
        Self { listener, shared }
    }

    /// `127.0.0.1:PORT`, as written in references.
    pub fn host(&self) -> String {
        self.listener.host()
    }

    pub fn port(&self) -> u16 {
        self.listener.port()
    }

    /// Replaces the script and forgets the requests so far.
    pub fn script(&self, rules: impl IntoIterator<Item = Rule>) {
        *self.shared.rules.lock().unwrap() = rules.into_iter().collect();
        self.shared.seen.lock().unwrap().clear();
    }

    /// No faults from here on; forgets the requests so far.
    pub fn calm(&self) {
        self.script([]);
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// The requests with this method (`*`: any) whose path and query contain the pattern.
    pub fn matching(&self, method: &str, pattern: &str) -> Vec<Seen> {
        let fits = |seen: &Seen| (method == "*" || seen.method == method) && contains(&seen.target, pattern);
        self.seen().into_iter().filter(fits).collect()
    }

    pub fn count(&self, method: &str, pattern: &str) -> usize {
        self.matching(method, pattern).len()
    }

    /// Waits until a request like this was seen; false when it does not come.
    pub fn wait_for(&self, method: &str, pattern: &str, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            if self.count(method, pattern) > 0 {
                return true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }
}

impl Shared {
    fn converse(&self, stream: &TcpStream, stopped: &AtomicBool) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut client = BufReader::new(exchange::wire(stream.try_clone()?, self.tls.as_ref())?);
        loop {
            match self.exchange(&mut client)? {
                After::KeepOpen => {}
                After::End(Cut::Fin) => return Ok(()),
                After::End(Cut::Rst) => {
                    exchange::reset(stream);
                    return Ok(());
                }
                After::End(Cut::Stall) => {
                    exchange::stall(stream, stopped);
                    return Ok(());
                }
            }
        }
    }

    fn note(&self, number: usize, change: impl FnOnce(&mut Seen)) {
        // A script that was replaced meanwhile has forgotten the request.
        if let Some(seen) = self.seen.lock().unwrap().get_mut(number) {
            change(seen);
        }
    }
}
