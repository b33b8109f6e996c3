//! Certificates: whose word counts.

use super::write;
use crate::support::docker_registry::{Door, Registry};
use crate::support::invocation::Sandbox;
use crate::support::skip::{Part, or_skip};
use crate::support::tls::{Authority, STRANGER, Validity};
use crate::support::token_server::{self, rebase_at};
use crate::support::tunnel::Tunnel;

/// A registry with a certificate that only the test's authority vouches for.
fn with_certificate(authority: &Authority) -> Part<(Registry, Registry, Sandbox)> {
    let registry = Registry::with(&Door::Tls(&authority.leaf(Validity::Now)))?;
    let back = registry.back_door();
    token_server::push_fixtures(back.host());
    Ok((registry, back, Sandbox::new()))
}

#[test]
fn a_certificate_is_checked_unless_told_otherwise() {
    let authority = Authority::new();
    let (registry, back, sandbox) = or_skip!(with_certificate(&authority));
    let tunnel = Tunnel::connect(registry.host());
    let host = format!("{STRANGER}:5000");
    let rebase = |tag: &str| {
        let proxy = format!("http://{}", tunnel.host());
        rebase_at(&sandbox, &host, &format!("{host}/out/app:{tag}")).env("HTTPS_PROXY", proxy)
    };
    rebase("none").run().fails("network").says("certificate");
    assert_eq!(back.tag("out/app", "none"), None);
    let run = rebase("known").arg("--cacert").arg(authority.file()).run().ok();
    assert_eq!(back.tag("out/app", "known"), Some(run.digest()));
    let run = rebase("insecure").args(["--insecure", &host]).run().ok();
    assert_eq!(back.tag("out/app", "insecure"), Some(run.digest()));
    rebase("other").args(["--insecure", "registry.test:1"]).run().fails("network").says("certificate");
    let stranger = Authority::new();
    rebase("stranger").arg("--cacert").arg(stranger.file()).run().fails("network").says("certificate");
}

#[test]
fn a_registry_on_this_machine_needs_no_flag() {
    let authority = Authority::new();
    let (registry, back, sandbox) = or_skip!(with_certificate(&authority));
    let rebase = |tag: &str| rebase_at(&sandbox, registry.host(), &format!("{}/out/app:{tag}", registry.host()));
    let run = rebase("loopback").run().ok();
    assert_eq!(back.tag("out/app", "loopback"), Some(run.digest()));
    // Who names an authority wants it to be asked.
    let stranger = Authority::new();
    rebase("stranger").arg("--cacert").arg(stranger.file()).run().fails("network").says("certificate");
}

#[test]
fn an_authority_file_that_is_none_is_an_error() {
    let authority = Authority::new();
    let (registry, _back, sandbox) = or_skip!(with_certificate(&authority));
    write(&sandbox.path("bad.pem"), "not a certificate");
    for file in ["bad.pem", "missing.pem"] {
        let to = format!("{}/out/app:v1", registry.host());
        let run = rebase_at(&sandbox, registry.host(), &to).arg("--cacert").arg(sandbox.path(file)).run();
        assert_eq!(run.code(), Some(2), "{run}");
        run.says(file);
    }
}
