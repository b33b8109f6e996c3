//! A manifest or index with its exact bytes beside the parsed view.

use serde_json::{Map, Value};

use super::descriptor::Descriptor;
use super::digest::Digest;
use super::json;
use super::media_type::{DocumentKind, MediaType};
use crate::error::{Error, Result};

/// Manifests, indexes and configs above this size are refused, as in distribution and c/image.
pub const DOCUMENT_LIMIT: u64 = 4 << 20;

/// Bytes that hash to `digest` and are known to be a manifest or an index.
#[derive(Debug, Clone)]
pub struct Document {
    bytes: Vec<u8>,
    digest: Digest,
    kind: DocumentKind,
    media_type: MediaType,
    object: Map<String, Value>,
}

impl Document {
    /// Reads a document. `declared` is the type its transport or descriptor gave it, if any;
    /// where the document names its own type, the two must agree.
    pub fn read(bytes: Vec<u8>, declared: Option<&MediaType>) -> Result<Self> {
        let digest = Digest::of(&bytes);
        Self::check(bytes, digest, declared).map_err(|error| error.fact("document", digest))
    }

    fn check(bytes: Vec<u8>, digest: Digest, declared: Option<&MediaType>) -> Result<Self> {
        if bytes.len() as u64 > DOCUMENT_LIMIT {
            return Err(Error::input("manifest is larger than 4 MiB"));
        }
        let object = json::read_object(&bytes, "manifest")?;
        check_schema(&object)?;
        let media_type = media_type_of(&object, declared)?;
        let kind = DocumentKind::of(&media_type)?;
        check_shape(&object, kind)?;
        Ok(Self { bytes, digest, kind, media_type, object })
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
    pub fn kind(&self) -> DocumentKind {
        self.kind
    }

    #[must_use]
    pub fn media_type(&self) -> &MediaType {
        &self.media_type
    }

    #[must_use]
    pub fn object(&self) -> &Map<String, Value> {
        &self.object
    }

    #[must_use]
    pub fn descriptor(&self) -> Descriptor {
        Descriptor::new(self.media_type.clone(), self.digest, self.bytes.len() as u64)
    }
}

fn check_schema(object: &Map<String, Value>) -> Result<()> {
    match object.get("schemaVersion").and_then(Value::as_u64) {
        Some(2) => Ok(()),
        Some(1) => Err(Error::input("image has a schema 1 manifest, which registries and runtimes no longer accept")
            .hint("pull and push the image once with a tool that converts it to schema 2 or OCI")),
        _ => Err(Error::input("manifest has no `schemaVersion` 2")),
    }
}

fn media_type_of(object: &Map<String, Value>, declared: Option<&MediaType>) -> Result<MediaType> {
    let own = match object.get("mediaType") {
        None => None,
        Some(Value::String(text)) => Some(MediaType::new(text)),
        Some(_) => return Err(Error::input("the `mediaType` of the manifest is not a string")),
    };
    match (own, declared) {
        (Some(own), Some(declared)) if own != *declared => {
            Err(Error::input("manifest was served with another media type than it states")
                .fact("manifest", own)
                .fact("served as", declared))
        }
        (Some(own), _) => Ok(own),
        (None, Some(declared)) => Ok(declared.clone()),
        // OCI lets both fields be absent; then the shape tells.
        (None, None) if object.contains_key("manifests") => Ok(MediaType::oci_index()),
        (None, None) => Ok(MediaType::oci_manifest()),
    }
}

/// CVE-2021-41190: one digest must not be readable as an index and as a manifest.
fn check_shape(object: &Map<String, Value>, kind: DocumentKind) -> Result<()> {
    let (wanted, unwanted): (&[&str], &[&str]) = match kind {
        DocumentKind::Manifest => (&["config", "layers"], &["manifests", "fsLayers"]),
        DocumentKind::Index => (&["manifests"], &["layers", "config", "fsLayers"]),
    };
    if let Some(key) = unwanted.iter().find(|key| object.contains_key(**key)) {
        return Err(Error::input(format!(
            "ambiguous document: it could be a manifest or an index, `{key}` does not belong"
        )));
    }
    match wanted.iter().find(|key| !object.contains_key(**key)) {
        Some(key) => Err(Error::input(format!("manifest has no `{key}`"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, declared: Option<&str>) -> Result<Document> {
        Document::read(text.as_bytes().to_vec(), declared.map(MediaType::new).as_ref())
    }

    #[test]
    fn keeps_the_exact_bytes() {
        let text = "{ \"schemaVersion\": 2,\n \"manifests\": [], \"x\": 1 }";
        let document = read(text, None).unwrap();
        assert_eq!((document.bytes(), document.digest()), (text.as_bytes(), Digest::of(text.as_bytes())));
        assert_eq!(document.kind(), DocumentKind::Index);
    }

    #[test]
    fn refuses_documents_that_can_be_read_two_ways() {
        let index = "application/vnd.oci.image.index.v1+json";
        let manifest = "application/vnd.oci.image.manifest.v1+json";
        for (text, declared) in [
            (r#"{"schemaVersion":2,"manifests":[],"layers":[],"config":{}}"#.to_owned(), None),
            (r#"{"schemaVersion":2,"manifests":[],"config":{}}"#.to_owned(), None),
            (format!(r#"{{"schemaVersion":2,"mediaType":"{manifest}","manifests":[]}}"#), None),
            (format!(r#"{{"schemaVersion":2,"mediaType":"{index}","manifests":[]}}"#), Some(manifest)),
            (r#"{"schemaVersion":2,"mediaType":7,"manifests":[]}"#.to_owned(), None),
            (r#"{"schemaVersion":1,"fsLayers":[]}"#.to_owned(), None),
            (r#"{"manifests":[]}"#.to_owned(), None),
            (r#"{"schemaVersion":2}"#.to_owned(), None),
            ("[]".to_owned(), None),
        ] {
            assert!(read(&text, declared).is_err(), "{text} was accepted");
        }
    }
}
