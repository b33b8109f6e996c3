//! The config of an image: what runs, where, and on which layers.

use serde_json::{Map, Value};

use super::digest::{DiffId, Digest};
use super::document::DOCUMENT_LIMIT;
use super::json;
use super::platform::Platform;
use crate::error::{Error, Result};

/// A checked config with its exact bytes. Fields we do not know stay in `object`.
#[derive(Debug, Clone)]
pub struct Config {
    bytes: Vec<u8>,
    digest: Digest,
    object: Map<String, Value>,
    platform: Platform,
    diff_ids: Vec<DiffId>,
    history: Vec<HistoryEntry>,
}

/// One line of an image's history. It explains; it never decides which layers there are.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryEntry(pub Map<String, Value>);

impl HistoryEntry {
    /// Whether the entry made no layer.
    #[must_use]
    pub fn is_empty_layer(&self) -> bool {
        self.0.get("empty_layer").and_then(Value::as_bool).unwrap_or(false)
    }

    #[must_use]
    pub fn created_by(&self) -> &str {
        self.0.get("created_by").and_then(Value::as_str).unwrap_or_default()
    }
}

impl Config {
    pub fn read(bytes: Vec<u8>) -> Result<Self> {
        let digest = Digest::of(&bytes);
        Self::check(bytes, digest).map_err(|error| error.fact("config", digest))
    }

    fn check(bytes: Vec<u8>, digest: Digest) -> Result<Self> {
        if bytes.len() as u64 > DOCUMENT_LIMIT {
            return Err(Error::input("the config is larger than 4 MiB"));
        }
        let object = json::read_object(&bytes, "config")?;
        let platform = Platform::from_object(&object)
            .ok_or_else(|| Error::input("the config has no `os` or no `architecture`"))?;
        let diff_ids = diff_ids(&object)?;
        let history = history(&object)?;
        check_container(&object)?;
        Ok(Self { bytes, digest, object, platform, diff_ids, history })
    }

    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    #[must_use]
    pub fn object(&self) -> &Map<String, Value> {
        &self.object
    }

    #[must_use]
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    #[must_use]
    pub fn diff_ids(&self) -> &[DiffId] {
        &self.diff_ids
    }

    #[must_use]
    pub fn history(&self) -> &[HistoryEntry] {
        &self.history
    }

    /// The `config` member: what a container starts with. Empty where it is missing.
    #[must_use]
    pub fn container(&self) -> Map<String, Value> {
        self.object.get("config").and_then(Value::as_object).cloned().unwrap_or_default()
    }

    /// A list of strings of the container, such as `Entrypoint`. Empty where it is missing.
    #[must_use]
    pub fn strings(&self, key: &str) -> Vec<String> {
        let list = self.object.get("config").and_then(|container| container.get(key)).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// A label of the image.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.object.get("config")?.get("Labels")?.get(key)?.as_str()
    }
}

fn diff_ids(object: &Map<String, Value>) -> Result<Vec<DiffId>> {
    let rootfs = object.get("rootfs").and_then(Value::as_object);
    let rootfs = rootfs.ok_or_else(|| Error::input("the config has no `rootfs`"))?;
    if rootfs.get("type").is_some_and(|kind| kind != "layers") {
        return Err(Error::input("the `rootfs.type` of the config is not `layers`"));
    }
    let list = match rootfs.get("diff_ids") {
        Some(Value::Array(list)) => list.as_slice(),
        None | Some(Value::Null) => &[],
        Some(_) => return Err(Error::input("the `diff_ids` of the config are not a list")),
    };
    list.iter()
        .map(|id| id.as_str().ok_or_else(|| Error::input("a diff id of the config is not a string"))?.parse())
        .collect()
}

fn history(object: &Map<String, Value>) -> Result<Vec<HistoryEntry>> {
    let list = match object.get("history") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(Error::input("the `history` of the config is not a list")),
    };
    list.iter()
        .map(|entry| match entry {
            Value::Object(entry) => Ok(HistoryEntry(entry.clone())),
            _ => Err(Error::input("a history entry of the config is not an object")),
        })
        .collect()
}

/// The members that decide what is executed must be of the one shape that all runtimes agree on.
fn check_container(object: &Map<String, Value>) -> Result<()> {
    let container = match object.get("config") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(container)) => container,
        Some(_) => return Err(Error::input("the `config` member of the config is not an object")),
    };
    for key in ["Entrypoint", "Cmd", "Env", "Shell", "OnBuild"] {
        check_words(container, key)?;
    }
    for key in ["User", "WorkingDir", "StopSignal"] {
        match container.get(key) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) if !text.contains('\0') => {}
            Some(_) => {
                return Err(Error::input(format!("`{key}` of the config is not a string, or contains a NUL byte")));
            }
        }
    }
    for key in ["Labels", "Volumes", "ExposedPorts", "Healthcheck"] {
        if !matches!(container.get(key), None | Some(Value::Null | Value::Object(_))) {
            return Err(Error::input(format!("`{key}` of the config is not an object")));
        }
    }
    Ok(())
}

fn check_words(container: &Map<String, Value>, key: &str) -> Result<()> {
    let words = match container.get(key) {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Array(words)) => words,
        Some(_) => return Err(Error::input(format!("`{key}` of the config is not a list of strings"))),
    };
    match words.iter().find(|word| word.as_str().is_none_or(|word| word.contains('\0'))) {
        Some(_) => {
            Err(Error::input(format!("an item of `{key}` of the config is not a string, or contains a NUL byte")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(container: &str, more: &str) -> Result<Config> {
        let text = format!(
            r#"{{"os":"linux","architecture":"amd64","config":{container},"rootfs":{{"type":"layers","diff_ids":[]}}{more}}}"#
        );
        Config::read(text.into_bytes())
    }

    #[test]
    fn refuses_commands_that_runtimes_read_differently() {
        for bad in [
            r#"{"Entrypoint":"/app"}"#,
            r#"{"Entrypoint":["a\u0000b"]}"#,
            r#"{"Cmd":[1]}"#,
            r#"{"Env":["A\u0000=1"]}"#,
            r#"{"Env":"A=1"}"#,
            r#"{"User":0}"#,
            r#"{"WorkingDir":["/"]}"#,
            r#"{"Labels":[]}"#,
            "[]",
        ] {
            assert!(read(bad, "").is_err(), "{bad} was accepted");
        }
        for good in
            [r#"{"Entrypoint":[]}"#, r#"{"Entrypoint":null,"Cmd":["-x","a\nb"]}"#, "null", r#"{"Env":["*","","A"]}"#]
        {
            assert!(read(good, "").is_ok(), "{good} was refused");
        }
    }

    #[test]
    fn missing_and_null_history_is_empty() {
        assert!(read("{}", "").unwrap().history().is_empty());
        assert!(read("{}", r#","history":null"#).unwrap().history().is_empty());
        assert!(read("{}", r#","history":7"#).is_err());
    }
}
