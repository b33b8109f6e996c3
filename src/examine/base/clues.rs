//! Clues to the old base that stand in documents: names to look up.

use serde_json::{Map, Value};

use oci::{BASE_DIGEST, BASE_NAME, Config, DiffId, Reference, json};

/// A name found in the image. It says where to look, not what is true, and never leads to a file or a tool of this
/// machine: it is a registry's, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clue {
    /// What to try in turn, the most exact first.
    pub references: Vec<Reference>,
}

impl Clue {
    /// From the OCI annotation names, in annotations or labels. A digest without a name cannot be
    /// looked up: it is never sought in the new base's repository.
    pub(super) fn from_annotations(map: &Map<String, Value>) -> Option<Self> {
        let text = |key: &str| map.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        Self::new(text(BASE_NAME)?, text(BASE_DIGEST))
    }

    /// From a name, and a digest where there is one. `None` when the name is not a registry's.
    pub(super) fn new(name: &str, digest: Option<&str>) -> Option<Self> {
        let plain: Reference = name.parse().ok()?;
        let exact = digest.and_then(|digest| digest.parse().ok()).map(|digest| plain.with_digest(digest));
        let mut references: Vec<Reference> = exact.into_iter().collect();
        if !references.contains(&plain) {
            references.push(plain);
        }
        Some(Self { references })
    }
}

/// The image that a package URL names: `NAME[:TAG]` as docker would write it, and the digest.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Purl {
    pub name: String,
    pub digest: Option<String>,
}

/// Reads `pkg:docker/NAMESPACE/NAME@VERSION?QUALIFIERS`; `None` for other packages.
pub(super) fn read_purl(url: &str) -> Option<Purl> {
    let rest = url.strip_prefix("pkg:docker/")?;
    let (rest, qualifiers) = rest.split_once('?').unwrap_or((rest, ""));
    let (path, version) = rest.rsplit_once('@').unwrap_or((rest, ""));
    let path = decode(path)?;
    let version = decode(version)?;
    let qualified = qualifiers.split('&').find_map(|pair| pair.strip_prefix("digest=")).and_then(decode);
    if version.starts_with("sha256:") {
        return Some(Purl { name: path, digest: Some(version) });
    }
    let name = if version.is_empty() { path } else { format!("{path}:{version}") };
    Some(Purl { name, digest: qualified })
}

/// Percent decoding; `None` on a broken escape or on bytes that are not text.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first == b'%' {
            let hex = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(hex, 16).ok()?);
            rest = tail.get(2..)?;
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}

const LABEL: &str = "io.buildpacks.lifecycle.metadata";

/// What the label says: how many layers the run image has, and where it was.
#[derive(Debug)]
pub(super) struct RunImage {
    pub layers: usize,
    pub clue: Option<Clue>,
}

/// `None` where there is no such label, or its top layer is not one of the image's own.
pub(super) fn buildpacks_run_image(config: &Config) -> Option<RunImage> {
    let metadata = json::read(config.label(LABEL)?.as_bytes(), "buildpacks label").ok()?;
    let run_image = metadata.get("runImage")?;
    let top: DiffId = run_image.get("topLayer")?.as_str()?.parse().ok()?;
    let at = config.diff_ids().iter().position(|id| *id == top)?;
    Some(RunImage { layers: at + 1, clue: run_image_clue(run_image) })
}

fn run_image_clue(run_image: &Value) -> Option<Clue> {
    let reference = run_image.get("reference")?.as_str()?;
    let (name, digest) = reference.split_once('@')?;
    Clue::new(name, Some(digest))
}

/// The images named as materials of an in-toto statement with SLSA provenance 0.2 or 1.
pub(super) fn materials(statement: &Value) -> Vec<Clue> {
    let lists = ["/predicate/materials", "/predicate/buildDefinition/resolvedDependencies"];
    let lists = lists.iter().filter_map(|path| statement.pointer(path)?.as_array());
    lists.flatten().filter_map(material_clue).collect()
}

