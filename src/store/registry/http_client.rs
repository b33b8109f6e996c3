//! One HTTP request and its answer: connections, time limits, counting. No retries, no redirects,
//! no credentials: those are decided above.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{CONTENT_LENGTH, HeaderMap, HeaderValue};
use reqwest::{Certificate, Method, Request, Response, Url};
use tokio::time::{sleep, timeout};

use super::RegistryOptions;
use super::host::Transport;
use super::host_limits::HostLimits;
use super::http_error::RequestFault;
use super::timeouts::{FLOOR, Timeouts};
use super::upload_body::{Phase, Pump};
use super::url_policy::{AddressReach, redacted, same_authority};
use crate::store::disk::read_file;
use crate::store::parallel::aside;
use crate::store::{Notices, Stream, Traffic};
use oci::error::{Error, Kind, Result};
use oci::{HostPattern, RegistryHost};

/// A registry that has taken all bytes of a large blob needs time to hash and move them.
const COMMIT_RATE: u64 = 32 << 20;

/// Whether the peer's certificate is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TlsTrust {
    Checked,
    Unchecked,
}

/// What a request carries.
pub(super) enum Payload<'a> {
    Nothing,
    Bytes(Bytes),
    Blob { size: u64, open: &'a (dyn Fn() -> Result<Stream> + Sync) },
}

/// A request, ready to go.
pub(super) struct Outgoing<'a> {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) payload: &'a Payload<'a>,
    pub(super) trust: TlsTrust,
}

/// A body as far as it was read.
pub(super) struct LimitedBody {
    pub(super) bytes: Vec<u8>,
    /// There was more.
    pub(super) is_cut: bool,
}

pub(super) struct HttpClient {
    pub(super) timeouts: Timeouts,
    pub(super) traffic: Traffic,
    pub(super) notices: Notices,
    insecure: Vec<HostPattern>,
    jobs: usize,
    certificates: Vec<Certificate>,
    /// By trust and by whether a proxy may be used; built when first needed.
    clients: [OnceLock<reqwest::Client>; 4],
    host_limits: Mutex<HashMap<String, Arc<HostLimits>>>,
}

