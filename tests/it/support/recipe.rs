//! Images as documents and blobs in memory, in OCI's words or Docker's, and how they are put where
//! underpin can find them: a registry, a layout, an archive. Exact bytes, no tool in between.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::http::ask;
use super::tar_layer::{Layer, Pack, digest};

/// Whose media types an image speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Oci,
    Docker,
}

impl Dialect {
    pub fn manifest(self) -> &'static str {
        match self {
            Self::Oci => "application/vnd.oci.image.manifest.v1+json",
            Self::Docker => "application/vnd.docker.distribution.manifest.v2+json",
        }
    }

    pub fn index(self) -> &'static str {
        match self {
            Self::Oci => "application/vnd.oci.image.index.v1+json",
            Self::Docker => "application/vnd.docker.distribution.manifest.list.v2+json",
        }
    }

    fn config(self) -> &'static str {
        match self {
            Self::Oci => "application/vnd.oci.image.config.v1+json",
            Self::Docker => "application/vnd.docker.container.image.v1+json",
        }
    }

    fn layer(self, pack: Pack) -> &'static str {
        match (self, pack) {
            (Self::Oci, Pack::Plain) => "application/vnd.oci.image.layer.v1.tar",
            (Self::Oci, Pack::Gzip) => "application/vnd.oci.image.layer.v1.tar+gzip",
            (Self::Oci, Pack::Zstd) => "application/vnd.oci.image.layer.v1.tar+zstd",
            (Self::Docker, Pack::Plain) => "application/vnd.docker.image.rootfs.diff.tar",
            (Self::Docker, _) => "application/vnd.docker.image.rootfs.diff.tar.gzip",
        }
    }
}

/// A manifest or an index as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub media_type: String,
    pub bytes: Vec<u8>,
}

impl Document {
    pub fn new(media_type: &str, value: &Value) -> Self {
        Self { media_type: media_type.to_owned(), bytes: serde_json::to_vec(value).unwrap() }
    }

    pub fn digest(&self) -> String {
        digest(&self.bytes)
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap()
    }

    pub fn descriptor(&self) -> Value {
        json!({"mediaType": self.media_type, "digest": self.digest(), "size": self.bytes.len()})
    }
}

/// An image or an index with everything it refers to.
#[derive(Debug, Clone)]
pub struct Content {
    pub top: Document,
    pub children: Vec<Document>,
    pub blobs: Vec<Vec<u8>>,
}

impl Content {
    pub fn digest(&self) -> String {
        self.top.digest()
    }

    /// Digests of the layers of an image, lowest first.
    pub fn layers(&self) -> Vec<String> {
        let manifest = self.top.json();
        let layers = manifest["layers"].as_array().unwrap();
        layers.iter().map(|layer| layer["digest"].as_str().unwrap().to_owned()).collect()
    }

    pub fn blob(&self, name: &str) -> &[u8] {
        self.blobs.iter().find(|blob| digest(blob) == name).unwrap_or_else(|| panic!("no blob {name}"))
    }

    /// The same content under a top document that was changed by hand.
    pub fn with_top(&self, change: impl FnOnce(String) -> Vec<u8>) -> Self {
        let text = String::from_utf8(self.top.bytes.clone()).unwrap();
        let top = Document { media_type: self.top.media_type.clone(), bytes: change(text) };
        Self { top, ..self.clone() }
    }

    pub fn with_manifest(&self, change: impl FnOnce(&mut Value)) -> Self {
        let mut value = self.top.json();
        change(&mut value);
        self.with_top(|_| serde_json::to_vec(&value).unwrap())
    }

    /// The same image with a config that was changed by hand; the manifest names the new one.
    pub fn with_config_bytes(&self, change: impl FnOnce(String) -> Vec<u8>) -> Self {
        let name = self.top.json()["config"]["digest"].as_str().unwrap().to_owned();
        let config = change(String::from_utf8(self.blob(&name).to_vec()).unwrap());
        let mut changed = self.with_manifest(|manifest| {
            manifest["config"]["digest"] = digest(&config).into();
            manifest["config"]["size"] = config.len().into();
        });
        changed.blobs.push(config);
        changed
    }

    pub fn with_config(&self, change: impl FnOnce(&mut Value)) -> Self {
        self.with_config_bytes(|text| {
            let mut value = serde_json::from_str(&text).unwrap();
            change(&mut value);
            serde_json::to_vec(&value).unwrap()
        })
    }
}

/// How to make the image of one platform.
#[derive(Debug, Clone)]
pub struct Recipe {
    pub platform: String,
    pub layers: Vec<Layer>,
    /// The `config` object of the config: `Entrypoint`, `Env` and so on.
    pub config: Value,
    /// `None`: one plain entry for each layer.
    pub history: Option<Value>,
    pub annotations: Map<String, Value>,
    pub dialect: Dialect,
}

