//! Registry, layout and archives, each as source and each as target.

use std::path::Path;

use serde_json::Value;

use crate::support::docker_registry::Registry;
use crate::support::fixtures::{self, THREE};
use crate::support::invocation::{Invocation, Sandbox};
use crate::support::published::{self, Published};
use crate::support::recipe::{Content, Dialect, index};
use crate::support::skip::{need, or_skip};
use crate::support::tools;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Registry,
    Layout,
    OciArchive,
    DockerArchive,
}

const PLACES: [Place; 4] = [Place::Registry, Place::Layout, Place::OciArchive, Place::DockerArchive];

impl Place {
    /// Puts `content` there and gives its location.
    fn put(self, content: &Content, name: &str, registry: &Registry, folder: &Path) -> String {
        let path = folder.join(format!("{self:?}-{name}"));
        match self {
            Self::Registry => content.push(registry.host(), name, "v1"),
            Self::Layout => content.layout(&path, "v1"),
            Self::OciArchive => content.oci_archive(&path, "v1"),
            Self::DockerArchive => content.docker_archive(&path, &format!("{name}:v1")),
        }
        match self {
            Self::DockerArchive => format!("docker-archive:{}", path.display()),
            other => other.location(name, registry, folder),
        }
    }

    fn location(self, name: &str, registry: &Registry, folder: &Path) -> String {
        let path = folder.join(format!("{self:?}-{name}"));
        match self {
            Self::Registry => format!("{}/{name}:v1", registry.host()),
            Self::Layout => format!("oci:{}:v1", path.display()),
            Self::OciArchive => format!("oci-archive:{}:v1", path.display()),
            Self::DockerArchive => format!("docker-archive:{}:v1", path.display()),
        }
    }

    fn read(self, name: &str, registry: &Registry, folder: &Path) -> Result<Published, String> {
        let path = folder.join(format!("{self:?}-{name}"));
        match self {
            Self::Registry => published::registry(registry.host(), name, "v1"),
            Self::Layout => published::layout(&path, "v1"),
            Self::OciArchive | Self::DockerArchive => published::oci_archive(&path, "v1"),
        }
    }
}

#[test]
fn every_place_can_be_the_source_and_every_place_the_target() {
    let registry = or_skip!(Registry::plain());
    let sandbox = Sandbox::new();
    let folder = sandbox.path("images");
    std::fs::create_dir(&folder).unwrap();
    let app = fixtures::app("linux/amd64", 5000);
    let diff_ids: Vec<String> =
        fixtures::new_base_layers().iter().chain(&app.layers[2..]).map(|layer| layer.diff_id.clone()).collect();
    let (app, old, new) =
        (app.build(), fixtures::old_base("linux/amd64").build(), fixtures::new_base("linux/amd64").build());
    for from in PLACES {
        let put = |content: &Content, name: &str| from.put(content, name, &registry, &folder);
        let (source, base, old_base) = (put(&app, "app"), put(&new, "new"), put(&old, "old"));
        for to in PLACES {
            let name = format!("{from:?}-to-{to:?}").to_lowercase();
            let target = to.location(&name, &registry, &folder);
            let args = ["rebase", &source, "--base", &base, "--old-base", &old_base, "--to", &target, "--cache"];
            let run = sandbox.underpin(args).arg(sandbox.path("cache")).run().ok();
            let (before, _) = target.rsplit_once(':').unwrap();
            let published = to.read(&name, &registry, &folder).unwrap_or_else(|why| panic!("{name}: {why}\n{run}"));
            assert_eq!(run.stdout, format!("{before}@{}\n", published.digest), "{name}");
            assert_eq!(published.only().diff_ids, diff_ids, "{name}");
            assert_eq!(published.only().config["config"]["Entrypoint"], serde_json::json!(["/app"]), "{name}");
        }
    }
    assert!(sandbox.strays().is_empty(), "{:?}", sandbox.strays());
}

#[test]
fn other_tools_read_what_was_published() {
    or_skip!(need(&["skopeo"]));
    let registry = or_skip!(Registry::plain());
    let sandbox = Sandbox::new();
    let folder = sandbox.path("images");
    std::fs::create_dir(&folder).unwrap();
    let put = |content: &Content, name: &str| Place::Layout.put(content, name, &registry, &folder);
    let source = put(&fixtures::app("linux/amd64", 5000).build(), "app");
    let base = put(&fixtures::new_base("linux/amd64").build(), "new");
    let old = put(&fixtures::old_base("linux/amd64").build(), "old");
    let targets = PLACES.map(|place| place.location("out", &registry, &folder));
    let args = ["rebase", &source, "--base", &base, "--old-base", &old, "--no-cache"];
    let to = targets.iter().flat_map(|target| ["--to", target]);
    let run = sandbox.underpin(args).args(to).run().ok();
    assert_eq!(run.pinned().len(), 4, "one line for each target\n{run}");
    let raw = tools::skopeo_raw(&format!("{}/out:v1", registry.host()));
    assert_eq!(run.pinned()[0], format!("{}/out@{}", registry.host(), crate::support::tar_layer::digest(&raw)));
    for (number, place) in PLACES.into_iter().enumerate() {
        let from = match place {
            Place::Registry => format!("docker://{}", targets[number]),
            // Skopeo names images of this archive by the names in it, and takes the only one.
            Place::DockerArchive => format!("docker-archive:{}", folder.join("DockerArchive-out").display()),
            _ => targets[number].clone(),
        };
        tools::skopeo_to_layout(&from, &sandbox.path(&format!("copy-{number}")), "v1");
    }
}

