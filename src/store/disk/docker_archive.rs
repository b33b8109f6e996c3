//! `docker-archive:`, what `docker save` writes, as a source.
//!
//! Such an archive lists files, not digests. Where it is an OCI layout too and the layout has a
//! manifest of exactly these files, that manifest is the image, with its own digest. Otherwise
//! one is made: the same archive always gives the same manifest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::archive::{ArchiveSink, Flavor, open};
use super::docker_manifest::{DockerImage, DockerManifest};
use super::regular_file::Section;
use super::tar_reader::TarReader;
use super::{layout_reader, verified};
use crate::store::{Notices, Source, Stream};
use oci::error::{Error, Result};
use oci::{
    Compression, DOCUMENT_LIMIT, Descriptor, Digest, Document, DocumentKind, LayerType, LocalImage, Manifest,
    MediaType, Referrer, RepositoryName, json,
};

/// `docker-archive:FILE[:[NAME:]TAG][@DIGEST]`, for reading.
pub struct DockerArchive {
    tar: TarReader,
    wanted: LocalImage,
    /// Found once: to know the digest of a layer, all of it is read.
    found: Mutex<Option<Arc<Found>>>,
}

/// The image that was asked for.
struct Found {
    top: Document,
    /// Files that are not in the archive under their digest.
    blobs: HashMap<Digest, Section>,
}

impl DockerArchive {
    /// Success means that the file is a tar; the image is looked for in [`Source::top`].
    pub fn source(local: &LocalImage) -> Result<Self> {
        Ok(Self { tar: open(local)?, wanted: local.clone(), found: Mutex::new(None) })
    }

    /// The same place for writing. Nothing is created before the first blob comes.
    pub fn sink(local: &LocalImage, notices: &Notices) -> Result<ArchiveSink> {
        let tag = local.tag.as_deref().map(|tag| DockerManifest::short(tag).to_owned());
        ArchiveSink::new(&LocalImage { tag, ..local.clone() }, Flavor::Docker, notices)
    }

    fn named(&self, error: Error) -> Error {
        error.fact("in", self.wanted.path.display())
    }

    fn found(&self) -> Result<Arc<Found>> {
        let mut slot = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = &*slot {
            return Ok(found.clone());
        }
        let found = Arc::new(self.find()?);
        *slot = Some(found.clone());
        Ok(found)
    }

    fn find(&self) -> Result<Found> {
        if let Some(digest) = self.wanted.digest
            && let Some(top) = layout_reader::document_by_digest(&self.tar, digest)?
        {
            return Ok(Found { top, blobs: HashMap::new() });
        }
        let list = DockerManifest::open(&self.tar)?;
        let item = list.pick(&self.wanted)?;
        let found = match self.laid_out(item)? {
            Some(top) => Found { top, blobs: HashMap::new() },
            None => self.made(item)?,
        };
        match self.wanted.digest {
            Some(wanted) if wanted != found.top.digest() => {
                Err(Error::integrity("the image in the archive does not have the requested digest")
                    .fact("expected", wanted)
                    .fact("got", found.top.digest()))
            }
            _ => Ok(found),
        }
    }

    /// The manifest of the archive's own layout that lists exactly the files of `item`.
    fn laid_out(&self, item: &DockerImage) -> Result<Option<Document>> {
        let Some(contents) = layout_reader::contents(&self.tar)? else { return Ok(None) };
        for entry in contents.entries() {
            if !matches!(DocumentKind::of(&entry.media_type), Ok(DocumentKind::Manifest)) {
                continue;
            }
            let document = layout_reader::document(&self.tar, entry)?;
            if Manifest::read(&document).is_ok_and(|manifest| item.is(&manifest)) {
                return Ok(Some(document));
            }
        }
        Ok(None)
    }

    fn made(&self, item: &DockerImage) -> Result<Found> {
        let mut blobs = HashMap::new();
        let mut known: HashMap<&str, Descriptor> = HashMap::new();
        let config = self.file(&item.config)?;
        let of = Descriptor::of(MediaType::oci_config(), &config.bytes(DOCUMENT_LIMIT, "the config")?);
        check_name(&item.config, of.digest)?;
        let mut layers = Vec::new();
        for name in &item.layers {
            if !known.contains_key(name.as_str()) {
                let section = self.file(name)?;
                let layer = describe(&section)?;
                check_name(name, layer.digest)?;
                blobs.insert(layer.digest, section);
                known.insert(name, layer);
            }
            layers.extend(known.get(name.as_str()).map(Descriptor::to_value));
        }
        let top = manifest(&of, &layers)?;
        blobs.insert(of.digest, config);
        Ok(Found { top, blobs })
    }

    fn file(&self, name: &str) -> Result<Section> {
        self.tar
            .open_linked(name)
            .and_then(|found| found.ok_or_else(|| Error::input("a file that manifest.json names is missing")))
            .map_err(|error| error.fact("file", name))
    }

