//! A small image for the tests of places on disk, and what every place must do with it.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::store::{Blob, Delivery, ImageParts, Sink, Source, Stream};
use oci::error::{Error, Result};
use oci::{Compression, Descriptor, Digest, Document, LayerType, LocalImage, Manifest, MediaType, json as codec};

pub struct SampleImage {
    pub config: (Descriptor, Vec<u8>),
    pub layer: (Descriptor, Vec<u8>),
    pub manifest: Document,
}

impl SampleImage {
    pub fn new(layer: &str) -> Self {
        let layer = layer.as_bytes().to_vec();
        let layer_of = Descriptor::of(LayerType(Compression::None).media_type(), &layer);
        let config = codec::write(&json!({
            "architecture": "amd64", "os": "linux",
            "rootfs": {"type": "layers", "diff_ids": [layer_of.digest.to_string()]},
        }));
        let config_of = Descriptor::of(MediaType::oci_config(), &config);
        let manifest = codec::write(&json!({
            "schemaVersion": 2, "mediaType": MediaType::oci_manifest().as_str(),
            "config": config_of.to_value(), "layers": [layer_of.to_value()],
            "annotations": {"dev.underpin.test": "kept"},
        }));
        Self {
            config: (config_of, config),
            layer: (layer_of, layer),
            manifest: Document::read(manifest, None).unwrap(),
        }
    }

    pub fn put_blobs(&self, sink: &dyn Sink) -> Result<Vec<Delivery>> {
        [&self.config, &self.layer].into_iter().map(|(of, bytes)| put_blob(sink, of, bytes)).collect()
    }

    pub fn publish(&self, sink: &dyn Sink) {
        self.put_blobs(sink).unwrap();
        sink.tag(&self.manifest).unwrap();
        assert_eq!(sink.current().unwrap(), Some(self.manifest.digest()));
    }

    pub fn parts(&self) -> ImageParts {
        let blobs = vec![self.config.0.clone(), self.layer.0.clone()];
        ImageParts { top: self.manifest.descriptor(), children: Vec::new(), blobs }
    }

    /// The source has this image, byte for byte.
    pub fn check(&self, source: &dyn Source) {
        let top = source.top().unwrap();
        assert_eq!(String::from_utf8_lossy(top.bytes()), String::from_utf8_lossy(self.manifest.bytes()));
        assert_eq!(source.document(&top.descriptor()).unwrap().bytes(), top.bytes());
        let manifest = Manifest::read(&top).unwrap();
        assert_eq!(read(source, &manifest.config).unwrap(), self.config.1);
        assert_eq!(read(source, &manifest.layers[0]).unwrap(), self.layer.1);
    }
}

pub fn put_blob(sink: &dyn Sink, of: &Descriptor, bytes: &[u8]) -> Result<Delivery> {
    let open = || Ok(Box::new(std::io::Cursor::new(bytes.to_vec())) as Stream);
    sink.put_blob(&Blob { descriptor: of, held_by: &[], open: &open })
}

pub fn read(source: &dyn Source, of: &Descriptor) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.open(of, 0)?.read_to_end(&mut bytes).map_err(|error| Error::from_stream(error, "test"))?;
    Ok(bytes)
}

/// Everything a run would read.
pub fn read_all<S: Source>(open: impl Fn() -> Result<S>, sample: &SampleImage) -> Result<()> {
    let source = open()?;
    source.top()?;
    read(&source, &sample.config.0)?;
    read(&source, &sample.layer.0)?;
    Ok(())
}

pub fn local(path: &Path, tag: Option<&str>) -> LocalImage {
    LocalImage { path: path.to_owned(), tag: tag.map(str::to_owned), digest: None }
}

pub fn blob_path(dir: &Path, digest: &Digest) -> PathBuf {
    dir.join("blobs/sha256").join(digest.hex())
}

/// Writes tar files, also such as no tar program would.
pub struct TarBuilder(Vec<u8>);

impl TarBuilder {
    pub fn new() -> Self {
        Self(Vec::new())
    }

    pub fn file(self, name: &str, bytes: &[u8]) -> Self {
        self.entry(b'0', name, bytes)
    }

    pub fn directory(self, name: &str) -> Self {
        self.entry(b'5', name, b"")
    }

    pub fn entry(self, kind: u8, name: &str, bytes: &[u8]) -> Self {
        self.sized(kind, name, bytes.len() as u64, bytes)
    }

    /// An entry whose header says `size`, whatever it has.
    pub fn sized(self, kind: u8, name: &str, size: u64, bytes: &[u8]) -> Self {
        self.header(kind, name, "", format!("{size:011o}\0").as_bytes()).body(bytes)
    }

    pub fn link(self, kind: u8, name: &str, target: &str) -> Self {
        self.header(kind, name, target, b"00000000000\0")
    }

    pub fn raw_size(self, name: &str, size: [u8; 12]) -> Self {
        self.header(b'0', name, "", &size)
    }

    fn header(mut self, kind: u8, name: &str, link: &str, size: &[u8]) -> Self {
        let mut block = [0; 512];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, name.as_bytes());
        put(100, b"0000644\0");
        put(124, size);
        put(136, b"00000000000\0");
        put(148, b"        ");
        put(156, &[kind]);
        put(157, link.as_bytes());
        put(257, b"ustar\x0000");
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend_from_slice(&block);
        self
    }

    fn body(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub fn unfinished(self) -> Vec<u8> {
        self.0
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

/// The names in a directory, sorted.
pub fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
