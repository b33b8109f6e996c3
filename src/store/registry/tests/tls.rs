//! TLS against servers that are wrong, old or demanding: what is not proven is not spoken to.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;

use super::*;
use crate::store::Source;
use crate::store::registry::{RegistryOptions, Timeouts};
use oci::error::{Error, Kind};

type Change = fn(&mut CertificateParams);

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(rcgen::DnType::CommonName, "an authority");
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// The chain and key of a certificate for these names by `issuer`, changed like this.
fn leaf(
    issuer: &CertifiedIssuer<'static, KeyPair>,
    names: &[&str],
    change: Change,
) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let mut params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let signed = params.signed_by(&key, issuer).unwrap();
    (vec![signed.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
}

fn builder() -> rustls::ConfigBuilder<rustls::ServerConfig, rustls::WantsVerifier> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    rustls::ServerConfig::builder()
}

/// Trusts the certificate in `pem`.
fn trusting(pem: &str) -> (RegistryOptions, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ca.pem");
    std::fs::write(&path, pem).unwrap();
    (RegistryOptions { cacert: Some(path), ..RegistryOptions::default() }, dir)
}

/// What comes of reading an image at `host` from a server with this certificate.
fn read(
    (chain, key): (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>),
    host: &str,
    trusted: &str,
) -> (Result<Document, Error>, usize) {
    let config = builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let fake = FakeRegistry::start_tls(Arc::new(config), |_, _| manifest_reply());
    let port = fake.host.rsplit_once(':').unwrap().1;
    let (options, _dir) = trusting(trusted);
    let image = format!("{host}:{port}/a/b:c").parse().unwrap();
    let read = Rig::with(options).registry.source(&image).top();
    (read, fake.lines().len())
}

#[test]
fn only_a_certificate_for_this_host_at_this_time_by_this_authority_is_accepted() {
    const BOTH: &[&str] = &["localhost", "127.0.0.1"];
    let rows: [(&str, &str, &[&str], Change, bool); 13] = [
        ("as it should be, by name", "localhost", BOTH, |_| {}, true),
        ("as it should be, by address", "127.0.0.1", BOTH, |_| {}, true),
        ("expired", "localhost", BOTH, |params| params.not_after = date_time_ymd(2002, 1, 1), false),
        ("not valid yet", "localhost", BOTH, |params| params.not_before = date_time_ymd(4000, 1, 1), false),
        ("for another name", "localhost", &["registry.example"], |_| {}, false),
        ("for a name that begins alike", "localhost", &["localhost.example"], |_| {}, false),
        ("for the address, but not the name", "localhost", &["127.0.0.1"], |_| {}, false),
        ("for the name, but not the address", "127.0.0.1", &["localhost"], |_| {}, false),
        ("for another address", "127.0.0.1", &["127.0.0.2"], |_| {}, false),
        ("for everything", "localhost", &["*"], |_| {}, false),
        ("for an address as if it were a name", "127.0.0.1", &["*.0.0.1"], |_| {}, false),
        (
            "with the name as its common name only",
            "localhost",
            &[],
            |params| params.distinguished_name.push(rcgen::DnType::CommonName, "localhost"),
            false,
        ),
        (
            "for clients",
            "localhost",
            BOTH,
            |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth],
            false,
        ),
    ];
    let ours = authority();
    for (name, host, names, change, is_good) in rows {
        let (outcome, requests) = read(leaf(&ours, names, change), host, &ours.pem());
        assert_eq!((outcome.is_ok(), requests > 0), (is_good, is_good), "{name}: {outcome:?}");
        if let Err(error) = outcome {
            assert!(error.kind() == Kind::Network && error.what().contains("certificate"), "{name}: {error}");
            assert!(error.facts().contains(&("attempts", "1".to_owned())), "{name}: {error}");
        }
        let (outcome, requests) = read(leaf(&ours, names, change), host, &authority().pem());
        assert_eq!((outcome.is_ok(), requests), (false, 0), "{name}, by an authority that nobody knows");
    }
}

#[test]
fn a_certificate_that_is_no_authority_vouches_for_nobody() {
    let ours = authority();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::NoCa;
    let middle = CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), &ours).unwrap();
    let (mut chain, key) = leaf(&middle, &["localhost"], |_| {});
    chain.push(middle.der().clone());
    let (outcome, requests) = read((chain, key), "localhost", &ours.pem());
    assert!(outcome.unwrap_err().what().contains("certificate") && requests == 0);
}