impl HttpClient {
    pub(super) fn new(options: &RegistryOptions, traffic: Traffic, notices: Notices) -> Result<Self> {
        let certificates = options.cacert.as_deref().map(read_certificates).transpose()?.unwrap_or_default();
        // Fails where a provider is installed already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Self {
            timeouts: options.timeouts,
            traffic,
            notices,
            insecure: options.insecure.clone(),
            jobs: options.jobs,
            certificates,
            clients: Default::default(),
            host_limits: Mutex::default(),
        })
    }

    pub(super) fn limits(&self, url: &Url) -> Arc<HostLimits> {
        let key = format!("{}:{}", url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or(0));
        let mut host_limits = self.host_limits.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(host_limits.entry(key).or_insert_with(|| Arc::new(HostLimits::new(self.jobs))))
    }

    /// Sends a request and returns the head of its answer, with the body still to come.
    pub(super) async fn exchange(&self, outgoing: Outgoing<'_>) -> Result<Response, RequestFault> {
        let limits = self.limits(&outgoing.url);
        let is_upload = matches!(outgoing.payload, Payload::Blob { .. });
        let _turn = if is_upload { limits.upload().await } else { limits.request().await };
        let client = self.client(outgoing.trust, &outgoing.url)?;
        let asked = format!("{} {}", outgoing.method, redacted(&outgoing.url));
        let mut request = Request::new(outgoing.method, outgoing.url);
        *request.headers_mut() = outgoing.headers;
        let outcome = match outgoing.payload {
            Payload::Nothing => self.send(&client, request).await,
            Payload::Bytes(bytes) => {
                request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(bytes.len()));
                *request.body_mut() = Some(bytes.clone().into());
                self.traffic.up(bytes.len() as u64);
                self.send(&client, request).await
            }
            Payload::Blob { size, open } => {
                request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(*size));
                let (body, pump) = Pump::start(aside(open)?, *size, &self.traffic)?;
                *request.body_mut() = Some(body);
                self.send_watched(&client, request, &pump, *size).await
            }
        };
        if !outcome.as_ref().is_err_and(RequestFault::is_before_request) {
            self.traffic.request();
        }
        let answer = outcome.as_ref().map_or_else(RequestFault::text, |response| response.status().to_string());
        self.notices.detail(format!("{asked}: {answer}"));
        outcome
    }

    async fn send(&self, client: &reqwest::Client, request: Request) -> Result<Response, RequestFault> {
        let limit = self.timeouts.connect + self.timeouts.header;
        match timeout(limit, client.execute(request)).await {
            Ok(outcome) => outcome.map_err(|error| RequestFault::of(&error)),
            Err(_) => Err(RequestFault::timeout("no answer", limit)),
        }
    }

    /// Sends a request whose body takes as long as it takes, provided that it moves.
    async fn send_watched(
        &self,
        client: &reqwest::Client,
        request: Request,
        pump: &Pump,
        size: u64,
    ) -> Result<Response, RequestFault> {
        let answer = client.execute(request);
        tokio::pin!(answer);
        let commit = self.timeouts.header + Duration::from_secs(size / COMMIT_RATE);
        let tick = (self.timeouts.idle / 16).clamp(Duration::from_millis(5), Duration::from_secs(1));
        loop {
            tokio::select! {
                outcome = &mut answer => {
                    return outcome.map_err(|error| pump.failure().map_or_else(|| RequestFault::of(&error), RequestFault::Final));
                }
                () = sleep(tick) => match pump.phase() {
                    (Phase::Registry, waited) if waited > self.timeouts.idle => {
                        return Err(RequestFault::timeout("the registry accepted no bytes", waited));
                    }
                    (Phase::Done, waited) if waited > commit => return Err(RequestFault::timeout("no answer", waited)),
                    _ => {}
                },
            }
        }
    }

    /// The next piece of a body; `None` at its end. Too slow is as bad as broken.
    pub(super) async fn piece(
        &self,
        response: &mut Response,
        meter: &mut RateMeter,
    ) -> Result<Option<Bytes>, RequestFault> {
        let asked = Instant::now();
        let piece = match timeout(self.timeouts.idle, response.chunk()).await {
            Ok(Ok(piece)) => piece,
            Ok(Err(error)) => return Err(RequestFault::of_body(&error)),
            Err(_) => return Err(RequestFault::timeout("no bytes", self.timeouts.idle)),
        };
        let got = piece.as_ref().map_or(0, |bytes| bytes.len() as u64);
        self.traffic.down(got);
        if meter.is_too_slow(asked.elapsed(), got, self.timeouts.window) {
            return Err(RequestFault::timeout("fewer than 1 KiB/s", self.timeouts.window));
        }
        Ok(piece)
    }

    /// The body of an answer, up to `limit` bytes.
    pub(super) async fn body(&self, response: &mut Response, limit: u64) -> Result<LimitedBody, RequestFault> {
        let mut bytes = Vec::new();
        let mut meter = RateMeter::default();
        while let Some(piece) = self.piece(response, &mut meter).await? {
            let room = usize::try_from(limit.saturating_sub(bytes.len() as u64)).unwrap_or(usize::MAX);
            bytes.extend_from_slice(piece.get(..room).unwrap_or(&piece));
            if piece.len() > room {
                return Ok(LimitedBody { bytes, is_cut: true });
            }
        }
        Ok(LimitedBody { bytes, is_cut: false })
    }

    /// Whether the certificate of `url` is checked, asked for on behalf of `registry`. What holds
    /// for the registry holds for its own host and port only.
    pub(super) fn trust(&self, url: &Url, registry: &Url, transport: Transport) -> TlsTrust {
        if same_authority(url, registry) {
            transport.trust()
        } else if self.is_named(url) {
            TlsTrust::Unchecked
        } else {
            TlsTrust::Checked
        }
    }

    /// Whether the user has named the host of `url` as one that may be unsafe.
    pub(super) fn is_named(&self, url: &Url) -> bool {
        let port = url.port_or_known_default().unwrap_or(0);
        let host = format!("{}:{port}", url.host_str().unwrap_or_default()).parse::<RegistryHost>();
        host.is_ok_and(|host| self.insecure.iter().any(|entry| entry.covers(&host)))
    }

    fn client(&self, trust: TlsTrust, url: &Url) -> Result<reqwest::Client> {
        // Without TLS there is nothing to check, and no need to load the system's certificates.
        let unchecked = trust == TlsTrust::Unchecked || url.scheme() == "http";
        let direct = AddressReach::of(url) == AddressReach::Loopback;
        let [checked_proxied, checked_direct, unchecked_proxied, unchecked_direct] = &self.clients;
        let cell = match (unchecked, direct) {
            (false, false) => checked_proxied,
            (false, true) => checked_direct,
            (true, false) => unchecked_proxied,
            (true, true) => unchecked_direct,
        };
        if let Some(client) = cell.get() {
            return Ok(client.clone());
        }
        let client = self.build(unchecked, direct)?;
        Ok(cell.get_or_init(|| client).clone())
    }

    fn build(&self, unchecked: bool, direct: bool) -> Result<reqwest::Client> {
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("underpin/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .retry(reqwest::retry::never())
            .http1_only()
            .connect_timeout(self.timeouts.connect)
            .pool_max_idle_per_host(self.jobs.clamp(1, 64))
            .tls_danger_accept_invalid_certs(unchecked);
        if direct {
            builder = builder.no_proxy();
        }
        if !unchecked && !self.certificates.is_empty() {
            builder = builder.tls_certs_merge(self.certificates.iter().cloned());
        }
        builder.build().map_err(|error| {
            let cause = std::error::Error::source(&error).map_or_else(|| "unknown".to_owned(), ToString::to_string);
            Error::new(Kind::Network, "cannot set up TLS")
                .cause(cause)
                .hint("install the system's CA certificates, or name some with --cacert FILE")
        })
    }
}

