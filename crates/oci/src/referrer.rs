//! Referrers: manifests that are about another one, their `subject` (image-spec 1.1), and the lists of them.
//!
//! The rule this file owns: what a list says about an entry is only where to look. What an entry is about, its own
//! manifest says.

use serde_json::{Map, Value, json};

use super::descriptor::Descriptor;
use super::digest::Digest;
use super::document::{DOCUMENT_LIMIT, Document};
use super::json;
use super::media_type::{DocumentKind, MediaType};
use crate::error::{Error, Result};

/// More statements about one manifest are an attack.
pub const REFERRER_LIMIT: usize = 1_000;

/// A manifest about another one, as a list has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Referrer {
    pub descriptor: Descriptor,
    /// What it is. Empty where the list does not say.
    pub artifact_type: String,
}

impl Referrer {
    /// The entry for a manifest, with what the distribution-spec asks of a list.
    #[must_use]
    pub fn of(document: &Document) -> Self {
        let mut descriptor = document.descriptor();
        let annotations = document.object().get("annotations").and_then(Value::as_object);
        descriptor.annotations = annotations.cloned().unwrap_or_default();
        Self { descriptor, artifact_type: artifact_type(document).to_owned() }
    }

    fn read(value: &Value) -> Result<Self> {
        let artifact_type = value.get("artifactType").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Self { descriptor: Descriptor::read(value, "an entry of the list of referrers")?, artifact_type })
    }

    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut value = self.descriptor.to_value();
        if let Some(object) = value.as_object_mut().filter(|_| !self.artifact_type.is_empty()) {
            object.insert("artifactType".into(), self.artifact_type.clone().into());
        }
        value
    }

    /// An annotation of the manifest, where the list repeats it.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.descriptor.annotations.get(key).and_then(Value::as_str)
    }
}

/// What a manifest is: as it says, else by the type of its config.
#[must_use]
pub fn artifact_type(document: &Document) -> &str {
    let object = document.object();
    let own = object.get("artifactType").and_then(Value::as_str).filter(|own| !own.is_empty());
    let config = || object.get("config").and_then(|config| config.get("mediaType")).and_then(Value::as_str);
    own.or_else(config).unwrap_or_default()
}

/// What a manifest is about.
#[must_use]
pub fn subject(document: &Document) -> Option<Digest> {
    document.object().get("subject")?.get("digest")?.as_str()?.parse().ok()
}

/// The tag under which a registry without the referrers API keeps the list (distribution-spec, "Referrers Tag Schema").
#[must_use]
pub fn fallback_tag(subject: &Digest) -> String {
    format!("sha256-{}", subject.hex())
}

/// A list of referrers. What underpin does not know in it stays as it was.
#[derive(Debug, Clone)]
pub struct ReferrerList {
    object: Map<String, Value>,
    entries: Vec<Referrer>,
}

impl ReferrerList {
    #[must_use]
    pub fn empty() -> Self {
        let mut object = Map::new();
        object.insert("schemaVersion".into(), 2.into());
        object.insert("mediaType".into(), MediaType::oci_index().as_str().into());
        object.insert("manifests".into(), json!([]));
        Self { object, entries: Vec::new() }
    }

    /// Reads the index. `None` where the document is another kind of thing, such as an image that somebody tagged so. An
    /// entry that cannot be read leads nowhere, and hides no other.
    pub fn read(document: &Document) -> Result<Option<Self>> {
        if document.kind() != DocumentKind::Index {
            return Ok(None);
        }
        let object = document.object().clone();
        let entries = match object.get("manifests") {
            Some(Value::Array(list)) => list.iter().filter_map(|entry| Referrer::read(entry).ok()).collect(),
            Some(Value::Null) | None => Vec::new(),
            Some(_) => return Err(Error::input("the list of referrers has no list of manifests")),
        };
        Ok(Some(Self { object, entries }))
    }

    #[must_use]
    pub fn entries(&self) -> &[Referrer] {
        &self.entries
    }

    #[must_use]
    pub fn has(&self, digest: &Digest) -> bool {
        self.entries.iter().any(|entry| entry.descriptor.digest == *digest)
    }