#[test]
fn a_registry_that_demands_a_client_certificate_is_told_so() {
    let ours = authority();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(ours.der().clone()).unwrap();
    let roots = Arc::new(roots);
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for is_needed in [true, false] {
            let _ = builder();
            let verifier = WebPkiClientVerifier::builder(Arc::clone(&roots));
            let verifier = if is_needed { verifier } else { verifier.allow_unauthenticated() }.build().unwrap();
            let (chain, key) = leaf(&ours, &["localhost"], |_| {});
            let config = rustls::ServerConfig::builder_with_protocol_versions(&[version]);
            let config = config.with_client_cert_verifier(verifier).with_single_cert(chain, key).unwrap();
            let fake = FakeRegistry::start_tls(Arc::new(config), |_, _| manifest_reply());
            let (options, _dir) = trusting(&ours.pem());
            let image = fake.host.replace("127.0.0.1", "localhost");
            let outcome = Rig::with(options).registry.source(&format!("{image}/a/b:c").parse().unwrap()).top();
            assert_eq!(outcome.is_ok(), !is_needed, "{version:?}: {outcome:?}");
            if let Err(error) = outcome {
                assert!(error.what().contains("demands a client certificate"), "{version:?}: {error}");
            }
        }
    }
}

/// A server that answers the first bytes of every connection with these, and counts what looks like HTTP.
fn answering(bytes: Vec<u8>) -> (String, Arc<Mutex<usize>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let plain = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&plain);
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let (bytes, counted) = (bytes.clone(), Arc::clone(&counted));
            std::thread::spawn(move || {
                let mut socket = socket.unwrap();
                let mut buffer = [0; 4096];
                let got = socket.read(&mut buffer).unwrap();
                if buffer[..got].starts_with(b"GET ") || buffer[..got].starts_with(b"HEAD ") {
                    *counted.lock().unwrap() += 1;
                }
                let _ = socket.write_all(&bytes);
                let _ = socket.read(&mut buffer);
            });
        }
    });
    (host, plain)
}

/// A handshake message in a record.
fn record(version: [u8; 2], kind: u8, body: &[u8]) -> Vec<u8> {
    let length = |length: usize| u16::try_from(length).unwrap().to_be_bytes();
    let message = [&[kind, 0][..], &length(body.len()), body].concat();
    [&[22, version[0], version[1]][..], &length(message.len()), &message].concat()
}

#[test]
fn old_versions_of_tls_are_not_spoken_and_plain_http_is_no_way_out() {
    let hello = |version: [u8; 2]| {
        // A session without a name, AES-128 with SHA, no compression, no extensions.
        let body = [&version[..], &[7; 32], &[0, 0x00, 0x2f, 0]].concat();
        record(version, 2, &body)
    };
    let alert = |version: [u8; 2], code: u8| vec![21, version[0], version[1], 0, 2, 2, code];
    let fast = Timeouts { connect: std::time::Duration::from_secs(2), ..Timeouts::scaled(200) };
    for (name, bytes) in [
        ("SSL 3.0", hello([3, 0])),
        ("TLS 1.0", hello([3, 1])),
        ("TLS 1.1", hello([3, 2])),
        ("no version in common", alert([3, 1], 70)),
        ("a failed handshake", alert([3, 3], 40)),
        ("a fallback that is not wanted", alert([3, 3], 86)),
    ] {
        let (host, plain) = answering(bytes);
        let (options, _dir) = trusting(&authority().pem());
        let error = Rig::paced(options, fast).registry.source(&format!("{host}/a/b:c").parse().unwrap()).top();
        assert_eq!(error.unwrap_err().kind(), Kind::Network, "{name}");
        assert_eq!(*plain.lock().unwrap(), 0, "{name}: a request went out in the clear");
    }
}

/// HTTP/2, and every attack that needs it, is out of reach: it is not offered.
#[test]
fn http2_is_not_offered() {
    let _ = builder();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap();
    let offered = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut acceptor = rustls::server::Acceptor::default();
        loop {
            acceptor.read_tls(&mut socket).unwrap();
            if let Some(accepted) = acceptor.accept().map_err(|(error, _)| error).unwrap() {
                let hello = accepted.client_hello();
                return hello.alpn().into_iter().flatten().map(<[u8]>::to_vec).collect::<Vec<_>>();
            }
        }
    });
    let (options, _dir) = trusting(&authority().pem());
    let fast = Timeouts { connect: std::time::Duration::from_secs(2), ..Timeouts::scaled(200) };
    Rig::paced(options, fast).registry.source(&format!("{host}/a/b:c").parse().unwrap()).top().unwrap_err();
    let offered = offered.join().unwrap();
    assert!(offered.iter().all(|protocol| protocol == b"http/1.1"), "{offered:?}");
}
