//! Credentials: asked for when needed, sent where they belong, and nowhere else.

use super::*;
use crate::store::registry::{Credentials, RegistryOptions};
use crate::store::{Notice, Sink, Source};
use oci::error::{Error, Kind};

/// A client that has USER `u` and password `CANARY-password` for every double in `hosts`.
fn rig_with(hosts: &[&str], entry: &str) -> (Rig, tempfile::TempDir) {
    let (options, dir) = options_with(hosts, entry);
    (Rig::with(options), dir)
}

fn options_with(hosts: &[&str], entry: &str) -> (RegistryOptions, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("auth.json");
    let entries: Vec<String> = hosts.iter().map(|host| format!(r#""{host}":{entry}"#)).collect();
    std::fs::write(&path, format!(r#"{{"auths":{{{}}}}}"#, entries.join(","))).unwrap();
    let credentials = Credentials { registry_auth_file: Some(path), ..Credentials::default() };
    (RegistryOptions { credentials, ..RegistryOptions::default() }, dir)
}

const PASSWORD: &str = r#"{"username":"u","password":"CANARY-password"}"#;
/// Base64 of `u:CANARY-password`.
const BASIC: &str = "Basic dTpDQU5BUlktcGFzc3dvcmQ=";

fn challenge(realm: &str) -> Reply {
    Reply::new(401)
        .with("WWW-Authenticate", format!(r#"Bearer realm="{realm}",service="s",scope="repository:a/b:pull""#))
}

/// A registry with its own token server at `/token`; tokens are `token-N`, and only the newest is good.
fn guarded(mut inner: impl FnMut(&SeenRequest, usize) -> Reply + Send + 'static, expire_at: usize) -> FakeRegistry {
    let state = std::sync::Mutex::new((0_usize, 0_usize));
    let inner = std::sync::Mutex::new(move |seen: &SeenRequest, nth: usize| inner(seen, nth));
    FakeRegistry::start(move |seen, nth| {
        let mut state = state.lock().unwrap();
        if seen.target.starts_with("/token") {
            state.0 += 1;
            return Reply::new(200).body(format!(r#"{{"token":"CANARY-token-{}"}}"#, state.0));
        }
        let good = format!("Bearer CANARY-token-{}", state.0);
        let is_good = seen.header("authorization") == Some(good.as_str());
        if is_good {
            state.1 += 1;
        }
        // At the given request the token has expired.
        if !is_good || state.1 == expire_at {
            return challenge(&format!("http://{}/token", seen.header("host").unwrap()));
        }
        (inner.lock().unwrap())(seen, nth)
    })
}

#[test]
fn a_token_is_had_once_and_used_for_all() {
    let bytes = noise(10);
    let served = bytes.clone();
    let fake = guarded(
        move |seen, _| if seen.target.contains("manifests") { manifest_reply() } else { ranged(seen, &served) },
        0,
    );
    let (rig, _dir) = rig_with(&[&fake.host], PASSWORD);
    let source = rig.registry.source(&fake.image("a/b:c"));
    source.top().unwrap();
    source.open(&blob_of(&bytes), 0).unwrap();
    assert_eq!(
        fake.lines()[..3],
        [
            "GET /v2/a/b/manifests/c".to_owned(),
            "GET /token?service=s&scope=repository%3Aa%2Fb%3Apull".to_owned(),
            "GET /v2/a/b/manifests/c".to_owned(),
        ]
    );
    let seen = fake.seen();
    assert_eq!((seen.len(), seen[0].header("authorization"), seen[1].header("authorization")), (4, None, Some(BASIC)));
    assert_eq!(rig.traffic.tally().requests, 4);
}

#[test]
fn a_second_scope_needs_no_second_refusal() {
    let fake = guarded(|_, _| manifest_reply().with("Docker-Content-Digest", digest(&manifest())), 0);
    let rig = Rig::new();
    rig.registry.source(&fake.image("a/b:c")).top().unwrap();
    rig.registry.source(&fake.image("x/y:z")).top().ok();
    rig.registry.sink(&fake.image("a/b:d")).current().unwrap();
    assert_eq!(fake.count("GET /token?service=s&scope=repository%3Aa%2Fb%3Apull%2Cpush"), 1);
    assert_eq!(fake.count("HEAD /v2/a/b/manifests/d"), 1);
}

#[test]
fn a_token_that_expires_on_the_way_is_renewed_once() {
    let bytes = noise(10);
    let served = bytes.clone();
    let fake = guarded(move |seen, _| ranged(seen, &served), 3);
    let rig = Rig::new();
    let source = rig.registry.source(&fake.image("a/b:c"));
    for _ in 0..5 {
        source.open(&blob_of(&bytes), 0).unwrap();
    }
    assert_eq!(fake.count("GET /token"), 2);
}

#[test]
fn many_threads_share_one_renewal() {
    let bytes = noise(10);
    let served = bytes.clone();
    let fake = guarded(move |seen, _| ranged(seen, &served), 0);
    let rig = Rig::new();
    let source = rig.registry.source(&fake.image("a/b:c"));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| source.open(&blob_of(&bytes), 0).unwrap());
        }
    });
    assert_eq!(fake.count("GET /token"), 1);
}

#[test]
fn two_refusals_in_a_row_are_final_and_show_no_secret() {
    let fake = FakeRegistry::start(|seen, _| {
        if seen.target.starts_with("/token") {
            return Reply::new(200).body(r#"{"token":"CANARY-token"}"#);
        }
        let refusal = challenge(&format!("http://{}/token", seen.header("host").unwrap()));
        refusal.body(format!("you sent {:?}", seen.header("authorization")))
    });
    let (rig, _dir) = rig_with(&[&fake.host], PASSWORD);
    let error = rig.registry.source(&fake.image("a/b:c")).top().unwrap_err();
    assert_eq!((error.kind(), fake.count("GET")), (Kind::Auth, 3));
    assert!(error.to_string().contains("you sent"), "{error}");
    assert!(!format!("{error}{error:?}{:?}", rig.said.lock().unwrap()).contains("CANARY"), "{error}");
}

#[test]
fn basic_credentials_go_to_the_registry_itself() {
    let fake = FakeRegistry::start(|seen, _| match seen.header("authorization") {
        Some(BASIC) => manifest_reply(),
        _ => Reply::new(401).with("WWW-Authenticate", "Basic realm=\"r\""),
    });
    let (rig, _dir) = rig_with(&[&fake.host], PASSWORD);
    assert!(rig.registry.source(&fake.image("a/b:c")).top().is_ok());
    let error = Rig::new().registry.source(&fake.image("a/b:c")).top().unwrap_err();
    assert_eq!(error.kind(), Kind::Auth);
}

/// Reads `images` at once, and yields how often it worked.
fn read_together(rig: &Rig, fake: &FakeRegistry, images: usize) -> usize {
    let read = |at: usize| rig.registry.source(&fake.image(&format!("a/b{at}:c"))).top().is_ok();
    std::thread::scope(|scope| {
        let reading: Vec<_> = (0..images).map(|at| scope.spawn(move || read(at))).collect();
        reading.into_iter().filter_map(|read| read.join().ok()).filter(|is_read| *is_read).count()
    })
}

#[test]
fn a_wrong_password_is_not_sent_with_every_request() {
    let basic = FakeRegistry::start(|_, _| Reply::new(401).with("WWW-Authenticate", "Basic realm=\"r\""));
    let token = FakeRegistry::start(|seen, _| {
        let refusal = || challenge(&format!("http://{}/token", seen.header("host").unwrap()));
        if seen.target.starts_with("/token") { Reply::new(401).body("who are you?") } else { refusal() }
    });
    for fake in [&basic, &token] {
        let (rig, _dir) = rig_with(&[&fake.host], PASSWORD);
        assert_eq!(read_together(&rig, fake, 8), 0);
        let shown = fake.seen().iter().filter(|seen| seen.header("authorization").is_some()).count();
        assert_eq!(shown, 2, "{:?}", fake.lines());
        let error = rig.registry.source(&fake.image("a/more:c")).top().unwrap_err();
        assert_eq!(error.kind(), Kind::Auth);
        let shown = fake.seen().iter().filter(|seen| seen.header("authorization").is_some()).count();
        assert_eq!(shown, 2, "also later: {:?}", fake.lines());
    }
}

#[test]
fn a_repository_that_is_hidden_does_not_make_a_password_wrong() {
    let fake = FakeRegistry::start(|seen, _| match seen.header("authorization") {
        Some(BASIC) if !seen.target.contains("hidden") => manifest_reply(),
        _ => Reply::new(401).with("WWW-Authenticate", "Basic realm=\"r\""),
    });
    let (rig, _dir) = rig_with(&[&fake.host], PASSWORD);
    assert!(rig.registry.source(&fake.image("hidden/a:c")).top().is_err());
    assert_eq!(read_together(&rig, &fake, 8), 8);
    for _ in 0..3 {
        assert!(rig.registry.source(&fake.image("hidden/a:c")).top().is_err());
    }
    assert_eq!(read_together(&rig, &fake, 8), 8, "it has proved good");
}

#[test]
fn an_identity_token_is_traded_in_the_body_with_one_scope() {
    let fake = guarded(|_, _| manifest_reply(), 0);
    let (rig, _dir) = rig_with(&[&fake.host], r#"{"auth":"dTpw","identitytoken":"CANARY id"}"#);
    rig.registry.source(&fake.image("a/b:c")).top().unwrap();
    let token = fake.seen().into_iter().find(|seen| seen.target.starts_with("/token")).unwrap();
    let body = String::from_utf8(token.body.clone()).unwrap();
    assert_eq!((token.line().as_str(), token.header("authorization")), ("POST /token", None));
    assert_eq!(
        body,
        "grant_type=refresh_token&client_id=underpin&service=s&scope=repository%3Aa%2Fb%3Apull&refresh_token=CANARY+id"
    );
}

#[test]
fn a_broken_credentials_file_is_told_and_nothing_is_sent() {
    let fake = guarded(|_, _| manifest_reply(), 0);
    let (rig, dir) = rig_with(&[&fake.host], PASSWORD);
    std::fs::write(dir.path().join("auth.json"), "{CANARY").unwrap();
    let error = rig.registry.source(&fake.image("a/b:c")).top().unwrap_err();
    assert_eq!((error.kind(), fake.count("GET /token")), (Kind::Auth, 0));
    assert!(error.to_string().contains("auth.json") && !error.to_string().contains("CANARY"), "{error}");
}

#[test]
fn credentials_are_not_looked_for_when_nobody_asks() {
    let fake = FakeRegistry::start(|_, _| manifest_reply());
    let (rig, dir) = rig_with(&[&fake.host], PASSWORD);
    std::fs::write(dir.path().join("auth.json"), "{broken").unwrap();
    assert!(rig.registry.source(&fake.image("a/b:c")).top().is_ok());
    assert_eq!(fake.seen()[0].header("authorization"), None);
}

/// Whoever has a port of this machine may have put up a token server, or made the registry name one.
#[test]
fn a_token_server_at_another_local_port_gets_credentials_only_where_the_user_names_it() {
    let tokens = FakeRegistry::start(|_, _| Reply::new(200).body(r#"{"token":"t"}"#));
    let realm = format!("http://{}/token", tokens.host);
    let fake = FakeRegistry::start(move |seen, _| match seen.header("authorization") {
        Some("Bearer t") => manifest_reply(),
        _ => challenge(&realm),
    });
    for entry in [PASSWORD, r#"{"auth":"dTpw","identitytoken":"CANARY id"}"#] {
        let (rig, _dir) = rig_with(&[&fake.host, &tokens.host], entry);
        let error = rig.registry.source(&fake.image("a/b:c")).top().unwrap_err();
        assert_eq!((error.kind(), tokens.seen().len()), (Kind::Auth, 0), "{error}");
        assert!(error.hints()[0].ends_with(&format!("--insecure {}", tokens.host)), "{error}");
        assert!(!error.to_string().contains("CANARY"), "{error}");
    }
    assert!(Rig::new().registry.source(&fake.image("a/b:c")).top().is_ok(), "without credentials there is no harm");
    assert_eq!(tokens.seen()[0].header("authorization"), None);
    let (options, _dir) = options_with(&[&fake.host], PASSWORD);
    let rig = Rig::with(RegistryOptions { insecure: vec![tokens.host.parse().unwrap()], ..options });
    assert!(rig.registry.source(&fake.image("a/b:c")).top().is_ok());
    assert_eq!(tokens.seen()[1].header("authorization"), Some(BASIC));
}

#[test]
fn an_unsafe_realm_gets_no_request() {
    let trap = FakeRegistry::start(|_, _| Reply::new(200).body(r#"{"token":"t"}"#));
    let port = trap.host.rsplit_once(':').unwrap().1.to_owned();
    for realm in [
        "http://169.254.169.254/token".to_owned(),
        format!("http://0.0.0.0:{port}/token"),
        format!("ftp://127.0.0.1:{port}/token"),
        format!("http://u:p@127.0.0.1:{port}/token"),
        "http://example.invalid/token".to_owned(),
        "file:///etc/passwd".to_owned(),
    ] {
        let named = realm.clone();
        let fake = FakeRegistry::start(move |_, _| challenge(&named));
        let (rig, _dir) = rig_with(&[&fake.host], PASSWORD);
        let error = rig.registry.source(&fake.image("a/b:c")).top().unwrap_err();
        assert_eq!((error.kind(), rig.traffic.tally().requests), (Kind::Auth, 1), "{realm}: {error}");
    }
    assert!(trap.lines().is_empty());
}

#[test]
fn each_hop_of_a_token_request_is_checked_and_gets_no_password_elsewhere() {
    let other = FakeRegistry::start(|_, _| Reply::new(200).body(r#"{"token":"t"}"#));
    for (to, works) in [(format!("http://{}/t", other.host), true), ("http://169.254.169.254/t".to_owned(), false)] {
        let fake = FakeRegistry::start(move |seen, _| {
            match (seen.target.starts_with("/token"), seen.header("authorization")) {
                (true, _) => Reply::new(307).with("Location", &to),
                (false, Some("Bearer t")) => manifest_reply(),
                _ => challenge(&format!("http://{}/token", seen.header("host").unwrap())),
            }
        });
        let (rig, _dir) = rig_with(&[&fake.host], PASSWORD);
        assert_eq!(rig.registry.source(&fake.image("a/b:c")).top().is_ok(), works);
    }
    assert_eq!((other.seen().len(), other.seen()[0].header("authorization")), (1, None));
}

#[test]
fn token_servers_have_their_faults_too() {
    let huge = "x".repeat(300 << 10);
    let cases: [(Reply, usize, Option<Kind>); 6] = [
        (Reply::new(503), 2, None),
        (Reply::new(200).end(End::NoAnswer), 1, None),
        (Reply::new(200).body(huge), 9, Some(Kind::Input)),
        (Reply::new(200).body("x".repeat(65536)).end(End::Endless), 9, Some(Kind::Input)),
        (Reply::new(200).body("{}"), 9, Some(Kind::Auth)),
        (Reply::new(401).body("{\"details\":\"incorrect password CANARY-password\"}"), 9, Some(Kind::Auth)),
    ];
    for (reply, times, kind) in cases {
        let shown = format!("{:?}", (kind, times));
        let fake = FakeRegistry::start(move |seen, nth| {
            match (seen.target.starts_with("/token"), seen.header("authorization")) {
                (true, _) if nth < times => reply.clone(),
                (true, _) => Reply::new(200).body(r#"{"access_token":"t","token":"u"}"#),
                (false, Some("Bearer t")) => manifest_reply(),
                _ => challenge(&format!("http://{}/token", seen.header("host").unwrap())),
            }
        });
        let (rig, _dir) = rig_with(&[&fake.host], PASSWORD);
        let outcome = rig.registry.source(&fake.image("a/b:c")).top();
        assert_eq!(outcome.as_ref().err().map(Error::kind), kind, "{shown}");
        assert!(!format!("{outcome:?}").contains("CANARY"), "{outcome:?}");
    }
}

#[test]
fn a_redirect_to_another_host_gets_no_authorization_even_if_it_asks() {
    let bytes = noise(1000);
    let served = bytes.clone();
    let storage = FakeRegistry::start(move |seen, nth| match (seen.target.as_str(), nth) {
        ("/open?sig=CANARY", _) => ranged(seen, &served),
        _ => Reply::new(401).with("WWW-Authenticate", r#"Bearer realm="http://127.0.0.1:1/token""#),
    });
    let host = storage.host.clone();
    let fake = guarded(
        move |seen, nth| {
            let path = if seen.target.contains("manifests") || nth > 1 { "closed" } else { "open" };
            Reply::new(307).with("Location", format!("http://{host}/{path}?sig=CANARY"))
        },
        0,
    );
    let (rig, _dir) = rig_with(&[&fake.host, &storage.host], PASSWORD);
    let source = rig.registry.source(&fake.image("a/b:c"));
    assert!(source.open(&blob_of(&bytes), 0).is_ok());
    let error = source.top().unwrap_err();
    assert_eq!(error.kind(), Kind::Network);
    assert!(error.to_string().contains("/closed?…") && !error.to_string().contains("CANARY"), "{error}");
    assert!(storage.seen().iter().all(|seen| seen.header("authorization").is_none()) && storage.seen().len() == 2);
}

#[test]
fn coming_back_from_another_host_brings_no_authorization_back() {
    let back = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let to = std::sync::Arc::clone(&back);
    let other = FakeRegistry::start(move |_, _| Reply::new(307).with("Location", to.lock().unwrap().clone()));
    let host = other.host.clone();
    let fake = guarded(move |_, _| Reply::new(307).with("Location", format!("http://{host}/x")), 0);
    *back.lock().unwrap() = format!("http://{}/v2/a/b/blobs/again", fake.host);
    let (rig, _dir) = rig_with(&[&fake.host], PASSWORD);
    rig.registry.source(&fake.image("a/b:c")).top().unwrap_err();
    let again = fake.seen().into_iter().find(|seen| seen.target.ends_with("/again")).unwrap();
    assert_eq!(again.header("authorization"), None);
}

#[test]
fn a_scope_that_only_the_registry_knows_is_passed_on() {
    let fake = FakeRegistry::start(|seen, _| match (seen.target.starts_with("/token"), seen.header("authorization")) {
        (true, _) => Reply::new(200).body(r#"{"token":"t"}"#),
        (false, Some("Bearer t")) => manifest_reply(),
        _ => Reply::new(401).with(
            "WWW-Authenticate",
            format!(r#"Basic realm="x", Bearer realm="http://{}/token",scope="aws""#, seen.header("host").unwrap()),
        ),
    });
    let rig = Rig::new();
    assert!(rig.registry.source(&fake.image("a/b:c")).top().is_ok());
    assert_eq!(fake.lines()[1], "GET /token?scope=repository%3Aa%2Fb%3Apull&scope=aws");
    assert!(!rig.said.lock().unwrap().iter().any(|notice| matches!(notice, Notice::Warning(_))));
}
