//! Clues to the old base that stand in documents: names to look up.

use serde_json::{Map, Value};

use crate::oci::{BASE_DIGEST, BASE_NAME, Location};

/// A name found in the image. It says where to look, not what is true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clue {
    /// The places to try in turn, the most exact first.
    pub locations: Vec<Location>,
}

impl Clue {
    /// From the OCI annotation names, in annotations or labels. A digest without a name cannot be
    /// looked up: it is never sought in the new base's repository.
    pub(super) fn from_annotations(map: &Map<String, Value>) -> Option<Self> {
        let text = |key: &str| map.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        Self::new(text(BASE_NAME)?, text(BASE_DIGEST))
    }

    /// From a name, and a digest where there is one. `None` when the name is not a location.
    pub(super) fn new(name: &str, digest: Option<&str>) -> Option<Self> {
        let plain: Location = name.parse().ok()?;
        let exact = digest.and_then(|digest| digest.parse().ok()).and_then(|digest| plain.pinned(digest).parse().ok());
        let mut locations: Vec<Location> = exact.into_iter().collect();
        if !locations.contains(&plain) {
            locations.push(plain);
        }
        Some(Self { locations })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn locations(json: &str) -> Option<Vec<String>> {
        let map: Map<String, Value> = serde_json::from_str(json).unwrap();
        Clue::from_annotations(&map).map(|clue| clue.locations.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_digest_is_tried_before_the_tag() {
        let json = format!(r#"{{"{BASE_NAME}":"debian:12","{BASE_DIGEST}":"{D}"}}"#);
        let expected = vec![format!("docker.io/library/debian:12@{D}"), "docker.io/library/debian:12".to_owned()];
        assert_eq!(locations(&json), Some(expected));
    }

    #[test]
    fn a_digest_without_a_name_is_no_clue() {
        assert_eq!(locations(&format!(r#"{{"{BASE_DIGEST}":"{D}"}}"#)), None);
        assert_eq!(locations(&format!(r#"{{"{BASE_NAME}":"NOT A NAME"}}"#)), None);
    }
}