fn material_clue(material: &Value) -> Option<Clue> {
    let text = |path: &str| material.pointer(path)?.as_str();
    let purl = read_purl(text("/uri")?)?;
    let digest = text("/digest/sha256").map(|hex| format!("sha256:{hex}")).or(purl.digest);
    Clue::new(&purl.name, digest.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn references(json: &str) -> Option<Vec<String>> {
        let map: Map<String, Value> = serde_json::from_str(json).unwrap();
        Clue::from_annotations(&map).map(|clue| clue.references.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_digest_is_tried_before_the_tag() {
        let json = format!(r#"{{"{BASE_NAME}":"debian:12","{BASE_DIGEST}":"{D}"}}"#);
        let expected = vec![format!("docker.io/library/debian:12@{D}"), "docker.io/library/debian:12".to_owned()];
        assert_eq!(references(&json), Some(expected));
    }

    #[test]
    fn a_digest_without_a_name_is_no_clue() {
        assert_eq!(references(&format!(r#"{{"{BASE_DIGEST}":"{D}"}}"#)), None);
        assert_eq!(references(&format!(r#"{{"{BASE_NAME}":"NOT A NAME"}}"#)), None);
    }

    #[test]
    fn no_clue_leads_to_a_file_or_a_tool() {
        for name in ["oci:/etc", "oci-archive:/a.tar", "docker-archive:a.tar:x:y", "dir:/etc", "/etc", "./a"] {
            assert_eq!(references(&format!(r#"{{"{BASE_NAME}":"{name}"}}"#)), None, "{name}");
        }
        // What reads as a short name of Docker Hub's is one, whatever it is elsewhere.
        for name in ["docker-daemon:app", "containers-storage:app"] {
            let (repository, tag) = name.split_once(':').unwrap();
            let hub = vec![format!("docker.io/library/{repository}:{tag}")];
            assert_eq!(references(&format!(r#"{{"{BASE_NAME}":"{name}"}}"#)), Some(hub), "{name}");
        }
    }
}

#[cfg(test)]
mod purl_tests {
    use super::*;

    #[test]
    fn reads_what_buildkit_writes() {
        for (url, name, digest) in [
            ("pkg:docker/debian@12?platform=linux%2Famd64", "debian:12", None),
            (
                "pkg:docker/gcr.io/distroless/static@nonroot?digest=sha256:ab",
                "gcr.io/distroless/static:nonroot",
                Some("sha256:ab"),
            ),
            ("pkg:docker/127.0.0.1%3A5000/a/b@v1", "127.0.0.1:5000/a/b:v1", None),
            ("pkg:docker/a/b@sha256%3Aab", "a/b", Some("sha256:ab")),
        ] {
            assert_eq!(read_purl(url), Some(Purl { name: name.into(), digest: digest.map(Into::into) }), "{url}");
        }
    }

    #[test]
    fn other_packages_and_broken_escapes_are_nothing() {
        for url in ["pkg:deb/debian/bash@5", "https://x", "", "pkg:docker/a%", "pkg:docker/a%zz", "pkg:docker/%ff@1"] {
            assert_eq!(read_purl(url), None, "{url}");
        }
    }
}

#[cfg(test)]
mod provenance_tests {
    use super::*;

    const HEX: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn both_versions_of_the_predicate_are_read_purl() {
        let material =
            serde_json::json!({"uri": "pkg:docker/debian@12?platform=linux%2Famd64", "digest": {"sha256": HEX}});
        let git = serde_json::json!({"uri": "https://github.com/a/b", "digest": {"sha1": "00"}});
        for statement in [
            serde_json::json!({"predicate": {"materials": [git.clone(), material.clone()]}}),
            serde_json::json!({"predicate": {"buildDefinition": {"resolvedDependencies": [material]}}}),
        ] {
            let clues = materials(&statement);
            assert_eq!(clues.len(), 1);
            assert_eq!(clues[0].references[0].to_string(), format!("docker.io/library/debian:12@sha256:{HEX}"));
        }
    }

    #[test]
    fn a_statement_of_another_shape_has_no_clues() {
        for statement in
            [Value::Null, serde_json::json!({"predicate": {"materials": {"uri": 1}}}), serde_json::json!([1])]
        {
            assert!(materials(&statement).is_empty());
        }
    }
}
