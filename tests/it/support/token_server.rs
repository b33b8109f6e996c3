//! The token server of a registry with bearer authentication. It signs what real registries
//! accept, remembers every request, and can be told to fail in the ways real ones do.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};

use super::docker_registry::{Door, Registry};
use super::fixtures;
use super::http::{Answer, Body, Listener, Request, query, serve};
use super::invocation::{Invocation, Sandbox};
use super::proxy::Proxy;
use super::skip::{Part, or_skip};
use super::tls::{Authority, Leaf, Validity};

/// What the registry calls itself, and whom it believes.
pub const SERVICE: &str = "rig-registry";
pub const ISSUER: &str = "rig-issuer";

/// Where in the reply the token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    Token,
    AccessToken,
    Nowhere,
}

/// Who gets a token.
#[derive(Debug, Clone)]
pub enum Guest {
    Anyone,
    Basic {
        user: String,
        password: String,
    },
    /// The holder of this identity token, by POST.
    Identity(String),
}

#[derive(Debug, Clone)]
pub struct Manners {
    pub guest: Guest,
    pub field: Field,
    /// What `expires_in` says. (The registry itself allows a minute more.)
    pub lifetime: u64,
    /// Given out first, one for each request.
    pub failures: Vec<Answer>,
}

impl Default for Manners {
    fn default() -> Self {
        Self { guest: Guest::Anyone, field: Field::Token, lifetime: 300, failures: Vec::new() }
    }
}

pub struct TokenServer {
    listener: Listener,
    authority: Authority,
    state: Arc<State>,
}

struct State {
    leaf: Leaf,
    manners: Mutex<Manners>,
    seen: Mutex<Vec<Request>>,
}

impl TokenServer {
    pub fn new(manners: Manners) -> Self {
        let authority = Authority::new();
        let leaf = authority.leaf(Validity::Now);
        let state = Arc::new(State { leaf, manners: Mutex::new(manners), seen: Mutex::default() });
        let serving = Arc::clone(&state);
        Self { listener: serve(move |request| serving.answer(request)), authority, state }
    }

    pub fn realm(&self) -> String {
        format!("http://{}/token", self.host())
    }

    pub fn host(&self) -> String {
        self.listener.host()
    }

    /// The authority that the registry believes.
    pub fn certificate(&self) -> PathBuf {
        self.authority.file()
    }

    /// The header of a 401 that says the token ran out.
    pub fn expired(&self, repository: &str, actions: &str) -> Answer {
        let (realm, service) = (self.realm(), SERVICE);
        let challenge = format!(
            r#"Bearer realm="{realm}",service="{service}",scope="repository:{repository}:{actions}",error="invalid_token""#
        );
        Answer::error(401, "UNAUTHORIZED", "authentication required").header("WWW-Authenticate", challenge)
    }

    pub fn behave(&self, manners: Manners) {
        *self.state.manners.lock().unwrap() = manners;
    }

    pub fn seen(&self) -> Vec<Request> {
        self.state.seen.lock().unwrap().clone()
    }

    pub fn forget(&self) {
        self.state.seen.lock().unwrap().clear();
    }

    /// All scopes that were ever asked for.
    pub fn scopes(&self) -> Vec<String> {
        self.seen().iter().flat_map(scopes_of).collect()
    }
}

impl State {
    fn answer(&self, request: &Request) -> Answer {
        self.seen.lock().unwrap().push(request.clone());
        let mut manners = self.manners.lock().unwrap();
        if !manners.failures.is_empty() {
            return manners.failures.remove(0);
        }
        if !is_welcome(&manners.guest, request) {
            return Answer::error(401, "UNAUTHORIZED", "not you");
        }
        let mut reply = json!({"expires_in": manners.lifetime});
        match manners.field {
            Field::Token => reply["token"] = self.token(request).into(),
            Field::AccessToken => reply["access_token"] = self.token(request).into(),
            Field::Nowhere => {}
        }
        Answer::json(200, &reply)
    }

