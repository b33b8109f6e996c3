//! The report as JSON, one line.

use serde::Serialize;

/// `model` as one line of JSON. The models have string keys only, so this cannot fail.
#[must_use]
pub fn to_json(model: &impl Serialize) -> String {
    serde_json::to_string(model).unwrap_or_default()
}
