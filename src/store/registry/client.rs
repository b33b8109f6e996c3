//! One call to a registry, with everything that belongs to it: transport,
//! credentials, redirects, and attempts.
//!
//! The rule kept here: `Authorization` goes to the registry's own scheme, host and port, and after
//! the first step away from there to nobody.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Method, Response, StatusCode, Url};

use super::credentials::Secret;
use super::host::{Fit, Host, Transport, judge};
use super::host_limits::HostLimits;
use super::http_client::{HttpClient, Outgoing, Payload};
use super::http_error::RequestFault;
use super::token::{RegistryOrigin, TokenScope, Tokens};
use super::url_policy::{self, Errand, MOST_HOPS, redacted, same_origin};
use super::{RegistryOptions, challenge, retry};
use crate::store::{Notices, Traffic};
use oci::error::{Error, Kind, Result};
use oci::{RegistryHost, RepositoryName};

pub(super) struct Client {
    pub(super) http: HttpClient,
    tokens: Tokens,
    hosts: Mutex<HashMap<RegistryHost, Arc<Host>>>,
    options: RegistryOptions,
}

impl Client {
    pub(super) fn new(options: RegistryOptions, traffic: Traffic, notices: Notices) -> Result<Self> {
        let http = HttpClient::new(&options, traffic, notices)?;
        let tokens = Tokens::new(options.credentials.clone());
        Ok(Self { http, tokens, hosts: Mutex::default(), options })
    }