    fn blob(&self, of: &Descriptor) -> Result<Section> {
        let found = self.found()?;
        match found.blobs.get(&of.digest).filter(|section| section.len() == of.size) {
            Some(section) => Ok(section.clone()),
            None => layout_reader::blob(&self.tar, of),
        }
    }

    fn child(&self, of: &Descriptor) -> Result<Document> {
        let found = self.found()?;
        if found.top.digest() == of.digest { Ok(found.top.clone()) } else { layout_reader::document(&self.tar, of) }
    }
}

impl DockerImage {
    pub(super) fn is(&self, manifest: &Manifest) -> bool {
        self.config == layout_reader::blob_name(&manifest.config.digest)
            && self.layers.len() == manifest.layers.len()
            && self.layers.iter().zip(&manifest.layers).all(|(name, of)| *name == layout_reader::blob_name(&of.digest))
    }
}

/// A file whose name is a digest must have that digest.
fn check_name(name: &str, digest: Digest) -> Result<()> {
    match name.strip_prefix("blobs/sha256/") {
        Some(hex) if hex != digest.hex() => Err(Error::integrity("a file in the archive does not match its digest")
            .fact("expected", format_args!("sha256:{hex}"))
            .fact("got", digest)),
        _ => Ok(()),
    }
}

/// Reads all of a layer for its digest, and its first bytes for its packing.
fn describe(layer: &Section) -> Result<Descriptor> {
    let head = layer.part(0, layer.len().min(4)).map_or(Ok(Vec::new()), |head| head.bytes(4, "the layer"))?;
    let packing = match head.as_slice() {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd] => Compression::Zstd,
        _ => Compression::None,
    };
    let hashed = verified::hash(&mut layer.reader(0))?;
    Ok(Descriptor::new(LayerType(packing).media_type(), hashed.digest, hashed.len))
}

fn manifest(config: &Descriptor, layers: &[Value]) -> Result<Document> {
    let media_type = MediaType::oci_manifest();
    let value = json!({
        "schemaVersion": 2,
        "mediaType": media_type.as_str(),
        "config": config.to_value(),
        "layers": layers,
    });
    Document::read(json::write(&value), Some(&media_type))
}

impl Source for DockerArchive {
    fn top(&self) -> Result<Document> {
        self.found().map(|found| found.top.clone()).map_err(|error| self.named(error))
    }

    fn document(&self, of: &Descriptor) -> Result<Document> {
        self.child(of).map_err(|error| self.named(error))
    }

    fn open(&self, of: &Descriptor, from: u64) -> Result<Stream> {
        self.blob(of).map(|section| section.stream(from)).map_err(|error| self.named(error))
    }

    fn repository(&self) -> Option<&RepositoryName> {
        None
    }

    fn referrers(&self, _: Digest, _: Option<&str>) -> Result<Vec<Referrer>> {
        Ok(Vec::new())
    }

    fn tagged(&self, _: &str) -> Result<Option<Document>> {
        Ok(None)
    }

