//! An OCI layout that umoci makes, and its layers as the library reads them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use layer::{LayerIndex, Limits, WrittenLayer, scan};
use oci::{Descriptor, MediaType};
use serde_json::{Value, json};

pub struct Layout {
    folder: PathBuf,
    /// Removes the folder, unless it is kept.
    _temporary: Option<tempfile::TempDir>,
}

impl Layout {
    /// A layout with an image that has no layers.
    pub fn new() -> Self {
        let layout = Self::empty();
        umoci(&["init", "--layout", &layout.path("image")]);
        umoci(&["new", "--image", &layout.image()]);
        layout
    }

    fn empty() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        Self { folder: temporary.path().to_owned(), _temporary: Some(temporary) }
    }

    /// A layout with an image of these layers as they are, each with its digest and diff id.
    pub fn of_layers(layers: &[(Vec<u8>, WrittenLayer)]) -> Self {
        let layout = Self::empty();
        let blobs = layout.folder.join("image/blobs/sha256");
        std::fs::create_dir_all(&blobs).unwrap();
        let put = |media_type: MediaType, bytes: &[u8]| {
            let of = Descriptor::of(media_type, bytes);
            std::fs::write(blobs.join(of.digest.hex()), bytes).unwrap();
            of.to_value()
        };
        let diff_ids: Vec<String> = layers.iter().map(|(_, written)| written.diff_id.to_string()).collect();
        let config = json!({ "architecture": "amd64", "os": "linux", "config": {},
            "rootfs": { "type": "layers", "diff_ids": diff_ids } });
        let config = put(MediaType::oci_config(), config.to_string().as_bytes());
        let stored = |(blob, written): &(Vec<u8>, WrittenLayer)| {
            let of = put(written.descriptor().media_type, blob);
            assert_eq!(of, written.descriptor().to_value());
            of
        };
        let layers: Vec<Value> = layers.iter().map(stored).collect();
        let manifest = json!({ "schemaVersion": 2, "mediaType": MediaType::oci_manifest().as_str(),
            "config": config, "layers": layers });
        let mut manifest = put(MediaType::oci_manifest(), manifest.to_string().as_bytes());
        manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": "v1" });
        let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
        std::fs::write(layout.path("image/index.json"), index.to_string()).unwrap();
        std::fs::write(layout.path("image/oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        layout
    }

    /// The layout that [`Layout::keep`] left in a folder.
    pub fn kept(folder: &Path) -> Option<Self> {
        folder.exists().then(|| Self { folder: folder.to_owned(), _temporary: None })
    }

    /// Copies the image to a directory that stays, whole or not at all.
    pub fn keep(&self, folder: &Path) {
        let draft = folder.with_extension(std::process::id().to_string());
        std::fs::create_dir(&draft).unwrap();
        shell(&self.folder, &format!("cp -r image '{}'", draft.display()));
        std::fs::rename(&draft, folder).unwrap();
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    pub fn image(&self) -> String {
        self.path("image") + ":v1"
    }

    /// Lays a tar upon the image as it is.
    pub fn add(&self, tar: &Path) {
        umoci(&["raw", "add-layer", "--image", &self.image(), &tar.display().to_string()]);
    }

    pub fn add_bytes(&self, tar: &[u8]) {
        let file = self.folder.join("layer.tar");
        std::fs::write(&file, tar).unwrap();
        self.add(&file);
    }

    /// Puts `content` in the place of all that a folder has.
    pub fn insert_opaque(&self, content: &Path, folder: &str) {
        umoci(&["insert", "--image", &self.image(), "--opaque", &content.display().to_string(), folder]);
    }

    /// Unpacks the image, and changes it with scripts that run in its root. What each of them
    /// changed is laid upon the image as one more layer.
    pub fn change(&self, scripts: &[&str]) {
        if let Err(said) = self.try_change(scripts) {
            panic!("{said}");
        }
    }

    /// As [`Layout::change`], for scripts that need more of the world than this machine.
    pub fn try_change(&self, scripts: &[&str]) -> Result<(), String> {
        let bundle = self.path("bundle");
        umoci(&["unpack", "--image", &self.image(), &bundle]);
        for script in scripts {
            try_shell(&Path::new(&bundle).join("rootfs"), script)?;
            umoci(&["repack", "--refresh-bundle", "--image", &self.image(), &bundle]);
        }
        Ok(())
    }

    /// The root as umoci writes it, or what it had to say instead.
    pub fn unpack(&self) -> Result<PathBuf, String> {
        let root = self.path("root");
        let out = run(&["raw", "unpack", "--image", &self.image(), &root]);
        if out.status.success() { Ok(root.into()) } else { Err(String::from_utf8_lossy(&out.stderr).into_owned()) }
    }

    /// The layers, bottom first, each checked against the image's documents.
    pub fn indexes(&self) -> Vec<LayerIndex> {
        let index = self.json(&self.folder.join("image/index.json"));
        let manifest = self.json(&self.blob(&index["manifests"][0]["digest"]));
        let config = self.json(&self.blob(&manifest["config"]["digest"]));
        let layers = manifest["layers"].as_array().unwrap().iter();
        let diff_ids = config["rootfs"]["diff_ids"].as_array().unwrap().iter();
        let index = |(layer, diff_id): (&Value, &Value)| {
            let descriptor = Descriptor::read(layer, "layer").unwrap();
            let diff_id = diff_id.as_str().unwrap().parse().unwrap();
            let blob = File::open(self.blob(&layer["digest"])).unwrap();
            scan(blob, &descriptor, Some(&diff_id), &Limits::default()).unwrap()
        };
        layers.zip(diff_ids).map(index).collect()
    }

    fn blob(&self, digest: &Value) -> PathBuf {
        self.folder.join("image/blobs").join(digest.as_str().unwrap().replace(':', "/"))
    }

    #[allow(clippy::unused_self, reason = "reads as part of the layout")]
    fn json(&self, file: &Path) -> Value {
        serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
    }
}

/// Folders that umoci makes on its own have the mode that the umask leaves, so it is set.
fn run(args: &[&str]) -> Output {
    Command::new("sh").args(["-c", "umask 022; exec umoci \"$@\"", "umoci"]).args(args).output().unwrap()
}

fn umoci(args: &[&str]) {
    let out = run(args);
    assert!(out.status.success(), "umoci {args:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// Runs a script that must succeed.
pub fn shell(folder: &Path, script: &str) {
    if let Err(said) = try_shell(folder, script) {
        panic!("{said}");
    }
}

fn try_shell(folder: &Path, script: &str) -> Result<(), String> {
    let out = Command::new("sh").args(["-euc", &format!("umask 022; {script}")]).current_dir(folder).output().unwrap();
    let said = || format!("{script}: {}", String::from_utf8_lossy(&out.stderr));
    if out.status.success() { Ok(()) } else { Err(said()) }
}
