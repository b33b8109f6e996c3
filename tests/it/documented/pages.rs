//! The pages, each with what must be there before it can be followed; and that none is left out.

use std::path::{Path, PathBuf};

use super::{holds, holds_after};
use crate::support::invocation::files_under;
use crate::support::skip::{need, or_skip};

#[test]
fn one_image_in_five_minutes() {
    or_skip!(need(&["skopeo", "umoci", "runc", "jq"]));
    holds("docs/five-minutes.md");
}

#[test]
fn the_guide_to_the_rest() {
    or_skip!(need(&["skopeo", "cc"]));
    holds("docs/guide.md");
}

#[test]
fn a_whole_project_in_an_afternoon() {
    or_skip!(need(&["make"]));
    holds("docs/project.md");
}

#[test]
fn a_digest_is_checked_with_other_tools() {
    or_skip!(need(&["skopeo", "jq"]));
    holds("docs/check-a-digest.md");
}

#[test]
fn a_test_release_is_loaded_into_nodes() {
    or_skip!(need(&["skopeo", "jq"]));
    holds("docs/test-release.md");
}

#[test]
fn the_examples_for_ci_work() {
    or_skip!(need(&["skopeo", "jq"]));
    holds("docs/ci.md");
}

#[test]
fn the_example_for_bazel_works() {
    or_skip!(need(&["bazel"]));
    holds("docs/bazel.md");
}

#[test]
fn the_readme() {
    or_skip!(need(&["jq"]));
    holds_after("sample-images .", "README.md");
}

/// `push IMAGE REFERENCE` puts a sample image where a document says that it is.
const PUSH: &str = "sample-images .
push() { skopeo copy --quiet --insecure-policy --all \"oci:$1\" \"docker://$2\"; }
push bases:static gcr.io/distroless/static:nonroot
push bases:debian registry.k8s.io/build-image/debian-base:bookworm-v1.0.4
printf '# Exceptions\\n\\n| Component | Base | Reason |\\n| --- | --- | --- |\\n' >base-image-exception-list.md\n";

#[test]
fn many_images() {
    or_skip!(need(&["skopeo"]));
    let preparation = "push build:app registry.example/build/kube-scheduler:v1.30.0
        push build:app-shell registry.example/build/etcd:3.5.12";
    holds_after(&[PUSH, preparation].concat(), "docs/batch.md");
}

#[test]
fn what_is_refused_and_which_bases_are_allowed() {
    or_skip!(need(&["skopeo"]));
    let preparation = "push bases:static gcr.io/distroless/static:latest
        underpin rebase -q oci:build:app --old-base oci:bases:debian --to registry.example/app:v1";
    holds_after(&[PUSH, preparation].concat(), "docs/policy.md");
}

#[test]
fn the_local_store() {
    or_skip!(need(&["skopeo"]));
    let preparation = "push build:app registry.example/app:v1
        printf 'registry.example/app:v1\\n' >protected.txt
        underpin inspect -q registry.example/app:v1 >/dev/null
        skopeo copy --quiet --insecure-policy oci:build:app docker-archive:app.tar:registry.example/app:v1
        ctr -n k8s.io images import app.tar";
    holds_after(&[PUSH, preparation].concat(), "docs/cache.md");
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

fn pages(clone: &Path) -> impl Iterator<Item = PathBuf> {
    let files = files_under(&clone.join("docs")).into_iter().chain([clone.join("README.md")]);
    files.filter(|file| file.extension().is_some_and(|end| end == "md"))
}

/// `docs/cli.md` and `docs/rules.md` are what the program prints (`reference`); the examples of the first are run
/// (`examples`), those of the second are in the table of rules.
#[test]
fn every_page_with_fences_is_followed() {
    let clone = Path::new(env!("CARGO_MANIFEST_DIR"));
    for page in pages(clone) {
        let name = page.strip_prefix(clone).unwrap().to_str().unwrap();
        let has_fences = std::fs::read_to_string(&page).unwrap().contains("```");
        let is_followed = include_str!("pages.rs").contains(&format!("\"{name}\")"));
        assert!(
            is_followed || !has_fences || ["docs/cli.md", "docs/rules.md"].contains(&name),
            "nobody follows {name}"
        );
    }
}

/// What a page names of this clone is there: links, and scripts.
#[test]
fn every_link_leads_somewhere() {
    let clone = Path::new(env!("CARGO_MANIFEST_DIR"));
    for page in pages(clone) {
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
