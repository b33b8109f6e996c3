//! Which images are based on an old build of their base, against a real registry: what differs, which tag is asked,
//! and the batch file that refreshes them.

pub mod claims;
mod tags;

use serde_json::{Value, json};

use crate::support::docker_registry::Registry;
use crate::support::fixtures;
use crate::support::invocation::{Invocation, Run, Sandbox};
use crate::support::layouts::upon;
use crate::support::programs::{Machine, prints};
use crate::support::proxy::Proxy;
use crate::support::recipe::{Content, Dialect, Recipe};
use crate::support::skip::{Part, or_skip};
use crate::support::tar_layer::{Entry, Layer, Pack, file, program};
use crate::support::tools::newer;

pub const AMD64: &str = "linux/amd64";
/// The tag of every base.
pub const TAG: &str = "stable";

/// A registry with a base and applications that were moved to it.
pub(super) struct Fleet {
    pub registry: Registry,
    pub proxy: Proxy,
    pub sandbox: Sandbox,
}

/// A build of the base: its package in this version, and further files.
pub(super) fn base_for(platform: &str, version: &str, files: &[Entry]) -> Recipe {
    let status = format!("Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n");
    let mut base = fixtures::new_base(platform);
    let package = file("var/lib/dpkg/status.d/libc6", status);
    base.layers.push(Layer::of(Pack::Gzip, &[&[package], files].concat()));
    base
}

pub(super) fn base(version: &str) -> Recipe {
    base_for(AMD64, version, &[])
}

impl Fleet {
    pub fn new() -> Part<Self> {
        let registry = Registry::plain()?;
        let proxy = Proxy::before(registry.host());
        let fleet = Self { registry, proxy, sandbox: Sandbox::new() };
        fleet.push(&fixtures::old_base(AMD64).build(), "base/old", "v1");
        fleet.push_base(&base("2.36-9+deb12u13"));
        Ok(fleet)
    }

    pub fn push(&self, content: &Content, repository: &str, tag: &str) {
        content.push(self.registry.host(), repository, tag);
    }

    pub fn push_base(&self, base: &Recipe) {
        self.push(&base.build(), "base/static", TAG);
    }

    /// Through the proxy, which counts.
    pub fn name(&self, rest: &str) -> String {
        format!("{}/{rest}", self.proxy.host())
    }

    pub fn base_name(&self) -> String {
        self.name(&format!("base/static:{TAG}"))
    }

    /// An application of its own, moved to the base as it is now.
    pub fn moved(&self, name: &str, flags: &[&str]) -> String {
        let layer = [Layer::of(Pack::Gzip, &[program("app", prints(Machine::Amd64, name))])];
        let app = upon(&fixtures::old_base(AMD64), layer, fixtures::app_config());
        self.push(&app.build(), &format!("in/{name}"), "v1");
        let (from, to) = (self.name(&format!("in/{name}:v1")), self.name(&format!("out/{name}:v1")));
        let words = ["rebase", "-q", &from, "--to", &to, "--base", &self.base_name()];
        let run = self.underpin(&words).args(["--old-base", &self.name("base/old:v1")]).args(flags).run();
        run.ok();
        to
    }

    pub fn underpin(&self, words: &[&str]) -> Invocation {
        self.sandbox.underpin(words).hurried()
    }

    /// Forgets the requests so far, and asks about the images by the tag that they were made with.
    pub fn outdated(&self, words: &[&str]) -> Run {
        let base = self.base_name();
        self.asked(&[words, &["--base", &base]].concat())
    }

    /// The same without saying which tag.
    pub fn asked(&self, words: &[&str]) -> Run {
        self.proxy.calm();
        self.underpin(&["outdated"]).args(words).run()
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.sandbox.path("here").join(name), text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.sandbox.path("here").join(name)).unwrap()
    }
}

/// What was found for the first image.
fn first(run: &Run) -> Value {
    run.json()["images"][0].clone()
}

