//! Registries that say nothing, or too little: P20 to P23. Time-outs are a twentieth.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{on_manifest, survives, survives_once, world};
use crate::rig::check;
use crate::rig::cli::{Run, Sandbox};
use crate::rig::guarded::{self, rebase_at};
use crate::rig::proxy::{Action, At, Cut};
use crate::rig::registry::{Door, Registry};
use crate::rig::server::Listener;
use crate::rig::tls::{Authority, Validity};

#[test]
fn p20_silence_in_the_middle_is_resumed() {
    let Some(world) = world() else { return };
    let seen = survives_once(&world, Action::Cut(At::Body(4096), Cut::Stall));
    assert_eq!(seen[1].headers.get("range"), Some("bytes=4096-"));
}

#[test]
fn p20_a_drip_is_left_for_a_better_connection() {
    let Some(world) = world() else { return };
    let seen = survives_once(&world, Action::Rate(100));
    assert!(seen.len() == 2 && seen[1].has("range"), "{} requests", seen.len());
}

#[test]
fn p21_a_head_that_never_comes_is_asked_for_again() {
    let Some(world) = world() else { return };
    assert_eq!(survives_once(&world, Action::Hang).len(), 2);
    survives(&world, [on_manifest().does(Action::Hang)]);
}

/// What happens to the first TLS connection.
#[derive(Debug, Clone, Copy)]
enum Handshake {
    CloseNotify,
    Silence,
}

/// A TCP proxy that spoils the first handshake and passes every other connection on.
fn spoil(first: Handshake, upstream: &str) -> (Listener, Arc<AtomicUsize>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let (count, upstream) = (Arc::clone(&connections), upstream.to_owned());
    let listener = Listener::start(move |mut client, stopped| {
        if count.fetch_add(1, Ordering::Relaxed) > 0 {
            pass(client, TcpStream::connect(&upstream).unwrap());
            return;
        }
        let _ = client.read(&mut [0; 4096]);
        match first {
            // A warning alert: close_notify.
            Handshake::CloseNotify => drop(client.write_all(&[21, 3, 3, 0, 2, 1, 0])),
            Handshake::Silence => {
                while !stopped.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    });
    (listener, connections)
}

fn pass(client: TcpStream, upstream: TcpStream) {
    let (mut from, mut to) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
    let (mut from, mut to) = (upstream, client);
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(std::net::Shutdown::Write);
}

/// Rebases between repositories of one registry that speaks TLS, at `host`.
fn rebase(host: &str, authority: &Authority) -> Run {
    let sandbox = Sandbox::new();
    rebase_at(&sandbox, host, &format!("{host}/out/app:v1")).arg("--cacert").arg(authority.file()).run()
}

fn tls_registry(authority: &Authority, validity: Validity) -> Option<(Registry, Registry)> {
    let registry = Registry::with(&Door::Tls(&authority.leaf(validity)))?;
    let back = registry.back_door();
    guarded::stock(back.host());
    Some((registry, back))
}

#[test]
fn p22_a_spoilt_handshake_is_tried_again() {
    for first in [Handshake::CloseNotify, Handshake::Silence] {
        let authority = Authority::new();
        let Some((registry, back)) = tls_registry(&authority, Validity::Now) else { return };
        let (front, _) = spoil(first, registry.host());
        let run = rebase(&front.host(), &authority).ok();
        assert_eq!(check::registry(back.host(), "out/app", "v1").unwrap().digest, run.digest(), "{first:?}\n{run}");
    }
}

#[test]
fn p22_an_expired_certificate_is_named_and_not_tried_again() {
    let authority = Authority::new();
    let Some((registry, back)) = tls_registry(&authority, Validity::Expired) else { return };
    let upstream = registry.host().to_owned();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let front = Listener::start(move |client, _| {
        count.fetch_add(1, Ordering::Relaxed);
        pass(client, TcpStream::connect(&upstream).unwrap());
    });
    let run = rebase(&front.host(), &authority).fails("network").says("certificate").says("expired");
    // Source, base and old base may each try once, and find out what the host speaks.
    assert!(connections.load(Ordering::Relaxed) <= 6, "{} connections\n{run}", connections.load(Ordering::Relaxed));
    assert_eq!(back.tag("out/app", "v1"), None);
}

#[test]
fn p23_a_host_that_does_not_exist_is_an_error_at_once() {
    let sandbox = Sandbox::new();
    let args = ["rebase", "nx.invalid/app:v1", "--base", "nx.invalid/base:v1", "--to", "oci:out:v1"];
    let run =
        sandbox.underpin(args).arg("--cache").arg(sandbox.path("cache")).run().fails("network").says("nx.invalid");
    assert!(run.elapsed < Duration::from_secs(20), "{run}");
    assert!(sandbox.strays().is_empty());
}
