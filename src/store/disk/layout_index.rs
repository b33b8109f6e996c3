//! The `index.json` of a layout: which images it holds and what they are called
//! (image-spec, image-layout.md).
//!
//! What underpin does not know in it stays as it was. A name means one digest: where two
//! entries claim it for different images, it is refused rather than guessed.

use serde_json::{Map, Value, json};

use oci::error::{Error, Result};
use oci::{DOCUMENT_LIMIT, Descriptor, Digest, Document, DocumentKind, LocalImage, MediaType, Referrer, json};

pub const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// Names shown when the wanted one is not there.
const SHOWN: usize = 20;

#[derive(Debug, Clone)]
pub struct LayoutIndex {
    object: Map<String, Value>,
    entries: Vec<Descriptor>,
}

/// Without `schemaVersion`, as the `oci_image_index` of Bazel's `rules_oci` writes the file, it is the only one that there is.
fn with_version(bytes: Vec<u8>) -> Result<Vec<u8>> {
    let mut object = json::read_object(&bytes, "index.json")?;
    if object.contains_key("schemaVersion") {
        return Ok(bytes);
    }
    object.insert("schemaVersion".into(), 2.into());
    Ok(json::write(&Value::Object(object)))
}

impl LayoutIndex {
    /// The contents of a layout that holds nothing yet.
    pub fn empty() -> Self {
        let mut object = Map::new();
        object.insert("schemaVersion".into(), 2.into());
        object.insert("mediaType".into(), MediaType::oci_index().as_str().into());
        object.insert("manifests".into(), json!([]));
        Self { object, entries: Vec::new() }
    }

    pub fn read(bytes: Vec<u8>) -> Result<Self> {
        let object = Document::read(with_version(bytes)?, Some(&MediaType::oci_index()))?.object().clone();
        let entries = match object.get("manifests") {
            Some(Value::Array(list)) => list
                .iter()
                .enumerate()
                .map(|(at, entry)| Descriptor::read(entry, &format!("entry {} of index.json", at + 1)))
                .collect::<Result<_>>()?,
            // What Go writes for a list without entries.
            Some(Value::Null) => Vec::new(),
            _ => return Err(Error::input("the `manifests` of index.json are not a list")),
        };
        Ok(Self { object, entries })
    }

