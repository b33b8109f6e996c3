//! Where a registry says that an upload goes on.

use std::sync::Arc;

use super::{encoded_digest, registries, survives, uploads};
use crate::support::docker_registry::{Door, Registry};
use crate::support::invocation::Sandbox;
use crate::support::proxy::{Action, Proxy, Rule, on};
use crate::support::skip::or_skip;
use crate::support::tls::{Authority, Validity};
use crate::support::token_server::{self, rebase_at};

/// Every upload session is opened with a Location that went through `map`.
fn location(map: impl Fn(&str) -> String + Send + Sync + 'static) -> Rule {
    on("POST", "/blobs/uploads/").always().does(Action::map_header("Location", map))
}

/// Path and query of an absolute URL.
fn path(url: &str) -> String {
    format!("/{}", url.splitn(4, '/').nth(3).unwrap())
}

#[test]
fn every_honest_form_of_location_is_followed() {
    let registries = or_skip!(registries());
    survives(&registries, [location(path)], |_| {});
    survives(&registries, [location(str::to_owned)], |_| {});
    // Relative to the request, as RFC 3986 has it.
    survives(&registries, [location(|url| path(url).rsplit('/').next().unwrap().to_owned())], |_| {});
}

#[test]
fn a_location_without_its_first_slash_is_relative_to_the_request() {
    let registries = or_skip!(registries());
    // The registry that does this means the root; it is found at both places here.
    let home = Action::Request(Arc::new(|target, _| {
        *target = target.rfind("/v2/").map_or_else(|| target.clone(), |at| target[at..].to_owned());
    }));
    let rules = [location(|url| path(url)[1..].to_owned()), on("PUT", "/uploads/").always().does(home)];
    survives(&registries, rules, |_| {});
}

#[test]
fn all_parameters_are_kept_and_a_fragment_is_not_sent() {
    let registries = or_skip!(registries());
    survives(&registries, [location(|url| format!("{url}&more=a%2Fb&flag#part"))], |run| {
        let seen = uploads(&registries);
        let [upload] = &seen[..] else { panic!("{} uploads\n{run}", seen.len()) };
        for kept in ["_state=", "more=a%2Fb", "flag", "digest=sha256"] {
            assert!(upload.target.contains(kept), "{kept} is not in {}", upload.target);
        }
        assert!(!upload.target.contains("part"), "{}", upload.target);
    });
}

#[test]
fn another_host_gets_the_blob_but_not_the_password() {
    let registry = or_skip!(Registry::with(&Door::Htpasswd { user: "ann", password: "CANARY-pw" }));
    let back = registry.back_door();
    token_server::push_fixtures(back.host());
    let (front, other) = (Proxy::before(registry.host()), Proxy::before(back.host()));
    let elsewhere = format!("http://localhost:{}", other.port());
    front.script([location(move |url| format!("{elsewhere}{}", path(url)))]);
    let sandbox = Sandbox::new();
    let to = format!("{}/out/app:v1", front.host());
    let auth = serde_json::json!({"auths": {front.host(): {"username": "ann", "password": "CANARY-pw"}}});
    std::fs::write(sandbox.path("auth.json"), auth.to_string()).unwrap();
    // Images that come from the back door, so that nothing can be mounted.
    let run = rebase_at(&sandbox, back.host(), &to).env("REGISTRY_AUTH_FILE", sandbox.path("auth.json")).run().ok();
    assert!(other.count("PUT", "/blobs/uploads/") >= 3, "two base layers and the application's\n{run}");
    let leaks = other.seen().into_iter().filter(|seen| seen.has("authorization")).count();
    assert_eq!(leaks, 0, "the password went to another host\n{run}");
    assert!(front.seen().iter().any(|seen| seen.has("authorization")), "{run}");
    assert!(crate::support::published::registry(back.host(), "out/app", "v1").is_ok());
}

#[test]
fn a_location_that_leads_nowhere_good_is_refused() {
    let registries = or_skip!(registries());
    let long = format!("/v2/{}", "x".repeat(100 * 1024));
    let missing = on("POST", "/blobs/uploads/").always().does(Action::drop_header("Location"));
    for (rule, why, word) in [
        (missing, "missing", "upload"),
        (location(|_| String::new()), "empty", "upload"),
        (location(|_| "http://10.255.255.1:5000/v2/x".to_owned()), "private address", "private"),
        (location(|_| "http://169.254.169.254/latest".to_owned()), "link-local address", "private"),
        (location(|_| "ftp://example.org/x".to_owned()), "scheme", "upload"),
        (location(move |_| long.clone()), "too long", "registry"),
    ] {
        let trial = registries.trial();
        registries.target.proxy.script([rule]);
        let run = trial.fails(trial.run(), "network").says(word);
        assert_eq!(registries.target.proxy.count("PUT", &encoded_digest(&registries)), 0, "{why}\n{run}");
        trial.settle();
    }
}

#[test]
fn a_location_without_tls_gets_nothing_from_a_registry_with_it() {
    let authority = Authority::new();
    let registry = or_skip!(Registry::plain());
    token_server::push_fixtures(registry.host());
    let front = Proxy::with_tls(registry.host(), authority.leaf(Validity::Now).server());
    let bare = Proxy::before(registry.host());
    let downgrade = format!("http://localhost:{}", bare.port());
    front.script([location(move |url| format!("{downgrade}{}", path(url)))]);
    let sandbox = Sandbox::new();
    let to = format!("localhost:{}/out/app:v1", front.port());
    let invocation = rebase_at(&sandbox, registry.host(), &to).arg("--cacert").arg(authority.file());
    let run = invocation.run().fails("network");
    assert_eq!(bare.seen().len(), 0, "{run}");
    assert_eq!(registry.tag("out/app", "v1"), None);
}
