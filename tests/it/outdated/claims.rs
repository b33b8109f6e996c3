//! What images say of their bases: by other tools, wrongly, or not at all; and images on disk.

use serde_json::{Value, json};

use super::{AMD64, Fleet, TAG, base, base_for, first, outcomes};
use crate::support::fixtures;
use crate::support::http::dead_host;
use crate::support::layouts::{Layouts, upon};
use crate::support::programs::{Machine, prints};
use crate::support::recipe::{Content, Dialect, Recipe, index};
use crate::support::skip::{need, or_skip};
use crate::support::tar_layer::{Layer, Pack, program};
use crate::support::tools;

pub const NAME: &str = "org.opencontainers.image.base.name";
pub const DIGEST: &str = "org.opencontainers.image.base.digest";

/// An application built on the base by somebody else, with these annotations.
pub fn built(base: &Recipe, annotations: &[(&str, &str)]) -> Recipe {
    let layer = [Layer::of(Pack::Gzip, &[program("app", prints(Machine::Amd64, "x"))])];
    let mut app = upon(base, layer, fixtures::app_config());
    app.annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect();
    app
}

pub fn digest_of(base: &Recipe) -> String {
    base.build().digest()
}

#[test]
fn other_tools_record_the_tag_so_no_flag_is_needed() {
    let fleet = or_skip!(Fleet::new());
    let (old, name) = (base("1"), fleet.base_name());
    fleet.push_base(&old);
    fleet.push(&built(&old, &[(NAME, &name), (DIGEST, &digest_of(&old))]).build(), "out/app", "v1");
    // As labels, which images inherit that are built on it.
    let mut labelled = built(&old, &[]);
    labelled.config["Labels"] = json!({NAME: name, DIGEST: digest_of(&old)});
    fleet.push(&labelled.build(), "out/app", "v2");
    // A name alone is enough for an image that is current.
    fleet.push(&built(&old, &[(NAME, &name)]).build(), "out/app", "v3");
    let images = ["v1", "v2", "v3"].map(|tag| fleet.name(&format!("out/app:{tag}")));
    let images: Vec<&str> = images.iter().map(String::as_str).collect();
    fleet.asked(&images).ok();
    fleet.push_base(&base("2"));
    let run = fleet.asked(&[&images[..], &["--json", "--write", "refresh.yaml"]].concat());
    assert_eq!(
        (run.code(), outcomes(&run)),
        (Some(2), vec!["outdated".into(), "outdated".into(), "unknown".into()]),
        "{run}"
    );
    let report = run.json();
    assert!(report["images"][2]["error"].as_str().unwrap().contains("which build of its base"), "{run}");
    let batch = fleet.underpin(&["batch", "refresh.yaml"]).run().ok().says("2 rebased");
    assert_eq!(batch.pinned().len(), 2, "{batch}");
    fleet.outdated(&images[..2]).ok();
    // The build that the third is on can be named.
    let older = format!("{name}@{}", digest_of(&old));
    let run = fleet.asked(&[images[2], "--known-base", &older, "--json"]).refused();
    assert_eq!(run.json()["changes"][0]["summary"], "libc6 1 → 2", "{run}");
}

#[test]
fn a_digest_may_be_that_of_an_index_or_of_one_platform() {
    let fleet = or_skip!(Fleet::new());
    let platforms = ["linux/amd64", "linux/arm64"];
    let base_of = |version: &str| {
        let images = platforms.map(|platform| (platform, base_for(platform, version, &[]).build()));
        index(Dialect::Oci, &images)
    };
    let (old, name) = (base_of("1"), fleet.base_name());
    fleet.push(&old, "base/static", TAG);
    let app = |platform: &str, digest: Option<&str>| {
        let annotations: Vec<(&str, &str)> =
            digest.map(|digest| vec![(NAME, name.as_str()), (DIGEST, digest)]).unwrap_or_default();
        let mut app = built(&base_for(platform, "1", &[]), &annotations);
        app.layers.pop();
        app.layers.push(fixtures::app_layer(platform, 10));
        Recipe { platform: platform.to_owned(), ..app }.build()
    };
    // Each platform has the digest of its manifest, or that of the index; or the index alone says it.
    let by_platform =
        platforms.map(|platform| (platform, app(platform, Some(&digest_of(&base_for(platform, "1", &[]))))));
    let by_index = platforms.map(|platform| (platform, app(platform, Some(&old.digest()))));
    let bare = platforms.map(|platform| (platform, app(platform, None)));
    let on_top = index(Dialect::Oci, &bare);
    let on_top = on_top.with_manifest(|top| top["annotations"] = json!({NAME: name, DIGEST: old.digest()}));
    let all: [Content; 3] = [index(Dialect::Oci, &by_platform), index(Dialect::Oci, &by_index), on_top];
    for (at, image) in all.iter().enumerate() {
        fleet.push(image, "out/app", &format!("v{at}"));
    }
    let images = [0, 1, 2].map(|at| fleet.name(&format!("out/app:v{at}")));
    let images: Vec<&str> = images.iter().map(String::as_str).collect();
    let run = fleet.asked(&[&images[..], &["--json"]].concat()).ok();
    assert_eq!(outcomes(&run), ["current"; 3], "{run}");
    fleet.push(&base_of("2"), "base/static", TAG);
    let run = fleet.asked(&[&images[..], &["--json", "--write", "refresh.yaml"]].concat()).refused();
    assert_eq!(outcomes(&run), ["outdated"; 3], "{run}");
    let report = run.json();
    let movable: Vec<&Value> = report["images"].as_array().unwrap().iter().map(|image| &image["movable"]).collect();
    assert_eq!(movable, ["yes"; 3], "{run}");
    fleet.underpin(&["batch", "refresh.yaml"]).run().ok();
    fleet.outdated(&images).ok();
}