// Images for several machines.

/// A layout for each of source, old base and new base.
fn setup(app: &Content, new_base: &Content) -> Sandbox {
    let sandbox = Sandbox::new();
    app.layout(&sandbox.path("app"), "v1");
    fixtures::on_three(Dialect::Oci, fixtures::old_base).layout(&sandbox.path("old"), "v1");
    new_base.layout(&sandbox.path("new"), "v1");
    sandbox
}

fn rebase(sandbox: &Sandbox) -> Invocation {
    let at = |name: &str| format!("oci:{}:v1", sandbox.path(name).display());
    let args = ["rebase", &at("app"), "--base", &at("new"), "--old-base", &at("old"), "--to", &at("out"), "--no-cache"];
    sandbox.underpin(args)
}

#[test]
fn an_index_is_rebased_for_every_platform_without_its_attestations() {
    let sandbox = setup(&fixtures::attested_app(5000), &fixtures::on_three(Dialect::Oci, fixtures::new_base));
    let report = rebase(&sandbox).arg("--json").run().ok().json();
    let published = published::layout(&sandbox.path("out"), "v1").unwrap();
    assert_eq!(published.platforms(), THREE);
    assert_eq!(published.media_type, Dialect::Oci.index());
    assert_eq!(report["targets"][0]["digest"], published.digest);
    let told: Vec<&Value> = report["platforms"].as_array().unwrap().iter().map(|one| &one["platform"]).collect();
    assert_eq!(told, THREE);
    for image in &published.images {
        let own = fixtures::app_layer(&image.platform, 5000).digest();
        assert_eq!(image.layers.last(), Some(&own), "{}", image.platform);
        assert_eq!(image.layers.len(), 3, "{}", image.platform);
    }
}

#[test]
fn only_the_platforms_that_were_asked_for_are_rebased() {
    let new_base = fixtures::on_three(Dialect::Oci, fixtures::new_base);
    for asked in [&["linux/arm64"][..], &["linux/amd64", "linux/arm/v7"], &["linux/arm64/v8"]] {
        let sandbox = setup(&fixtures::attested_app(100), &new_base);
        rebase(&sandbox).args(asked.iter().flat_map(|platform| ["--platform", platform])).run().ok();
        let published = published::layout(&sandbox.path("out"), "v1").unwrap();
        let expected: Vec<&str> = asked.iter().map(|platform| platform.trim_end_matches("/v8")).collect();
        assert_eq!(published.platforms(), expected);
    }
}

#[test]
fn a_platform_that_the_source_does_not_have_is_an_error() {
    let sandbox = setup(&fixtures::attested_app(100), &fixtures::on_three(Dialect::Oci, fixtures::new_base));
    let run = rebase(&sandbox).args(["--platform", "linux/s390x"]).run();
    assert!(matches!(run.code(), Some(1 | 2)), "{run}");
    run.says("linux/s390x");
    assert!(!sandbox.path("out").join("index.json").exists());
}

#[test]
fn a_platform_that_the_new_base_lacks_is_refused_or_skipped_as_told() {
    let two = ["linux/amd64", "linux/arm64"].map(|platform| (platform, fixtures::new_base(platform).build()));
    let sandbox = setup(&fixtures::attested_app(100), &index(Dialect::Oci, &two));
    for told in [&[][..], &["--on-missing-platform", "refuse"]] {
        rebase(&sandbox).args(told).run().refused().says("linux/arm/v7");
        assert!(!sandbox.path("out").join("index.json").exists());
    }
    rebase(&sandbox).args(["--on-missing-platform", "skip"]).run().ok().says("linux/arm/v7");
    let published = published::layout(&sandbox.path("out"), "v1").unwrap();
    assert_eq!(published.platforms(), ["linux/amd64", "linux/arm64"]);
}

#[test]
fn docker_types_become_oci_types_everywhere() {
    let app = fixtures::on_three(Dialect::Docker, |platform| fixtures::app(platform, 100));
    let sandbox = setup(&app, &fixtures::on_three(Dialect::Docker, fixtures::new_base));
    rebase(&sandbox).run().ok();
    // The check refuses every type that is not OCI's.
    assert_eq!(published::layout(&sandbox.path("out"), "v1").unwrap().platforms(), THREE);
}
