//! `Authorization` values: which there are, and how new ones are had when a registry asks.
//!
//! They are kept by registry and by what *we* need, not by what the challenge says: some
//! registries ask for the wrong repository. One is renewed by one request, however many wait.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;

use super::challenge::{Bearer, Challenge};
use super::client::Call;
use super::credentials::{Credential, Credentials, Secret};
use super::host::Transport;
use super::http_client::HttpClient;
use super::http_error::RequestFault;
use super::password_trial::PasswordTrials;
use super::token_request::{Granted, TokenRequest};
use super::url_policy::{self, RealmTrust, redacted};
use oci::error::{Error, Kind, Result, excerpt};
use oci::{RegistryHost, RepositoryName};

const PULL: &str = "pull";
const PUSH: &str = "pull,push";

/// What a token must allow.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TokenScope {
    repository: String,
    actions: &'static str,
    /// Sorted, each once.
    mount_from: Vec<String>,
}

impl TokenScope {
    pub(super) fn pull(name: &RepositoryName) -> Self {
        Self { repository: name.repository().to_owned(), actions: PULL, mount_from: Vec::new() }
    }

    pub(super) fn push(name: &RepositoryName) -> Self {
        Self { actions: PUSH, ..Self::pull(name) }
    }

    /// The same, and reading blobs of `from` to mount them.
    pub(super) fn mounting<'a>(mut self, from: impl IntoIterator<Item = &'a RepositoryName>) -> Self {
        self.mount_from.extend(from.into_iter().map(|name| name.repository().to_owned()));
        self.mount_from.sort();
        self.mount_from.dedup();
        self
    }

    /// Whether a token for this does for `other`, too.
    fn covers(&self, other: &Self) -> bool {
        self.repository == other.repository
            && (self.actions == PUSH || self.actions == other.actions)
            && other.mount_from.iter().all(|from| self.mount_from.contains(from))
    }

    /// The scopes to ask for. What is needed goes first, because some servers honour only one.
    /// A scope of the challenge that is about our own repository adds nothing to it.
    fn texts(&self, asked: &[String]) -> Vec<String> {
        const MOST: usize = 8;
        let own = format!("repository:{}:", self.repository);
        let mut texts = vec![format!("{own}{}", self.actions)];
        texts.extend(asked.iter().filter(|text| !text.starts_with(&own) && text.len() <= 512).take(MOST).cloned());
        texts.extend(self.mount_from.iter().map(|from| format!("repository:{from}:pull")));
        texts
    }
}

/// A registry as seen by a call: its origin, and how it is spoken to.
#[derive(Debug, Clone)]
pub(super) struct RegistryOrigin {
    pub(super) url: Url,
    pub(super) transport: Transport,
}

#[derive(Default)]
struct Slot {
    held: Option<Held>,
}

#[derive(Clone)]
struct Held {
    authorization: Secret,
    /// `None` for what does not expire.
    until: Option<Instant>,
}

type SharedSlot = Arc<tokio::sync::Mutex<Slot>>;

/// By registry and repository; each has few scopes.
type Slots = HashMap<(RegistryHost, String), Vec<(TokenScope, SharedSlot)>>;

pub(super) struct Tokens {
    credentials: Credentials,
    slots: Mutex<Slots>,
    known: Mutex<HashMap<RepositoryName, Option<Credential>>>,
    warned: Mutex<HashSet<String>>,
    pub(super) trials: PasswordTrials,
}

impl Tokens {
    pub(super) fn new(credentials: Credentials) -> Self {
        Self {
            credentials,
            slots: Mutex::default(),
            known: Mutex::default(),
            warned: Mutex::default(),
            trials: PasswordTrials::default(),
        }
    }

    /// What to send along without being asked: what is held, or what the registry is known to want.
    pub(super) async fn ready(
        &self,
        http: &HttpClient,
        call: &Call<'_>,
        origin: &RegistryOrigin,
    ) -> Result<Option<Secret>, RequestFault> {
        let slot = self.slot(call);
        let mut slot = slot.lock().await;
        if let Some(held) = slot.held.as_ref().filter(|held| held.is_fresh()) {
            return Ok(Some(held.authorization.clone()));
        }
        if let Some(wider) = self.wider(call) {
            return Ok(Some(wider));
        }
        match call.host.challenge() {
            Some(challenge) => self.fill(&mut slot, http, call, origin, &challenge).await,
            None => Ok(None),
        }
    }