    /// Leaves out entries; what is not known in the list stays.
    #[must_use]
    pub fn only(mut self, is_wanted: impl Fn(&Referrer) -> bool) -> Self {
        self.entries.retain(is_wanted);
        self
    }

    /// Adds what is not in it.
    pub fn add(&mut self, referrers: &[Referrer]) {
        let new: Vec<Referrer> =
            referrers.iter().filter(|referrer| !self.has(&referrer.descriptor.digest)).cloned().collect();
        let manifests = self.object.entry("manifests").or_insert(Value::Null);
        if manifests.is_null() {
            *manifests = json!([]);
        }
        if let Some(list) = manifests.as_array_mut() {
            list.extend(new.iter().map(Referrer::to_value));
        }
        self.entries.extend(new);
    }

    pub fn document(&self) -> Result<Document> {
        let bytes = json::write(&Value::Object(self.object.clone()));
        if bytes.len() as u64 > DOCUMENT_LIMIT || self.entries.len() > REFERRER_LIMIT {
            return Err(too_many(self.entries.len()));
        }
        Document::read(bytes, Some(&MediaType::oci_index()))
    }
}

#[must_use]
pub fn too_many(count: usize) -> Error {
    Error::input(format!("the image has more than {REFERRER_LIMIT} referrers")).fact("referrers", count)
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn manifest(members: &Value) -> Document {
        let empty = json!({"mediaType": "application/vnd.oci.empty.v1+json", "digest": D, "size": 2});
        let mut manifest = json!({"schemaVersion": 2, "config": empty, "layers": [empty]});
        manifest.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        Document::read(manifest.to_string().into_bytes(), None).unwrap()
    }

    #[test]
    fn an_artifact_is_what_it_says_or_what_its_config_is() {
        assert_eq!(artifact_type(&manifest(&json!({"artifactType": "a/b"}))), "a/b");
        assert_eq!(artifact_type(&manifest(&json!({"artifactType": ""}))), "application/vnd.oci.empty.v1+json");
        assert_eq!(subject(&manifest(&json!({"subject": {"digest": D}}))), Some(D.parse().unwrap()));
        assert_eq!(subject(&manifest(&json!({"subject": {"digest": "x"}}))), None);
    }

    #[test]
    fn a_list_keeps_what_it_has_and_takes_each_entry_once() {
        let text = format!(
            r#"{{"schemaVersion":2,"x":1,"manifests":[{{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"{D}","size":1,"y":2}}]}}"#
        );
        let document = Document::read(text.into_bytes(), None).unwrap();
        let mut list = ReferrerList::read(&document).unwrap().unwrap();
        let new = Referrer::of(&manifest(&json!({"artifactType": "a/b", "annotations": {"k": "v"}})));
        list.add(&[new.clone(), list.entries()[0].clone()]);
        list.add(std::slice::from_ref(&new));
        let written = list.document().unwrap();
        let object = written.object();
        assert_eq!((&object["x"], &object["manifests"][0]["y"]), (&json!(1), &json!(2)), "what is not known stays");
        assert_eq!(object["manifests"].as_array().unwrap().len(), 2);
        assert_eq!(ReferrerList::read(&written).unwrap().unwrap().entries()[1], new);
        assert!(ReferrerList::read(&manifest(&json!({}))).unwrap().is_none(), "not a list");
    }

    #[test]
    fn an_entry_that_cannot_be_read_hides_no_other_and_stays() {
        let good = json!({"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": D, "size": 1});
        let mut list = vec![json!(7), json!({}), json!(null), json!({"digest": "x"}), json!([good])];
        list.extend([-1, 1].map(|size| json!({"mediaType": "a/b", "digest": "sha512:00", "size": size})));
        list.push(good);
        let text = json!({"schemaVersion": 2, "mediaType": MediaType::oci_index().as_str(), "manifests": list});
        let document = Document::read(text.to_string().into_bytes(), None).unwrap();
        let list = ReferrerList::read(&document).unwrap().unwrap();
        assert_eq!(list.entries().iter().map(|one| one.descriptor.digest.to_string()).collect::<Vec<_>>(), [D]);
        assert_eq!(list.document().unwrap().object()["manifests"].as_array().unwrap().len(), 8);
    }
}