#[test]
fn what_cannot_be_told_is_never_current() {
    let fleet = or_skip!(Fleet::new());
    let (ours, name) = (base("2.36-9+deb12u13"), fleet.base_name());
    let gone = format!("{}/base/static:v1", dead_host());
    let nowhere = fleet.name("base/none:v1");
    let digest = digest_of(&ours);
    for (tag, annotations, words) in [
        ("none", vec![], "it does not name its base"),
        ("dead", vec![(NAME, gone.as_str()), (DIGEST, &digest)], "could not be reached"),
        ("missing", vec![(NAME, &nowhere), (DIGEST, &digest)], "could not be found"),
        ("nameless", vec![(DIGEST, &digest)], "without a name"),
        ("damaged", vec![(NAME, "NOT A NAME")], "it does not name its base"),
    ] {
        fleet.push(&built(&ours, &annotations).build(), "out/app", tag);
        let run = fleet.asked(&[&fleet.name(&format!("out/app:{tag}"))]);
        assert_eq!(run.code(), Some(2), "{tag}\n{run}");
        assert!(run.stdout.starts_with("unknown") && run.stdout.contains(words), "{tag}\n{run}");
    }
    // It says that it is on the base, and is not: neither by digest nor by layers.
    let other = fixtures::old_base(AMD64);
    fleet.push(&built(&other, &[(NAME, &name), (DIGEST, &digest)]).build(), "out/app", "liar");
    let run = fleet.asked(&[&fleet.name("out/app:liar")]);
    assert!(
        run.code() == Some(2)
            && run.stdout.contains("does not record which build") | run.stdout.contains("not those of the base"),
        "{run}"
    );
    // An image that is not there, and one that is: the worst decides.
    let image = fleet.moved("app", &[]);
    fleet.push_base(&base("3"));
    let run = fleet.outdated(&[&image, &fleet.name("out/none:v1"), "--json"]);
    assert_eq!((run.code(), outcomes(&run)), (Some(2), vec!["outdated".into(), "unknown".into()]), "{run}");
    // A base whose old build is gone from the registry is outdated all the same, and says that it was not compared.
    fleet.push(&built(&ours, &[(NAME, &name), (DIGEST, &digest)]).build(), "out/app", "old");
    let delete = format!("/v2/base/static/manifests/{digest}");
    let reply = crate::support::http::ask("DELETE", fleet.registry.host(), &delete, &[], b"").unwrap();
    assert_eq!(reply.status, 202, "{}", reply.text());
    let run = fleet.asked(&[&fleet.name("out/app:old"), "--no-cache"]).refused();
    assert!(run.stdout.contains("not compared: its base is") && run.stdout.contains("could not be found"), "{run}");
}

#[test]
fn a_record_leads_to_no_file_and_an_annotation_to_no_path() {
    let fleet = or_skip!(Fleet::new());
    let (old, name) = (base("1"), fleet.base_name());
    fleet.push_base(&old);
    let secret = fixtures::app(AMD64, 10).build();
    secret.layout(&fleet.sandbox.path("here/secret"), "v1");
    let source = format!("oci:secret:v1@{}", secret.digest());
    fleet.push_base(&base("2"));
    for (format, why) in [("1", "another format version"), ("2", "")] {
        let annotations = [
            (NAME, name.as_str()),
            (DIGEST, &digest_of(&old)),
            ("dev.underpin.format", format),
            ("dev.underpin.source", &source),
            ("dev.underpin.options", "{\"old_base\":\"layers:2\"}"),
        ];
        fleet.push(&built(&old, &annotations).build(), "out/app", "v1");
        let run = fleet.asked(&[&fleet.name("out/app:v1"), "--base", &name, "--write", "refresh.yaml"]).refused();
        let refresh = fleet.read("refresh.yaml");
        let left_out = refresh.lines().find(|line| line.starts_with("# left out: ") && line.contains(why));
        assert!(left_out.is_some() && !refresh.contains("source:"), "{refresh}\n{run}");
    }
    // Nor does the annotation of an image in a registry.
    secret.layout(&fleet.sandbox.path("here/base"), "v1");
    fleet.push(&built(&old, &[(NAME, "oci:base:v1"), (DIGEST, &secret.digest())]).build(), "out/app", "v2");
    let run = fleet.asked(&[&fleet.name("out/app:v2")]);
    assert!(run.code() == Some(2) && run.stdout.contains("without a name"), "{run}");
}

