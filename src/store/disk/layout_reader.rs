//! An OCI layout as a source, however its files are kept: in a directory or in a tar.

use serde_json::Value;

use super::layout_index::LayoutIndex;
use super::regular_file::Section;
use super::verified;
use crate::store::{Source, Stream};
use oci::error::{Error, Kind, Result};
use oci::{
    DOCUMENT_LIMIT, Descriptor, Digest, Document, LocalImage, MediaType, REFERRER_LIMIT, Referrer, RepositoryName,
    json, subject, too_many,
};

pub const MARKER: &str = "oci-layout";
pub const INDEX: &str = "index.json";

/// The bytes of the `oci-layout` file that underpin writes.
pub const MARKER_BYTES: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;

const MARKER_LIMIT: u64 = 4 << 10;

/// Files by their name inside a layout, such as `index.json`.
pub trait LayoutFiles: Send + Sync {
    /// The file, or `None` where there is none. What is there but not a regular file is refused.
    fn open(&self, name: &str) -> Result<Option<Section>>;
}

/// The name of a blob inside a layout.
pub fn blob_name(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// Makes sure that the files are those of a layout that we can read.
pub fn check_marker(files: &impl LayoutFiles) -> Result<()> {
    let marker = files.open(MARKER)?.ok_or_else(|| Error::input("not an OCI layout: it has no `oci-layout` file"))?;
    let object = json::read_object(&marker.bytes(MARKER_LIMIT, "the oci-layout file")?, "the oci-layout file")?;
    let version = object.get("imageLayoutVersion").and_then(Value::as_str).unwrap_or("none");
    match version.strip_prefix("1.0.") {
        Some(patch) if !patch.is_empty() && patch.bytes().all(|b| b.is_ascii_digit()) => Ok(()),
        _ => Err(Error::input("the version of the OCI layout is not supported")
            .fact("version", version)
            .fact("expected", "1.0.0")),
    }
}

/// The contents, or `None` where there is no `index.json`.
pub fn contents(files: &impl LayoutFiles) -> Result<Option<LayoutIndex>> {
    match files.open(INDEX)? {
        Some(index) => LayoutIndex::read(index.bytes(DOCUMENT_LIMIT, INDEX)?).map(Some),
        None => Ok(None),
    }
}

/// The blob that `of` describes. Its size is right; its bytes are not verified.
pub fn blob(files: &impl LayoutFiles, of: &Descriptor) -> Result<Section> {
    let name = blob_name(&of.digest);
    let section =
        files.open(&name)?.ok_or_else(|| Error::input("a blob of the image is missing").fact("blob", of.digest))?;
    if section.len() != of.size {
        return Err(Error::integrity("a blob of the image does not have the size in its descriptor")
            .fact("blob", of.digest)
            .fact("expected", format_args!("{} bytes", of.size))
            .fact("got", format_args!("{} bytes", section.len()))
            .fact("path", section.path().display()));
    }
    Ok(section)
}

/// Whether the blob is there, with its size and its digest.
pub fn is_whole(files: &impl LayoutFiles, of: &Descriptor) -> Result<bool> {
    match files.open(&blob_name(&of.digest))?.filter(|section| section.len() == of.size) {
        Some(section) => Ok(verified::hash(&mut section.reader(0))?.digest == of.digest),
        None => Ok(false),
    }
}

/// The verified document that `of` describes.
pub fn document(files: &impl LayoutFiles, of: &Descriptor) -> Result<Document> {
    let bytes = blob(files, of)?.bytes(DOCUMENT_LIMIT, "the manifest")?;
    verified_document(bytes, of.digest, Some(&of.media_type))
}

/// A document that no entry names: a blob that happens to be one.
pub fn document_by_digest(files: &impl LayoutFiles, digest: Digest) -> Result<Option<Document>> {
    let Some(section) = files.open(&blob_name(&digest))? else { return Ok(None) };
    let bytes = section.bytes(DOCUMENT_LIMIT, "the manifest")?;
    verified_document(bytes, digest, None).map(Some)
}

fn verified_document(bytes: Vec<u8>, digest: Digest, declared: Option<&MediaType>) -> Result<Document> {
    let hashed = verified::hash(&mut bytes.as_slice())?;
    if hashed.digest != digest {
        return Err(Error::integrity("the manifest does not match its digest")
            .fact("expected", digest)
            .fact("got", hashed.digest));
    }
    Document::read(bytes, declared)
}

/// The manifests in `index.json` that say they are about `of`, whatever their entries say, and those that cannot be read:
/// what they are about, and of which type they are, nobody knows.
pub fn referrers(files: &impl LayoutFiles, contents: &LayoutIndex, of: Digest) -> Result<Vec<Referrer>> {
    let candidates: Vec<&Descriptor> = contents.unnamed_manifests().filter(|entry| entry.digest != of).collect();
    if candidates.len() > REFERRER_LIMIT {
        return Err(too_many(candidates.len()));
    }
    let mut found: Vec<Referrer> = Vec::new();
    for entry in candidates {
        if found.iter().any(|other| other.descriptor.digest == entry.digest) {
            continue;
        }
        match document(files, entry) {
            Ok(document) if subject(&document) == Some(of) => found.push(Referrer::of(&document)),
            Ok(_) => {}
            Err(error) if error.kind() == Kind::Io => return Err(error),
            Err(_) => found.push(Referrer { descriptor: entry.clone(), artifact_type: String::new() }),
        }
    }
    Ok(found)
}

/// A layout with the image that was asked for.
pub struct LayoutReader<F> {
    files: F,
    wanted: LocalImage,
}

impl<F: LayoutFiles> LayoutReader<F> {
    pub fn new(files: F, wanted: &LocalImage) -> Result<Self> {
        let layout_reader = Self { files, wanted: wanted.clone() };
        check_marker(&layout_reader.files).map_err(|error| layout_reader.named(error))?;
        Ok(layout_reader)
    }

    fn pick(&self) -> Result<Document> {
        let contents =
            contents(&self.files)?.ok_or_else(|| Error::input("not a complete OCI layout: it has no index.json"))?;
        match (contents.pick(&self.wanted)?, self.wanted.digest) {
            (Some(entry), _) => document(&self.files, entry),
            (None, Some(digest)) => document_by_digest(&self.files, digest)?
                .ok_or_else(|| Error::missing("there is no image with this digest in it").fact("digest", digest)),
            (None, None) => Err(Error::input("there is no image in it")),
        }
    }

    /// Every message says which place it is about.
    fn named(&self, error: Error) -> Error {
        error.fact("in", self.wanted.path.display())
    }
}

impl<F: LayoutFiles> Source for LayoutReader<F> {
    fn top(&self) -> Result<Document> {
        self.pick().map_err(|error| self.named(error))
    }

    fn document(&self, of: &Descriptor) -> Result<Document> {
        document(&self.files, of).map_err(|error| self.named(error))
    }

    fn open(&self, of: &Descriptor, from: u64) -> Result<Stream> {
        let section = blob(&self.files, of).map_err(|error| self.named(error))?;
        Ok(section.stream(from))
    }

    fn repository(&self) -> Option<&RepositoryName> {
        None
    }

    fn referrers(&self, of: Digest, filter: Option<&str>) -> Result<Vec<Referrer>> {
        let listed = || match contents(&self.files)? {
            Some(contents) => referrers(&self.files, &contents, of),
            None => Ok(Vec::new()),
        };
        let mut found = listed().map_err(|error| self.named(error))?;
        found.retain(|referrer| filter.is_none_or(|filter| ["", filter].contains(&referrer.artifact_type.as_str())));
        Ok(found)
    }

    fn tagged(&self, tag: &str) -> Result<Option<Document>> {
        let tagged = || {
            let contents = contents(&self.files)?;
            let entry = contents.as_ref().map(|contents| contents.named(tag)).transpose()?.flatten();
            entry.map(|entry| document(&self.files, entry)).transpose()
        };
        tagged().map_err(|error| self.named(error))
    }

    fn tags(&self) -> Result<Vec<String>> {
        let contents = contents(&self.files).map_err(|error| self.named(error))?;
        Ok(contents.map(|contents| contents.tags()).unwrap_or_default())
    }
}
