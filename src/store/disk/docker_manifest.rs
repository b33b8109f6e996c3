//! Docker's `manifest.json`: the images of an archive as lists of file names.

use serde_json::{Map, Value, json};

use super::archive::DOCKER_MANIFEST;
use super::layout_index::listed;
use super::layout_reader::{self, LayoutFiles};
use oci::error::{Error, Result};
use oci::{DOCUMENT_LIMIT, LocalImage, Manifest, Reference, json};

/// The name of what is written under a bare tag: `docker load` and skopeo want one.
const NAME: &str = "underpin";

const LAYER_LIMIT: usize = 1_000;

#[derive(Debug, Default)]
pub struct DockerManifest(Vec<DockerImage>);

/// One image of the archive.
#[derive(Debug, Clone)]
pub struct DockerImage {
    pub config: String,
    pub layers: Vec<String>,
    pub tags: Vec<String>,
    /// The item as it is in the file, so that unknown fields survive.
    object: Map<String, Value>,
}

impl DockerManifest {
    pub fn open(files: &impl LayoutFiles) -> Result<Self> {
        let list = files
            .open(DOCKER_MANIFEST)?
            .ok_or_else(|| Error::input("not a docker archive: it has no manifest.json"))?;
        Self::read(&list.bytes(DOCUMENT_LIMIT, DOCKER_MANIFEST)?)
    }

    fn read(bytes: &[u8]) -> Result<Self> {
        let Value::Array(items) = json::read(bytes, DOCKER_MANIFEST)? else {
            return Err(Error::input("manifest.json is not a list of images"));
        };
        items.into_iter().map(DockerImage::read).collect::<Result<_>>().map(Self)
    }

    pub fn bytes(&self) -> Vec<u8> {
        json::write(&Value::Array(self.0.iter().map(|item| Value::Object(item.object.clone())).collect()))
    }

    /// The image that `wanted` means: by tag, or the only one.
    pub fn pick(&self, wanted: &LocalImage) -> Result<&DockerImage> {
        let mut found = self.0.iter().filter(|item| match &wanted.tag {
            Some(tag) => item.is_called(tag),
            None => true,
        });
        let tags = || listed(self.0.iter().flat_map(|item| &item.tags).map(String::as_str));
        let hint = "name one of these: append :TAG or :NAME:TAG to the location";
        match (found.next(), found.next(), &wanted.tag) {
            (Some(item), None, _) => Ok(item),
            (None, _, None) => Err(Error::input("there is no image in the archive")),
            (None, _, Some(tag)) => Err(Error::missing("there is no image with this tag in the archive")
                .fact("tag", tag)
                .fact("tags", tags())
                .hint(hint)),
            (Some(_), Some(_), None) => {
                Err(Error::input("there are several images in the archive, and the location has no tag")
                    .fact("tags", tags())
                    .hint(hint))
            }
            (Some(_), Some(_), Some(tag)) => Err(Error::input("several images in the archive have this tag")
                .fact("tag", tag)
                .fact("tags", tags())
                .hint("append the full name to the location, as :NAME:TAG")),
        }
    }

    /// What `docker load` will call an image that is written under `tag`.
    fn repo_tag(tag: &str) -> String {
        if is_whole(tag) { tag.to_owned() } else { format!("{NAME}:{tag}") }
    }

    /// The same with the host written out, as containerd's importer wants it.
    pub fn full_name(tag: &str) -> String {
        expanded(&Self::repo_tag(tag))
    }

    /// A name that a bare tag would give is that tag: one image, one entry.
    pub fn short(tag: &str) -> &str {
        let ours = tag.strip_prefix("docker.io/library/").and_then(|name| name.strip_prefix(NAME)?.strip_prefix(':'));
        ours.unwrap_or(tag)
    }

    /// Puts an image whose blobs stand in the archive as in a layout. Its tag is taken from
    /// whichever image had it.
    pub fn add(&mut self, tag: Option<&str>, manifest: &Manifest) {
        let repo_tag = tag.map(Self::repo_tag);
        let item = DockerImage::new(manifest, repo_tag.as_deref());
        self.0.retain_mut(|other| match &repo_tag {
            Some(tag) => other.lose(tag),
            None => !(other.tags.is_empty() && other.config == item.config && other.layers == item.layers),
        });
        self.0.push(item);
    }
}

impl DockerImage {
    fn new(manifest: &Manifest, repo_tag: Option<&str>) -> Self {
        let config = layout_reader::blob_name(&manifest.config.digest);
        let layers: Vec<_> = manifest.layers.iter().map(|layer| layout_reader::blob_name(&layer.digest)).collect();
        let tags: Vec<_> = repo_tag.iter().map(|tag| (*tag).to_owned()).collect();
        let mut object = Map::new();
        object.insert("Config".into(), config.as_str().into());
        object.insert("RepoTags".into(), if tags.is_empty() { Value::Null } else { json!(tags) });
        object.insert("Layers".into(), json!(layers));
        Self { config, layers, tags, object }
    }

    fn read(value: Value) -> Result<Self> {
        let Value::Object(object) = value else {
            return Err(Error::input("an entry of manifest.json is not an object"));
        };
        let config = object.get("Config").and_then(Value::as_str).map(str::to_owned);
        let config = config.ok_or_else(|| Error::input("an image in manifest.json has no `Config`"))?;
        let layers = strings(&object, "Layers")?;
        if layers.len() > LAYER_LIMIT {
            return Err(Error::input(format!("an image in manifest.json has more than {LAYER_LIMIT} layers")));
        }
        let tags = strings(&object, "RepoTags")?;
        if let Some(tag) = tags.iter().find(|tag| tag.chars().any(|c| c.is_control() || c.is_whitespace())) {
            return Err(Error::input("a tag in manifest.json holds white space or control characters").fact("tag", tag));
        }
        Ok(Self { config, layers, tags, object })
    }

    /// Whether one of its names is `wanted`, as a whole or as the tag alone.
    fn is_called(&self, wanted: &str) -> bool {
        self.tags.iter().any(|name| match name.rsplit_once(':') {
            _ if is_whole(wanted) => expanded(name) == wanted,
            Some((_, tag)) => tag == wanted,
            None => false,
        })
    }

    /// Takes the name `tag` away; false where nothing else is left that the image is called.
    fn lose(&mut self, tag: &str) -> bool {
        let tag = expanded(tag);
        let Some(at) = self.tags.iter().position(|own| expanded(own) == tag) else { return true };
        self.tags.remove(at);
        self.object.insert("RepoTags".into(), json!(self.tags));
        !self.tags.is_empty()
    }
}

/// Whether what follows the path of an archive is a full name, not only a tag.
fn is_whole(tag: &str) -> bool {
    tag.contains(':')
}

/// A name as docker expands it; what is none stays as it is.
fn expanded(name: &str) -> String {
    name.parse().map_or_else(|_| name.to_owned(), |reference: Reference| reference.to_string())
}

/// A list of strings; absent and null are an empty one.
fn strings(object: &Map<String, Value>, key: &str) -> Result<Vec<String>> {
    let refuse = || Error::input(format!("the `{key}` of an image in manifest.json are not a list of strings"));
    match object.get(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => {
            items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(refuse)).collect()
        }
        Some(_) => Err(refuse()),
    }
}
