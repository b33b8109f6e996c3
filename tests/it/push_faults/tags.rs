//! The last step, and who else may be doing it.

use std::time::Duration;

use super::{encoded_digest, on_manifest, registries, survives};
use crate::support::fixtures;
use crate::support::http::Answer;
use crate::support::proxy::{Action, on};
use crate::support::published;
use crate::support::skip::or_skip;

#[test]
fn a_bare_201_is_looked_into() {
    let registries = or_skip!(registries());
    for header in ["Location", "Docker-Content-Digest"] {
        survives(&registries, [on_manifest().always().does(Action::drop_header(header))], |_| {});
    }
}

#[test]
fn a_registry_that_stored_something_else_is_not_believed() {
    let registries = or_skip!(registries());
    let trial = registries.trial();
    let other = registries.app.digest();
    registries.target.proxy.script([on_manifest().always().does(Action::set_header("Docker-Content-Digest", &other))]);
    trial.run().fails("integrity").says(&other);
    trial.settle();
}

/// The ways in which registries say that a tag is immutable.
fn immutable() -> [Answer; 3] {
    [
        Answer::error(
            400,
            "TAG_INVALID",
            "The image tag 'v1' already exists and cannot be overwritten because the repository is immutable.",
        ),
        Answer::error(412, "PRECONDITION", "Failed to process request due to 'app:v1' configured as immutable."),
        Answer::error(403, "DENIED", "manifest tag is immutable"),
    ]
}

#[test]
fn an_immutable_tag_that_is_right_already_is_left_alone() {
    let registries = or_skip!(registries());
    for answer in immutable() {
        let trial = registries.trial();
        trial.gives_the_expected_image(trial.run());
        registries.target.proxy.script([on_manifest().always().does(Action::Answer(answer))]);
        let run = trial.gives_the_expected_image(trial.run());
        assert_eq!(registries.target.proxy.count("PUT", "/manifests/"), 0, "{run}");
    }
}

#[test]
fn an_immutable_tag_that_is_another_image_is_a_conflict() {
    let registries = or_skip!(registries());
    for answer in immutable() {
        let trial = registries.trial();
        let other = fixtures::app("linux/amd64", 3).build();
        other.push(registries.target.registry.host(), &trial.repository(), "v1");
        registries.target.proxy.script([on("PUT", "/manifests/v1").always().does(Action::Answer(answer))]);
        trial.run().fails("tag-conflict");
        assert_eq!(trial.target(), Some(other.digest()));
    }
}

#[test]
fn a_registry_that_wants_no_oci_types_is_named_as_such() {
    let registries = or_skip!(registries());
    for answer in [
        Answer::error(415, "UNSUPPORTED", "manifest media type is not supported"),
        Answer::error(
            400,
            "MANIFEST_INVALID",
            "manifest invalid: unsupported media type application/vnd.oci.image.manifest.v1+json",
        ),
    ] {
        let trial = registries.trial();
        registries.target.proxy.script([on_manifest().always().does(Action::Answer(answer))]);
        trial.fails(trial.run(), "input").says("media type");
        trial.settle();
    }
}

#[test]
fn a_run_killed_before_the_manifest_sends_no_layer_twice() {
    let registries = or_skip!(registries());
    let trial = registries.trial();
    registries.target.proxy.script([on_manifest().always().does(Action::Hang)]);
    let running = trial.invocation().start();
    assert!(registries.target.proxy.wait_for("PUT", "/manifests/", Duration::from_secs(30)), "it never got there");
    running.signal(libc::SIGKILL);
    running.finish();
    assert_eq!(trial.target(), None);
    registries.calm();
    let run = trial.gives_the_expected_image(trial.run());
    assert_eq!(registries.target.proxy.count("PUT", &encoded_digest(&registries)), 0, "{run}");
    // The config is a few hundred bytes: sending it is cheaper than asking.
    let sent: u64 = registries.target.proxy.matching("*", "/blobs/uploads/").iter().map(|seen| seen.up).sum();
    assert!(sent < 64 * 1024, "{sent} bytes of blobs were sent again\n{run}");
    trial.settle();
}

#[test]
fn two_runs_to_one_tag_leave_one_whole_image() {
    let registries = or_skip!(registries());
    let other = fixtures::app("linux/amd64", 3000).build();
    other.push(registries.source.registry.host(), "in/other", "v1");
    for round in 0..3 {
        let to = registries.target.name(&format!("race/r{round}:v1"));
        let name = |rest: &str| registries.source.name(rest);
        let base = [name("base/new:v1"), name("base/old:v1")];
        let args = ["rebase", &name("in/other:v1"), "--base", &base[0], "--old-base", &base[1], "--to", &to];
        let second =
            registries.sandbox.underpin(args).arg("--cache").arg(registries.sandbox.path("cache-other")).hurried();
        let running = [registries.rebase(&to, "cache-race").start(), second.start()];
        let runs = running.map(crate::support::invocation::Running::finish);
        let published =
            published::registry(registries.target.registry.host(), &format!("race/r{round}"), "v1").unwrap();
        let won = runs.iter().filter(|run| run.code() == Some(0)).count();
        assert!(won >= 1, "{}\n{}", runs[0], runs[1]);
        for run in &runs {
            assert!(run.code() == Some(0) || run.kind().as_deref() == Some("tag-conflict"), "{run}");
        }
        let winners = runs.iter().filter(|run| run.code() == Some(0)).map(crate::support::invocation::Run::digest);
        assert!(winners.into_iter().any(|digest| digest == published.digest));
    }
}