pub(super) fn outcomes(run: &Run) -> Vec<String> {
    let report = run.json();
    report["images"].as_array().unwrap().iter().map(|row| row["outcome"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_base_that_was_built_again_is_named_with_its_packages_and_a_refresh_makes_the_image_current() {
    let fleet = or_skip!(Fleet::new());
    let image = fleet.moved("app", &["--env", "COLOUR=blue"]);
    let run = fleet.outdated(&[&image]).ok();
    assert!(run.stdout.starts_with(&format!("current  {image}")), "{run}");

    fleet.push_base(&base("2.36-9+deb12u14"));
    let old = fleet.name("base/old:v1");
    let run = fleet.outdated(&[&image, "--write", "refresh.yaml", "--known-base", &old]).refused();
    for words in ["outdated ", "libc6 2.36-9+deb12u13 → 2.36-9+deb12u14", "can move now", "1 image: 1 outdated"] {
        assert!(run.stdout.contains(words), "{words}\n{run}");
    }
    let refresh = fleet.read("refresh.yaml");
    for words in ["COLOUR=blue", "in/app@sha256:", "out/app:v1", &fleet.base_name(), "base/old:v1@sha256:"] {
        assert!(refresh.contains(words), "{words}\n{refresh}");
    }

    fleet.underpin(&["batch", "refresh.yaml", "--lock-only"]).run().ok();
    assert!(fleet.outdated(&[&image]).code() == Some(1), "only the lock was written");
    let batch = fleet.underpin(&["batch", "refresh.yaml"]).run().ok().says("1 rebased");
    fleet.outdated(&[&image]).ok();
    // The same as a move of the source by hand with the same options.
    let by_hand = fleet.moved("app", &["--env", "COLOUR=blue"]);
    assert_eq!(fleet.registry.tag("out/app", "v1").unwrap(), batch.digest(), "{by_hand}");
    fleet.underpin(&["verify", &image]).run().ok();
    assert_eq!(fleet.outdated(&[&image, "--write", "again.yaml"]).code(), Some(0));
    fleet.underpin(&["batch", "again.yaml"]).run().ok().says("0 images");
}

#[test]
fn the_same_files_with_other_bytes_are_told_from_other_files() {
    let fleet = or_skip!(Fleet::new());
    let image = fleet.moved("app", &[]);
    for (build, words, count) in [
        (
            base_for(AMD64, "2.36-9+deb12u13", &[file("etc/late", "x").at(7)]),
            "same packages, 1 file differs: /etc/late",
            1,
        ),
        (later("2.36-9+deb12u13"), "same files, other bytes", 0),
    ] {
        fleet.push_base(&build);
        let run = fleet.outdated(&[&image, "--json"]).refused();
        let change = &run.json()["changes"][0];
        assert_eq!((&change["summary"], &change["files"]["count"]), (&json!(words), &json!(count)), "{run}");
        assert_eq!(first(&run)["platforms"][0]["change"], 0, "{run}");
    }
}

/// The base with another time of its files.
fn later(version: &str) -> Recipe {
    let status = format!("Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n");
    let mut base = fixtures::new_base(AMD64);
    base.layers.push(Layer::of(Pack::Gzip, &[file("var/lib/dpkg/status.d/libc6", status).at(1_000_000)]));
    base
}

#[test]
fn another_tag_of_the_base_is_never_held_against_an_image() {
    let fleet = or_skip!(Fleet::new());
    let image = fleet.moved("app", &[]);
    // The tag is not recorded, and there is no `latest`.
    let run = fleet.asked(&[&image]);
    assert_eq!(run.code(), Some(2), "{run}");
    assert!(run.stdout.contains(&format!("pass --base {}:TAG", fleet.name("base/static"))), "{run}");
    // There is, and it is something else.
    fleet.push(&base("3").build(), "base/static", "latest");
    let run = fleet.asked(&[&image]);
    assert_eq!(run.code(), Some(2), "{run}");
    assert!(run.stdout.contains("whose tag it does not record"), "{run}");
    // The image is what `latest` leads to: whatever tag it was made with, it is current.
    fleet.push(&base("2.36-9+deb12u13").build(), "base/static", "latest");
    fleet.asked(&[&image]).ok();
    // Of two tags that the user names it is on neither.
    fleet.push(&base("4").build(), "base/static", "nonroot");
    fleet.push_base(&base("5"));
    let run = fleet.outdated(&[&image, "--base", &fleet.name("base/static:nonroot")]);
    assert_eq!(run.code(), Some(2), "{run}");
    assert!(run.stdout.contains("it is on none of them"), "{run}");
    // A base of another repository says nothing about it.
    let run = fleet.asked(&[&image, "--base", &fleet.name("base/other:v1")]);
    fleet.push(&base("6").build(), "base/static", "latest");
    assert_eq!((run.code(), fleet.asked(&[&image]).code()), (Some(0), Some(2)), "{run}");
    // Its successor is.
    fleet.push(&base("7").build(), "base/next", "v1");
    let rule = format!("{}={}", fleet.name("base/static"), fleet.name("base/next:v1"));
    let run = fleet.asked(&[&image, "--base", &rule, "--write", "next.yaml"]).refused();
    assert!(run.stdout.contains("libc6 2.36-9+deb12u13 → 7"), "{run}");
    fleet.underpin(&["batch", "next.yaml"]).run().ok();
    fleet.asked(&[&image, "--base", &fleet.name("base/next:v1")]).ok();
}

#[test]
fn every_platform_is_held_against_its_own_manifest() {
    let fleet = or_skip!(Fleet::new());
    let on_three = |build: &dyn Fn(&str) -> Recipe| fixtures::on_three(Dialect::Oci, build);
    fleet.push(&on_three(&|platform| fixtures::old_base(platform)), "base/old", "v1");
    fleet.push(&on_three(&|platform| fixtures::app(platform, 10)), "in/app", "v1");
    fleet.push(&on_three(&|platform| base_for(platform, "1", &[])), "base/static", TAG);
    let (from, image, old) = (fleet.name("in/app:v1"), fleet.name("out/app:v1"), fleet.name("base/old:v1"));
    let words = ["rebase", "-q", &from, "--to", &image, "--base", &fleet.base_name(), "--old-base", &old];
    fleet.underpin(&words).run().ok();
    fleet.outdated(&[&image]).ok();

    // Another index with the same images in it: nothing has changed for anybody.
    let reordered = on_three(&|platform| base_for(platform, "1", &[]));
    let reordered = reordered.with_manifest(|index| index["annotations"] = json!({"built": "again"}));
    fleet.push(&reordered, "base/static", TAG);
    fleet.outdated(&[&image]).ok();

    // One platform was built again.
    let version = |platform: &str| if platform == "linux/arm64" { "2" } else { "1" };
    fleet.push(&on_three(&|platform| base_for(platform, version(platform), &[])), "base/static", TAG);
    // The old bases of the source are recorded by digest: without a name for them, the result itself is moved.
    let run = fleet.outdated(&[&image, "--write", "by-name.yaml", "--known-base", &old]).refused();
    let by_name = fleet.read("by-name.yaml");
    assert!(by_name.contains("/in/app@sha256:") && by_name.contains("/base/old:v1@sha256:"), "{by_name}\n{run}");
    fleet.write("elsewhere.yaml", &by_name.replace("/out/app:v1", "/out/by-name:v1"));
    fleet.underpin(&["batch", "elsewhere.yaml"]).run().ok();
    let other = fleet.name("out/by-name:v1");
    fleet.outdated(&[&other]).ok();
    fleet.underpin(&["verify", &other]).run().ok();
    let run = fleet.outdated(&[&image, "--json", "--write", "refresh.yaml"]).refused();
    assert!(fleet.read("refresh.yaml").contains("/out/app:v1@sha256:"), "{}", fleet.read("refresh.yaml"));
    let platforms = first(&run)["platforms"].as_array().unwrap().clone();
    let found: Vec<&str> = platforms.iter().map(|platform| platform["outcome"].as_str().unwrap()).collect();
    assert_eq!(found, ["current", "outdated", "current"], "{run}");
    assert_eq!(first(&run)["movable"], "yes", "{run}");
    assert_eq!(run.json()["changes"].as_array().unwrap().len(), 1, "{run}");
    fleet.underpin(&["batch", "refresh.yaml"]).run().ok();
    fleet.outdated(&[&image]).ok();
    fleet.underpin(&["verify", &image]).run().ok();
}

#[test]
fn what_cannot_move_is_said_with_the_reason_and_left_out_of_the_batch_file() {
    let fleet = or_skip!(Fleet::new());
    let serving = |version: &str, files: &[Entry]| base_for(AMD64, version, files);
    let server = program("serve", prints(Machine::Amd64, "serving\n"));
    let with_program = serving("1", &[server]);
    fleet.push(&with_program.build(), "base/static", TAG);
    let config = json!({"Entrypoint": ["/serve"]});
    let mut app = upon(&with_program, [Layer::of(Pack::Gzip, &[file("srv/data", "x")])], config);
    app.annotations.insert("org.opencontainers.image.base.name".to_owned(), fleet.base_name().into());
    let digest = with_program.build().digest();
    app.annotations.insert("org.opencontainers.image.base.digest".to_owned(), digest.into());
    fleet.push(&app.build(), "out/app", "v1");
    let image = fleet.name("out/app:v1");
    fleet.asked(&[&image]).ok();
    fleet.push_base(&serving("2", &[]));
    let run = fleet.asked(&[&image, "--write", "refresh.yaml"]).refused().says("left out");
    assert!(run.stdout.contains("cannot move now: ") && run.stdout.contains("entrypoint-missing"), "{run}");
    assert!(fleet.read("refresh.yaml").contains("images: []"), "{}", fleet.read("refresh.yaml"));
}

#[test]
fn a_result_whose_source_is_gone_is_refreshed_from_itself() {
    let fleet = or_skip!(Fleet::new());
    let image = fleet.moved("app", &["--env", "COLOUR=blue"]);
    let source = format!("/v2/in/app/manifests/{}", fleet.registry.tag("in/app", "v1").unwrap());
    let reply = crate::support::http::ask("DELETE", fleet.registry.host(), &source, &[], b"").unwrap();
    assert_eq!(reply.status, 202, "{}", reply.text());
    fleet.push_base(&base("2.36-9+deb12u14"));
    fleet.outdated(&[&image, "--write", "refresh.yaml"]).refused();
    let refresh = fleet.read("refresh.yaml");
    assert!(refresh.contains("source: \"") && refresh.contains("out/app:v1@sha256:"), "{refresh}");
    fleet.underpin(&["batch", "refresh.yaml"]).run().ok();
    fleet.outdated(&[&image]).ok();
    let published = crate::support::published::registry(fleet.registry.host(), "out/app", "v1").unwrap();
    assert!(published.only().config["config"]["Env"].to_string().contains("COLOUR=blue"));
}

#[test]
fn the_targets_of_a_batch_file_are_held_against_the_bases_that_it_names() {
    let fleet = or_skip!(Fleet::new());
    fleet.moved("one", &[]);
    fleet.moved("two", &[]);
    let entry = |name: &str| {
        let (source, target) = (fleet.name(&format!("in/{name}:v1")), fleet.name(&format!("release/{name}:v1")));
        format!("- {{source: '{source}', target: '{target}', env: [NAME={name}]}}\n")
    };
    let (base_name, old) = (fleet.base_name(), fleet.name("base/old:v1"));
    let defaults = format!("defaults: {{base: '{base_name}', old_base: '{old}'}}\nimages:\n");
    fleet.write("batch.yaml", &(defaults + &entry("one") + &entry("two")));
    let run = fleet.asked(&["--batch", "batch.yaml", "--json"]);
    assert_eq!((run.code(), outcomes(&run)), (Some(2), vec!["unknown".to_owned(); 2]), "not published yet");
    fleet.underpin(&["batch", "batch.yaml"]).run().ok();
    fleet.asked(&["--batch", "batch.yaml"]).ok();
    fleet.push_base(&base("2.36-9+deb12u14"));
    let run = fleet.asked(&["--batch", "batch.yaml", "--write", "refresh.yaml"]).refused();
    assert!(run.stdout.contains("2 images: 2 outdated"), "{run}");
    assert!(fleet.read("refresh.yaml").contains("NAME=two"), "{}", fleet.read("refresh.yaml"));
    fleet.underpin(&["batch", "refresh.yaml"]).run().ok();
    fleet.asked(&["--batch", "batch.yaml"]).ok();
}

#[test]
fn the_images_of_manifests_are_asked_about_once_each() {
    let fleet = or_skip!(Fleet::new());
    let (one, two) = (fleet.moved("one", &[]), fleet.moved("two", &[]));
    let pod = |images: &[&str]| {
        let containers: Vec<Value> = images.iter().map(|image| json!({"name": "a", "image": image})).collect();
        json!({"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": containers, "initContainers": containers}})
    };
    fleet.write("pod.yaml", &pod(&[&one, &two]).to_string());
    fleet.write("job.yaml", &pod(&[&one, "{{image}}"]).to_string());
    let run = fleet.outdated(&["--json", "--kube", "pod.yaml"]).ok();
    assert_eq!(outcomes(&run), ["current", "current"]);
    let run = fleet.outdated(&["--json", "--kube", "job.yaml", "none.yaml"]);
    assert_eq!((run.code(), outcomes(&run)), (Some(2), vec!["current".into(), "unknown".into(), "unknown".into()]));
    let line = format!(
        "exec {} outdated --kube - --base {} < pod.yaml",
        crate::support::invocation::binary(),
        fleet.base_name()
    );
    let run = fleet.sandbox.program("/bin/sh", ["-c", &line]).run().ok();
    assert!(run.stdout.contains("2 images: 2 current"), "{run}");
}

#[test]
fn an_image_costs_about_one_request_beyond_its_manifest_and_a_base_is_asked_for_once() {
    const COUNT: usize = 12;
    let fleet = or_skip!(Fleet::new());
    let images: Vec<String> = (0..COUNT).map(|at| fleet.moved(&format!("app{at}"), &[])).collect();
    let images: Vec<&str> = images.iter().map(String::as_str).collect();
    let shared = 6; // Manifest and config of the base by its tag and by its digest, and two to spare.
    let run = fleet.outdated(&[&images[..], &["--no-cache"]].concat()).ok();
    let cold = fleet.proxy.seen().len();
    assert!(cold <= 2 * COUNT + shared, "{cold}\n{run}");
    assert_eq!(fleet.proxy.count("GET", &format!("base/static/manifests/{TAG}")), 1, "{run}");
    assert_eq!(fleet.proxy.count("*", "in/app"), 0, "the source of an image that is current is not asked for\n{run}");
    let run = fleet.outdated(&images).ok();
    let warm = fleet.proxy.seen().len();
    assert!(warm <= COUNT + shared, "{warm}\n{run}");

    fleet.push_base(&base("2.36-9+deb12u14"));
    fleet.outdated(&images).refused();
    let run = fleet.outdated(&images).refused();
    let judged = fleet.proxy.seen().len();
    // Each has a source of its own.
    assert!(judged <= 2 * COUNT + 2 * shared, "{judged}\n{run}");
    assert_eq!(fleet.proxy.count("GET", &format!("base/static/manifests/{TAG}")), 1, "{run}");
    assert_eq!(fleet.proxy.count("GET", "/blobs/"), 0, "all in the cache\n{run}");
}

#[test]
fn a_newest_build_that_is_not_signed_is_none() {
    let fleet = or_skip!(Fleet::new());
    let image = fleet.moved("app", &[]);
    fleet.push_base(&base("2.36-9+deb12u14"));
    let key = crate::attest::key("cosign.pub");
    let policy = |images: &str| format!("signed_by:\n- images: ['{images}']\n  keys: ['{key}']\n");
    fleet.write("policy.yaml", &policy(&fleet.name("base/*")));
    let run = fleet.outdated(&[&image, "--policy", "policy.yaml", "--json"]);
    assert_eq!((run.code(), outcomes(&run)), (Some(2), vec!["unknown".to_owned()]), "{run}");
    assert_eq!(first(&run)["findings"][0]["rule"], "signature-missing", "{run}");
    let newest = base("2.36-9+deb12u14").build();
    assert_eq!(fleet.proxy.count("GET", newest.layers().last().unwrap()), 0, "a layer of it was read");
    fleet.write("policy.yaml", &policy("registry.example/*"));
    fleet.outdated(&[&image, "--policy", "policy.yaml"]).refused();
}

#[test]
fn a_newest_build_that_is_signed_is_compared() {
    let (cosign2, cosign3) = (or_skip!(newer("trixie/cosign", "cosign")), or_skip!(newer("sid/cosign", "cosign")));
    let fleet = or_skip!(Fleet::new());
    let image = fleet.moved("app", &[]);
    let newest = base("2.36-9+deb12u14");
    fleet.push_base(&newest);
    let pinned = format!("{}@{}", fleet.name("base/static"), newest.build().digest());
    crate::attest::sign(&cosign2, &cosign3, &fleet.sandbox, &pinned);
    let (key, images) = (crate::attest::key("cosign.pub"), fleet.name("base/*"));
    fleet.write("policy.yaml", &format!("signed_by:\n- images: ['{images}']\n  keys: ['{key}']\n"));
    let run = fleet.outdated(&[&image, "--policy", "policy.yaml"]).refused();
    assert!(run.stdout.contains("libc6 2.36-9+deb12u13 → 2.36-9+deb12u14"), "{run}");
}