impl Recipe {
    pub fn new(platform: &str, layers: Vec<Layer>) -> Self {
        let (config, annotations) = (json!({}), Map::new());
        Self { platform: platform.to_owned(), layers, config, history: None, annotations, dialect: Dialect::Oci }
    }

    pub fn build(&self) -> Content {
        let config = serde_json::to_vec(&self.config_document()).unwrap();
        let layers: Vec<Value> = self.layers.iter().map(|layer| self.layer_descriptor(layer)).collect();
        let mut manifest = json!({
            "schemaVersion": 2,
            "mediaType": self.dialect.manifest(),
            "config": {"mediaType": self.dialect.config(), "digest": digest(&config), "size": config.len()},
            "layers": layers,
        });
        if !self.annotations.is_empty() {
            manifest["annotations"] = Value::Object(self.annotations.clone());
        }
        let mut blobs = vec![config];
        blobs.extend(self.layers.iter().map(|layer| layer.bytes.clone()));
        Content { top: Document::new(self.dialect.manifest(), &manifest), children: Vec::new(), blobs }
    }

    fn layer_descriptor(&self, layer: &Layer) -> Value {
        json!({"mediaType": self.dialect.layer(layer.pack), "digest": layer.digest(), "size": layer.bytes.len()})
    }

    fn config_document(&self) -> Value {
        let diff_ids: Vec<&str> = self.layers.iter().map(|layer| layer.diff_id.as_str()).collect();
        let plain = || self.layers.iter().map(|_| json!({"created": CREATED, "created_by": "rig"})).collect();
        let mut document = platform_object(&self.platform);
        document["created"] = CREATED.into();
        document["config"] = self.config.clone();
        document["rootfs"] = json!({"type": "layers", "diff_ids": diff_ids});
        document["history"] = self.history.clone().unwrap_or_else(plain);
        document
    }
}

pub const CREATED: &str = "2020-01-02T03:04:05Z";

/// `os`, `architecture` and, where there is one, `variant`.
pub fn platform_object(platform: &str) -> Value {
    let mut parts = platform.split('/');
    let mut object = json!({"os": parts.next(), "architecture": parts.next()});
    if let Some(variant) = parts.next() {
        object["variant"] = variant.into();
    }
    object
}

/// An index over images, each with its platform.
pub fn index(dialect: Dialect, images: &[(&str, Content)]) -> Content {
    let entry = |(platform, image): &(&str, Content)| {
        let mut descriptor = image.top.descriptor();
        descriptor["platform"] = platform_object(platform);
        descriptor
    };
    let manifests: Vec<Value> = images.iter().map(entry).collect();
    let top = json!({"schemaVersion": 2, "mediaType": dialect.index(), "manifests": manifests});
    Content {
        top: Document::new(dialect.index(), &top),
        children: images.iter().map(|(_, image)| image.top.clone()).collect(),
        blobs: images.iter().flat_map(|(_, image)| image.blobs.clone()).collect(),
    }
}

/// Adds BuildKit's attestation for the image `of`, with this statement in it.
pub fn attest(index: &Content, of: &str, statement: &Value) -> Content {
    let statement = serde_json::to_vec(statement).unwrap();
    let layer = json!({
        "mediaType": "application/vnd.in-toto+json", "digest": digest(&statement), "size": statement.len(),
        "annotations": {"in-toto.io/predicate-type": "https://slsa.dev/provenance/v0.2"},
    });
    let config = serde_json::to_vec(&json!({
        "architecture": "unknown", "os": "unknown", "config": {},
        "rootfs": {"type": "layers", "diff_ids": [digest(&statement)]},
    }));
    let config = config.unwrap();
    let manifest = Document::new(
        Dialect::Oci.manifest(),
        &json!({
            "schemaVersion": 2, "mediaType": Dialect::Oci.manifest(), "layers": [layer],
            "config": {"mediaType": Dialect::Oci.config(), "digest": digest(&config), "size": config.len()},
        }),
    );
    let mut entry = manifest.descriptor();
    entry["platform"] = platform_object("unknown/unknown");
    entry["annotations"] =
        json!({"vnd.docker.reference.digest": of, "vnd.docker.reference.type": "attestation-manifest"});
    let mut attested = index.with_manifest(|index| index["manifests"].as_array_mut().unwrap().push(entry));
    attested.children.push(manifest);
    attested.blobs.extend([config, statement]);
    attested
}

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

pub fn push_blob(host: &str, repository: &str, blob: &[u8]) {
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
    let entries: Vec<_> = files.iter().map(|(name, bytes)| super::tar_layer::file(name, bytes.clone())).collect();
    super::tar_layer::tar(&entries)
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
