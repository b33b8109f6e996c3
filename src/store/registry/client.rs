//! One call to a registry, with everything that belongs to it: the way it is spoken to, who we
//! are, redirects, and tries.
//!
//! The rule kept here: `Authorization` goes to the registry's own scheme, host and port, and after
//! the first step away from there to nobody.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::header::{AUTHORIZATION, LOCATION};
use reqwest::{Method, Response, StatusCode, Url};

use super::address::{redacted, same_origin};
use super::call::{Answer, By, Call, FAILURE_LIMIT, Want};
use super::fault::Fault;
use super::host::{Fit, Host, Way, judge};
use super::options::Options;
use super::redirect::{self, Errand, MOST_HOPS};
use super::secret::Secret;
use super::token::{Door, Tokens};
use super::wire::{Outgoing, Wire};
use super::{challenge, retry};
use crate::error::{Error, Kind, Result};
use crate::store::{Notices, Traffic};

pub(super) struct Client {
    pub(super) wire: Wire,
    tokens: Tokens,
    hosts: Mutex<HashMap<String, Arc<Host>>>,
    options: Options,
}

impl Client {
    pub(super) fn new(options: Options, traffic: Traffic, notices: Notices) -> Result<Self> {
        let wire = Wire::new(&options, traffic, notices)?;
        let tokens = Tokens::new(options.credentials.clone());
        Ok(Self { wire, tokens, hosts: Mutex::default(), options })
    }

    pub(super) fn host(&self, name: &str) -> Arc<Host> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Host::new(name, &self.options.insecure, self.options.cacert.is_some()));
        Arc::clone(hosts.entry(name.to_ascii_lowercase()).or_insert_with(new))
    }

    /// Makes a call until its answer stands; which may be a refusal.
    pub(super) async fn send(&self, call: &Call<'_>) -> Result<Answer> {
        let url = call.url(call.host.way().unwrap_or(Way::Tls))?;
        retry::persist(&self.wire, &self.wire.lane(&url), &call.about(), async || self.attempt(call).await).await
    }

    /// Makes a call once. A refusal for want of credentials is answered, also once.
    pub(super) async fn attempt(&self, call: &Call<'_>) -> Result<Answer, Fault> {
        self.refuse_offline(call)?;
        let used = match door(call)? {
            Some(door) => self.tokens.ready(&self.wire, call, &door).await?,
            None => None,
        };
        let answer = self.travel(call, used.as_ref()).await?;
        if answer.status != StatusCode::UNAUTHORIZED || answer.by != By::Registry {
            return Ok(answer);
        }
        let (Some(challenge), Some(door)) = (challenge::choose(&answer.headers), door(call)?) else {
            return Ok(answer);
        };
        match self.tokens.renew(&self.wire, call, &door, &challenge, used.as_ref()).await? {
            Some(renewed) => self.travel(call, Some(&renewed)).await,
            None => Ok(answer),
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
    async fn travel(&self, call: &Call<'_>, authorization: Option<&Secret>) -> Result<Answer, Fault> {
        if let Some(way) = call.host.way() {
            return self.follow(call, way, authorization).await;
        }
        let _turn = call.host.deciding.lock().await;
        if let Some(way) = call.host.way() {
            return self.follow(call, way, authorization).await;
        }
        let mut first: Option<Result<Answer, Fault>> = None;
        for way in call.host.ways() {
            let outcome = self.follow(call, *way, authorization).await;
            if call.host.way().is_some() {
                return outcome;
            }
            match judge(*way, outcome.as_ref().map(|answer| (answer.status, answer.body.as_slice()))) {
                Fit::Wrong => first = first.or(Some(outcome)),
                Fit::Right => {
                    call.host.settle(*way);
                    return outcome;
                }
                Fit::Unknown => return first.unwrap_or(outcome),
            }
        }
        // No way was right, so this says nothing about the ways: the connection is bad.
        first.unwrap_or_else(|| Err(Fault::Unreachable("no way to speak to it".to_owned())))
    }

    async fn follow(&self, call: &Call<'_>, way: Way, authorization: Option<&Secret>) -> Result<Answer, Fault> {
        let registry = call.host.url(way, "/")?;
        let mut url = call.url(way)?;
        let mut visited = vec![url.clone()];
        let mut by = if same_origin(&registry, &url) { By::Registry } else { By::Elsewhere };
        loop {
            let shown = authorization.filter(|_| by == By::Registry);
            let door = Door { url: registry.clone(), way };
            let response =
                self.exchange(call, &door, &url, shown).await.map_err(|fault| after_hops(fault, &visited))?;
            if visited.len() == 1 && response.status() != StatusCode::BAD_REQUEST {
                // It answers, so this is the way. What a 400 means, its body has to tell.
                call.host.settle(way);
            }
            if !is_redirect(call, response.status()) {
                return self.finish(call, response, url, by, shown).await;
            }
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let next = redirect::follow(&url, location, Errand::Read);
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
        door: &Door,
        url: &Url,
        authorization: Option<&Secret>,
    ) -> Result<Response, Fault> {
        let mut headers = call.all_headers();
        if let Some(value) = authorization.and_then(Secret::header) {
            headers.insert(AUTHORIZATION, value);
        }
        let trust = self.wire.trust(url, &door.url, door.way);
        let (method, url) = (call.method.clone(), url.clone());
        self.wire.exchange(Outgoing { method, url, headers, payload: &call.payload, trust }).await
    }

    /// Reads the body of an answer, unless it is wanted as a stream.
    async fn finish(
        &self,
        call: &Call<'_>,
        mut response: Response,
        url: Url,
        by: By,
        authorization: Option<&Secret>,
    ) -> Result<Answer, Fault> {
        let (status, headers) = (response.status(), response.headers().clone());
        let mut answer = Answer { status, headers, url, by, body: Vec::new(), stream: None, attempts: 1 };
        let limit = match (status.is_success(), call.want) {
            (true, Want::Stream) => {
                answer.stream = Some(response);
                return Ok(answer);
            }
            (true, Want::Whole(limit)) => limit,
            (false, _) => FAILURE_LIMIT,
        };
        let whole = self.wire.body(&mut response, limit).await?;
        if whole.is_cut && status.is_success() {
            let what = format!("the answer of the registry is larger than {limit} bytes");
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
fn door(call: &Call<'_>) -> Result<Option<Door>> {
    call.host.way().map(|way| Ok(Door { url: call.host.url(way, "/")?, way })).transpose()
}

fn is_redirect(call: &Call<'_>, status: StatusCode) -> bool {
    matches!(call.method, Method::GET | Method::HEAD) && matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
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
fn after_hops(fault: Fault, visited: &[Url]) -> Fault {
    match fault {
        Fault::UnknownHost(text) if visited.len() > 1 => Fault::Unreachable(text),
        fault => fault,
    }
}

fn misled(call: &Call<'_>, at: &Url, why: String) -> Fault {
    let error = call.about().error(Kind::Network, "the registry redirects to where underpin does not go");
    error.fact("redirect at", redacted(at)).cause(why).into()
}