/// All certificates of a system fit into half of it.
const CERTIFICATES_LIMIT: u64 = 1 << 20;

fn read_certificates(path: &Path) -> Result<Vec<Certificate>> {
    let bytes = read_file(path, CERTIFICATES_LIMIT)
        .map_err(|error| Error::io("cannot read the CA certificates", path, &error))?;
    let refuse = || Error::usage("no CA certificates in PEM form in this file").fact("path", path.display());
    match Certificate::from_pem_bundle(&bytes) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(refuse()),
    }
}

/// Measures a body against the floor rate, counting only the time that we waited for it.
#[derive(Debug, Default)]
pub(super) struct RateMeter {
    waited: Duration,
    got: u64,
}

impl RateMeter {
    fn is_too_slow(&mut self, waited: Duration, got: u64, window: Duration) -> bool {
        self.waited += waited;
        self.got += got;
        if self.waited < window {
            return false;
        }
        let too_slow = u128::from(self.got) * 1000 < u128::from(FLOOR) * self.waited.as_millis();
        *self = Self::default();
        too_slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drip_is_too_slow_and_a_trickle_is_not() {
        let window = Duration::from_secs(60);
        let minute = |rate: u64| {
            let mut meter = RateMeter::default();
            (0..60).any(|_| meter.is_too_slow(Duration::from_secs(1), rate, window))
        };
        assert!(minute(100) && minute(1023));
        assert!(!minute(1024));
    }

    #[test]
    fn refuses_a_file_without_certificates() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        let open = |path: &Path| {
            let options = RegistryOptions { cacert: Some(path.to_owned()), ..RegistryOptions::default() };
            HttpClient::new(&options, Traffic::default(), Notices::silent()).err().map(|e| e.kind())
        };
        assert_eq!(open(&path), Some(Kind::Io));
        for text in ["", "hello", "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(open(&path), Some(Kind::Usage), "{text}");
        }
    }
}
