//! Asking a token server (distribution, "Token Authentication"; "Authentication using OAuth").
//!
//! Credentials go to the accepted realm only: a redirect to another origin is asked without them,
//! and a refresh token, which travels in the body, is not redirected to another origin at all.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Method, StatusCode, Url};
use serde_json::Value;

use super::client::{About, By, Call, FAILURE_LIMIT, RegistryAnswer};
use super::credentials::{Credential, Secret};
use super::http_client::{HttpClient, Outgoing, Payload};
use super::http_error::{self, Complaint, RequestFault};
use super::password_trial::PasswordTrials;
use super::retry;
use super::token::{RegistryOrigin, basic_of};
use super::url_policy::{self, MOST_HOPS, same_origin};
use oci::error::{Error, Kind, Result};

const LARGEST_ANSWER: u64 = 256 << 10;
const DEFAULT_LIFETIME: Duration = Duration::from_secs(60);
const LONGEST_LIFETIME: u64 = 24 * 3600;

pub(super) struct TokenRequest<'a> {
    pub(super) call: &'a Call<'a>,
    pub(super) origin: &'a RegistryOrigin,
    pub(super) realm: Url,
    pub(super) service: Option<&'a str>,
    pub(super) scopes: Vec<String>,
    pub(super) credential: Option<Credential>,
}

/// What a token server gave.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) token: Secret,
    pub(super) lifetime: Duration,
}

impl TokenRequest<'_> {
    pub(super) async fn send(&self, http: &HttpClient, trials: &PasswordTrials) -> Result<Granted> {
        let limits = http.limits(&self.realm);
        let about = self.call.about().asking(&self.method(), &self.realm);
        let answer = retry::persist(http, &limits, &about, async || self.show(http, &about, trials).await).await?;
        if !answer.status.is_success() {
            return Err(self.refused(&about, &answer));
        }
        read(&answer.body)
            .ok_or_else(|| about.error(Kind::Auth, "the token server gave no token").fact("status", answer.status))
    }

    fn method(&self) -> Method {
        if matches!(self.credential, Some(Credential::Identity(_))) { Method::POST } else { Method::GET }
    }

    /// One try; a credential that nobody has tried is shown by one request first.
    async fn show(
        &self,
        http: &HttpClient,
        about: &About,
        trials: &PasswordTrials,
    ) -> Result<RegistryAnswer, RequestFault> {
        let shown = match &self.credential {
            Some(Credential::Password { user, password }) => basic_of(user, password),
            Some(Credential::Identity(token)) => token.clone(),
            None => return self.travel(http, about).await,
        };
        trials.ask(self.realm.as_str(), &shown, self.travel(http, about)).await
    }

    /// The request itself, redirects included.
    async fn travel(&self, http: &HttpClient, about: &About) -> Result<RegistryAnswer, RequestFault> {
        let mut url = self.question();
        for _ in 0..=MOST_HOPS {
            let answer = self.once(http, about, url.clone()).await?;
            if !answer.status.is_redirection() {
                return Ok(answer);
            }
            url = self.next(http, &url, answer.text(LOCATION)).map_err(|why| {
                about.error(Kind::Auth, "the token server redirects to a URL that is not safe to contact").cause(why)
            })?;
        }
        Err(about.error(Kind::Network, "the token server redirects more than 10 times").into())
    }

    /// The URL of the question; a refresh token is asked for in the body instead.
    fn question(&self) -> Url {
        let mut url = self.realm.clone();
        if self.method() == Method::GET {
            let mut query = url.query_pairs_mut();
            query.extend_pairs(self.service.map(|service| ("service", service)));
            query.extend_pairs(self.scopes.iter().map(|scope| ("scope", scope)));
            drop(query);
        }
        url
    }

    fn payload(&self) -> Payload<'static> {
        let Some(Credential::Identity(token)) = &self.credential else { return Payload::Nothing };
        let mut form = self.realm.clone();
        form.query_pairs_mut()
            .clear()
            .append_pair("grant_type", "refresh_token")
            .append_pair("client_id", "underpin")
            .extend_pairs(self.service.map(|service| ("service", service)))
            .append_pair("scope", &self.scopes.join(" "))
            .append_pair("refresh_token", token.reveal());
        Payload::Bytes(Bytes::from(form.query().unwrap_or_default().to_owned()))
    }

    fn next(&self, http: &HttpClient, from: &Url, location: Option<&str>) -> Result<Url, String> {
        let location = location.filter(|text| text.len() <= 8192).ok_or("the answer has no usable Location")?;
        let to = from.join(location).map_err(|_| "its Location is not a URL".to_owned())?;
        // What it may be shown does not matter: beyond the realm it is shown nothing.
        url_policy::check_realm(&self.origin.url, &to, |url| http.is_named(url))?;
        if from.scheme() == "https" && to.scheme() == "http" {
            return Err("it leads from https to plain http".to_owned());
        }
        if self.method() == Method::POST && !same_origin(&self.realm, &to) {
            return Err("it leads to another host".to_owned());
        }
        Ok(to)
    }

    async fn once(&self, http: &HttpClient, about: &About, url: Url) -> Result<RegistryAnswer, RequestFault> {
        let payload = self.payload();
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if matches!(payload, Payload::Bytes(_)) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        }
        if let Some(Credential::Password { user, password }) = &self.credential
            && same_origin(&self.realm, &url)
            && let Some(value) = basic_of(user, password).header()
        {
            headers.insert(AUTHORIZATION, value);
        }
        let trust = http.trust(&url, &self.origin.url, self.origin.transport);
        let outgoing = Outgoing { method: self.method(), url: url.clone(), headers, payload: &payload, trust };
        let mut response = http.exchange(outgoing).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let limit = if status.is_success() { LARGEST_ANSWER } else { FAILURE_LIMIT };
        let whole = http.body(&mut response, limit).await?;
        if whole.is_cut && status.is_success() {
            return Err(about.error(Kind::Input, "the token server's answer is larger than 256 KiB").into());
        }
        let body = if status.is_success() { whole.bytes } else { self.scrub(whole.bytes) };
        Ok(RegistryAnswer { status, headers, url, by: By::Registry, body, stream: None, attempts: 1 })
    }

    fn scrub(&self, body: Vec<u8>) -> Vec<u8> {
        match &self.credential {
            Some(Credential::Password { user, password }) => basic_of(user, password).scrub(password.scrub(body)),
            Some(Credential::Identity(token)) => token.scrub(body),
            None => body,
        }
    }

    fn refused(&self, about: &About, answer: &RegistryAnswer) -> Error {
        let registry = &about.registry;
        let (kind, what) = match answer.status {
            StatusCode::NOT_FOUND => (Kind::Auth, "there is no token server at the realm that the registry names"),
            status if status.is_client_error() => (Kind::Auth, "the token server refused"),
            _ => (Kind::Network, "the token server failed"),
        };
        let error = about.error(kind, what);
        let error = http_error::explained(error, answer.status, answer.attempts, &Complaint::of(&answer.body));
        match self.credential {
            Some(_) => error.hint(format!("log in to {registry} again: the stored credentials may be out of date")),
            None => error.hint(format!("log in to {registry}: no credentials are stored for it")),
        }
    }
}

