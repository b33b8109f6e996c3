//! A registry that wants tokens, with the stock images in it, behind a proxy.

use super::cli::{Invocation, Sandbox};
use super::proxy::Proxy;
use super::registry::{Door, Registry};
use super::stock;
use super::token_server::{Manners, TokenServer};

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
    pub fn new(manners: Manners) -> Option<Self> {
        let tokens = TokenServer::new(manners);
        let registry = Registry::with(&Door::Token(&tokens))?;
        let back = registry.back_door();
        stock(back.host());
        let proxy = Proxy::before(registry.host());
        Some(Self { tokens, back, proxy, sandbox: Sandbox::new(), _registry: registry })
    }

    pub fn name(&self, rest: &str) -> String {
        format!("{}/{rest}", self.proxy.host())
    }

    /// A rebase of the stock application to `to`, without a cache. Forgets earlier tokens.
    pub fn rebase(&self, to: &str) -> Invocation {
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
    stock::app_layer("linux/amd64", PAYLOAD).digest()
}

/// Puts the stock images into a registry without a guard.
pub fn stock(host: &str) {
    stock::app("linux/amd64", PAYLOAD).build().push(host, "in/app", "v1");
    stock::old_base("linux/amd64").build().push(host, "base/old", "v1");
    stock::new_base("linux/amd64").build().push(host, "base/new", "v1");
}

/// A rebase of the stock application at `host` to `to`, without a cache.
pub fn rebase_at(sandbox: &Sandbox, host: &str, to: &str) -> Invocation {
    let name = |rest: &str| format!("{host}/{rest}");
    let invocation = sandbox.underpin(["rebase", &name("in/app:v1"), "--base", &name("base/new:v1")]);
    invocation.args(["--old-base", &name("base/old:v1"), "--to", to, "--no-cache"]).hurried()
}
