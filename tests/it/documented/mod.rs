//! Every command in the documents is run, and says what the document says it does.
//!
//! A document is one session in one folder. A fence `console` is a transcript: `$ COMMAND`, then all that
//! it prints (a line `...` stands for any lines); its commands share one shell and must succeed. A
//! fence with `file=NAME` is that file; of YAML, every script in it is run too. `needs=PROGRAM` skips a
//! fence where the program is missing. Without a file, `json` is a shape, which must be JSON; `text` is for the
//! eye. There is no other kind of fence. Registries that are named are there ([`Outside`]).
//! `UPDATE_DOCS=1` writes what the commands print into the documents.

mod examples;
mod pages;
pub mod session;
mod tests_named;
mod troubleshooting;

use std::path::Path;

use crate::support::containerd::{Make, Node};
use crate::support::docker_registry::{HOSTS, Outside};
use crate::support::skip::{Part, need, or_skip};
use session::{Fence, SOCKET, Session, fences, is_shown, scripts, steps};

/// Runs a document, in a folder in which `preparation` has been run; gives its text with the transcripts as they came out.
fn follow(text: &str, preparation: &str) -> Part<String> {
    let names_registry = HOSTS.iter().any(|host| text.contains(host) || preparation.contains(host));
    let outside = if names_registry || text.contains("$REGISTRY") { Some(Outside::start()?) } else { None };
    let node = match text {
        _ if text.contains(SOCKET) => Some(Node::kubernetes(Make::Installed)?),
        _ if text.contains("$ ctr ") => Some(Node::start()?),
        _ => None,
    };
    let session = Session::new(outside, node);
    session.bash(preparation);
    let (mut told, mut done) = (String::new(), 0);
    for fence in fences(text) {
        told += &text[done..fence.at];
        told += &tried(&session, &fence);
        done = fence.at + fence.body.len();
    }
    Ok(told + &text[done..])
}

/// Does what a fence says; gives its text as it came out.
fn tried(session: &Session, fence: &Fence<'_>) -> String {
    if fence.word("needs").is_some_and(|program| need(&[program]).is_err()) {
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
        None if fence.info == "json" => drop(serde_json::from_str::<serde_json::Value>(fence.body).unwrap()),
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

/// The document is what happens when it is followed.
fn holds(page: &str) {
    holds_after("", page);
}

fn holds_after(preparation: &str, page: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let kept = std::fs::read_to_string(&file).unwrap();
    let told = or_skip!(follow(&kept, preparation));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(&file, &told).unwrap();
    }
    let differs = kept.lines().zip(told.lines()).find(|(kept, told)| kept != told);
    assert!(kept == told, "{page} shows one thing, and another happens: {differs:?}");
}

#[test]
fn a_guide_that_says_something_else_is_found_out() {
    let text = "\n```console\n$ echo one; echo two >&2\none\nthree\n```\n";
    assert_eq!(follow(text, "").unwrap(), "\n```console\n$ echo one; echo two >&2\none\ntwo\n```\n");
    for wrong in [
        "\n```console\n$ false\n```\n",
        "\n```sh\nrm x\n```\n",
        "\n```json\n{\n```\n",
        "\n```console\n$ echo a\nb\n...\n```\n",
    ] {
        let caught = std::panic::catch_unwind(|| follow(wrong, ""));
        assert!(caught.is_err(), "{wrong}");
    }
}
