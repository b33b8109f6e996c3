//! Manifest and index of the result but for digests and for the record of how they were made: what the source's own
//! documents say goes along.

use serde_json::{Map, Value};

use crate::examine::PlatformSubject;
use oci::{MediaType, is_dangerous, json as document};

const MANIFEST_ORDER: [&str; 6] = ["schemaVersion", "mediaType", "artifactType", "config", "layers", "annotations"];
const INDEX_ORDER: [&str; 5] = ["schemaVersion", "mediaType", "artifactType", "manifests", "annotations"];

/// The manifest of a platform, its config and layers still `null`, without the record of how it was made.
pub(super) fn manifest(platform: &PlatformSubject) -> Map<String, Value> {
    let mut object = carried(platform.source.document.object());
    object.insert("schemaVersion".into(), 2.into());
    object.insert("mediaType".into(), MediaType::oci_manifest().as_str().into());
    object.insert("config".into(), Value::Null);
    object.insert("layers".into(), Value::Null);
    object.insert("annotations".into(), Value::Object(harmless(&platform.source.manifest.annotations)));
    document::ordered(object, &MANIFEST_ORDER)
}

/// The index around the children, its manifests still empty.
pub(super) fn index(object: &Map<String, Value>) -> Map<String, Value> {
    let own = object.get("annotations").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut object = carried(object);
    object.insert("schemaVersion".into(), 2.into());
    object.insert("mediaType".into(), MediaType::oci_index().as_str().into());
    object.insert("manifests".into(), Value::Array(Vec::new()));
    object.insert("annotations".into(), Value::Object(harmless(&own)));
    document::ordered(object, &INDEX_ORDER)
}

/// Members nobody knows survive; a `subject` would attach the result to another image.
fn carried(object: &Map<String, Value>) -> Map<String, Value> {
    object.iter().filter(|(key, _)| *key != "subject").map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The annotations that may be republished.
pub(super) fn harmless(annotations: &Map<String, Value>) -> Map<String, Value> {
    annotations.iter().filter(|(key, _)| !is_dangerous(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}
