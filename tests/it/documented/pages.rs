//! The pages, each with what must be there before it can be followed; and that none is left out.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::{holds, holds_after};
use crate::support::invocation::files_under;
use crate::support::skip::{need, or_skip};

#[test]
fn following_install_works() {
    holds("docs/install.md");
}

#[test]
fn following_five_minutes_works() {
    or_skip!(need(&["skopeo", "umoci", "runc", "jq"]));
    holds("docs/five-minutes.md");
}

#[test]
fn following_coming_from_crane_works() {
    or_skip!(need(&["skopeo", "jq"]));
    let preparation = "push build:app registry.example/app:v1
        push bases:debian docker.io/library/debian:12
        push bases:static gcr.io/distroless/static:latest";
    holds_after(&[PUSH, preparation].concat(), "docs/from-crane.md");
}

#[test]
fn following_old_base_works() {
    or_skip!(need(&["skopeo"]));
    holds("docs/old-base.md");
}

#[test]
fn following_choosing_a_base_works() {
    holds("docs/choosing-a-base.md");
}

#[test]
fn following_start_works() {
    or_skip!(need(&["runc"]));
    holds("docs/start.md");
}

#[test]
fn following_command_and_logs_works() {
    holds("docs/commands.md");
}

#[test]
fn following_reproducibility_works() {
    or_skip!(need(&["skopeo", "jq"]));
    holds("docs/reproducibility.md");
}

#[test]
fn following_ci_works() {
    or_skip!(need(&["skopeo", "jq"]));
    holds("docs/ci.md");
}

#[test]
fn following_ci_with_make_works() {
    or_skip!(need(&["make"]));
    holds("docs/ci-make.md");
}

#[test]
fn following_ci_with_bazel_works() {
    or_skip!(need(&["bazel"]));
    holds("docs/ci-bazel.md");
}

#[test]
fn following_ci_with_a_test_cluster_works() {
    or_skip!(need(&["skopeo", "jq"]));
    holds("docs/ci-test-cluster.md");
}

#[test]
fn following_attestations_works() {
    or_skip!(need(&["jq"]));
    holds_after("sample-images .", "docs/attestations.md");
}

#[test]
fn following_sbom_works() {
    or_skip!(need(&["jq"]));
    holds_after("sample-images .", "docs/sbom.md");
}

#[test]
fn following_the_readme_works() {
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
fn following_batch_works() {
    or_skip!(need(&["skopeo"]));
    let preparation = "push build:app registry.example/build/kube-scheduler:v1.30.0
        push build:app-shell registry.example/build/etcd:3.5.12";
    holds_after(&[PUSH, preparation].concat(), "docs/batch.md");
}

/// Two builds of a base, and an image on the older one.
const BUILT_AGAIN: &str = "sample-images .
build() { skopeo copy --quiet --insecure-policy --override-arch amd64 oci:bases:static oci:builds:$1
    printf 'Package: tzdata\\nStatus: install ok installed\\nVersion: %s\\n' $1 >tzdata
    umoci insert --rootless --image builds:$1 tzdata /var/lib/dpkg/status.d/tzdata
    skopeo copy --quiet --insecure-policy oci:builds:$1 docker://gcr.io/distroless/static:latest; }
build 2024a
underpin rebase -q oci:build:app --platform linux/amd64 --old-base oci:bases:debian --to registry.example/app:v1
build 2024b
";

#[test]
fn following_outdated_images_works() {
    or_skip!(need(&["skopeo", "umoci"]));
    holds_after(BUILT_AGAIN, "docs/outdated.md");
}

#[test]
fn following_release_managers_works() {
    or_skip!(need(&["skopeo", "go", "cc", "ldd", "busybox", "jq"]));
    let directory = tempfile::tempdir().unwrap();
    let names = crate::release::stand_ins(directory.path());
    let preparation = format!(
        "push() {{ skopeo copy --quiet --insecure-policy \"oci:{at}/$1:v1\" \"docker://$2\"; }}
        push debian-base registry.k8s.io/build-image/debian-base:bookworm-v1.0.4
        push static gcr.io/distroless/static:latest
        push go-runner registry.k8s.io/build-image/go-runner:v2.4.0
        push distroless-iptables registry.k8s.io/build-image/distroless-iptables:v0.7.0
        for name in {core}; do push $name registry.example/staging/$name:v1.31.0; done
        for name in {addons}; do
            push $name registry.example/staging/$name:v1
            digest=$(skopeo inspect --format '{{{{.Digest}}}}' docker://registry.example/staging/$name:v1)
            printf -- '- name: %s\\n  dmap:\\n    \"%s\": [\"v1\"]\\n' $name $digest >>staging.yaml
        done",
        at = directory.path().display(),
        core = names[..5].join(" "),
        addons = names[5..].join(" "),
    );
    holds_after(&preparation, "docs/release-managers.md");
}

#[test]
fn following_policy_works() {
    or_skip!(need(&["skopeo"]));
    let preparation = "push bases:static gcr.io/distroless/static:latest
        underpin rebase -q oci:build:app --old-base oci:bases:debian --to registry.example/app:v1";
    holds_after(&[PUSH, preparation].concat(), "docs/policy.md");
}

#[test]
fn following_cache_and_nodes_works() {
    or_skip!(need(&["skopeo"]));
    let preparation = "push build:app registry.example/app:v1
        printf 'registry.example/app:v1\\n' >protected.txt
        underpin inspect -q registry.example/app:v1 >/dev/null
        skopeo copy --quiet --insecure-policy oci:build:app docker-archive:app.tar:registry.example/app:v1
        ctr -n k8s.io images import app.tar";
    holds_after(&[PUSH, preparation].concat(), "docs/cache.md");
}

#[test]
fn following_kubernetes_manifests_works() {
    holds("docs/kube.md");
}

#[test]
fn following_reports_works() {
    holds("docs/reports.md");
}

#[test]
fn pages_to_read_have_nothing_that_fails() {
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

/// What a page names of this clone is there: links with their anchors, and scripts.
#[test]
fn every_link_leads_somewhere() {
    let clone = Path::new(env!("CARGO_MANIFEST_DIR"));
    for page in pages(clone) {
        let text = std::fs::read_to_string(&page).unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: {link}", page.display());
            let has_anchor = |anchor: &str| anchors(&std::fs::read_to_string(&target).unwrap()).contains(anchor);
            assert!(anchor.is_none_or(has_anchor), "{}: {link}", page.display());
        }
        let is_part_of_name = |c: char| c.is_ascii_alphanumeric() || "/_-.".contains(c);
        for rest in text.split("`scripts/").skip(1) {
            let script = rest.split(|c| !is_part_of_name(c)).next().unwrap();
            assert!(clone.join("scripts").join(script).exists(), "{}: scripts/{script}", page.display());
        }
    }
}

/// What links may name in a page: its headings as GitHub makes anchors of them, and anchors written out.
fn anchors(text: &str) -> HashSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let slug = |heading: &str| -> String {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    let written = text.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned);
    headings.map(slug).chain(written).collect()
}

#[test]
fn anchors_are_those_that_github_makes() {
    let found = anchors("# A `b-c` D, e\n<a id=\"x\"></a>\n");
    assert_eq!(found, HashSet::from(["a-b-c-d-e".to_owned(), "x".to_owned()]));
}