    /// What to send after `used` was refused. `None` where there is nothing else to show.
    pub(super) async fn renew(
        &self,
        http: &HttpClient,
        call: &Call<'_>,
        origin: &RegistryOrigin,
        challenge: &Challenge,
        used: Option<&Secret>,
    ) -> Result<Option<Secret>, RequestFault> {
        call.host.remember(challenge);
        let slot = self.slot(call);
        let mut slot = slot.lock().await;
        // Somebody else may have renewed it while we waited.
        if let Some(held) = slot.held.as_ref().filter(|held| held.is_fresh() && Some(&held.authorization) != used) {
            return Ok(Some(held.authorization.clone()));
        }
        self.fill(&mut slot, http, call, origin, challenge).await
    }

    async fn fill(
        &self,
        slot: &mut Slot,
        http: &HttpClient,
        call: &Call<'_>,
        origin: &RegistryOrigin,
        challenge: &Challenge,
    ) -> Result<Option<Secret>, RequestFault> {
        slot.held = None;
        let credential = self.credential(http, call)?;
        slot.held = match challenge {
            Challenge::Basic => basic(call, credential)?.map(|authorization| Held { authorization, until: None }),
            Challenge::Bearer(bearer) => Some(self.fetch(http, call, origin, bearer, credential).await?),
        };
        Ok(slot.held.as_ref().map(|held| held.authorization.clone()))
    }

    async fn fetch(
        &self,
        http: &HttpClient,
        call: &Call<'_>,
        origin: &RegistryOrigin,
        bearer: &Bearer,
        credential: Option<Credential>,
    ) -> Result<Held, RequestFault> {
        let (realm, trust) =
            url_policy::accept_realm(&origin.url, &bearer.realm, |url| http.is_named(url)).map_err(|why| {
                call.about()
                    .error(Kind::Auth, "the registry names a token server that is not safe to contact")
                    .fact("realm", excerpt(&bearer.realm, 300))
                    .cause(why)
            })?;
        if credential.is_some() {
            if trust == RealmTrust::Nothing {
                return Err(unnamed(call, &realm).into());
            }
            self.warn_of_stranger(http, call, origin, &realm);
        }
        let scopes = call.scope.texts(&bearer.scopes);
        let request = TokenRequest { call, origin, realm, service: bearer.service.as_deref(), scopes, credential };
        let Granted { token, lifetime } = request.send(http, &self.trials).await?;
        let authorization = Secret::new(format!("Bearer {}", token.reveal()));
        Ok(Held { authorization, until: Some(Instant::now() + usable(lifetime)) })
    }

    /// Says once that credentials go to a host that belongs to somebody else.
    fn warn_of_stranger(&self, http: &HttpClient, call: &Call<'_>, origin: &RegistryOrigin, realm: &Url) {
        if !url_policy::is_foreign_realm(&origin.url, realm) {
            return;
        }
        let host = realm.host_str().unwrap_or_default().to_owned();
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.insert(host.clone()) {
            let registry = call.host.name();
            http.notices
                .warn(format!("the credentials for {registry} are sent to the token server {host}, which it names"));
        }
    }

    fn slot(&self, call: &Call<'_>) -> SharedSlot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slots = slots.entry((call.host.name().clone(), call.scope.repository.clone())).or_default();
        if let Some((_, slot)) = slots.iter().find(|(scope, _)| *scope == call.scope) {
            return Arc::clone(slot);
        }
        let slot = SharedSlot::default();
        slots.push((call.scope.clone(), Arc::clone(&slot)));
        slot
    }

    /// What is held for a scope that has more than the call needs. Where the registry refuses it, one for exactly this
    /// call is asked for.
    fn wider(&self, call: &Call<'_>) -> Option<Secret> {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slots = slots.get(&(call.host.name().clone(), call.scope.repository.clone()))?;
        let covering = slots.iter().filter(|(scope, _)| *scope != call.scope && scope.covers(&call.scope));
        let held = |(_, slot): &(TokenScope, SharedSlot)| slot.try_lock().ok()?.held.clone().filter(Held::is_fresh);
        covering.filter_map(held).map(|held| held.authorization).next()
    }

