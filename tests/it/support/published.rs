//! Reads a published image again, with nothing of underpin's own, and holds it against what
//! must be true of every image that underpin publishes.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::docker_registry::ACCEPT;
use super::http;
use super::recipe::{blob_path, inflate};
use super::skip::or_skip;
use super::tar_layer::digest;

type Found<T> = Result<T, String>;

/// A place that documents and blobs are read from.
pub enum Location {
    Registry { host: String, repository: String },
    Layout(PathBuf),
}

/// A published image, read and found sound.
#[derive(Debug)]
pub struct Published {
    pub digest: String,
    pub media_type: String,
    pub images: Vec<Image>,
}

#[derive(Debug)]
pub struct Image {
    /// What the index says, or the config where there is no index.
    pub platform: String,
    pub manifest: Value,
    pub config: Value,
    pub layers: Vec<String>,
    pub diff_ids: Vec<String>,
    /// The config's own digest.
    pub config_digest: String,
}

/// Reads what `reference` (a tag or digest) names in a registry, over plain HTTP.
pub fn registry(host: &str, repository: &str, reference: &str) -> Found<Published> {
    let location = Location::Registry { host: host.to_owned(), repository: repository.to_owned() };
    let (media_type, bytes) = location.document(reference)?;
    location.published(media_type, &bytes)
}

/// Reads what the tag names in an OCI layout.
pub fn layout(folder: &Path, tag: &str) -> Found<Published> {
    let read = |name: &str| fs::read(folder.join(name)).map_err(|error| format!("{name}: {error}"));
    if parse(&read("oci-layout")?)?["imageLayoutVersion"] != "1.0.0" {
        return Err("oci-layout has no version 1.0.0".to_owned());
    }
    let index = parse(&read("index.json")?)?;
    let entries = index["manifests"].as_array().cloned().unwrap_or_default();
    let named: Vec<&Value> =
        entries.iter().filter(|entry| entry["annotations"]["org.opencontainers.image.ref.name"] == tag).collect();
    let [entry] = named[..] else { return Err(format!("{} entries are called {tag}", named.len())) };
    let location = Location::Layout(folder.to_owned());
    let bytes = location.described(entry)?;
    location.published(text(entry, "mediaType")?, &bytes)
}

/// Reads an `oci-archive` by unpacking it.
pub fn oci_archive(file: &Path, tag: &str) -> Found<Published> {
    let folder = tempfile::tempdir().unwrap();
    let archive = fs::File::open(file).map_err(|error| error.to_string())?;
    tar::Archive::new(archive).unpack(folder.path()).map_err(|error| error.to_string())?;
    layout(folder.path(), tag)
}

impl Location {
    fn document(&self, reference: &str) -> Found<(String, Vec<u8>)> {
        match self {
            Self::Registry { host, repository } => {
                let accept: Vec<(&str, &str)> = ACCEPT.iter().map(|media_type| ("Accept", *media_type)).collect();
                let reply = http::get(host, &format!("/v2/{repository}/manifests/{reference}"), &accept);
                if reply.status != 200 {
                    return Err(format!("{reference} is not there: {} {}", reply.status, reply.text()));
                }
                Ok((reply.headers.get("content-type").unwrap_or_default().to_owned(), reply.body))
            }
            Self::Layout(_) => Ok((String::new(), self.blob(reference)?)),
        }
    }

    fn blob(&self, name: &str) -> Found<Vec<u8>> {
        match self {
            Self::Registry { host, repository } => {
                let reply = http::get(host, &format!("/v2/{repository}/blobs/{name}"), &[]);
                if reply.status == 200 { Ok(reply.body) } else { Err(format!("blob {name} is not there")) }
            }
            Self::Layout(folder) => {
                fs::read(folder.join(blob_path(name))).map_err(|error| format!("blob {name}: {error}"))
            }
        }
    }

