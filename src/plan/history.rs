//! The history of the result: the new base's entries, then the application's.
//!
//! History only splits history. Where it does not fit its layers, one entry per layer is written.

use serde_json::{Value, json};

use crate::examine::PlatformSubject;
use crate::oci::{HistoryEntry, Image};

pub(super) fn merge(subject: &PlatformSubject) -> Value {
    let base = entries(&subject.base, 0, "layer of the new base");
    let source = &subject.source;
    let own = match cut(subject) {
        Some(at) => source
            .config
            .history()
            .get(at..)
            .unwrap_or_default()
            .iter()
            .map(|entry| Value::Object(entry.0.clone()))
            .collect(),
        None => entries(source, subject.old_base.layers, "layer of the source"),
    };
    Value::Array(base.into_iter().chain(own).collect())
}

/// The image's own entries where they fit, else one for each layer from `skip` on.
fn entries(image: &Image, skip: usize, what: &str) -> Vec<Value> {
    if skip == 0 && fits(image) {
        return image.config.history().iter().map(|entry| Value::Object(entry.0.clone())).collect();
    }
    let created = image.config.object().get("created").filter(|created| created.is_string());
    let layers = image.layers.iter().skip(skip);
    layers
        .map(|layer| {
            let created_by = format!("underpin: {what} {}", layer.diff_id);
            match created {
                Some(created) => json!({"created": created, "created_by": created_by}),
                None => json!({"created_by": created_by}),
            }
        })
        .collect()
}

fn fits(image: &Image) -> bool {
    image.config.history().iter().filter(|entry| !entry.is_empty_layer()).count() == image.layers.len()
}

/// Where the source's own entries begin, or `None` where its history does not fit its layers.
fn cut(subject: &PlatformSubject) -> Option<usize> {
    let (source, old) = (&subject.source, &subject.old_base);
    if !fits(source) {
        return None;
    }
    let history = source.config.history();
    // The old base's closing lines, such as its CMD, make no layer: they go with it when they are its own.
    if let Some(image) = old.image.as_ref().filter(|image| fits(image) && history.starts_with(image.config.history())) {
        return Some(image.config.history().len());
    }
    Some(after_layers(history, old.layers))
}

/// The position right after the entry that made layer number `layers`.
fn after_layers(history: &[HistoryEntry], layers: usize) -> usize {
    if layers == 0 {
        return 0;
    }
    let made = history.iter().enumerate().filter(|(_, entry)| !entry.is_empty_layer());
    made.map(|(at, _)| at + 1).nth(layers - 1).unwrap_or(history.len())
}