    fn tags(&self) -> Result<Vec<String>> {
        Err(self.named(Error::usage("the tags of a docker archive cannot be matched with a pattern")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::disk::testing::{self, SampleImage, TarBuilder, local};
    use oci::error::Kind;

    struct Legacy {
        sample: SampleImage,
        list: String,
    }

    impl Legacy {
        fn new(list: &str) -> Self {
            Self { sample: SampleImage::new("layer"), list: list.to_owned() }
        }

        fn pack(&self) -> TarBuilder {
            TarBuilder::new()
                .file("manifest.json", self.list.as_bytes())
                .file("c.json", &self.sample.config.1)
                .file("one/layer.tar", &self.sample.layer.1)
                .link(b'2', "two/layer.tar", "../one/layer.tar")
                .link(b'2', "cycle/layer.tar", "../cycle/layer.tar")
                .link(b'2', "config.json", "c.json")
                .file("gz/layer.tar", &[0x1f, 0x8b, 8])
                .file("zstd/layer.tar", &[0x28, 0xb5, 0x2f, 0xfd, 0])
                .file(&format!("blobs/sha256/{}", "0".repeat(64)), b"not this")
        }

        fn top(&self, tag: Option<&str>) -> Result<Document> {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a.tar");
            std::fs::write(&path, self.pack().finish()).unwrap();
            let source = DockerArchive::source(&local(&path, tag))?;
            let top = source.top()?;
            for of in Manifest::read(&top)?.layers {
                assert_eq!(Digest::of(&testing::read(&source, &of)?), of.digest);
            }
            Ok(top)
        }
    }

    fn item(config: &str, layers: &[&str], tags: &[&str]) -> String {
        json!({"Config": config, "RepoTags": tags, "Layers": layers}).to_string()
    }

    #[test]
    fn makes_one_manifest_of_the_files() {
        let layers = ["one/layer.tar", "two/layer.tar", "gz/layer.tar", "zstd/layer.tar"];
        let legacy = Legacy::new(&format!("[{}]", item("c.json", &layers, &["a/b:v1"])));
        let top = legacy.top(None).unwrap();
        let manifest = Manifest::read(&top).unwrap();
        assert_eq!(manifest.config, legacy.sample.config.0);
        let types: Vec<_> = manifest.layers.iter().map(|layer| LayerType::of(&layer.media_type).unwrap().0).collect();
        assert_eq!(types, [Compression::None, Compression::None, Compression::Gzip, Compression::Zstd]);
        assert_eq!(manifest.layers[0].digest, manifest.layers[1].digest);
        assert_eq!(top.digest(), legacy.top(Some("v1")).unwrap().digest());
        assert_eq!(
            top.digest().to_string(),
            "sha256:7e7c611a7e053ca661b2446ec57ecf8ad8c1aed0d79c2852d813af647c29ad05",
            "the same archive always gives the same digest"
        );
    }

    #[test]
    fn picks_by_tag_or_the_only_image() {
        let two = format!(
            "[{},{}]",
            item("c.json", &["one/layer.tar"], &["localhost:5000/a:v1", "a:latest"]),
            item("c.json", &["gz/layer.tar"], &["b:v2", "b:latest"])
        );
        let legacy = Legacy::new(&two);
        let layer = |tag| Manifest::read(&legacy.top(Some(tag)).unwrap()).unwrap().layers[0].size;
        assert_eq!((layer("v1"), layer("v2")), (5, 3));
        assert_eq!((layer("localhost:5000/a:v1"), layer("docker.io/library/b:latest")), (5, 3));
        for (tag, kind, says) in [
            (None, Kind::Input, "b:v2"),
            (Some("docker.io/library/a:v1"), Kind::Missing, "localhost:5000/a:v1"),
            (Some("v3"), Kind::Missing, "localhost:5000/a:v1"),
            (Some("latest"), Kind::Input, "a:latest"),
        ] {
            let error = legacy.top(tag).unwrap_err();
            assert!(error.kind() == kind && error.to_string().contains(says), "{error}");
        }
        assert_eq!(Legacy::new("[]").top(None).unwrap_err().kind(), Kind::Input);
    }

    #[test]
    fn refuses_hostile_lists() {
        assert!(Legacy::new(&format!("[{}]", item("c.json", &["one/layer.tar"], &[]))).top(None).is_ok());
        let hex = format!("blobs/sha256/{}", "0".repeat(64));
        let many = vec!["one/layer.tar"; 1001];
        for (list, kind) in [
            (item("../../x", &["one/layer.tar"], &[]), Kind::Input),
            (item("/etc/passwd", &["one/layer.tar"], &[]), Kind::Input),
            (item("missing.json", &["one/layer.tar"], &[]), Kind::Input),
            (item("one", &["one/layer.tar"], &[]), Kind::Input),
            (item("c.json", &["../../x"], &[]), Kind::Input),
            (item("c.json", &["cycle/layer.tar"], &[]), Kind::Input),
            (item("c.json", &many, &[]), Kind::Input),
            (item("c.json", &[&hex], &[]), Kind::Integrity),
            (item(&hex, &["one/layer.tar"], &[]), Kind::Integrity),
            (item("c.json", &["one/layer.tar"], &["a:b\nc"]), Kind::Input),
            (item("c.json", &["one/layer.tar"], &[]).replace("Layers", "layers\":[],\"Layers"), Kind::Input),
            (r#"{"Config":7}"#.to_owned(), Kind::Input),
            (r#"{"Config":"c.json","Layers":[7]}"#.to_owned(), Kind::Input),
            ("7".to_owned(), Kind::Input),
        ] {
            let error = Legacy::new(&format!("[{list}]")).top(None).map(|_| ()).expect_err(&list);
            assert_eq!(error.kind(), kind, "{list}: {error}");
        }
        assert!(Legacy::new("{}").top(None).is_err());
    }

    #[test]
    fn a_wrong_digest_is_named_with_the_right_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        let legacy = Legacy::new(&format!("[{}]", item("c.json", &["one/layer.tar"], &[])));
        std::fs::write(&path, legacy.pack().finish()).unwrap();
        let right = DockerArchive::source(&local(&path, None)).unwrap().top().unwrap().digest();
        for (digest, good) in [(right, true), (Digest::of(b"other"), false)] {
            let pinned = LocalImage { digest: Some(digest), ..local(&path, None) };
            assert_eq!(DockerArchive::source(&pinned).unwrap().top().is_ok(), good);
        }
    }
}
