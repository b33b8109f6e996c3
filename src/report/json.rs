//! Models and errors as JSON, one line each.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::error::Error;

/// `model` as one line of JSON. The models have string keys only, so this cannot fail.
#[must_use]
pub fn to_json(model: &impl Serialize) -> String {
    serde_json::to_string(model).unwrap_or_default()
}

/// An error for scripts that asked for JSON:
/// `{"schema":"underpin.error/v1","kind":...,"class":...,"message":...,"facts":{},"causes":[],"hints":[]}`
#[must_use]
pub fn error_to_json(error: &Error) -> String {
    let facts: Map<String, Value> =
        error.facts().iter().map(|(name, value)| ((*name).to_owned(), value.clone().into())).collect();
    json!({
        "schema": "underpin.error/v1",
        "kind": error.kind().word(),
        "class": error.kind().class(),
        "message": error.what(),
        "facts": facts,
        "causes": error.causes(),
        "hints": error.hints(),
    })
    .to_string()
}
