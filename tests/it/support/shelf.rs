//! Puts an image where underpin can find it: a registry, a layout, an archive. Exact bytes, no
//! tool in between that might rewrite them.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::http::ask;
use super::image::Content;
use super::layer::digest;

impl Content {
    /// Blobs, children, then the tag. The registry is asked over plain HTTP.
    pub fn push(&self, host: &str, repository: &str, tag: &str) {
        for blob in &self.blobs {
            push_blob(host, repository, blob);
        }
        let documents = self.children.iter().map(|child| (child, child.digest()));
        for (document, name) in documents.chain([(&self.top, tag.to_owned())]) {
            let target = format!("/v2/{repository}/manifests/{name}");
            let headers = [("Content-Type", document.media_type.as_str())];
            let reply = ask("PUT", host, &target, &headers, &document.bytes).unwrap();
            assert_eq!(reply.status, 201, "PUT {target}: {}", reply.text());
        }
    }

    /// An OCI layout with this one tag; an existing `index.json` is replaced.
    pub fn layout(&self, folder: &Path, tag: &str) {
        for (name, bytes) in self.layout_files(tag) {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }

    pub fn oci_archive(&self, file: &Path, tag: &str) {
        fs::write(file, tar_of(&self.layout_files(tag))).unwrap();
    }

    /// As `docker save` wrote it for years: `manifest.json`, the config, plain tar layers.
    pub fn docker_archive(&self, file: &Path, repo_tag: &str) {
        fs::write(file, tar_of(&self.docker_files(repo_tag))).unwrap();
    }

    pub fn layout_files(&self, tag: &str) -> Vec<(String, Vec<u8>)> {
        let mut entry = self.top.descriptor();
        entry["annotations"] = json!({"org.opencontainers.image.ref.name": tag});
        let index = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry],
        });
        let documents = self.children.iter().chain([&self.top]).map(|document| &document.bytes);
        let blobs = self.blobs.iter().chain(documents);
        let mut files: Vec<(String, Vec<u8>)> = blobs.map(|bytes| (blob_path(&digest(bytes)), bytes.clone())).collect();
        files.sort();
        files.dedup();
        files.insert(0, ("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()));
        files.push(("index.json".to_owned(), serde_json::to_vec(&index).unwrap()));
        files
    }

    pub fn docker_files(&self, repo_tag: &str) -> Vec<(String, Vec<u8>)> {
        let manifest = self.top.json();
        let hex = |value: &Value| value["digest"].as_str().unwrap()["sha256:".len()..].to_owned();
        let config = format!("{}.json", hex(&manifest["config"]));
        let mut files = vec![(config.clone(), self.blob(manifest["config"]["digest"].as_str().unwrap()).to_vec())];
        let mut layers = Vec::new();
        for layer in manifest["layers"].as_array().unwrap() {
            let name = format!("{}/layer.tar", hex(layer));
            files.push((name.clone(), inflate(self.blob(layer["digest"].as_str().unwrap()))));
            layers.push(name);
        }
        let list = json!([{"Config": config, "RepoTags": [repo_tag], "Layers": layers}]);
        files.push(("manifest.json".to_owned(), serde_json::to_vec(&list).unwrap()));
        files
    }
}

fn push_blob(host: &str, repository: &str, blob: &[u8]) {
    let name = digest(blob);
    if ask("HEAD", host, &format!("/v2/{repository}/blobs/{name}"), &[], b"").unwrap().status == 200 {
        return;
    }
    let opened = ask("POST", host, &format!("/v2/{repository}/blobs/uploads/"), &[], b"").unwrap();
    let location = opened.headers.get("location").unwrap_or_else(|| panic!("no session: {}", opened.text()));
    let target = format!("/{}&digest={name}", location.splitn(4, '/').nth(3).unwrap());
    let reply = ask("PUT", host, &target, &[], blob).unwrap();
    assert_eq!(reply.status, 201, "PUT {target}: {}", reply.text());
}

/// `blobs/sha256/HEX`
pub fn blob_path(digest: &str) -> String {
    format!("blobs/{}", digest.replace(':', "/"))
}

pub fn tar_of(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let entries: Vec<_> = files.iter().map(|(name, bytes)| super::layer::file(name, bytes.clone())).collect();
    super::layer::tar(&entries)
}

/// The tar inside a layer, whatever it is packed with.
pub fn inflate(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match bytes {
        [0x1f, 0x8b, ..] => {
            std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(bytes), &mut out).unwrap();
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => out = zstd::decode_all(bytes).unwrap(),
        _ => out = bytes.to_vec(),
    }
    out
}
