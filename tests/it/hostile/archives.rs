//! Archives that reach out of themselves or hold two of one thing.

use serde_json::{Value, json};

use super::{Setup, good};
use crate::support::recipe::blob_path;
use crate::support::tar_layer::{Entry, file, symlink, tar};

/// The files of an archive of the good image, as entries that can be changed.
fn entries(files: &[(String, Vec<u8>)]) -> Vec<Entry> {
    files.iter().map(|(name, bytes)| file(name, bytes.clone())).collect()
}

/// A tar whose last entry has a name that no library would write.
fn with_raw_name(mut entries: Vec<Entry>, name: &str, content: &[u8]) -> Vec<u8> {
    let place = "n".repeat(name.len());
    entries.push(file(&place, content));
    let mut bytes = tar(&entries);
    let at = bytes.windows(name.len()).rposition(|window| window == place.as_bytes()).unwrap();
    bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
    // The sum of the header's bytes, its own field taken as spaces.
    bytes[at + 148..at + 156].fill(b' ');
    let sum: u32 = bytes[at..at + 512].iter().map(|byte| u32::from(*byte)).sum();
    bytes[at + 148..at + 156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    bytes
}

fn judge(setup: &Setup, scheme: &str, why: &str, bytes: &[u8]) {
    let path = setup.sandbox.path("hostile.tar");
    std::fs::write(&path, bytes).unwrap();
    let run = setup.rebase(&format!("{scheme}:{}", path.display())).run();
    setup.is_refused(why, run, &["input", "integrity"]);
}

#[test]
fn an_archive_holds_plain_files_once() {
    let setup = Setup::new();
    let files = good().layout_files("v1");
    let path = setup.sandbox.path("good.tar");
    std::fs::write(&path, tar(&entries(&files))).unwrap();
    setup.rebase(&format!("oci-archive:{}", path.display())).run().ok();

    let index = files.last().unwrap().1.clone();
    let layer = blob_path(&good().layers()[2]);
    let without = |name: &str| -> Vec<Entry> {
        files.iter().filter(|(path, _)| path != name).map(|(name, bytes)| file(name, bytes.clone())).collect()
    };
    let with = |mut entries: Vec<Entry>, more: Vec<Entry>| {
        entries.extend(more);
        tar(&entries)
    };
    for (why, bytes) in [
        ("a name that climbs", with_raw_name(entries(&files), "../index.json", &index)),
        ("a name from the root", with_raw_name(entries(&files), "/etc/index.json", &index)),
        ("index.json twice", with(entries(&files), vec![file("index.json", index.clone())])),
        ("index.json twice, once with a dot", with_raw_name(entries(&files), "./index.json", b"{}")),
        ("the layer is a link", with(without(&layer), vec![symlink(&layer, "/etc/passwd")])),
        ("index.json is a link", with(without("index.json"), vec![symlink("index.json", "oci-layout")])),
        ("the layer twice", with(entries(&files), vec![file(&layer, "other bytes")])),
        ("no index.json", tar(&without("index.json"))),
        ("no layer", tar(&without(&layer))),
        ("half an archive", tar(&entries(&files))[..3000].to_vec()),
        ("no archive", b"hello".to_vec()),
        ("nothing", Vec::new()),
    ] {
        judge(&setup, "oci-archive", why, &bytes);
    }
}

#[test]
fn a_docker_archive_names_only_what_is_in_it() {
    let setup = Setup::new();
    let files = good().docker_files("in/app:v1");
    let path = setup.sandbox.path("good.tar");
    std::fs::write(&path, tar(&entries(&files))).unwrap();
    setup.rebase(&format!("docker-archive:{}", path.display())).run().ok();

    let manifest: Value = serde_json::from_slice(&files.last().unwrap().1).unwrap();
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut manifest = manifest.clone();
        change(&mut manifest);
        let mut files = files.clone();
        files.last_mut().unwrap().1 = serde_json::to_vec(&manifest).unwrap();
        tar(&entries(&files))
    };
    let mut linked = entries(&files[..files.len() - 1]);
    linked.push(symlink("manifest.json", "config.json"));
    linked.push(symlink("config.json", "manifest.json"));
    for (why, bytes) in [
        ("a config that climbs", changed(&|list| list[0]["Config"] = "../../x".into())),
        ("a config from the root", changed(&|list| list[0]["Config"] = "/etc/passwd".into())),
        ("a layer that climbs", changed(&|list| list[0]["Layers"][0] = "../../etc/passwd".into())),
        ("a layer that is not there", changed(&|list| list[0]["Layers"][0] = "none/layer.tar".into())),
        ("the config as a layer", changed(&|list| list[0]["Layers"][2] = list[0]["Config"].clone())),
        ("a name with a line feed", changed(&|list| list[0]["RepoTags"] = json!(["a\nb:c"]))),
        ("no images", changed(&|list| *list = json!([]))),
        ("not a list", changed(&|list| *list = list[0].clone())),
        ("a link to itself by another", tar(&linked)),
    ] {
        judge(&setup, "docker-archive", why, &bytes);
    }
}
