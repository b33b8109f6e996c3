//! Answers that are not the thing itself.

use std::time::{Duration, SystemTime};

use super::{downloads, on_layer, on_manifest, registries, survives, survives_once};
use crate::support::docker_registry::{Door, Registry};
use crate::support::http::{Answer, dead_host};
use crate::support::invocation::{Run, Sandbox};
use crate::support::proxy::{Action, At, Cut, Seen, on};
use crate::support::registries::Registries;
use crate::support::skip::{Part, or_skip};
use crate::support::tls::{Authority, Validity};
use crate::support::token_server::{self, Field, Guarded, Manners, app_layer, huge, rebase_at};
use crate::support::tunnel::{First, Tunnel};
use crate::support::{fixtures, published};

#[test]
fn every_passing_status_is_tried_again() {
    let registries = or_skip!(registries());
    for status in [408, 499, 500, 502, 503, 504, 522] {
        assert_eq!(survives(&registries, [on_layer(&registries).does(Action::status(status))]).len(), 2, "{status}");
        survives(&registries, [on_manifest().does(Action::status(status))]);
    }
}

#[test]
fn five_faults_are_survived_and_six_are_not() {
    let registries = or_skip!(registries());
    assert_eq!(survives(&registries, [on_layer(&registries).times(5).does(Action::status(503))]).len(), 6);
    let trial = registries.trial();
    registries.source.proxy.script([on_layer(&registries).times(6).does(Action::status(503))]);
    trial.fails(trial.run(), "network").says("503");
    assert_eq!(downloads(&registries).len(), 6);
    trial.settle();
}

fn retry_after(value: impl Fn() -> String + Send + Sync + 'static) -> Action {
    Action::answer_with(move |_| Answer::error(429, "TOOMANYREQUESTS", "slow down").header("Retry-After", value()))
}

/// How long the client waited between the first two requests for the layer.
fn wait(seen: &[Seen]) -> Duration {
    let [first, second] = seen else { panic!("{} requests", seen.len()) };
    second.at - first.at
}

#[test]
fn retry_after_is_honoured_in_both_forms() {
    let registries = or_skip!(registries());
    let waited = wait(&survives(&registries, [on_layer(&registries).does(retry_after(|| "2".to_owned()))]));
    assert!(waited >= Duration::from_secs(2), "{waited:?}");
    // A date has whole seconds: four from now is at least three.
    let soon = || httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(4));
    let waited = wait(&survives(&registries, [on_layer(&registries).does(retry_after(soon))]));
    assert!(waited >= Duration::from_secs(3), "{waited:?}");
}

#[test]
fn a_senseless_retry_after_is_not_waited_for() {
    let registries = or_skip!(registries());
    let past = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH);
    for value in [past.as_str(), "-1", "99999999999999999999", "abc", ""] {
        let given = value.to_owned();
        let waited = wait(&survives(&registries, [on_layer(&registries).does(retry_after(move || given.clone()))]));
        assert!(waited < Duration::from_secs(2), "{waited:?} for {value}");
    }
}

#[test]
fn an_hour_is_not_waited_for_but_said() {
    let registries = or_skip!(registries());
    let trial = registries.trial();
    registries.source.proxy.script([on_layer(&registries).always().does(retry_after(|| "3600".to_owned()))]);
    let run = trial.fails(trial.run(), "network");
    assert!(run.elapsed < Duration::from_secs(5), "{run}");
    let said = run.stderr.to_lowercase();
    assert!(["3600", "1h", "1 h", "60 min", "60m"].iter().any(|form| said.contains(form)), "{run}");
    assert_eq!(downloads(&registries).len(), 1);
    trial.settle();
}

#[test]
fn a_tag_that_moves_gives_one_of_the_two_images_whole() {
    for (method, pattern) in [("HEAD", "/in/app/manifests/v1"), ("GET", "/in/app/manifests/v1")] {
        let registries = or_skip!(registries());
        let other = fixtures::app("linux/amd64", 5).build();
        let (host, moved) = (registries.source.registry.host().to_owned(), other.clone());
        let trial = registries.trial();
        registries
            .source
            .proxy
            .script([on(method, pattern).does(Action::then(move || moved.push(&host, "in/app", "v1")))]);
        let report = trial.invocation().arg("--json").run().ok().json();
        let source = if report["source"]["digest"] == registries.app.digest() { &registries.app } else { &other };
        assert_eq!(report["source"]["digest"], source.digest(), "one of the two");
        let published = registries.published(&trial.repository(), "v1");
        assert_eq!(published.only().layers.last(), source.layers().last(), "moved at {method}");
        assert_eq!(report["targets"][0]["digest"], published.digest);
    }
}

