//! A registry's host: where its API is, and how it is spoken to. Decided once per run.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use reqwest::{StatusCode, Url};

use super::challenge::Challenge;
use super::holdings::Holdings;
use super::http_client::TlsTrust;
use super::http_error::RequestFault;
use oci::error::{Error, Result};
use oci::{HostPattern, RegistryHost};

/// Where Docker Hub has its API.
const HUB_API: &str = "registry-1.docker.io";

/// How a registry is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Tls,
    UncheckedTls,
    Plain,
}

impl Transport {
    pub(super) fn scheme(self) -> &'static str {
        match self {
            Self::Tls | Self::UncheckedTls => "https",
            Self::Plain => "http",
        }
    }

    pub(super) fn trust(self) -> TlsTrust {
        match self {
            Self::Tls => TlsTrust::Checked,
            Self::UncheckedTls | Self::Plain => TlsTrust::Unchecked,
        }
    }
}

/// What an outcome tells about the way it was got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    Right,
    Wrong,
    Unknown,
}

pub(super) struct Host {
    name: RegistryHost,
    authority: String,
    transports: Vec<Transport>,
    settled: OnceLock<Transport>,
    /// Held by the request that finds out the way.
    pub(super) deciding: tokio::sync::Mutex<()>,
    challenge: Mutex<Option<Challenge>>,
    /// Repositories that were found to have no referrers API: one host may serve several kinds.
    without_referrers: Mutex<HashSet<String>>,
    /// It was found to want a second request for every blob.
    without_whole_blobs: AtomicBool,
    pub(super) holdings: Holdings,
}

impl Host {
    /// `insecure` are the hosts that the user allows to be unsafe.
    pub(super) fn new(name: &RegistryHost, insecure: &[HostPattern], has_cacert: bool) -> Self {
        let authority = if name.is_docker_hub() { HUB_API } else { name.as_str() };
        let transports = transports(name, insecure, has_cacert);
        let settled = match transports[..] {
            [only] => OnceLock::from(only),
            _ => OnceLock::new(),
        };
        Self {
            name: name.clone(),
            authority: authority.to_owned(),
            transports,
            settled,
            deciding: tokio::sync::Mutex::default(),
            challenge: Mutex::default(),
            without_referrers: Mutex::default(),
            without_whole_blobs: AtomicBool::default(),
            holdings: Holdings::default(),
        }
    }

    pub(super) fn name(&self) -> &RegistryHost {
        &self.name
    }

    /// The ways to try, in this order.
    pub(super) fn transports(&self) -> &[Transport] {
        &self.transports
    }

    pub(super) fn transport(&self) -> Option<Transport> {
        self.settled.get().copied()
    }

    pub(super) fn settle(&self, transport: Transport) {
        // An earlier decision is kept.
        let _ = self.settled.set(transport);
    }

    pub(super) fn url(&self, transport: Transport, path: &str) -> Result<Url> {
        let text = format!("{}://{}{path}", transport.scheme(), self.authority);
        text.parse().map_err(|_| Error::input("registry and path do not form a URL").fact("url", text))
    }