    pub(super) fn host(&self, name: &RegistryHost) -> Arc<Host> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Host::new(name, &self.options.insecure, self.options.cacert.is_some()));
        Arc::clone(hosts.entry(name.clone()).or_insert_with(new))
    }

    /// Makes a call until its answer is final, which may be a refusal.
    pub(super) async fn send(&self, call: &Call<'_>) -> Result<RegistryAnswer> {
        let limits = self.limits(call)?;
        retry::persist(&self.http, &limits, &call.about(), async || self.attempt(call).await).await
    }

    pub(super) fn limits(&self, call: &Call<'_>) -> Result<Arc<HostLimits>> {
        let url = call.url(call.host.transport().unwrap_or(Transport::Tls))?;
        Ok(self.http.limits(&url))
    }

    /// Makes a call once. A refusal for want of credentials is answered, also once.
    pub(super) async fn attempt(&self, call: &Call<'_>) -> Result<RegistryAnswer, RequestFault> {
        self.refuse_offline(call)?;
        let used = match origin(call)? {
            Some(origin) => self.tokens.ready(&self.http, call, &origin).await?,
            None => None,
        };
        let answer = self.show(call, used.as_ref()).await?;
        if answer.status != StatusCode::UNAUTHORIZED || answer.by != By::Registry {
            return Ok(answer);
        }
        let (Some(challenge), Some(origin)) = (challenge::choose(&answer.headers), origin(call)?) else {
            return Ok(answer);
        };
        match self.tokens.renew(&self.http, call, &origin, &challenge, used.as_ref()).await? {
            // What was refused a moment ago is not shown again.
            Some(renewed) if used.as_ref() != Some(&renewed) => self.show(call, Some(&renewed)).await,
            _ => Ok(answer),
        }
    }

    /// The call with what it shows; a password is tried by one call first.
    async fn show(&self, call: &Call<'_>, authorization: Option<&Secret>) -> Result<RegistryAnswer, RequestFault> {
        match authorization.filter(|authorization| authorization.is_basic()) {
            Some(basic) => {
                self.tokens.trials.ask(call.host.name().as_str(), basic, self.travel(call, Some(basic))).await
            }
            None => self.travel(call, authorization).await,
        }
    }

    fn refuse_offline(&self, call: &Call<'_>) -> Result<()> {
        if !self.options.offline {
            return Ok(());
        }
        let about = call.about();
        Err(Error::new(Kind::Network, format!("offline: {} would need the network", about.request))
            .fact("registry", &about.registry)
            .fact("image", &about.image)
            .hint("run without --offline, or use oci: and archive locations"))
    }

    /// The call and its redirects, with the way to speak found out if need be.
    async fn travel(&self, call: &Call<'_>, authorization: Option<&Secret>) -> Result<RegistryAnswer, RequestFault> {
        if let Some(transport) = call.host.transport() {
            return self.follow(call, transport, authorization).await;
        }
        // Reads that begin together find out together. Anything else waits, so that it is sent once.
        let _turn = if call.is_read() { None } else { Some(call.host.deciding.lock().await) };
        if let Some(transport) = call.host.transport() {
            return self.follow(call, transport, authorization).await;
        }
        let mut first: Option<Result<RegistryAnswer, RequestFault>> = None;
        for transport in call.host.transports() {
            let outcome = self.follow(call, *transport, authorization).await;
            let fit = judge(*transport, outcome.as_ref().map(|answer| (answer.status, answer.body.as_slice())));
            match call.host.transport() {
                // Another call has found the way meanwhile.
                Some(settled) if settled != *transport && fit == Fit::Wrong => {
                    return self.follow(call, settled, authorization).await;
                }
                Some(_) => return outcome,
                None => {}
            }
            match fit {
                Fit::Wrong => first = first.or(Some(outcome)),
                Fit::Right => {
                    call.host.settle(*transport);
                    return outcome;
                }
                Fit::Unknown => return first.unwrap_or(outcome),
            }
        }
        // No way was right, so this says nothing about the ways: the connection is bad.
        first.unwrap_or_else(|| Err(RequestFault::Unreachable("no way to speak to it".to_owned())))
    }

    async fn follow(
        &self,
        call: &Call<'_>,
        transport: Transport,
        authorization: Option<&Secret>,
    ) -> Result<RegistryAnswer, RequestFault> {
        let registry = call.host.url(transport, "/")?;
        let mut url = call.url(transport)?;
        let mut visited = vec![url.clone()];
        let mut by = if same_origin(&registry, &url) { By::Registry } else { By::Elsewhere };
        loop {
            let shown = authorization.filter(|_| by == By::Registry);
            let origin = RegistryOrigin { url: registry.clone(), transport };
            let response =
                self.exchange(call, &origin, &url, shown).await.map_err(|fault| after_hops(fault, &visited))?;
            if visited.len() == 1 && response.status() != StatusCode::BAD_REQUEST {
                // It answers, so this is the way. What a 400 means, its body has to tell.
                call.host.settle(transport);
            }
            if !is_redirect(call, response.status()) {
                return self.finish(call, response, url, by, shown).await;
            }
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let next = url_policy::follow_redirect(&url, location, Errand::Read);
            url = next.and_then(|next| admit(&visited, next)).map_err(|why| misled(call, &url, why))?;
            visited.push(url.clone());
            if !same_origin(&registry, &url) {
                by = By::Elsewhere;
            }
        }
    }

    async fn exchange(
        &self,
        call: &Call<'_>,
        origin: &RegistryOrigin,
        url: &Url,
        authorization: Option<&Secret>,
    ) -> Result<Response, RequestFault> {
        let mut headers = call.all_headers();
        if let Some(value) = authorization.and_then(Secret::header) {
            headers.insert(AUTHORIZATION, value);
        }
        let trust = self.http.trust(url, &origin.url, origin.transport);
        let (method, url) = (call.method.clone(), url.clone());
        self.http.exchange(Outgoing { method, url, headers, payload: &call.payload, trust }).await
    }

    /// Reads the body of an answer, unless it is wanted as a stream.
    async fn finish(
        &self,
        call: &Call<'_>,
        mut response: Response,
        url: Url,
        by: By,
        authorization: Option<&Secret>,
    ) -> Result<RegistryAnswer, RequestFault> {
        let (status, headers) = (response.status(), response.headers().clone());
        let mut answer = RegistryAnswer { status, headers, url, by, body: Vec::new(), stream: None, attempts: 1 };
        let limit = match (status.is_success(), call.want) {
            (true, Want::Stream) => {
                answer.stream = Some(response);
                return Ok(answer);
            }
            (true, Want::LimitedBody(limit)) => limit,
            (false, _) => FAILURE_LIMIT,
        };
        let whole = self.http.body(&mut response, limit).await?;
        if whole.is_cut && status.is_success() {
            let what = format!("the registry's answer is larger than {limit} bytes");
            return Err(call.about().error(Kind::Input, what).fact("status", status).into());
        }
        answer.body = match authorization {
            Some(secret) if !status.is_success() => secret.scrub(whole.bytes),
            _ => whole.bytes,
        };
        Ok(answer)
    }
}

/// The registry's origin, once it is known how it is spoken to.
fn origin(call: &Call<'_>) -> Result<Option<RegistryOrigin>> {
    call.host
        .transport()
        .map(|transport| Ok(RegistryOrigin { url: call.host.url(transport, "/")?, transport }))
        .transpose()
}

