//! Names that are not names, and registries that answer with something else: H21, and rows 22 to
//! 25 of the security table.

use super::{Stage, good};
use crate::support::cli::Sandbox;
use crate::support::proxy::{Action, on};
use crate::support::server::Answer;
use crate::support::stock;
use crate::support::world::World;

#[test]
fn h21_a_name_that_is_none_is_an_error_before_any_request() {
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
fn h21_a_digest_that_was_asked_for_is_what_must_come() {
    let Some(world) = World::two(1000) else { return };
    let other = stock::app("linux/amd64", 9).build();
    let given = world.app.digest();
    let lie = Answer::new(200)
        .header("Content-Type", other.top.media_type.clone())
        .header("Docker-Content-Digest", given.clone())
        .body(other.top.bytes.clone());
    let name = |rest: &str| world.source.name(rest);
    let (base, old) = (name("base/new:v1"), name("base/old:v1"));
    let to = world.target.name("out/lie:v1");
    for reference in [format!("in/app@{given}"), format!("in/app:v1@{given}")] {
        let source = name(&reference);
        let args = ["rebase", &source, "--base", &base, "--old-base", &old, "--to", &to, "--no-cache"];
        let run = || world.sandbox.underpin(args).hurried().run();
        world.source.proxy.script([on("GET", "/in/app/manifests/").always().does(Action::Answer(lie.clone()))]);
        run().fails("integrity").says(&given).says(&other.digest());
        assert_eq!(world.target.registry.tag("out/lie", "v1"), None);
        // A wrong header over the right bytes does no harm.
        let header = Action::set_header("Docker-Content-Digest", other.digest());
        world.source.proxy.script([on("GET", "/in/app/manifests/").always().does(header)]);
        let run = run();
        assert!(matches!(run.kind().as_deref(), None | Some("integrity")), "{run}");
        world.source.proxy.calm();
    }
}

#[test]
fn a_location_that_does_not_exist_is_named() {
    let stage = Stage::new();
    for (source, word) in [
        (format!("oci:{}:none", stage.sandbox.path("in").display()), "v1"),
        (format!("oci:{}", stage.sandbox.path("missing").display()), "missing"),
        (format!("oci-archive:{}", stage.sandbox.path("missing.tar").display()), "missing.tar"),
        (format!("docker-archive:{}", stage.sandbox.path("missing.tar").display()), "missing.tar"),
    ] {
        let run = stage.rebase(&source).run();
        stage.is_refused(&source, run, &["input", "local-io", "not-found"]).says(word);
    }
}
