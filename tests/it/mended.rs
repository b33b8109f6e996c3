//! What is said to be up to date was looked at: a target that names the result but has lost some of it is mended.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::fixtures;
use crate::support::http;
use crate::support::invocation::files_under;
use crate::support::layouts::Layouts;
use crate::support::published;
use crate::support::recipe::Dialect;
use crate::support::registries::Registries;
use crate::support::skip::or_skip;

fn outcome(report: &Value) -> &str {
    report["outcome"].as_str().unwrap()
}

/// Every blob and child of what was published, by the path that a registry deletes it at.
fn parts(host: &str, repository: &str) -> Vec<String> {
    let image = published::registry(host, repository, "v1").unwrap();
    let only = image.only();
    let layers = only.layers.iter().chain([&only.config_digest]).map(|digest| format!("blobs/{digest}"));
    layers.collect()
}

fn delete(host: &str, repository: &str, part: &str) {
    let path = format!("/v2/{repository}/{part}");
    assert_eq!(http::ask("DELETE", host, &path, &[], b"").unwrap().status, 202, "{path}");
}

#[test]
fn a_registry_that_has_lost_a_part_gets_it_again() {
    let registries = or_skip!(Registries::one(1000));
    let host = registries.target.registry.host().to_owned();
    let rebase = || {
        let to = registries.target.name("out/app:v1");
        registries.rebase(&to, "cache").arg("--json").run().ok()
    };
    assert_eq!(outcome(&rebase().json()), "rebased");
    assert_eq!(outcome(&rebase().json()), "unchanged");
    for part in parts(&host, "out/app") {
        delete(&host, "out/app", &part);
        assert!(published::registry(&host, "out/app", "v1").is_err(), "{part}");
        let run = rebase().says("names the result but lacks 1 of its parts");
        assert_eq!(outcome(&run.json()), "rebased", "{part}\n{run}");
        assert!(published::registry(&host, "out/app", "v1").is_ok(), "{part}");
        assert_eq!(outcome(&rebase().json()), "unchanged", "{part}");
    }
}

#[test]
fn an_index_that_has_lost_a_manifest_gets_it_again() {
    let three = |one: fn(&str) -> crate::support::recipe::Recipe| fixtures::on_three(Dialect::Oci, one);
    let layouts = Layouts::new(
        &three(|platform| fixtures::app(platform, 10)),
        &three(fixtures::old_base),
        &three(fixtures::new_base),
    );
    let registry = or_skip!(crate::support::docker_registry::Registry::plain());
    let host = registry.host();
    let rebase = || {
        let words = ["rebase", "oci:app:v1", "--base", "oci:new:v1", "--old-base", "oci:old:v1", "--json", "--to"];
        layouts.underpin(&words).arg(format!("{host}/out/app:v1")).run().ok().json()
    };
    let children = |report: &Value| -> Vec<String> {
        let digest = report["targets"][0]["digest"].as_str().unwrap();
        let index = http::get(host, &format!("/v2/out/app/manifests/{digest}"), &[("Accept", Dialect::Oci.index())]);
        let children = index.json()["manifests"].as_array().unwrap().clone();
        children.iter().map(|child| format!("manifests/{}", child["digest"].as_str().unwrap())).collect()
    };
    let first = rebase();
    for child in children(&first) {
        delete(host, "out/app", &child);
        assert_eq!(outcome(&rebase()), "rebased", "{child}");
        assert!(published::registry(host, "out/app", "v1").is_ok());
        assert_eq!(outcome(&rebase()), "unchanged", "{child}");
    }
}

#[test]
fn a_batch_mends_what_it_would_have_skipped() {
    let setup = or_skip!(crate::batch::Setup::new(2));
    let host = setup.host();
    for flags in [&["--json"][..], &["--json", "--no-cache"], &["--json", "--locked"]] {
        setup.batch(&["--json"]).run().ok();
        for part in parts(&host, "out/app0") {
            delete(&host, "out/app0", &part);
            let run = setup.batch(flags).run().ok();
            assert_eq!(crate::batch::outcomes(&run.json()), ["rebased", "unchanged"], "{part}\n{run}");
            assert!(published::registry(&host, "out/app0", "v1").is_ok(), "{part}");
            let run = setup.batch(flags).run().ok();
            assert_eq!(crate::batch::outcomes(&run.json()), ["unchanged"; 2], "{part}\n{run}");
        }
    }
}

