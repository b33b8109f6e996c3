//! A question to a registry, and its answer.

use std::sync::Arc;

use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode, Url};

use super::address::redacted;
use super::host::{Host, Way};
use super::token::Scope;
use super::wire::Payload;
use crate::error::{Error, Kind, Result};
use crate::oci::RepositoryName;

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
    Whole(u64),
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
    pub(super) scope: Scope,
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

    pub(super) fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// The headers that every request of this call has.
    pub(super) fn all_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers
    }

    pub(super) fn url(&self, way: Way) -> Result<Url> {
        match &self.to {
            To::Path(path) => self.host.url(way, path),
            To::Place(url) => Ok(url.clone()),
        }
    }

    pub(super) fn about(&self) -> About {
        let way = self.host.way().or_else(|| self.host.ways().first().copied()).unwrap_or(Way::Tls);
        let url = self.url(way).map_or_else(|_| "?".to_owned(), |url| redacted(&url));
        About {
            registry: self.host.name().to_owned(),
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
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) url: Url,
    pub(super) by: By,
    pub(super) body: Vec<u8>,
    pub(super) stream: Option<Response>,
    pub(super) attempts: u32,
}

impl Answer {
    pub(super) fn text(&self, name: impl reqwest::header::AsHeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}
