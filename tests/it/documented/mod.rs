//! Every command in the documents is run, and says what the document says it does.
//!
//! A document is one session in one folder. A fence `console` is a transcript: `$ COMMAND`, then all that
//! it prints (a line `...` stands for any lines); its commands share one shell and must succeed. A
//! fence with `file=NAME` is that file; of YAML, every script in it is run too. `needs=PROGRAM` skips a
//! fence where the program is missing. Without a file, `json` is a shape, which must be JSON; `text` is for the
//! eye. There is no other kind of fence. Registries that are named are there ([`Outside`]).
//! `UPDATE_DOCS=1` writes what the commands print into the documents.

mod examples;
mod guide;
mod session;

use std::path::Path;

use crate::rig::cli::files_under;
use crate::rig::need::need;
use crate::rig::node::Node;
use crate::rig::outside::{HOSTS, Outside};
use guide::{Fence, fences, is_shown, scripts, steps};
use session::Session;

/// Runs a document, in a folder in which `stage` has been run; gives its text with the transcripts as they came out.
fn follow(text: &str, stage: &str) -> Option<String> {
    let names_registry = HOSTS.iter().any(|host| text.contains(host) || stage.contains(host));
    let outside = if names_registry || text.contains("$REGISTRY") { Some(Outside::start()?) } else { None };
    let node = if text.contains("$ ctr ") { Node::start() } else { None };
    let session = Session::new(outside, node);
    session.bash(stage);
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

fn holds_after(stage: &str, page: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let kept = std::fs::read_to_string(&file).unwrap();
    let Some(told) = follow(&kept, stage) else { return };
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(&file, &told).unwrap();
    }
    let differs = kept.lines().zip(told.lines()).find(|(kept, told)| kept != told);
    assert!(kept == told, "{page} shows one thing, and another happens: {differs:?}");
}

#[test]
fn one_image_in_five_minutes() {
    if need(&["skopeo", "umoci", "runc", "jq"]) {
        holds("docs/five-minutes.md");
    }
}

#[test]
fn the_guide_to_the_rest() {
    if need(&["skopeo", "cc"]) {
        holds("docs/guide.md");
    }
}

#[test]
fn a_whole_project_in_an_afternoon() {
    if need(&["make"]) {
        holds("docs/project.md");
    }
}

#[test]
fn a_digest_is_checked_with_other_tools() {
    if need(&["skopeo", "jq"]) {
        holds("docs/check-a-digest.md");
    }
}

#[test]
fn a_test_release_is_loaded_into_nodes() {
    if need(&["skopeo", "jq"]) {
        holds("docs/test-release.md");
    }
}

#[test]
fn the_examples_for_ci_work() {
    if need(&["skopeo", "jq"]) {
        holds("docs/ci.md");
    }
}

#[test]
fn the_example_for_bazel_works() {
    if need(&["bazel"]) {
        holds("docs/bazel.md");
    }
}

#[test]
fn the_readme() {
    if need(&["jq"]) {
        holds_after("sample-images .", "README.md");
    }
}

/// `push IMAGE REFERENCE` puts a sample image where a document says that it is.
const PUSH: &str = "sample-images .
push() { skopeo copy --quiet --insecure-policy --all \"oci:$1\" \"docker://$2\"; }
push bases:static gcr.io/distroless/static:nonroot
push bases:debian registry.k8s.io/build-image/debian-base:bookworm-v1.0.4
printf '# Exceptions\\n\\n| Component | Base | Reason |\\n| --- | --- | --- |\\n' >base-image-exception-list.md\n";

#[test]
fn many_images() {
    if need(&["skopeo"]) {
        let stage = "push build:app registry.example/build/kube-scheduler:v1.30.0
            push build:app-shell registry.example/build/etcd:3.5.12";
        holds_after(&[PUSH, stage].concat(), "docs/batch.md");
    }
}

#[test]
fn what_is_refused_and_which_bases_are_allowed() {
    if need(&["skopeo"]) {
        let stage = "push bases:static gcr.io/distroless/static:latest
            underpin rebase -q oci:build:app --old-base oci:bases:debian --to registry.example/app:v1";
        holds_after(&[PUSH, stage].concat(), "docs/policy.md");
    }
}

#[test]
fn the_local_store() {
    if need(&["skopeo"]) {
        let stage = "push build:app registry.example/app:v1
            printf 'registry.example/app:v1\\n' >protected.txt
            underpin inspect -q registry.example/app:v1 >/dev/null";
        holds_after(&[PUSH, stage].concat(), "docs/cache.md");
    }
}

#[test]
fn kubernetes_manifests() {
    holds("docs/kube.md");
}

#[test]
fn the_shapes_of_reports() {
    holds("docs/reports.md");
}

#[test]
fn pages_for_the_eye() {
    holds("docs/architecture.md");
    holds("docs/contributing.md");
}

/// `docs/cli.md` is what the program prints (`reference`), and its examples are run (`examples`).
#[test]
fn every_page_with_fences_is_followed() {
    let clone = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = files_under(&clone.join("docs")).into_iter().chain([clone.join("README.md")]);
    for page in pages.filter(|page| page.extension().is_some_and(|end| end == "md")) {
        let name = page.strip_prefix(clone).unwrap().to_str().unwrap();
        let has_fences = std::fs::read_to_string(&page).unwrap().contains("```");
        let is_followed = include_str!("mod.rs").contains(&format!("\"{name}\")"));
        assert!(is_followed || !has_fences || name == "docs/cli.md", "nobody follows {name}");
    }
}

/// What a page names of this clone is there: links, and scripts.
#[test]
fn every_link_leads_somewhere() {
    let clone = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = files_under(&clone.join("docs")).into_iter().chain([clone.join("README.md")]);
    for page in pages.filter(|page| page.extension().is_some_and(|end| end == "md")) {
        let text = std::fs::read_to_string(&page).unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        for link in links.filter(|link| !link.is_empty() && !link.contains("://")) {
            assert!(page.parent().unwrap().join(link).exists(), "{}: {link}", page.display());
        }
        let is_part_of_name = |c: char| c.is_ascii_alphanumeric() || "/_-.".contains(c);
        for rest in text.split("`scripts/").skip(1) {
            let script = rest.split(|c| !is_part_of_name(c)).next().unwrap();
            assert!(clone.join("scripts").join(script).exists(), "{}: scripts/{script}", page.display());
        }
    }
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