/// Each file of a layout in turn: flipped, cut, gone.
#[test]
fn a_layout_that_is_damaged_is_mended() {
    let layouts = Layouts::on(&fixtures::old_base("linux/amd64"), &fixtures::app("linux/amd64", 10));
    let rebase = || layouts.rebase("out").arg("--json").run().ok().json();
    assert_eq!((outcome(&rebase()), outcome(&rebase())), ("rebased", "unchanged"));
    let blobs: Vec<PathBuf> = files_under(&layouts.layout("out").join("blobs"));
    assert!(blobs.len() >= 4);
    let harms: [fn(&Path); 3] = [
        |path| {
            let mut bytes = std::fs::read(path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(path, bytes).unwrap();
        },
        |path| std::fs::File::options().write(true).open(path).unwrap().set_len(5).unwrap(),
        |path| std::fs::remove_file(path).unwrap(),
    ];
    for (blob, harm) in blobs.iter().flat_map(|blob| harms.iter().map(move |harm| (blob, harm))) {
        harm(blob);
        assert_eq!(outcome(&rebase()), "rebased", "{}", blob.display());
        assert!(published::layout(&layouts.layout("out"), "v1").is_ok(), "{}", blob.display());
        assert_eq!(outcome(&rebase()), "unchanged", "{}", blob.display());
    }
    let batch = json!({"images": [{"source": "oci:app:v1", "old_base": "oci:old:v1", "base": "oci:new:v1",
        "target": "oci:out:v1"}]});
    std::fs::write(layouts.layout("batch.yaml"), batch.to_string()).unwrap();
    let batch = || layouts.underpin(&["batch", "batch.yaml", "--json"]).run().ok().json();
    batch();
    for (blob, harm) in blobs.iter().flat_map(|blob| harms.iter().map(move |harm| (blob, harm))) {
        harm(blob);
        assert_eq!(crate::batch::outcomes(&batch()), ["rebased"], "{}", blob.display());
        assert_eq!(crate::batch::outcomes(&batch()), ["unchanged"], "{}", blob.display());
    }
}

/// A statement that is listed, and whose bytes are gone, is attached again.
#[test]
fn statements_that_were_lost_are_attached_again() {
    let layouts = Layouts::on(&fixtures::old_base("linux/amd64"), &fixtures::app("linux/amd64", 10));
    let registry = or_skip!(crate::support::docker_registry::Registry::plain());
    let host = registry.host();
    let rebase = |to: &str| {
        let words = ["rebase", "oci:app:v1", "--base", "oci:new:v1", "--old-base", "oci:old:v1", "--no-cache"];
        let run = layouts.underpin(&words).args(["--attest", "provenance", "--json", "--to", to]).run();
        run.ok().json()
    };
    let there = format!("{host}/out/app:v1");
    for to in [there.as_str(), "oci:out:v1", "oci-archive:out.tar:v1"] {
        rebase(to);
        assert_eq!(outcome(&rebase(to)), "unchanged", "{to}");
    }
    let statement = rebase("oci:out:v1")["attestations"][0]["digest"].as_str().unwrap().to_owned();
    std::fs::remove_file(layouts.layout("out/blobs/sha256").join(&statement[7..])).unwrap();
    delete(host, "out/app", &format!("manifests/{statement}"));
    for to in [there.as_str(), "oci:out:v1"] {
        let report = rebase(to);
        assert_eq!((outcome(&report), &report["attestations"][0]["digest"]), ("rebased", &json!(statement)), "{to}");
        assert_eq!(outcome(&rebase(to)), "unchanged", "{to}");
    }
}
