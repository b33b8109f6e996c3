//! Manifest and index of the result but for digests, and the annotations that let anybody make
//! the result again: the inputs pinned, and the options that decide bytes.
//!
//! A child manifest names its platform's inputs, the index names the indexes. So a child comes out
//! the same whether one platform or all were asked for.

use serde_json::{Map, Value, json};

use super::rebase_options::{RebaseOptions, ResultFormat};
use crate::examine::{Origin, PlatformSubject, Subject};
use crate::oci::{BASE_DIGEST, BASE_NAME, Digest, MediaType, is_dangerous, json as document};

pub const FORMAT_KEY: &str = "dev.underpin.format";
pub const SOURCE_KEY: &str = "dev.underpin.source";
pub const OPTIONS_KEY: &str = "dev.underpin.options";

const MANIFEST_ORDER: [&str; 6] = ["schemaVersion", "mediaType", "artifactType", "config", "layers", "annotations"];
const INDEX_ORDER: [&str; 5] = ["schemaVersion", "mediaType", "artifactType", "manifests", "annotations"];

/// The manifest of a platform, its config and layers still `null`.
pub(super) fn manifest(subject: &Subject, platform: &PlatformSubject, options: &RebaseOptions) -> Map<String, Value> {
    let mut annotations = harmless(&platform.source.manifest.annotations);
    let runner = platform.runner.as_ref();
    let replaced = json!({
        "log_runner": runner.map(|runner| runner.location.pinned(runner.image.digest())),
        "old_base": platform.old_base.as_option(),
        "platforms": null,
    });
    let inputs = (platform.source.digest(), platform.base.digest());
    let written = (options.format, options.record(&members(replaced)));
    record(&mut annotations, subject, inputs, written);
    let mut object = carried(platform.source.document.object());
    object.insert("schemaVersion".into(), 2.into());
    object.insert("mediaType".into(), MediaType::oci_manifest().as_str().into());
    object.insert("config".into(), Value::Null);
    object.insert("layers".into(), Value::Null);
    object.insert("annotations".into(), Value::Object(annotations));
    document::ordered(object, &MANIFEST_ORDER)
}

/// The index around the children, its manifests still empty.
pub(super) fn index(object: &Map<String, Value>, subject: &Subject, options: &RebaseOptions) -> Map<String, Value> {
    let own = object.get("annotations").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut annotations = harmless(&own);
    let replaced = json!({
        "log_runner": subject.runner.as_ref().map(Origin::pinned),
        "old_base": null,
        "skipped": (!subject.missing.is_empty()).then_some(true),
    });
    let inputs = (subject.source.top.digest(), subject.base.top.digest());
    let written = (options.format, options.record(&members(replaced)));
    record(&mut annotations, subject, inputs, written);
    let mut object = carried(object);
    object.insert("schemaVersion".into(), 2.into());
    object.insert("mediaType".into(), MediaType::oci_index().as_str().into());
    object.insert("manifests".into(), Value::Array(Vec::new()));
    object.insert("annotations".into(), Value::Object(annotations));
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

fn members(object: Value) -> Map<String, Value> {
    match object {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn record(
    annotations: &mut Map<String, Value>,
    subject: &Subject,
    (source, base): (Digest, Digest),
    (format, options): (ResultFormat, String),
) {
    for (key, value) in [
        (BASE_NAME, subject.base.location.without_digest()),
        (BASE_DIGEST, base.to_string()),
        (FORMAT_KEY, format.number().to_owned()),
        (SOURCE_KEY, subject.source.location.pinned(source)),
        (OPTIONS_KEY, options),
    ] {
        annotations.insert(key.to_owned(), value.into());
    }
}