    fn token(&self, request: &Request) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let access: Vec<Value> = scopes_of(request).iter().filter_map(|scope| access(scope)).collect();
        let header = json!({"typ": "JWT", "alg": "ES256", "x5c": [STANDARD.encode(&self.leaf.der)]});
        let claims = json!({
            "iss": ISSUER, "sub": if request.headers.get("authorization").is_some() { "rig" } else { "" }, "aud": SERVICE, "exp": now + 3600, "nbf": now - 10,
            "iat": now, "jti": now.to_string(), "access": access,
        });
        let signed = format!("{}.{}", part(&header), part(&claims));
        let random = ring::rand::SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &self.leaf.pkcs8, &random).unwrap();
        let signature = key.sign(&random, signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

/// Every repeated `scope=` of a GET; the space-joined one of a POST.
fn scopes_of(request: &Request) -> Vec<String> {
    match request.method.as_str() {
        "POST" => form(request, "scope").split(' ').map(str::to_owned).collect(),
        _ => query(&request.target, "scope"),
    }
}

fn form(request: &Request, name: &str) -> String {
    let body = String::from_utf8_lossy(&request.body).into_owned();
    query(&format!("?{body}"), name).pop().unwrap_or_default()
}

fn access(scope: &str) -> Option<Value> {
    let (kind, rest) = scope.split_once(':')?;
    let (name, actions) = rest.rsplit_once(':')?;
    Some(json!({"type": kind, "name": name, "actions": actions.split(',').collect::<Vec<_>>()}))
}

fn is_welcome(guest: &Guest, request: &Request) -> bool {
    match guest {
        Guest::Anyone => true,
        Guest::Basic { user, password } => {
            let basic = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
            request.headers.get("authorization") == Some(&basic)
        }
        Guest::Identity(token) => {
            request.method == "POST"
                && form(request, "grant_type") == "refresh_token"
                && form(request, "refresh_token") == *token
        }
    }
}

/// A reply far too large to be a token.
pub fn huge(size: u64) -> Answer {
    Answer { body: Body::Fill(size), ..Answer::new(200).header("Content-Type", "application/json") }
}

// A registry that wants tokens, with the fixture images in it, behind a proxy.

pub const PAYLOAD: usize = 100_000;

pub struct Guarded {
    pub tokens: TokenServer,
    /// The same content without a guard.
    pub back: Registry,
    pub proxy: Proxy,
    pub sandbox: Sandbox,
    _registry: Registry,
}

impl Guarded {
    pub fn new(manners: Manners) -> Part<Self> {
        let tokens = TokenServer::new(manners);
        let registry = Registry::with(&Door::Token(&tokens))?;
        let back = registry.back_door();
        push_fixtures(back.host());
        let proxy = Proxy::before(registry.host());
        Ok(Self { tokens, back, proxy, sandbox: Sandbox::new(), _registry: registry })
    }

    pub fn name(&self, rest: &str) -> String {
        format!("{}/{rest}", self.proxy.host())
    }

    /// A rebase of the fixture application to `to`, without a cache. Forgets earlier tokens. The token server is named:
    /// at another port than the registry's, it would get no credentials otherwise.
    pub fn rebase(&self, to: &str) -> Invocation {
        self.rebase_unnamed(to).args(["--insecure", &self.tokens.host()])
    }

    /// The same without naming the token server.
    pub fn rebase_unnamed(&self, to: &str) -> Invocation {
        self.tokens.forget();
        rebase_at(&self.sandbox, &self.proxy.host(), to)
    }

    /// `oci:` location of a layout in the sandbox.
    pub fn layout(&self, name: &str) -> String {
        format!("oci:{}:v1", self.sandbox.path(name).display())
    }
}

/// The digest of the application's own layer.
pub fn app_layer() -> String {
    fixtures::app_layer("linux/amd64", PAYLOAD).digest()
}

/// Puts the fixture images into a registry without a guard.
pub fn push_fixtures(host: &str) {
    fixtures::app("linux/amd64", PAYLOAD).build().push(host, "in/app", "v1");
    fixtures::old_base("linux/amd64").build().push(host, "base/old", "v1");
    fixtures::new_base("linux/amd64").build().push(host, "base/new", "v1");
}

/// A rebase of the fixture application at `host` to `to`, without a cache.
pub fn rebase_at(sandbox: &Sandbox, host: &str, to: &str) -> Invocation {
    let name = |rest: &str| format!("{host}/{rest}");
    let invocation = sandbox.underpin(["rebase", &name("in/app:v1"), "--base", &name("base/new:v1")]);
    invocation.args(["--old-base", &name("base/old:v1"), "--to", to, "--no-cache"]).hurried()
}

#[cfg(test)]
mod tests {
    use super::super::docker_registry::{Door, Registry};
    use super::super::http::{ask, get};
    use super::*;

    fn fetch(server: &TokenServer, query: &str, headers: &[(&str, &str)]) -> Value {
        get(&server.listener.host(), &format!("/token?service=rig-registry{query}"), headers).json()
    }

    #[test]
    fn the_registry_accepts_a_token_for_its_scope_only() {
        let server = TokenServer::new(Manners::default());
        let registry = or_skip!(Registry::with(&Door::Token(&server)));
        let refused = get(registry.host(), "/v2/a/b/tags/list", &[]);
        let challenge = refused.headers.get("www-authenticate").unwrap().to_owned();
        assert!(refused.status == 401 && challenge.contains(&server.realm()), "{challenge}");
        let reply = fetch(&server, "&scope=repository:a/b:pull&scope=repository:c:pull,push", &[]);
        let bearer = format!("Bearer {}", reply["token"].as_str().unwrap());
        let status = |target: &str| get(registry.host(), target, &[("Authorization", &bearer)]).status;
        assert_eq!((status("/v2/a/b/tags/list"), status("/v2/other/tags/list")), (404, 401));
        let upload = |repository: &str| {
            let target = format!("/v2/{repository}/blobs/uploads/");
            ask("POST", registry.host(), &target, &[("Authorization", &bearer)], b"").unwrap().status
        };
        assert_eq!((upload("a/b"), upload("c")), (401, 202));
        assert_eq!(server.scopes(), ["repository:a/b:pull", "repository:c:pull,push"]);
    }

    #[test]
    fn gives_tokens_to_its_guests_only() {
        let guest = Guest::Basic { user: "ann".to_owned(), password: "pw".to_owned() };
        let server = TokenServer::new(Manners { guest, field: Field::AccessToken, lifetime: 7, ..Manners::default() });
        assert!(fetch(&server, "", &[])["errors"].is_array());
        let reply = fetch(&server, "", &[("Authorization", "Basic YW5uOnB3")]);
        assert!(reply["access_token"].is_string() && reply["token"].is_null() && reply["expires_in"] == 7);
        server.behave(Manners { guest: Guest::Identity("id/+".to_owned()), ..Manners::default() });
        let post = |token: &str| {
            let body = format!("grant_type=refresh_token&refresh_token={token}&scope=repository:a:pull");
            ask("POST", &server.listener.host(), "/token", &[], body.as_bytes()).unwrap().status
        };
        assert_eq!((post("id%2F%2B"), post("other")), (200, 401));
    }

    #[test]
    fn fails_as_often_as_it_is_told() {
        let failures = vec![Answer::new(503), huge(1 << 20)];
        let server = TokenServer::new(Manners { failures, field: Field::Nowhere, ..Manners::default() });
        let reply = || get(&server.listener.host(), "/token", &[]);
        assert_eq!((reply().status, reply().body.len()), (503, 1 << 20));
        assert_eq!(reply().json()["token"], Value::Null);
    }
}