#[test]
fn layouts_and_archives_are_asked_offline() {
    let on = |version: &str| base(version).build();
    let app = upon(&fixtures::old_base(AMD64), [fixtures::app_layer(AMD64, 10)], fixtures::app_config());
    let layouts = Layouts::new(&app.build(), &fixtures::old_base(AMD64).build(), &on("1"));
    layouts.rebase("out").run().ok();
    let ask = |words: &[&str]| layouts.underpin(&["outdated", "--offline", "--no-cache"]).args(words).run();
    let run = ask(&["oci:out:v1"]);
    assert!(run.code() == Some(2) && run.stdout.contains("without a name"), "{run}");
    ask(&["oci:out:v1", "--base", "oci:new:v1"]).ok();
    ask(&["oci:out:*", "--base", "oci:new:v1"]).ok();
    let run = ask(&["oci:out:x*", "--base", "oci:new:v1"]);
    assert!(run.code() == Some(2) && run.stdout.contains("no tag matches"), "{run}");
    on("2").layout(&layouts.layout("new"), "v1");
    let run = ask(&["oci:out:v1", "--base", "oci:new:v1", "--write", "refresh.yaml"]).refused();
    assert!(run.stdout.contains("libc6 1 → 2") && run.stdout.contains("can move now"), "{run}");
    layouts.underpin(&["batch", "refresh.yaml", "--offline", "--no-cache"]).run().ok();
    ask(&["oci:out:v1", "--base", "oci:new:v1"]).ok();
    // The same in an archive.
    let file = layouts.layout("app.tar");
    crate::support::tools::tool(
        "skopeo",
        &[
            "copy",
            "--quiet",
            "--insecure-policy",
            &format!("oci:{}:v1", layouts.layout("out").display()),
            &format!("oci-archive:{}:v1", file.display()),
        ],
    );
    ask(&["oci-archive:app.tar:v1", "--base", "oci:new:v1"]).ok();
    on("3").layout(&layouts.layout("new"), "v1");
    ask(&["oci-archive:app.tar:*", "--base", "oci:new:v1"]).refused();
}

/// Real images of buildah, which records the name of a base with its tag, and the digest.
#[test]
fn an_image_of_buildah_is_outdated_when_its_base_was_built_again() {
    or_skip!(need(&["buildah"]));
    let fleet = or_skip!(Fleet::new());
    let folder = fleet.sandbox.path("buildah");
    let context = folder.join("context");
    std::fs::create_dir_all(&context).unwrap();
    std::fs::write(context.join("serve"), prints(Machine::Amd64, "serving\n")).unwrap();
    let at = |name: &str| folder.join(name).display().to_string();
    let buildah = |words: &[&str]| {
        let storage = ["--storage-driver", "vfs", "--root", &at("root"), "--runroot", &at("run")];
        tools::tool("buildah", &[&storage[..], words].concat());
    };
    let build = |name: &str, dockerfile: &str| {
        std::fs::write(at("Dockerfile"), dockerfile).unwrap();
        let words = ["bud", "--isolation", "chroot", "--format", "oci", "--tls-verify=false", "-t", name, "-f"];
        buildah(&[&words[..], &[&at("Dockerfile"), &at("context")]].concat());
        buildah(&["push", "--tls-verify=false", name, &format!("docker://{name}")]);
    };
    let name = |rest: &str| format!("{}/{rest}", fleet.registry.host());
    let (base_name, image) = (name("base/built:v1"), name("out/built:v1"));
    let build_base = |version: &str| {
        std::fs::write(context.join("libc6"), format!("Package: libc6\nVersion: {version}\n")).unwrap();
        build(&base_name, "FROM scratch\nCOPY libc6 /var/lib/dpkg/status.d/libc6\nCOPY --chmod=755 serve /serve\n");
    };
    build_base("1");
    build(&image, &format!("FROM {base_name}\nCOPY libc6 /srv/data\nENTRYPOINT [\"/serve\"]\n"));
    let run = fleet.asked(&[&image]).ok();
    assert!(run.stdout.starts_with("current"), "{run}");
    build_base("2");
    let run = fleet.asked(&[&image, "--json", "--write", "refresh.yaml"]).refused();
    let found = (&first(&run)["movable"], &run.json()["changes"][0]["summary"]);
    assert_eq!(found, (&json!("yes"), &json!("libc6 1 → 2")), "{run}");
    fleet.underpin(&["batch", "refresh.yaml"]).run().ok();
    fleet.asked(&[&image, "--base", &base_name]).ok();
    fleet.underpin(&["verify", &image]).run().ok();
}