    /// The bytes of a descriptor, of the size and digest that it says.
    fn described(&self, descriptor: &Value) -> Found<Vec<u8>> {
        let name = text(descriptor, "digest")?;
        let media_type = text(descriptor, "mediaType")?;
        if !media_type.starts_with("application/vnd.oci.image.") {
            return Err(format!("{name} has a type that is not OCI's: {media_type}"));
        }
        let is_document = media_type.contains("manifest") || media_type.contains("index");
        let bytes = if is_document { self.document(&name)?.1 } else { self.blob(&name)? };
        if digest(&bytes) != name || descriptor["size"] != bytes.len() {
            return Err(format!("{name} is not what its descriptor says"));
        }
        Ok(bytes)
    }

    fn published(&self, media_type: String, bytes: &[u8]) -> Found<Published> {
        let top = parse(bytes)?;
        if top["mediaType"] != media_type.as_str() || top["schemaVersion"] != 2 {
            return Err(format!("the document does not say that it is {media_type}"));
        }
        let images = if let Some(entries) = top["manifests"].as_array() {
            let image = |entry: &Value| {
                let image = self.image(&self.described(entry)?)?;
                let said = platform(&entry["platform"]);
                if said == image.platform { Ok(image) } else { Err(format!("{said} is {}", image.platform)) }
            };
            entries.iter().map(image).collect::<Found<_>>()?
        } else {
            vec![self.image(bytes)?]
        };
        Ok(Published { digest: digest(bytes), media_type, images })
    }

    fn image(&self, bytes: &[u8]) -> Found<Image> {
        let manifest = parse(bytes)?;
        if manifest["mediaType"] != "application/vnd.oci.image.manifest.v1+json" {
            return Err(format!("a manifest says that it is {}", manifest["mediaType"]));
        }
        let config = parse(&self.described(&manifest["config"])?)?;
        let mut diff_ids = Vec::new();
        let mut layers = Vec::new();
        for layer in manifest["layers"].as_array().ok_or("a manifest without layers")? {
            diff_ids.push(digest(&inflate(&self.described(layer)?)));
            layers.push(text(layer, "digest")?);
        }
        if config["rootfs"]["diff_ids"] != Value::from(diff_ids.clone()) {
            return Err(format!("diff ids of the config are not those of the layers: {}", config["rootfs"]));
        }
        let entries = config["history"].as_array().cloned().unwrap_or_default();
        let filled = entries.iter().filter(|entry| entry["empty_layer"] != true).count();
        if filled != layers.len() {
            return Err(format!("history speaks of {filled} layers, there are {}", layers.len()));
        }
        check_record(&manifest["annotations"])?;
        let config_digest = text(&manifest["config"], "digest")?;
        let platform = platform(&config);
        Ok(Image { platform, manifest, config, layers, diff_ids, config_digest })
    }
}

/// Digests are always recorded; names are those of a registry, without a tag, and no path of this machine.
fn check_record(annotations: &Value) -> Found<()> {
    if !annotations["org.opencontainers.image.base.digest"].is_string() {
        return Err("no annotation org.opencontainers.image.base.digest".to_owned());
    }
    let source = annotations["dev.underpin.source"].as_str().unwrap_or_default();
    let source = source.split_once('@').map_or("", |(name, _)| name);
    let base = annotations["org.opencontainers.image.base.name"].as_str().unwrap_or_default();
    let is_of_two = annotations["dev.underpin.format"] != "1";
    for name in [source, base].into_iter().filter(|name| !name.is_empty() && is_of_two) {
        let (host, repository) = name.split_once('/').ok_or_else(|| format!("{name} is not a registry's name"))?;
        if host.starts_with("oci") || host.starts_with('.') || host.is_empty() || repository.contains(':') {
            return Err(format!("{name} is a path, or has a tag"));
        }
    }
    Ok(())
}

