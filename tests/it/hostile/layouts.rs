//! Layout folders that are not what they seem.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{Setup, good};
use crate::support::recipe::blob_path;
use crate::support::tools::tool;

/// A change to a good layout in this folder.
type Harm = Box<dyn Fn(&Path)>;

fn harm(change: impl Fn(&Path) + 'static) -> Harm {
    Box::new(change)
}

/// Where the layout keeps the application's layer.
fn layer(folder: &Path) -> PathBuf {
    folder.join(blob_path(&good().layers()[2]))
}

fn moved(from: &Path, to: &Path) {
    std::fs::rename(from, to).unwrap();
    symlink(to, from).unwrap();
}

#[test]
fn only_plain_files_in_plain_folders_are_read() {
    let setup = Setup::new();
    let cases: Vec<(&str, Harm)> = vec![
        ("the layer is a link", harm(|folder| moved(&layer(folder), &folder.with_file_name("elsewhere")))),
        (
            "the layer is a pipe",
            harm(|folder| {
                std::fs::remove_file(layer(folder)).unwrap();
                tool("mkfifo", &[&layer(folder).display().to_string()]);
            }),
        ),
        (
            "the layer is a folder",
            harm(|folder| {
                std::fs::remove_file(layer(folder)).unwrap();
                std::fs::create_dir(layer(folder)).unwrap();
            }),
        ),
        (
            "the manifest is a link",
            harm(|folder| {
                moved(&folder.join(blob_path(&good().digest())), &folder.with_file_name("elsewhere"));
            }),
        ),
        ("index.json is a link", harm(|folder| moved(&folder.join("index.json"), &folder.with_file_name("elsewhere")))),
        (
            "index.json is a pipe",
            harm(|folder| {
                std::fs::remove_file(folder.join("index.json")).unwrap();
                tool("mkfifo", &[&folder.join("index.json").display().to_string()]);
            }),
        ),
        (
            "oci-layout is a pipe",
            harm(|folder| {
                std::fs::remove_file(folder.join("oci-layout")).unwrap();
                tool("mkfifo", &[&folder.join("oci-layout").display().to_string()]);
            }),
        ),
        ("blobs is a link", harm(|folder| moved(&folder.join("blobs"), &folder.with_file_name("elsewhere")))),
        (
            "blobs/sha256 is a link",
            harm(|folder| moved(&folder.join("blobs/sha256"), &folder.with_file_name("elsewhere"))),
        ),
    ];
    for (why, change) in cases {
        refuses_harmed(&setup, why, &change);
    }
}

fn refuses_harmed(setup: &Setup, why: &str, change: &Harm) {
    let folder = setup.sandbox.path("in");
    let _ = std::fs::remove_dir_all(&folder);
    let elsewhere = setup.sandbox.path("elsewhere");
    let _ = std::fs::remove_file(&elsewhere);
    let _ = std::fs::remove_dir_all(&elsewhere);
    good().layout(&folder, "v1");
    change(&folder);
    let run = setup.rebase(&setup.at("in")).limit(std::time::Duration::from_secs(10)).run();
    setup.is_refused(why, run, &["input"]);
}

#[test]
fn a_layout_says_its_version_and_has_a_small_index() {
    let setup = Setup::new();
    let version = |text: &'static str| harm(move |folder| std::fs::write(folder.join("oci-layout"), text).unwrap());
    let cases: Vec<(&str, Harm)> = vec![
        ("no version", version("{}")),
        ("version 2", version("{\"imageLayoutVersion\":\"2.0.0\"}")),
        ("no JSON", version("1.0.0")),
        ("no oci-layout", harm(|folder| std::fs::remove_file(folder.join("oci-layout")).unwrap())),
        (
            "index.json of 100 GB",
            harm(|folder| {
                let file = std::fs::OpenOptions::new().write(true).open(folder.join("index.json")).unwrap();
                file.set_len(100_000_000_000).unwrap();
            }),
        ),
        (
            "a layer of 100 GB",
            harm(|folder| {
                std::fs::OpenOptions::new().write(true).open(layer(folder)).unwrap().set_len(100_000_000_000).unwrap();
            }),
        ),
        (
            "two images of one name",
            harm(|folder| {
                let text = std::fs::read_to_string(folder.join("index.json")).unwrap();
                let mut index: serde_json::Value = serde_json::from_str(&text).unwrap();
                let other = good().with_top(|text| format!("{text} ").into_bytes());
                let mut twice = index["manifests"][0].clone();
                twice["digest"] = other.digest().into();
                twice["size"] = other.top.bytes.len().into();
                std::fs::write(folder.join(blob_path(&other.digest())), &other.top.bytes).unwrap();
                index["manifests"].as_array_mut().unwrap().push(twice);
                std::fs::write(folder.join("index.json"), index.to_string()).unwrap();
            }),
        ),
    ];
    for (why, change) in cases {
        let folder = setup.sandbox.path("in");
        let _ = std::fs::remove_dir_all(&folder);
        good().layout(&folder, "v1");
        change(&folder);
        setup.is_refused(why, setup.rebase(&setup.at("in")).run(), &["input", "integrity"]);
    }
}

#[test]
fn a_later_version_of_the_same_layout_is_read() {
    let setup = Setup::new();
    let folder = setup.sandbox.path("in");
    std::fs::write(folder.join("oci-layout"), "{\"imageLayoutVersion\":\"1.0.1\"}").unwrap();
    setup.rebase(&setup.at("in")).run().ok();
}
