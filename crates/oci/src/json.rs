//! JSON as this project reads and writes it.
//!
//! Reading is strict where readers of different languages would disagree about one digest:
//! duplicate keys, keys that are equal when case is folded (Go lets `Layers` override `layers`),
//! anything after the document, a byte order mark, deep nesting. In the maps whose keys users
//! choose, such as labels, case counts for every reader, so there only duplicates are refused.
//! Writing has one form: no white space, keys in the order they were put, so a value has exactly
//! one spelling.

use std::collections::HashSet;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// Reads one strict JSON document. `what` names it in messages.
pub fn read(bytes: &[u8], what: &str) -> Result<Value> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Strict(KeyRule::Fixed)
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value))
        .map_err(|error| Error::input(format!("{what} is not acceptable JSON")).cause(error))?;
    Ok(value)
}

/// Reads one strict JSON document that must be an object.
pub fn read_object(bytes: &[u8], what: &str) -> Result<Map<String, Value>> {
    match read(bytes, what)? {
        Value::Object(object) => Ok(object),
        _ => Err(Error::input(format!("{what} is not a JSON object"))),
    }
}

/// The bytes of `value`: the one JSON writer. Its output decides digests.
#[must_use]
pub fn write(value: &Value) -> Vec<u8> {
    // A `Value` has only string keys and finite numbers, so writing it to memory cannot fail.
    serde_json::to_vec(value).unwrap_or_default()
}

/// An object with the keys of `order` first, in that order, then all others as they come.
#[must_use]
pub fn ordered(mut object: Map<String, Value>, order: &[&str]) -> Map<String, Value> {
    let mut out = Map::with_capacity(object.len());
    for key in order {
        if let Some(value) = object.shift_remove(*key) {
            out.insert((*key).to_owned(), value);
        }
    }
    out.extend(object);
    out
}

/// The members whose keys are chosen by users, in any of the documents.
const CHOSEN: [&str; 4] = ["Labels", "annotations", "ExposedPorts", "Volumes"];

#[derive(Clone, Copy)]
enum KeyRule {
    /// Field names of a format: equal when their case is folded.
    Fixed,
    /// Words of a user: equal when they are the same bytes.
    Chosen,
}

impl KeyRule {
    fn below(key: &str) -> Self {
        if CHOSEN.contains(&key) { Self::Chosen } else { Self::Fixed }
    }

    fn identity(self, key: &str) -> String {
        match self {
            Self::Fixed => fold(key),
            Self::Chosen => key.to_owned(),
        }
    }
}

/// A deserialiser seed for a `Value` in which no object has the same key twice.
struct Strict(KeyRule);

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Strict(KeyRule::Fixed))? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if !seen.insert(self.0.identity(&key)) {
                return Err(de::Error::custom(format_args!("duplicate key {key:?}")));
            }
            let value = map.next_value_seed(Strict(KeyRule::below(&key)))?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// Go's `encoding/json` folds these two beyond ASCII: the long s and the Kelvin sign.
fn fold(key: &str) -> String {
    key.chars()
        .flat_map(|c| match c {
            '\u{17f}' => 's'.to_lowercase(),
            '\u{212a}' => 'k'.to_lowercase(),
            c => c.to_lowercase(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_two_readers_would_read_differently() {
        let deep = "[".repeat(10_000);
        let cases = [
            r#"{"layers":1,"layers":2}"#,
            r#"{"layers":1,"Layers":2}"#,
            "{\"layers\":1,\"layer\u{17f}\":2}",
            r#"{"layers":1,"l\u0061yers":2}"#,
            r#"{"a":{"x":1,"X":2}}"#,
            r#"[{"k":1,"K":2}]"#,
            r#"{"Labels":{"k":1,"k":2}}"#,
            "{} {}",
            "{}x",
            "\u{feff}{}",
            "{}\0",
            "",
            "{\"a\":01}",
            "{'a':1}",
            &deep,
        ];
        for case in cases {
            assert!(read(case.as_bytes(), "manifest").is_err(), "{} was accepted", &case[..case.len().min(40)]);
        }
        assert!(read(&[b'"', 0xff, b'"'], "manifest").is_err(), "UTF-8 only");
    }

    #[test]
    fn labels_may_differ_in_case_only() {
        assert!(read(br#"{"config":{"Labels":{"vendor":"a","Vendor":"b"}}}"#, "config").is_ok());
    }

    #[test]
    fn keeps_order_and_unknown_keys() {
        let text = r#"{"z":1,"a":{"y":[1,2.5,-3,null,true,"é\n"],"b":18446744073709551615}}"#;
        assert_eq!(write(&read(text.as_bytes(), "x").unwrap()), text.as_bytes());
    }

    #[test]
    fn puts_known_keys_first() {
        let object = read_object(br#"{"x":1,"b":2,"y":3,"a":4}"#, "x").unwrap();
        let keys: Vec<_> = ordered(object, &["a", "b"]).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["a", "b", "x", "y"]);
    }
}
