//! A descriptor: media type, digest and size of a blob.

use serde_json::{Map, Value};

use super::digest::Digest;
use super::media_type::MediaType;
use super::platform::Platform;
use crate::error::{Error, Result};

/// No blob is larger: above it a size is a mistake or an attack.
const SIZE_LIMIT: u64 = 64 << 30;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    pub media_type: MediaType,
    pub digest: Digest,
    pub size: u64,
    pub platform: Option<Platform>,
    pub annotations: Map<String, Value>,
    /// The `platform` member as written, so that fields we do not know survive.
    pub platform_object: Option<Map<String, Value>>,
    pub has_urls: bool,
}

impl Descriptor {
    #[must_use]
    pub fn new(media_type: MediaType, digest: Digest, size: u64) -> Self {
        Self {
            media_type,
            digest,
            size,
            platform: None,
            annotations: Map::new(),
            platform_object: None,
            has_urls: false,
        }
    }

    /// Describes bytes in memory.
    #[must_use]
    pub fn of(media_type: MediaType, bytes: &[u8]) -> Self {
        Self::new(media_type, Digest::of(bytes), bytes.len() as u64)
    }

    /// Reads a descriptor out of a document; `what` names its place, such as `layer 3`.
    pub fn read(value: &Value, what: &str) -> Result<Self> {
        let Value::Object(object) = value else {
            return Err(Error::input(format!("{what} is not a descriptor")));
        };
        let media_type = text(object, "mediaType", what)?;
        let digest = text(object, "digest", what)?.parse().map_err(|error: Error| error.fact("in", what))?;
        let size = object.get("size").and_then(Value::as_u64).filter(|size| *size <= SIZE_LIMIT).ok_or_else(|| {
            Error::input(format!("the size of {what} is not a whole number from 0 to {SIZE_LIMIT}"))
                .fact("size", object.get("size").unwrap_or(&Value::Null))
                .fact("digest", digest)
        })?;
        let platform_object = match object.get("platform") {
            None | Some(Value::Null) => None,
            Some(Value::Object(platform)) => Some(platform.clone()),
            Some(_) => return Err(Error::input(format!("the platform of {what} is not an object"))),
        };
        Ok(Self {
            media_type: MediaType::new(media_type),
            digest,
            size,
            platform: platform_object.as_ref().and_then(Platform::from_object),
            annotations: annotations(object, what)?,
            platform_object,
            has_urls: matches!(object.get("urls"), Some(Value::Array(urls)) if !urls.is_empty()),
        })
    }

    /// The descriptor as it is written. `urls` and `data` are never republished: the first sends
    /// pullers elsewhere, the second says again what the digest already says.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut object = Map::new();
        object.insert("mediaType".into(), self.media_type.as_str().into());
        object.insert("digest".into(), self.digest.to_string().into());
        object.insert("size".into(), self.size.into());
        if let Some(platform) = &self.platform_object {
            object.insert("platform".into(), Value::Object(platform.clone()));
        }
        if !self.annotations.is_empty() {
            object.insert("annotations".into(), Value::Object(self.annotations.clone()));
        }
        Value::Object(object)
    }
}

/// The string member `key` of `object`.
pub(super) fn text<'a>(object: &'a Map<String, Value>, key: &str, what: &str) -> Result<&'a str> {
    object
        .get(key)
        .and_then(Value::as_str)
        .ok_or_else(|| Error::input(format!("{what} has no `{key}`, or it is not a string")))
}

/// The annotations of a document or descriptor: strings by string, or none.
pub(super) fn annotations(object: &Map<String, Value>, what: &str) -> Result<Map<String, Value>> {
    match object.get("annotations") {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(map)) if map.values().all(Value::is_string) => Ok(map.clone()),
        Some(_) => Err(Error::input(format!("the annotations of {what} are not a map of strings"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn with_size(size: &str) -> Result<Descriptor> {
        let text = format!(r#"{{"mediaType":"a/b","digest":"{D}","size":{size}}}"#);
        Descriptor::read(&crate::json::read(text.as_bytes(), "x")?, "layer 1")
    }

    #[test]
    fn refuses_absurd_sizes() {
        for bad in [
            "-1",
            "9223372036854775807",
            "9223372036854775808",
            "18446744073709551616",
            "1e3",
            "1e30",
            "12.0",
            "\"12\"",
            "null",
        ] {
            assert!(with_size(bad).is_err(), "{bad}");
        }
        assert_eq!(with_size("12").unwrap().size, 12);
    }

    #[test]
    fn does_not_republish_urls() {
        let text = format!(r#"{{"mediaType":"a/b","digest":"{D}","size":1,"urls":["http://evil/"],"data":"eA=="}}"#);
        let descriptor = Descriptor::read(&serde_json::from_str(&text).unwrap(), "layer 1").unwrap();
        assert!(descriptor.has_urls);
        assert_eq!(descriptor.to_value().to_string(), format!(r#"{{"mediaType":"a/b","digest":"{D}","size":1}}"#));
    }
}
