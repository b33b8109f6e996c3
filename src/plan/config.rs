//! The config of the result.

use serde_json::{Map, Value};

use super::history;
use super::layers::Layers;
use super::options::Epoch;
use crate::examine::PlatformSubject;
use crate::oci::json;
use crate::process::Container;

const CONFIG_ORDER: [&str; 10] =
    ["created", "author", "architecture", "os", "os.version", "os.features", "variant", "config", "rootfs", "history"];

/// The whole config but for the layers; members nobody knows survive from the source.
pub(super) fn merge(
    subject: &PlatformSubject,
    container: &Container,
    layers: &Layers,
    epoch: Option<Epoch>,
) -> Map<String, Value> {
    let mut config = subject.source.config.object().clone();
    if let Some(epoch) = epoch {
        config.insert("created".into(), epoch.to_rfc3339().into());
    }
    config.insert("config".into(), Value::Object(container.members.clone()));
    config.insert("rootfs".into(), Value::Null);
    config.insert("history".into(), history::merge(subject, layers));
    json::ordered(config, &CONFIG_ORDER)
}