fn read(body: &[u8]) -> Option<Granted> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let text = |key: &str| answer.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let token = Secret::new(text("access_token").or_else(|| text("token"))?);
    token.header()?;
    let lifetime = answer.get("expires_in").and_then(Value::as_u64).filter(|seconds| *seconds > 0);
    let lifetime = lifetime.map_or(DEFAULT_LIFETIME, |seconds| Duration::from_secs(seconds.min(LONGEST_LIFETIME)));
    Some(Granted { token, lifetime })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_tokens_as_servers_give_them() {
        for (body, expected) in [
            (r#"{"token":"a"}"#, Some(("a", 60))),
            (r#"{"access_token":"b","expires_in":300}"#, Some(("b", 300))),
            (r#"{"token":"a","access_token":"b"}"#, Some(("b", 60))),
            (r#"{"token":"a","access_token":""}"#, Some(("a", 60))),
            (r#"{"token":"a","expires_in":-1}"#, Some(("a", 60))),
            (r#"{"token":"a","expires_in":0}"#, Some(("a", 60))),
            (r#"{"token":"a","expires_in":99999999999999}"#, Some(("a", LONGEST_LIFETIME))),
            (r#"{"token":"a\nb"}"#, None),
            (r#"{"token":7}"#, None),
            ("{}", None),
            ("<html>", None),
        ] {
            let expected =
                expected.map(|(token, s)| Granted { token: Secret::new(token), lifetime: Duration::from_secs(s) });
            assert_eq!(read(body.as_bytes()), expected, "{body}");
        }
    }
}