    /// The file's bytes.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let bytes = json::write(&Value::Object(self.object.clone()));
        if bytes.len() as u64 > DOCUMENT_LIMIT {
            return Err(Error::input("index.json would become larger than 4 MiB").fact("entries", self.entries.len()));
        }
        Ok(bytes)
    }

    pub fn entries(&self) -> &[Descriptor] {
        &self.entries
    }

    /// The image called `name`.
    pub fn named(&self, name: &str) -> Result<Option<&Descriptor>> {
        let mut found = self.entries.iter().filter(|entry| name_of(entry) == Some(name));
        let Some(first) = found.next() else { return Ok(None) };
        match found.find(|other| other.digest != first.digest) {
            None => Ok(Some(first)),
            Some(other) => Err(Error::input("two images have the same name in index.json")
                .fact("tag", name)
                .fact("one", first.digest)
                .fact("other", other.digest)),
        }
    }

    /// The image that was put without a name, where there is exactly one.
    pub fn unnamed(&self) -> Option<&Descriptor> {
        let mut found = self.images().filter(|entry| name_of(entry).is_none());
        let first = found.next()?;
        found.all(|other| other.digest == first.digest).then_some(first)
    }

    /// The digest that `target` names now.
    pub fn current(&self, target: &LocalImage) -> Result<Option<Digest>> {
        Ok(self.entry(target)?.map(|entry| entry.digest))
    }

    /// Whether the entry of `target` is the one that `top` must have: who reads it compares size and type.
    pub fn describes(&self, target: &LocalImage, top: &Descriptor) -> Result<bool> {
        let is_right = |entry: &Descriptor| {
            (entry.digest, entry.size, &entry.media_type) == (top.digest, top.size, &top.media_type)
        };
        Ok(self.entry(target)?.is_some_and(is_right))
    }

    fn entry(&self, target: &LocalImage) -> Result<Option<&Descriptor>> {
        match &target.tag {
            Some(tag) => self.named(tag),
            None => Ok(self.unnamed()),
        }
    }

    /// The entry that `wanted` means: by digest, by tag, or the only image there is. `None` where
    /// a digest is wanted that no entry has: it may still be a blob.
    pub fn pick(&self, wanted: &LocalImage) -> Result<Option<&Descriptor>> {
        if let Some(digest) = wanted.digest {
            return Ok(self.images().find(|entry| entry.digest == digest));
        }
        match &wanted.tag {
            Some(tag) => self.named(tag)?.map(Some).ok_or_else(|| self.without(tag)),
            None => self.only().map(Some),
        }
    }

    /// Statements about images stand beside them and are none.
    fn images(&self) -> impl Iterator<Item = &Descriptor> {
        let list = self.object.get("manifests").and_then(Value::as_array);
        let is_attached = move |at: usize| {
            list.and_then(|list| list.get(at)).is_some_and(|entry| {
                entry.get("artifactType").and_then(Value::as_str).is_some_and(|artifact| !artifact.is_empty())
            })
        };
        let entries = self.entries.iter().enumerate();
        let images = entries.filter(move |(at, entry)| name_of(entry).is_some() || !is_attached(*at));
        images.map(|(_, entry)| entry).filter(|entry| DocumentKind::of(&entry.media_type).is_ok())
    }

    /// What may be a statement about an image: a manifest without a name.
    pub fn unnamed_manifests(&self) -> impl Iterator<Item = &Descriptor> {
        let is_manifest =
            |entry: &&Descriptor| matches!(DocumentKind::of(&entry.media_type), Ok(DocumentKind::Manifest));
        self.entries.iter().filter(|entry| name_of(entry).is_none()).filter(is_manifest)
    }

    /// Adds manifests that are about images.
    pub fn attach(&mut self, referrers: &[Referrer]) -> IndexChange {
        let mut change = IndexChange::None;
        for referrer in referrers {
            if self.entries.iter().any(|entry| entry.digest == referrer.descriptor.digest) {
                continue;
            }
            if let Some(list) = self.list() {
                list.push(referrer.to_value());
            }
            self.entries.push(referrer.descriptor.clone());
            change = IndexChange::Made;
        }
        change
    }

    fn only(&self) -> Result<&Descriptor> {
        let mut images = self.images();
        let Some(first) = images.next() else {
            return Err(Error::input("there is no image in it").fact("entries", self.entries.len()));
        };
        if images.all(|other| other.digest == first.digest) {
            return Ok(first);
        }
        Err(Error::input("there are several images in it, and the location has no tag")
            .fact("tags", self.names())
            .hint("choose one: append :TAG or @DIGEST to the location"))
    }

    fn without(&self, tag: &str) -> Error {
        Error::missing("there is no image with this tag in it")
            .fact("tag", tag)
            .fact("tags", self.names())
            .hint("use one of these tags, or append @DIGEST to the location")
    }

    /// The tags there are, sorted, each once.
    pub fn tags(&self) -> Vec<String> {
        let mut tags: Vec<String> = self.entries.iter().filter_map(name_of).map(str::to_owned).collect();
        tags.sort_unstable();
        tags.dedup();
        tags
    }

    /// The tags there are, for messages.
    fn names(&self) -> String {
        listed(self.entries.iter().filter_map(name_of))
    }

    /// Makes `name` stand for `top`; without a name, makes sure that an entry without one does.
    /// `notes` are further annotations of the entry. All other entries stay as they are.
    pub fn set(&mut self, name: Option<&str>, top: &Document, notes: Map<String, Value>) -> Result<IndexChange> {
        let mut entry = top.descriptor();
        entry.annotations = notes;
        let at = match name {
            Some(name) => {
                self.named(name)?;
                entry.annotations.insert(REF_NAME.into(), name.into());
                self.entries.iter().position(|other| name_of(other) == Some(name))
            }
            None => self.entries.iter().position(|other| name_of(other).is_none() && other.digest == top.digest()),
        };
        let Some(list) = self.list() else {
            return Err(Error::input("the `manifests` of index.json are not a list"));
        };
        match at.and_then(|at| list.get_mut(at)) {
            Some(old) if *old == entry.to_value() => return Ok(IndexChange::None),
            Some(old) => *old = entry.to_value(),
            None => list.push(entry.to_value()),
        }
        match at.and_then(|at| self.entries.get_mut(at)) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
        Ok(IndexChange::Made)
    }

    fn list(&mut self) -> Option<&mut Vec<Value>> {
        let manifests = self.object.entry("manifests").or_insert(Value::Null);
        if manifests.is_null() {
            *manifests = json!([]);
        }
        manifests.as_array_mut()
    }
}

/// Whether the file has to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexChange {
    None,
    Made,
}

fn name_of(entry: &Descriptor) -> Option<&str> {
    entry.annotations.get(REF_NAME).and_then(Value::as_str)
}

/// Names for a message: a few of them, and how many more there are.
pub fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    match (names.is_empty(), more) {
        (true, _) => "none".to_owned(),
        (false, 0) => names.join(", "),
        (false, more) => format!("{} and {more} more", names.join(", ")),
    }
}

