//! Names that are not names, and registries that answer with something else.

use super::{Setup, good};
use crate::support::fixtures;
use crate::support::http::Answer;
use crate::support::invocation::Sandbox;
use crate::support::proxy::{Action, on};
use crate::support::registries::Registries;
use crate::support::skip::or_skip;

#[test]
fn a_name_that_is_none_is_an_error_before_any_request() {
    let sandbox = Sandbox::new();
    let digest = good().digest();
    let long = format!("localhost:1/{}:v1", "a".repeat(300));
    for name in [
        "localhost:99999/a:v1",
        "localhost:1/a:v\n1",
        "localhost:1/a b:v1",
        "localhost:1/A:v1",
        "localhost:1/a@sha256:00",
        "localhost:1/a/../b:v1",
        "localhost:1//a:v1",
        "exämple.org/a:v1",
        "https://localhost:1/a:v1",
        "localhost:1/a:",
        "oci:",
        "",
        &long,
        &format!("localhost:1/a:v1@{}", digest.to_uppercase()),
    ] {
        let args = ["plan", name, "--base", "localhost:1/base:v1", "--no-cache"];
        let run = sandbox.underpin(args).run();
        assert_eq!(run.code(), Some(2), "{name:?}\n{run}");
        assert!(matches!(run.kind().as_deref(), Some("input" | "usage")), "{name:?}\n{run}");
    }
}

#[test]
fn a_digest_that_was_asked_for_is_what_must_come() {
    let registries = or_skip!(Registries::two(1000));
    let other = fixtures::app("linux/amd64", 9).build();
    let given = registries.app.digest();
    let lie = Answer::new(200)
        .header("Content-Type", other.top.media_type.clone())
        .header("Docker-Content-Digest", given.clone())
        .body(other.top.bytes.clone());
    let name = |rest: &str| registries.source.name(rest);
    let (base, old) = (name("base/new:v1"), name("base/old:v1"));
    let to = registries.target.name("out/lie:v1");
    for reference in [format!("in/app@{given}"), format!("in/app:v1@{given}")] {
        let source = name(&reference);
        let args = ["rebase", &source, "--base", &base, "--old-base", &old, "--to", &to, "--no-cache"];
        let run = || registries.sandbox.underpin(args).hurried().run();
        registries.source.proxy.script([on("GET", "/in/app/manifests/").always().does(Action::Answer(lie.clone()))]);
        run().fails("integrity").says(&given).says(&other.digest());
        assert_eq!(registries.target.registry.tag("out/lie", "v1"), None);
        // A wrong header over the right bytes does no harm.
        let header = Action::set_header("Docker-Content-Digest", other.digest());
        registries.source.proxy.script([on("GET", "/in/app/manifests/").always().does(header)]);
        let run = run();
        assert!(matches!(run.kind().as_deref(), None | Some("integrity")), "{run}");
        registries.source.proxy.calm();
    }
}

#[test]
fn a_location_that_does_not_exist_is_named() {
    let setup = Setup::new();
    for (source, word) in [
        (format!("oci:{}:none", setup.sandbox.path("in").display()), "v1"),
        (format!("oci:{}", setup.sandbox.path("missing").display()), "missing"),
        (format!("oci-archive:{}", setup.sandbox.path("missing.tar").display()), "missing.tar"),
        (format!("docker-archive:{}", setup.sandbox.path("missing.tar").display()), "missing.tar"),
    ] {
        let run = setup.rebase(&source).run();
        setup.is_refused(&source, run, &["input", "local-io", "not-found"]).says(word);
    }
}
