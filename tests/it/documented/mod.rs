//! Every command in the guides is run, and says what the guide says it does.
//!
//! A guide is one session in one folder. A fence `console` is a transcript: `$ COMMAND`, then all that
//! it prints (a line `...` stands for any lines); its commands share one shell and must succeed. A
//! fence with `file=NAME` is that file; of YAML, every script in it is run too. `needs=PROGRAM` skips a
//! fence where the program is missing. There is no other kind of fence but `text`. A guide that puts images
//! to `registry.example` or `$REGISTRY` has a real one for that.
//! `UPDATE_DOCS=1` writes what the commands print into the guides.

mod guide;
mod session;

use std::path::Path;

use crate::rig::need::need;
use crate::rig::node::Node;
use crate::rig::registry::Registry;
use guide::{Fence, fences, is_shown, scripts, steps};
use session::Session;

/// Runs a guide; gives its text with the transcripts as they came out.
fn follow(text: &str) -> Option<String> {
    let registry = if text.contains("$REGISTRY") || text.contains("docker://registry.example") {
        Some(Registry::plain()?)
    } else {
        None
    };
    let node = if text.contains("$ ctr ") { Node::start() } else { None };
    let session = Session::new(registry, node);
    let (mut told, mut done) = (String::new(), 0);
    for fence in fences(text) {
        told += &text[done..fence.at];
        told += &tried(&session, &fence);
        done = fence.at + fence.body.len();
    }
    Some(told + &text[done..])
}

/// Does what a fence says; gives its text as it came out.
fn tried(session: &Session, fence: &Fence<'_>) -> String {
    if fence.word("needs").is_some_and(|program| !need(&[program])) {
        return fence.body.to_owned();
    }
    if fence.info.starts_with("console") {
        return transcript(session, fence.body);
    }
    match fence.word("file") {
        Some(name) => {
            session.write(name, fence.body);
            let runs = if fence.info.starts_with("yaml") { scripts(fence.body) } else { Vec::new() };
            for script in runs {
                session.bash(&script);
            }
        }
        None => assert!(fence.info.starts_with("text"), "nobody would run a fence `{}`:\n{}", fence.info, fence.body),
    }
    fence.body.to_owned()
}

fn transcript(session: &Session, body: &str) -> String {
    let mut ran = session.console(body);
    for (shown, ran) in steps(body).into_iter().zip(&mut ran) {
        if shown.output.contains("...\n") {
            assert!(is_shown(&shown.output, &ran.output), "{}prints\n{}", shown.command, ran.output);
            ran.output = shown.output;
        }
    }
    ran.iter().flat_map(|step| ["$ ", &step.command, &step.output]).collect()
}

/// The guide is what happens when it is followed.
fn holds(guide: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(guide);
    let kept = std::fs::read_to_string(&file).unwrap();
    let Some(told) = follow(&kept) else { return };
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(&file, &told).unwrap();
    }
    let differs = kept.lines().zip(told.lines()).find(|(kept, told)| kept != told);
    assert!(kept == told, "docs/{guide} shows one thing, and another happens: {differs:?}");
}

#[test]
fn one_image_in_five_minutes() {
    if need(&["skopeo", "umoci", "runc", "jq"]) {
        holds("five-minutes.md");
    }
}

#[test]
fn the_guide_to_the_rest() {
    if need(&["skopeo", "cc"]) {
        holds("guide.md");
    }
}

#[test]
fn a_whole_project_in_an_afternoon() {
    if need(&["make"]) {
        holds("project.md");
    }
}

#[test]
fn a_digest_is_checked_with_other_tools() {
    if need(&["skopeo", "jq"]) {
        holds("check-a-digest.md");
    }
}

#[test]
fn a_test_release_is_loaded_into_nodes() {
    if need(&["skopeo", "jq"]) {
        holds("test-release.md");
    }
}

#[test]
fn the_examples_for_ci_work() {
    if need(&["skopeo", "jq"]) {
        holds("ci.md");
    }
}

#[test]
fn the_example_for_bazel_works() {
    if need(&["bazel"]) {
        holds("bazel.md");
    }
}

#[test]
fn a_guide_that_says_something_else_is_found_out() {
    let text = "\n```console\n$ echo one; echo two >&2\none\nthree\n```\n";
    assert_eq!(follow(text).unwrap(), "\n```console\n$ echo one; echo two >&2\none\ntwo\n```\n");
    for wrong in ["\n```console\n$ false\n```\n", "\n```sh\nrm x\n```\n", "\n```console\n$ echo a\nb\n...\n```\n"] {
        let caught = std::panic::catch_unwind(|| follow(wrong));
        assert!(caught.is_err(), "{wrong}");
    }
}