/// Refuses to write an image to a target that names another digest.
pub fn check_target(wanted: Option<Digest>, top: &Document) -> Result<()> {
    match wanted {
        Some(wanted) if wanted != top.digest() => {
            Err(Error::integrity("the image does not have the digest that the target names")
                .fact("expected", wanted)
                .fact("got", top.digest()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oci::error::Kind;

    fn entry(text: &str, name: Option<&str>) -> Value {
        let mut descriptor = Descriptor::of(MediaType::oci_manifest(), text.as_bytes());
        if let Some(name) = name {
            descriptor.annotations.insert(REF_NAME.into(), name.into());
        }
        descriptor.to_value()
    }

    fn contents(entries: &[Value]) -> LayoutIndex {
        let value = json!({"schemaVersion": 2, "manifests": entries, "vendor.field": {"kept": true}});
        LayoutIndex::read(json::write(&value)).unwrap()
    }

    fn wanted(tag: Option<&str>, digest: Option<Digest>) -> LocalImage {
        LocalImage { path: "dir".into(), tag: tag.map(str::to_owned), digest }
    }

    fn document(text: &str) -> Document {
        Document::read(json::write(&json!({"schemaVersion": 2, "manifests": [], "x": text})), None).unwrap()
    }

    #[test]
    fn picks_by_tag_by_digest_or_the_only_one() {
        let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
        let both = contents(&[entry("1", Some("a")), entry("2", Some("b"))]);
        let same = contents(&[entry("1", Some("a")), entry("1", Some("b")), entry("1", None)]);
        for (contents, tag, digest, expected) in [
            (&both, Some("a"), None, Ok(Some(one))),
            (&both, Some("b"), None, Ok(Some(two))),
            (&both, Some("a"), Some(two), Ok(Some(two))),
            (&both, None, Some(Digest::of(b"3")), Ok(None)),
            (&both, None, None, Err("a, b")),
            (&both, Some("c"), None, Err("a, b")),
            (&same, None, None, Ok(Some(one))),
            (&contents(&[]), None, None, Err("no image")),
        ] {
            match (contents.pick(&wanted(tag, digest)), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.map(|found| found.digest), expected),
                (Err(error), Err(text)) => assert!(error.to_string().contains(text), "{error}"),
                (found, expected) => panic!("{tag:?} {digest:?}: {found:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn a_name_that_two_images_claim_is_refused() {
        let mut poisoned = contents(&[entry("1", Some("a")), entry("2", Some("a")), entry("3", Some("b"))]);
        assert_eq!(poisoned.pick(&wanted(Some("a"), None)).unwrap_err().kind(), Kind::Input);
        assert!(poisoned.set(Some("a"), &document("new"), Map::new()).is_err());
        assert!(poisoned.pick(&wanted(Some("b"), None)).is_ok());
        assert!(contents(&[entry("1", Some("a")), entry("1", Some("a"))]).pick(&wanted(Some("a"), None)).is_ok());
    }

    #[test]
    fn putting_changes_one_entry_and_keeps_the_rest() {
        let mut contents = contents(&[entry("1", Some("a")), entry("2", Some("b")), entry("3", None)]);
        let new = document("new");
        assert_eq!(contents.set(Some("a"), &new, Map::new()).unwrap(), IndexChange::Made);
        assert_eq!(contents.set(Some("a"), &new, Map::new()).unwrap(), IndexChange::None);
        assert_eq!(contents.set(None, &new, Map::new()).unwrap(), IndexChange::Made);
        assert_eq!(contents.set(None, &new, Map::new()).unwrap(), IndexChange::None);
        let again = LayoutIndex::read(contents.bytes().unwrap()).unwrap();
        let digests: Vec<_> = again.entries().iter().map(|entry| entry.digest).collect();
        assert_eq!(digests, [new.digest(), Digest::of(b"2"), Digest::of(b"3"), new.digest()]);
        assert_eq!(again.object["vendor.field"], json!({"kept": true}));
    }

    #[test]
    fn refuses_an_index_that_is_not_one() {
        let entry = entry("1", None).to_string();
        let bad_digest = entry.replace("sha256:", "sha256:../");
        for (text, good) in [
            (format!(r#"{{"schemaVersion":2,"manifests":[{entry}]}}"#), true),
            (format!(r#"{{"manifests":[{entry}]}}"#), true),
            (format!(r#"{{"schemaVersion":3,"manifests":[{entry}]}}"#), false),
            (format!(r#"{{"schemaVersion":null,"manifests":[{entry}]}}"#), false),
            (r#"{"schemaVersion":2,"manifests":null}"#.to_owned(), true),
            (format!(r#"{{"schemaVersion":2,"manifests":[{bad_digest}]}}"#), false),
            (format!(r#"{{"schemaVersion":2,"manifests":[{entry}],"Manifests":[]}}"#), false),
            (format!(r#"{{"schemaVersion":2,"manifests":[{entry}],"layers":[]}}"#), false),
            (format!(r#"{{"schemaVersion":2,"manifests":{entry}}}"#), false),
            (format!(r#"{{"schemaVersion":2,"manifests":[{entry}]}}{{}}"#), false),
            (r#"{"schemaVersion":2,"manifests":["#.to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(LayoutIndex::read(text.clone().into_bytes()).is_ok(), good, "{text}");
        }
    }
}
