//! The history of the result: the new base's entries, the application's, then those of layers that
//! were written.
//!
//! History only splits history. Where it does not fit its layers, one entry per layer is written.

use serde_json::{Value, json};

use super::layers::{Becomes, Layers};
use crate::examine::PlatformSubject;
use oci::{HistoryEntry, Image};

pub(super) fn merge(subject: &PlatformSubject, layers: &Layers) -> Value {
    let base = entries(&subject.base, 0, "layer of the new base");
    let own = match cut(subject) {
        Some(at) => subject.source.config.history().get(at..).unwrap_or_default().iter().map(value).collect(),
        None => entries(&subject.source, subject.old_base.layers, "layer of the source"),
    };
    let own = without_dropped(own, layers);
    Value::Array(base.into_iter().chain(own).chain(written(&subject.source, layers)).collect())
}

fn value(entry: &HistoryEntry) -> Value {
    Value::Object(entry.0.clone())
}

/// The entry of a layer that was dropped stays, as one that made no layer.
fn without_dropped(own: Vec<Value>, layers: &Layers) -> Vec<Value> {
    let mut own_layers = layers.own.iter();
    let settle = |mut entry: Value| {
        let makes_layer = entry.get("empty_layer") != Some(&Value::Bool(true));
        let is_dropped =
            makes_layer && own_layers.next().is_some_and(|layer| matches!(layer.becomes, Becomes::Dropped));
        if let Value::Object(entry) = &mut entry
            && is_dropped
        {
            entry.insert("empty_layer".to_owned(), true.into());
        }
        entry
    };
    own.into_iter().map(settle).collect()
}

fn written(source: &Image, layers: &Layers) -> Vec<Value> {
    let extracted = layers.extracted.iter().filter(|layer| !layer.is_empty());
    let extracted = extracted.map(|_| format!("underpin: extracted from {}", source.digest()));
    let added = Some(&layers.added).filter(|added| !added.layer.is_empty());
    let added = added.map(|added| format!("underpin: added {}", added.what.join(", ")));
    extracted.chain(added).map(|created_by| entry(source, &created_by)).collect()
}

/// The image's own entries where they fit, else one for each layer from `skip` on.
fn entries(image: &Image, skip: usize, what: &str) -> Vec<Value> {
    if skip == 0 && fits(image) {
        return image.config.history().iter().map(value).collect();
    }
    let layers = image.layers.iter().skip(skip);
    layers.map(|layer| entry(image, &format!("underpin: {what} {}", layer.diff_id))).collect()
}

fn entry(image: &Image, created_by: &str) -> Value {
    match image.config.object().get("created").filter(|created| created.is_string()) {
        Some(created) => json!({"created": created, "created_by": created_by}),
        None => json!({"created_by": created_by}),
    }
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