    /// The way in that the registry asked for last; asking for a token first saves a refusal.
    pub(super) fn challenge(&self) -> Option<Challenge> {
        self.challenge.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it was found out that a repository has no referrers API: then it is not asked again.
    pub(super) fn lacks_referrers(&self, repository: &str) -> bool {
        self.without_referrers.lock().unwrap_or_else(PoisonError::into_inner).contains(repository)
    }

    pub(super) fn note_without_referrers(&self, repository: &str) {
        self.without_referrers.lock().unwrap_or_else(PoisonError::into_inner).insert(repository.to_owned());
    }

    /// Whether a blob may be sent with the request that announces it.
    pub(super) fn takes_whole_blobs(&self) -> bool {
        !self.without_whole_blobs.load(Ordering::Relaxed)
    }

    pub(super) fn note_without_whole_blobs(&self) {
        self.without_whole_blobs.store(true, Ordering::Relaxed);
    }

    pub(super) fn remember(&self, challenge: &Challenge) {
        *self.challenge.lock().unwrap_or_else(PoisonError::into_inner) = Some(challenge.clone());
    }
}

fn transports(name: &RegistryHost, insecure: &[HostPattern], has_cacert: bool) -> Vec<Transport> {
    let is_listed = insecure.iter().any(|entry| entry.covers(name));
    match (name.is_loopback(), is_listed, has_cacert) {
        (true, _, false) => vec![Transport::Plain, Transport::UncheckedTls],
        (true, false, true) => vec![Transport::Tls, Transport::Plain],
        (_, true, _) => vec![Transport::UncheckedTls, Transport::Plain],
        (false, false, _) => vec![Transport::Tls],
    }
}

/// Whether `way` was the right one, seen from what came back.
pub(super) fn judge(transport: Transport, outcome: Result<(StatusCode, &[u8]), &RequestFault>) -> Fit {
    /// How servers say that they were spoken to without TLS: Go, nginx, Apache.
    const TLS_WANTED: [&str; 3] = ["HTTPS server", "HTTPS port", "SSL-enabled"];
    match (transport, outcome) {
        (Transport::Plain, Ok((StatusCode::BAD_REQUEST, body))) => {
            let text = String::from_utf8_lossy(body);
            // The answer to a HEAD has no body to tell.
            let wants_tls = text.is_empty() || TLS_WANTED.iter().any(|phrase| text.contains(phrase));
            if wants_tls { Fit::Wrong } else { Fit::Right }
        }
        (_, Ok(_))
        | (
            Transport::Tls | Transport::UncheckedTls,
            Err(RequestFault::Certificate(_) | RequestFault::ClientCertificate(_)),
        ) => Fit::Right,
        (Transport::Plain, Err(RequestFault::NoAnswer(_) | RequestFault::BrokenBody(_)))
        | (Transport::Tls | Transport::UncheckedTls, Err(RequestFault::NotTls(_))) => Fit::Wrong,
        (_, Err(_)) => Fit::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_and_local_hosts_may_be_unsafe() {
        let insecure = ["Corp.example", "other.example:05000", "[fd00:0::1]:5000"].map(|entry| entry.parse().unwrap());
        for (name, has_cacert, expected) in [
            ("gcr.io", false, &[Transport::Tls][..]),
            ("docker.io", true, &[Transport::Tls]),
            ("localhost.evil.io", false, &[Transport::Tls]),
            ("127.0.0.1.evil.io", false, &[Transport::Tls]),
            ("corp.example.evil.io", false, &[Transport::Tls]),
            ("other.example", false, &[Transport::Tls]),
            ("10.0.0.1:5000", false, &[Transport::Tls]),
            ("CORP.EXAMPLE", false, &[Transport::UncheckedTls, Transport::Plain]),
            ("corp.example:8443", false, &[Transport::UncheckedTls, Transport::Plain]),
            ("other.example:5000", true, &[Transport::UncheckedTls, Transport::Plain]),
            ("[fd00::1]:5000", true, &[Transport::UncheckedTls, Transport::Plain]),
            ("LOCALHOST:5000", false, &[Transport::Plain, Transport::UncheckedTls]),
            ("[::ffff:127.0.0.1]:5000", false, &[Transport::Plain, Transport::UncheckedTls]),
            ("localhost:5000", false, &[Transport::Plain, Transport::UncheckedTls]),
            ("[::1]:5000", false, &[Transport::Plain, Transport::UncheckedTls]),
            ("127.0.0.1", true, &[Transport::Tls, Transport::Plain]),
        ] {
            assert_eq!(Host::new(&name.parse().unwrap(), &insecure, has_cacert).transports(), expected, "{name}");
        }
    }

    #[test]
    fn docker_hub_has_its_api_elsewhere() {
        for name in ["docker.io", "Index.Docker.io:443", "registry-1.docker.io"] {
            let hub = Host::new(&name.parse().unwrap(), &[], false);
            assert_eq!(hub.url(Transport::Tls, "/v2/x").unwrap().as_str(), "https://registry-1.docker.io/v2/x");
            assert_eq!(hub.transport(), Some(Transport::Tls));
        }
    }

    #[test]
    fn servers_that_want_tls_are_understood() {
        let go = b"Client sent an HTTP request to an HTTPS server.\n";
        assert_eq!(judge(Transport::Plain, Ok((StatusCode::BAD_REQUEST, go))), Fit::Wrong);
        assert_eq!(judge(Transport::Plain, Ok((StatusCode::BAD_REQUEST, b""))), Fit::Wrong);
        assert_eq!(judge(Transport::Plain, Ok((StatusCode::BAD_REQUEST, b"{}"))), Fit::Right);
        assert_eq!(judge(Transport::Plain, Err(&RequestFault::BrokenBody(String::new()))), Fit::Wrong);
        assert_eq!(judge(Transport::Plain, Err(&RequestFault::NoAnswer(String::new()))), Fit::Wrong);
        assert_eq!(judge(Transport::Plain, Err(&RequestFault::Unreachable(String::new()))), Fit::Unknown);
        assert_eq!(judge(Transport::Tls, Err(&RequestFault::NotTls(String::new()))), Fit::Wrong);
        assert_eq!(judge(Transport::Tls, Err(&RequestFault::Certificate(String::new()))), Fit::Right);
    }
}