    /// Looked up when a registry asks for the first time, then remembered.
    fn credential(&self, http: &HttpClient, call: &Call<'_>) -> Result<Option<Credential>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&call.name).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let found = self.credentials.find(&call.name, http.timeouts.helper);
        let found = found.map_err(|error| error.fact("registry", call.host.name()).fact("image", &call.image))?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(call.name.clone(), found.clone());
        Ok(found)
    }
}

impl Held {
    fn is_fresh(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }
}

/// How long a token is used that lives for `lifetime`: a bit less, for the way there.
fn usable(lifetime: Duration) -> Duration {
    lifetime.saturating_sub((lifetime / 4).min(Duration::from_secs(10)))
}

/// Why nobody is shown credentials at a port of this machine that the user has not named.
fn unnamed(call: &Call<'_>, realm: &Url) -> Error {
    let place = format!("{}:{}", realm.host_str().unwrap_or_default(), realm.port_or_known_default().unwrap_or(0));
    call.about()
        .error(Kind::Auth, "the credentials are not sent to the token server that the registry names")
        .fact("realm", redacted(realm))
        .cause("it is at another port of this machine, which may be somebody else's")
        .hint(format!("if it is the registry's token server, allow it: --insecure {place}"))
}

fn basic(call: &Call<'_>, credential: Option<Credential>) -> Result<Option<Secret>> {
    match credential {
        None => Ok(None),
        Some(Credential::Password { user, password }) => Ok(Some(basic_of(&user, &password))),
        Some(Credential::Identity(_)) => Err(call
            .about()
            .error(Kind::Auth, "the registry wants a password, but only an identity token is stored for it")),
    }
}

pub(super) fn basic_of(user: &str, password: &Secret) -> Secret {
    Secret::new(format!("Basic {}", STANDARD.encode(format!("{user}:{}", password.reveal()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needed_scopes_go_first_and_strange_ones_are_passed_on() {
        let name = |text: &str| text.parse::<oci::Reference>().unwrap().name().clone();
        let asked = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let push = TokenScope::push(&name("a.io/x/y"));
        for (scope, challenge, expected) in [
            (TokenScope::pull(&name("a.io/x")), asked(&["repository:x:pull"]), vec!["repository:x:pull"]),
            (push.clone(), asked(&["repository:x/y:pull"]), vec!["repository:x/y:pull,push"]),
            (push.clone(), asked(&["aws"]), vec!["repository:x/y:pull,push", "aws"]),
            (push.clone(), asked(&["repository:y:pull"]), vec!["repository:x/y:pull,push", "repository:y:pull"]),
            (
                push.mounting(&[name("a.io/z"), name("a.io/b"), name("a.io/z")]),
                asked(&[]),
                vec!["repository:x/y:pull,push", "repository:b:pull", "repository:z:pull"],
            ),
        ] {
            assert_eq!(scope.texts(&challenge), expected);
        }
    }

    #[test]
    fn a_token_for_more_does_for_less() {
        let name = |text: &str| text.parse::<oci::Reference>().unwrap().name().clone();
        let (pull, push) = (TokenScope::pull(&name("a.io/x")), TokenScope::push(&name("a.io/x")));
        let mounting = |from: &[&str]| push.clone().mounting(&from.iter().map(|from| name(from)).collect::<Vec<_>>());
        for (wide, narrow, covers) in [
            (&push, &pull, true),
            (&pull, &push, false),
            (&mounting(&["a.io/b", "a.io/c"]), &mounting(&["a.io/c"]), true),
            (&mounting(&["a.io/b"]), &mounting(&["a.io/c"]), false),
            (&mounting(&["a.io/b"]), &push, true),
            (&TokenScope::push(&name("a.io/y")), &pull, false),
        ] {
            assert_eq!(wide.covers(narrow), covers, "{wide:?} {narrow:?}");
        }
    }

    #[test]
    fn tokens_are_renewed_a_bit_early() {
        for (lifetime, used) in [(60, 50), (300, 290), (8, 6), (0, 0)] {
            assert_eq!(usable(Duration::from_secs(lifetime)), Duration::from_secs(used));
        }
    }
}
