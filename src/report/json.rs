//! Models and errors as JSON, one line each.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::candidates::BaseFit;
use super::inspection::LayerOrigin;
use super::model::Outcome;
use super::rows::RowOutcome;
use crate::examine::base::{Rung, Sureness};
use crate::plan::Fate;
use crate::policy::{BaseVerdict, Movable};
use crate::store::gc::RemovalReason;
use oci::error::Error;

/// The JSON has the word that the other formats write too.
macro_rules! written_as_word {
    ($($type:ty),*) => {
        $(impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.word())
            }
        })*
    };
}

written_as_word!(BaseFit, RowOutcome, Outcome, Fate, Rung, Sureness, BaseVerdict, Movable, LayerOrigin, RemovalReason);

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
