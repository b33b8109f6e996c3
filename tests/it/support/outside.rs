//! The registries that documents name, all in one: a real one behind a proxy that every name leads to.

use super::registry::{Door, Registry};
use super::tls::{Authority, Validity};
use super::tunnel::Tunnel;

/// Hosts as documents write them; Docker Hub has its API elsewhere.
pub const HOSTS: [&str; 4] = ["registry.example", "gcr.io", "registry.k8s.io", "registry-1.docker.io"];

pub struct Outside {
    _registry: Registry,
    tunnel: Tunnel,
    authority: Authority,
}

impl Outside {
    /// `None` where the registry is not installed.
    pub fn start() -> Option<Self> {
        let authority = Authority::new();
        let names = [&HOSTS[..], &["127.0.0.1"]].concat();
        let registry = Registry::with(&Door::Tls(&authority.leaf_for(&names, Validity::Now)))?;
        Some(Self { tunnel: Tunnel::connect(registry.host()), _registry: registry, authority })
    }

    /// What leads underpin, skopeo and other programs there, as it would in a company's network.
    pub fn variables(&self) -> [(&'static str, String); 2] {
        let proxy = format!("http://{}", self.tunnel.host());
        [("HTTPS_PROXY", proxy), ("SSL_CERT_FILE", self.authority.file().display().to_string())]
    }
}