#[test]
fn a_web_page_is_not_a_manifest() {
    let registries = or_skip!(registries());
    let trial = registries.trial();
    let page = Answer::new(200).header("Content-Type", "text/html").body("<html>Please log in to the hotel</html>");
    registries.source.proxy.script([on_manifest().always().does(Action::Answer(page))]);
    trial.fails(trial.run(), "input").says("text/html").says("Please log in");
    trial.settle();
}

#[test]
fn a_redirect_to_a_dead_host_is_tried_again() {
    let registries = or_skip!(registries());
    let dead = format!("http://{}/blob", dead_host());
    survives(&registries, [on_layer(&registries).does(Action::redirect(dead))]);
}

/// Sends the client from hop to hop, and to the blob after the last.
fn hops(registries: &Registries, count: usize) -> [crate::support::proxy::Rule; 2] {
    let blob = format!("/v2/in/app/blobs/{}?end", registries.app_layer());
    let next = move |seen: &Seen| {
        let hop = seen.target.split_once("hop=").map_or(0, |(_, hop)| hop.parse().unwrap());
        let to = if hop + 1 < count { format!("/hop?hop={}", hop + 1) } else { blob.clone() };
        Answer::new(307).header("Location", to)
    };
    let first = next.clone();
    let start = on_layer(registries).when(|seen| !seen.target.contains("?end")).always();
    [on("GET", "/hop").always().does(Action::answer_with(next)), start.does(Action::answer_with(first))]
}

#[test]
fn ten_redirects_are_followed_and_eleven_are_not() {
    let registries = or_skip!(registries());
    survives(&registries, hops(&registries, 10));
    let trial = registries.trial();
    registries.source.proxy.script(hops(&registries, 11));
    trial.fails(trial.run(), "network").says("redirect");
    trial.settle();
}

#[test]
fn a_redirect_loop_ends() {
    let registries = or_skip!(registries());
    let trial = registries.trial();
    let here = format!("/v2/in/app/blobs/{}", registries.app_layer());
    registries.source.proxy.script([on_layer(&registries).always().does(Action::redirect(here))]);
    let run = trial.fails(trial.run(), "network").says("redirect");
    assert!(downloads(&registries).len() <= 11, "{run}");
    trial.settle();
}

// Tokens that run out or never come. To a layout, so that only pulls need tokens.

#[test]
fn a_token_that_runs_out_in_mid_pull_is_renewed_once() {
    let guarded = or_skip!(Guarded::new(Manners::default()));
    let expected = guarded.rebase(&guarded.layout("first")).run().ok().digest();
    let usual = guarded.tokens.seen().len();
    let expired = guarded.tokens.expired("in/app", "pull");
    guarded.proxy.script([on("GET", format!("/blobs/{}", app_layer())).does(Action::Answer(expired))]);
    let run = guarded.rebase(&guarded.layout("second")).run().ok();
    assert_eq!(run.digest(), expected, "{run}");
    assert_eq!(guarded.tokens.seen().len(), usual + 1, "exactly one new token\n{run}");
    assert_eq!(published::layout(&guarded.sandbox.path("second"), "v1").unwrap().digest, expected);
}

#[test]
fn a_token_server_that_fails_twice_is_asked_again() {
    let failures = vec![Answer::new(503), Answer::new(503)];
    let guarded = or_skip!(Guarded::new(Manners { failures, ..Manners::default() }));
    guarded.rebase(&guarded.layout("out")).run().ok();
}

#[test]
fn a_token_of_256_mib_is_not_read() {
    let failures = vec![huge(256 << 20); 20];
    let guarded = or_skip!(Guarded::new(Manners { failures, ..Manners::default() }));
    let run = guarded.rebase(&guarded.layout("out")).run().fails("input");
    assert!(run.peak < 64 * 1024, "{run}");
}

#[test]
fn a_reply_without_a_token_is_an_authentication_error() {
    let guarded = or_skip!(Guarded::new(Manners { field: Field::Nowhere, ..Manners::default() }));
    guarded.rebase(&guarded.layout("out")).run().fails("authentication");
    assert!(!guarded.sandbox.path("out").exists());
}

// Registries that say nothing, or too little. Time-outs are a twentieth.

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
