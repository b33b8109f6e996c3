//! TLS, plain HTTP, and where redirects may lead.

use std::sync::Arc;

use super::*;
use crate::store::Source;
use crate::store::registry::RegistryOptions;
use oci::error::Kind;

/// A certificate for 127.0.0.1 that signs itself: the server's side, and its PEM.
fn certificate() -> (Arc<rustls::ServerConfig>, String) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    (Arc::new(config), made.cert.pem())
}

fn cacert(pem: &str) -> (RegistryOptions, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ca.pem");
    std::fs::write(&path, pem).unwrap();
    (RegistryOptions { cacert: Some(path), ..RegistryOptions::default() }, dir)
}

#[test]
fn a_local_registry_may_speak_plain_http_or_tls() {
    let (server, pem) = certificate();
    let tls = FakeRegistry::start_tls(server, |_, _| manifest_reply());
    let plain = FakeRegistry::start(|_, _| manifest_reply());
    for fake in [&tls, &plain] {
        assert!(Rig::new().registry.source(&fake.image("a/b:c")).top().is_ok());
        let (options, _dir) = cacert(&pem);
        let rig = Rig::with(options);
        let source = rig.registry.source(&fake.image("a/b:c"));
        assert!(source.top().is_ok() && source.top().is_ok());
    }
}

#[test]
fn go_servers_that_want_tls_are_understood() {
    // What a Go server answers on its TLS port; there is no TLS here, so the way is not found.
    let fake = FakeRegistry::start(|_, _| Reply::new(400).body("Client sent an HTTP request to an HTTPS server.\n"));
    let rig = Rig::new();
    let error = rig.registry.source(&fake.image("a/b:c")).top().unwrap_err();
    assert_eq!((error.kind(), rig.traffic.tally().requests), (Kind::Network, 1), "{error}");
}

#[test]
fn the_way_is_found_out_once() {
    let plain = FakeRegistry::start(|_, _| manifest_reply());
    let (options, _dir) = cacert(&certificate().1);
    let rig = Rig::with(options);
    let source = rig.registry.source(&plain.image("a/b:c"));
    source.top().unwrap();
    source.top().unwrap();
    assert_eq!((rig.traffic.tally().requests, plain.count("GET")), (2, 2));
}

#[test]
fn a_certificate_that_is_not_trusted_is_named_and_not_tried_again() {
    let (server, _) = certificate();
    let fake = FakeRegistry::start_tls(server, |_, _| manifest_reply());
    let (options, _dir) = cacert(&certificate().1);
    let rig = Rig::with(options);
    let error = rig.registry.source(&fake.image("a/b:c")).top().unwrap_err();
    assert_eq!((error.kind(), rig.traffic.tally().requests), (Kind::Network, 0), "{error}");
    assert!(error.facts().contains(&("attempts", "1".to_owned())), "{error}");
    assert!(error.what().contains("certificate") && error.hints()[0].contains("--cacert"), "{error}");
    assert!(error.causes()[0].contains("certificate"), "{error}");
}

#[test]
fn an_insecure_host_may_have_any_certificate() {
    let (server, _) = certificate();
    let fake = FakeRegistry::start_tls(server, |_, _| manifest_reply());
    let (options, _dir) = cacert(&certificate().1);
    let rig = Rig::with(RegistryOptions { insecure: vec![fake.host.parse().unwrap()], ..options });
    assert!(rig.registry.source(&fake.image("a/b:c")).top().is_ok());
}

#[test]
fn a_token_server_is_not_trusted_because_the_registry_is() {
    let (server, _) = certificate();
    let tokens = FakeRegistry::start_tls(Arc::clone(&server), |_, _| Reply::new(200).body(r#"{"token":"t"}"#));
    let realm = format!(r#"Bearer realm="https://{}/token""#, tokens.host);
    let fake = FakeRegistry::start_tls(server, move |seen, _| match seen.header("authorization") {
        Some("Bearer t") => manifest_reply(),
        _ => Reply::new(401).with("WWW-Authenticate", &realm),
    });
    let rig = Rig::with(RegistryOptions { insecure: vec![fake.host.parse().unwrap()], ..RegistryOptions::default() });
    let error = rig.registry.source(&fake.image("a/b:c")).top().unwrap_err();
    assert!(error.what().contains("certificate"), "{error}");
    assert!(tokens.lines().is_empty());
    let rig = Rig::with(RegistryOptions {
        insecure: vec![fake.host.parse().unwrap(), tokens.host.parse().unwrap()],
        ..RegistryOptions::default()
    });
    assert!(rig.registry.source(&fake.image("a/b:c")).top().is_ok());
}

#[test]
fn tls_is_not_left_by_a_redirect() {
    let (server, _) = certificate();
    let plain = FakeRegistry::start(|_, _| manifest_reply());
    let to = format!("http://{}/x", plain.host);
    let fake = FakeRegistry::start_tls(server, move |_, _| Reply::new(307).with("Location", &to));
    let error = Rig::new().registry.source(&fake.image("a/b:c")).top().unwrap_err();
    assert!(error.kind() == Kind::Network && error.causes()[0].contains("plain http"), "{error}");
    assert!(plain.lines().is_empty());
}

#[test]
fn redirects_end_in_a_circle_or_after_ten() {
    for circle in [true, false] {
        let fake = FakeRegistry::start(move |seen, _| {
            let step: usize = seen.target.rsplit_once('/').unwrap().1.parse().unwrap_or(0);
            let next = if circle { (step + 1) % 3 } else { step + 1 };
            Reply::new(302).with("Location", format!("/hop/{next}"))
        });
        let error = Rig::new().registry.source(&fake.image("a/b:c")).top().unwrap_err();
        assert_eq!((error.kind(), fake.count("GET")), (Kind::Network, if circle { 4 } else { 11 }), "{error}");
    }
    let fake = FakeRegistry::start(|seen, _| match seen.target.rsplit_once('/').unwrap().1.parse().unwrap_or(0) {
        10 => manifest_reply(),
        step => Reply::new(307).with("Location", format!("/hop/{}", step + 1)),
    });
    assert!(Rig::new().registry.source(&fake.image("a/b:c")).top().is_ok());
}

#[test]
fn a_redirect_to_a_dead_host_is_tried_again_from_the_start() {
    let fake = FakeRegistry::start(|_, nth| match nth {
        0 => Reply::new(307).with("Location", "http://127.0.0.1:1/x"),
        _ => manifest_reply(),
    });
    assert!(Rig::new().registry.source(&fake.image("a/b:c")).top().is_ok());
    assert_eq!(fake.count("GET"), 2);
}

#[test]
fn a_name_that_does_not_exist_is_not_tried_again() {
    let rig = Rig::new();
    let image = "no-such-host.invalid/a/b:c".parse().unwrap();
    let error = rig.registry.source(&image).top().unwrap_err();
    assert_eq!(error.kind(), Kind::Network, "{error}");
    // Without a name server the name may exist, and is tried again.
    let is_final = error.what().contains("no such host");
    assert_eq!(error.facts().contains(&("attempts", "1".to_owned())), is_final, "{error}");
}

#[test]
fn a_registry_that_is_not_there_is_tried_six_times() {
    let rig = Rig::new();
    let error = rig.registry.source(&"127.0.0.1:1/a/b:c".parse().unwrap()).top().unwrap_err();
    assert_eq!((error.kind(), rig.traffic.tally().requests), (Kind::Network, 0), "{error}");
    assert!(error.facts().contains(&("attempts", "6".to_owned())), "{error}");
}
