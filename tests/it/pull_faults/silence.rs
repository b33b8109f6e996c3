//! Registries that say nothing, or too little. Time-outs are a twentieth.

use std::time::Duration;

use super::{on_manifest, registries, survives, survives_once};
use crate::support::docker_registry::{Door, Registry};
use crate::support::invocation::{Run, Sandbox};
use crate::support::proxy::{Action, At, Cut};
use crate::support::published;
use crate::support::skip::{Part, or_skip};
use crate::support::tls::{Authority, Validity};
use crate::support::token_server::{self, rebase_at};
use crate::support::tunnel::{First, Tunnel};

#[test]
fn silence_in_the_middle_is_resumed() {
    let registries = or_skip!(registries());
    let seen = survives_once(&registries, Action::Cut(At::Body(4096), Cut::Stall));
    assert_eq!(seen[1].headers.get("range"), Some("bytes=4096-"));
}

#[test]
fn a_drip_is_left_for_a_better_connection() {
    let registries = or_skip!(registries());
    let seen = survives_once(&registries, Action::Rate(100));
    assert!(seen.len() == 2 && seen[1].has("range"), "{} requests", seen.len());
}

#[test]
fn a_head_that_never_comes_is_asked_for_again() {
    let registries = or_skip!(registries());
    assert_eq!(survives_once(&registries, Action::Hang).len(), 2);
    survives(&registries, [on_manifest().does(Action::Hang)]);
}

/// Rebases between repositories of one registry that speaks TLS, at `host`.
fn rebase(host: &str, authority: &Authority) -> Run {
    let sandbox = Sandbox::new();
    rebase_at(&sandbox, host, &format!("{host}/out/app:v1")).arg("--cacert").arg(authority.file()).run()
}

fn tls_registry(authority: &Authority, validity: Validity) -> Part<(Registry, Registry)> {
    let registry = Registry::with(&Door::Tls(&authority.leaf(validity)))?;
    let back = registry.back_door();
    token_server::push_fixtures(back.host());
    Ok((registry, back))
}

#[test]
fn a_spoilt_handshake_is_tried_again() {
    for first in [First::CloseNotify, First::Silence] {
        let authority = Authority::new();
        let (registry, back) = or_skip!(tls_registry(&authority, Validity::Now));
        let front = Tunnel::to(registry.host(), first);
        let run = rebase(&front.host(), &authority).ok();
        assert_eq!(published::registry(back.host(), "out/app", "v1").unwrap().digest, run.digest(), "{first:?}\n{run}");
    }
}

#[test]
fn an_expired_certificate_is_named_and_not_tried_again() {
    let authority = Authority::new();
    let (registry, back) = or_skip!(tls_registry(&authority, Validity::Expired));
    let front = Tunnel::to(registry.host(), First::Passed);
    let run = rebase(&front.host(), &authority).fails("network").says("certificate").says("expired");
    // Source, base and old base may each try once, and find out what the host speaks.
    assert!(front.connections() <= 6, "{} connections\n{run}", front.connections());
    assert_eq!(back.tag("out/app", "v1"), None);
}

#[test]
fn a_host_that_does_not_exist_is_an_error_at_once() {
    let sandbox = Sandbox::new();
    let args = ["rebase", "nx.invalid/app:v1", "--base", "nx.invalid/base:v1", "--to", "oci:out:v1"];
    let run =
        sandbox.underpin(args).arg("--cache").arg(sandbox.path("cache")).run().fails("network").says("nx.invalid");
    assert!(run.elapsed < Duration::from_secs(20), "{run}");
    assert!(sandbox.strays().is_empty());
}