fn parse(bytes: &[u8]) -> Found<Value> {
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

fn text(value: &Value, key: &str) -> Found<String> {
    value[key].as_str().map(str::to_owned).ok_or_else(|| format!("no {key} in {value}"))
}

fn platform(value: &Value) -> String {
    let parts = ["os", "architecture", "variant"].iter().filter_map(|key| value[*key].as_str());
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

impl Published {
    /// The image of the only platform there is.
    pub fn only(&self) -> &Image {
        let [image] = &self.images[..] else { panic!("not one image: {self:?}") };
        image
    }

    pub fn platforms(&self) -> Vec<&str> {
        self.images.iter().map(|image| image.platform.as_str()).collect()
    }
}

/// Files of a cache whose name promises bytes that they do not have.
pub fn lies_in_cache(cache: &Path) -> Vec<PathBuf> {
    let is_blob = |path: &PathBuf| {
        let visible = !path.file_name().unwrap_or_default().to_string_lossy().starts_with('.');
        visible && path.parent().is_some_and(|folder| folder.ends_with("blobs/sha256"))
    };
    let lies = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        fs::read(path).is_ok_and(|bytes| digest(&bytes) != format!("sha256:{name}"))
    };
    super::invocation::files_under(cache).into_iter().filter(is_blob).filter(lies).collect()
}

#[cfg(test)]
mod tests {
    use super::super::docker_registry::Registry;
    use super::super::fixtures;
    use super::super::recipe::{Content, Dialect, Recipe};
    use super::*;

    fn sound() -> Recipe {
        let mut recipe = fixtures::app("linux/amd64", 100);
        for name in ["org.opencontainers.image.base.name", "org.opencontainers.image.base.digest"] {
            recipe.annotations.insert(name.to_owned(), "x.io/y".into());
        }
        recipe
    }

    fn read(content: &Content) -> Found<Published> {
        let folder = tempfile::tempdir().unwrap();
        content.layout(folder.path(), "t");
        layout(folder.path(), "t")
    }

    #[test]
    fn a_sound_image_is_found_sound_everywhere() {
        let content = sound().build();
        assert_eq!(read(&content).unwrap().only().layers, content.layers());
        let three = super::super::recipe::index(Dialect::Oci, &[("linux/amd64", content.clone())]);
        assert_eq!(read(&three).unwrap().platforms(), ["linux/amd64"]);
        let folder = tempfile::tempdir().unwrap();
        content.oci_archive(&folder.path().join("a.tar"), "t");
        assert_eq!(oci_archive(&folder.path().join("a.tar"), "t").unwrap().digest, content.digest());
        let server = or_skip!(Registry::plain());
        content.push(server.host(), "a/b", "c");
        assert_eq!(registry(server.host(), "a/b", "c").unwrap().digest, content.digest());
        assert!(registry(server.host(), "a/b", "d").unwrap_err().contains("not there"));
    }

    #[test]
    fn everything_wrong_is_found_wrong() {
        let good = sound().build();
        let mut no_blob = good.clone();
        no_blob.blobs.pop();
        let named = |name: &str| {
            good.with_manifest(|manifest| manifest["annotations"]["org.opencontainers.image.base.name"] = name.into())
        };
        let mismatch = super::super::recipe::index(Dialect::Oci, &[("linux/arm64", good.clone())]);
        for (broken, why) in [
            (Recipe { dialect: Dialect::Docker, ..sound() }.build(), "not OCI"),
            (fixtures::app("linux/amd64", 100).build(), "no annotation"),
            (good.with_config(|config| config["rootfs"]["diff_ids"][0] = "sha256:00".into()), "diff ids"),
            (good.with_config(|config| config["history"] = Value::Array(Vec::new())), "history speaks of 0"),
            (good.with_manifest(|manifest| manifest["layers"][0]["size"] = 7.into()), "not what its descriptor"),
            (good.with_manifest(|manifest| manifest["mediaType"] = Value::Null), "does not say"),
            (named("x.io/y:v1"), "has a tag"),
            (named("oci:/abs/dir"), "is a path"),
            (named("../dir"), "is a path"),
            (no_blob, "blob sha256:"),
            (mismatch, "linux/arm64 is linux/amd64"),
        ] {
            let found = read(&broken).unwrap_err();
            assert!(found.contains(why), "{found} instead of {why}");
        }
    }

    #[test]
    fn a_cached_blob_that_lies_is_found() {
        let folder = tempfile::tempdir().unwrap();
        sound().build().layout(folder.path(), "t");
        assert_eq!(lies_in_cache(folder.path()), Vec::<PathBuf>::new());
        fs::write(folder.path().join("blobs/sha256").join("0".repeat(64)), "x").unwrap();
        assert_eq!(lies_in_cache(folder.path()).len(), 1);
    }
}
