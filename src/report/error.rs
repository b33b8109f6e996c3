//! An error as JSON, for scripts that asked for JSON.

use serde_json::{Map, Value, json};

use crate::error::Error;

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
