//! Images in code, for tests of the stages between fetch and publish.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use serde_json::{Map, Value, json};

use super::{Config, Digest, Document, Image, Manifest, MediaType};

/// An image that is described by words: each layer's digest is that of its name, its diff id that
/// of its name in capitals.
pub struct TestImage {
    pub layers: Vec<&'static str>,
    pub container: Value,
    pub history: Value,
    pub annotations: Value,
    pub docker: bool,
}

impl Default for TestImage {
    fn default() -> Self {
        Self { layers: Vec::new(), container: json!({}), history: Value::Null, annotations: json!({}), docker: false }
    }
}

impl TestImage {
    pub fn of(layers: &[&'static str]) -> Self {
        Self { layers: layers.to_vec(), ..Self::default() }
    }

    pub fn image(&self) -> Image {
        let (manifest, layer) = if self.docker {
            (
                "application/vnd.docker.distribution.manifest.v2+json",
                "application/vnd.docker.image.rootfs.diff.tar.gzip",
            )
        } else {
            ("application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.layer.v1.tar+gzip")
        };
        let config = self.config();
        let layers: Vec<Value> = self
            .layers
            .iter()
            .map(|name| json!({"mediaType": layer, "digest": Digest::of(name.as_bytes()).to_string(), "size": name.len()}))
            .collect();
        let document = json!({
            "schemaVersion": 2,
            "mediaType": manifest,
            "config": {"mediaType": MediaType::oci_config().as_str(), "digest": config.digest().to_string(), "size": config.bytes().len()},
            "layers": layers,
            "annotations": self.annotations,
        });
        let document = Document::read(document.to_string().into_bytes(), None).unwrap();
        let manifest = Manifest::read(&document).unwrap();
        Image::new(document, manifest, config.bytes().to_vec()).unwrap()
    }

    fn config(&self) -> Config {
        let diff_ids: Vec<String> =
            self.layers.iter().map(|name| Digest::of(name.to_uppercase().as_bytes()).to_string()).collect();
        let config = json!({
            "created": "2020-02-02T00:00:00Z", "author": "somebody", "architecture": "arm", "variant": "v7", "os": "linux",
            "config": self.container, "rootfs": {"type": "layers", "diff_ids": diff_ids}, "history": self.history, "x-unknown": {"b": 1, "a": 2},
        });
        Config::read(config.to_string().into_bytes()).unwrap()
    }
}

/// A history of entries, `true` where the entry made no layer.
pub fn history(lines: &[(&str, bool)]) -> Value {
    lines.iter().map(|(by, empty)| json!({"created_by": by, "empty_layer": empty})).collect()
}

pub fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("not an object: {other}"),
    }
}
