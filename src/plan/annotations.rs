//! Manifest and index of the result but for digests, and the annotations that let anybody make
//! the result again: the inputs pinned, and the options that decide bytes.
//!
//! A child manifest names its platform's inputs, the index names the indexes. So a child comes out
//! the same whether one platform or all were asked for.

use serde_json::{Map, Value, json};

use super::Epoch;
use crate::examine::{Extent, KlogStyle, LogChoice, PlatformSubject, Subject, Wishes};
use crate::oci::{BASE_DIGEST, BASE_NAME, Digest, MediaType, Platform, is_dangerous, json as document};
use crate::policy::Allow;

/// The number of the format: it changes whenever the same inputs give other bytes.
pub const FORMAT: &str = "1";
pub const FORMAT_KEY: &str = "dev.underpin.format";
pub const SOURCE_KEY: &str = "dev.underpin.source";
pub const OPTIONS_KEY: &str = "dev.underpin.options";

/// The options that decide bytes.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub epoch: Option<Epoch>,
    /// The platforms asked for; empty for all.
    pub platforms: Vec<Platform>,
    /// The refusals that the user answers for: whoever reads the result shall know. Sorted.
    pub allow: Vec<Allow>,
    pub wishes: Wishes,
}

impl Options {
    /// The wishes that are not the default, by the names of their flags.
    fn wished(&self, runner: Option<&str>) -> Map<String, Value> {
        let Wishes { taking, logs, klog_style, freeze, entrypoint, cmd } = &self.wishes;
        let keep: Vec<String> = taking.keep.iter().map(ToString::to_string).collect();
        let record = json!({
            "cmd": cmd,
            "entrypoint": entrypoint,
            "extract": (taking.extent == Extent::Extract).then_some(true),
            "freeze_env": (!freeze.is_empty()).then_some(freeze),
            "keep": (!keep.is_empty()).then_some(keep),
            "klog_style": (*klog_style != KlogStyle::Auto).then_some(klog_style.word()),
            "log_runner": runner,
            "logs": (*logs != LogChoice::Auto).then_some(logs.word()),
        });
        record.as_object().cloned().unwrap_or_default()
    }

    fn allowed(&self) -> Option<Vec<String>> {
        (!self.allow.is_empty()).then(|| self.allow.iter().map(ToString::to_string).collect())
    }
}

const MANIFEST_ORDER: [&str; 6] = ["schemaVersion", "mediaType", "artifactType", "config", "layers", "annotations"];
const INDEX_ORDER: [&str; 5] = ["schemaVersion", "mediaType", "artifactType", "manifests", "annotations"];

/// The manifest of a platform, its config and layers still `null`.
pub(super) fn manifest(subject: &Subject, platform: &PlatformSubject, options: &Options) -> Map<String, Value> {
    let mut annotations = harmless(&platform.source.manifest.annotations);
    let recorded = json!({
        "allow": options.allowed(),
        "old_base": platform.old_base.as_option(),
        "source_date_epoch": options.epoch.map(|epoch| epoch.0),
    });
    let runner = platform.runner.as_ref();
    let runner = runner.map(|runner| runner.origin.location.pinned(runner.image.digest()));
    let wished = options.wished(runner.as_deref());
    record(&mut annotations, subject, (platform.source.digest(), platform.base.digest()), &recorded, wished);
    let mut object = carried(platform.source.document.object());
    object.insert("schemaVersion".into(), 2.into());
    object.insert("mediaType".into(), MediaType::oci_manifest().as_str().into());
    object.insert("config".into(), Value::Null);
    object.insert("layers".into(), Value::Null);
    object.insert("annotations".into(), Value::Object(annotations));
    document::ordered(object, &MANIFEST_ORDER)
}

/// The index around the children, its manifests still empty.
pub(super) fn index(object: &Map<String, Value>, subject: &Subject, options: &Options) -> Map<String, Value> {
    let own = object.get("annotations").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut annotations = harmless(&own);
    let platforms: Vec<String> = options.platforms.iter().map(ToString::to_string).collect();
    let recorded = json!({
        "allow": options.allowed(),
        "platforms": (!platforms.is_empty()).then_some(platforms),
        "skipped": (!subject.missing.is_empty()).then_some(true),
        "source_date_epoch": options.epoch.map(|epoch| epoch.0),
    });
    let runner = subject.platforms.first().and_then(|platform| platform.runner.as_ref());
    let runner = runner.map(|runner| runner.origin.pinned());
    let wished = options.wished(runner.as_deref());
    record(&mut annotations, subject, (subject.source.top.digest(), subject.base.top.digest()), &recorded, wished);
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

fn record(
    annotations: &mut Map<String, Value>,
    subject: &Subject,
    (source, base): (Digest, Digest),
    options: &Value,
    wished: Map<String, Value>,
) {
    let options = options.as_object().cloned().unwrap_or_default().into_iter().chain(wished);
    let mut options: Vec<(String, Value)> = options.filter(|(_, value)| !value.is_null()).collect();
    options.sort_by(|(one, _), (other, _)| one.cmp(other));
    let options: Map<String, Value> = options.into_iter().collect();
    let options = String::from_utf8(document::write(&Value::Object(options))).unwrap_or_default();
    for (key, value) in [
        (BASE_NAME, subject.base.location.without_digest()),
        (BASE_DIGEST, base.to_string()),
        (FORMAT_KEY, FORMAT.to_owned()),
        (SOURCE_KEY, subject.source.location.pinned(source)),
        (OPTIONS_KEY, options),
    ] {
        annotations.insert(key.to_owned(), value.into());
    }
}