fn is_redirect(call: &Call<'_>, status: StatusCode) -> bool {
    call.is_read() && matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

fn admit(visited: &[Url], next: Url) -> Result<Url, String> {
    if visited.contains(&next) {
        Err("it leads in a circle".to_owned())
    } else if visited.len() > MOST_HOPS {
        Err("it redirects more than 10 times".to_owned())
    } else {
        Ok(next)
    }
}

/// A name that does not exist is final when the user gave it; a registry that redirects there may
/// redirect elsewhere the next time.
fn after_hops(fault: RequestFault, visited: &[Url]) -> RequestFault {
    match fault {
        RequestFault::UnknownHost(text) if visited.len() > 1 => RequestFault::Unreachable(text),
        fault => fault,
    }
}

fn misled(call: &Call<'_>, at: &Url, why: String) -> RequestFault {
    let error = call.about().error(Kind::Network, "the registry redirects to a URL that underpin does not follow");
    error.fact("redirect at", redacted(at)).cause(why).into()
}

// A question to a registry, and its answer.

/// Bodies of failures are read this far.
pub(super) const FAILURE_LIMIT: u64 = 64 * 1024;

/// Where a call goes.
pub(super) enum To {
    /// A path of the registry's API.
    Path(String),
    /// A place that the registry named, already checked.
    Place(Url),
}

/// How the body of a good answer is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// Read, up to so many bytes; more is an error.
    LimitedBody(u64),
    Stream,
}

pub(super) struct Call<'a> {
    pub(super) host: Arc<Host>,
    /// The repository, for credentials.
    pub(super) name: RepositoryName,
    /// The image, as messages name it.
    pub(super) image: String,
    pub(super) method: Method,
    pub(super) to: To,
    pub(super) headers: HeaderMap,
    pub(super) payload: Payload<'a>,
    pub(super) scope: TokenScope,
    pub(super) want: Want,
}

impl<'a> Call<'a> {
    pub(super) fn header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.append(name, value);
        }
        self
    }

    pub(super) fn payload(mut self, payload: Payload<'a>) -> Self {
        self.payload = payload;
        self
    }

    pub(super) fn want(mut self, want: Want) -> Self {
        self.want = want;
        self
    }

    pub(super) fn scope(mut self, scope: TokenScope) -> Self {
        self.scope = scope;
        self
    }

    /// Whether it changes nothing, and so may be made again.
    fn is_read(&self) -> bool {
        matches!(self.method, Method::GET | Method::HEAD)
    }

    /// The headers that every request of this call has.
    pub(super) fn all_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers
    }

    pub(super) fn url(&self, transport: Transport) -> Result<Url> {
        match &self.to {
            To::Path(path) => self.host.url(transport, path),
            To::Place(url) => Ok(url.clone()),
        }
    }

    pub(super) fn about(&self) -> About {
        let transport =
            self.host.transport().or_else(|| self.host.transports().first().copied()).unwrap_or(Transport::Tls);
        let url = self.url(transport).map_or_else(|_| "?".to_owned(), |url| redacted(&url));
        About {
            registry: self.host.name().to_string(),
            image: self.image.clone(),
            request: format!("{} {url}", self.method),
        }
    }
}

/// What every message about a request says.
#[derive(Debug, Clone)]
pub(super) struct About {
    pub(super) registry: String,
    pub(super) image: String,
    pub(super) request: String,
}

impl About {
    pub(super) fn error(&self, kind: Kind, what: impl Into<String>) -> Error {
        Error::new(kind, what)
            .fact("registry", &self.registry)
            .fact("image", &self.image)
            .fact("request", &self.request)
    }

    pub(super) fn method(&self) -> &str {
        self.request.split(' ').next().unwrap_or_default()
    }

    /// The same, about another request made on the way.
    pub(super) fn asking(&self, method: &Method, url: &Url) -> Self {
        Self { request: format!("{method} {}", redacted(url)), ..self.clone() }
    }
}

/// Who gave an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Registry,
    /// A place that the registry sent us to.
    Elsewhere,
}

/// What came back. A body that was wanted as a stream is in `stream`, every other in `body`.
pub(super) struct RegistryAnswer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) url: Url,
    pub(super) by: By,
    pub(super) body: Vec<u8>,
    pub(super) stream: Option<Response>,
    pub(super) attempts: u32,
}

impl RegistryAnswer {
    /// The same for somebody else who would get it.
    pub(super) fn without_stream(&self) -> Self {
        Self { headers: self.headers.clone(), url: self.url.clone(), body: self.body.clone(), stream: None, ..*self }
    }

    pub(super) fn text(&self, name: impl reqwest::header::AsHeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}
