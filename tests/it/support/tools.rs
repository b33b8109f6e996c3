//! Readers that are not underpin's own: what they say of an image is what users will see.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::recipe::blob_path;
use super::skip::{Part, missing};

/// Runs a tool that must succeed.
pub fn tool(program: &str, args: &[&str]) -> Output {
    let path = super::skip::find(program).unwrap_or_else(|| panic!("{program} is not installed"));
    let out = Command::new(path).args(args).output().unwrap();
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    out
}

/// A program of a newer Debian, as `scripts/test` unpacks it: `sid/cosign`, `cosign`.
pub fn newer(package: &str, program: &str) -> Part<PathBuf> {
    let path = newer_directory(package)?.join("usr/bin").join(program);
    if path.exists() { Ok(path) } else { Err(missing(&format!("{program} of {package}"))) }
}

/// Where a package of a newer Debian was unpacked.
pub fn newer_directory(package: &str) -> Part<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/newer").join(package);
    if path.is_dir() { Ok(path) } else { Err(missing(package)) }
}

/// The bytes of the document as skopeo gets them from a registry on loopback.
pub fn skopeo_raw(reference: &str) -> Vec<u8> {
    tool("skopeo", &["inspect", "--raw", "--tls-verify=false", &format!("docker://{reference}")]).stdout
}

/// Copies an image to an OCI layout with skopeo, which checks every digest on the way.
pub fn skopeo_to_layout(from: &str, folder: &Path, tag: &str) {
    let to = format!("oci:{}:{tag}", folder.display());
    let args = ["copy", "--insecure-policy", "--src-tls-verify=false", "--override-os=linux", "--override-arch=amd64"];
    tool("skopeo", &[&args[..], &[from, &to]].concat());
}

/// Unpacks an image of a layout with umoci; the files are in `rootfs` of the bundle.
pub fn unpack(layout: &Path, tag: &str, bundle: &Path) {
    tool("umoci", &["unpack", "--image", &format!("{}:{tag}", layout.display()), &bundle.display().to_string()]);
}

/// Starts what was unpacked with runc, and gives what it printed.
pub fn run(bundle: &Path) -> String {
    let file = bundle.join("config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    config["process"]["terminal"] = false.into();
    std::fs::write(&file, config.to_string()).unwrap();
    let id = format!("underpin-{}-{}", std::process::id(), fastrand::u32(..));
    let root = bundle.join("runc-state").display().to_string();
    let out = tool("runc", &["--root", &root, "run", "-b", &bundle.display().to_string(), &id]);
    String::from_utf8(out.stdout).unwrap()
}

/// Unpacks an image of a layout, starts it, and gives what it printed.
pub fn start(layout: &Path, tag: &str, bundle: &Path) -> String {
    unpack(layout, tag, bundle);
    run(bundle)
}

// A container of an unpacked image: started with runc as the image says or with other words, and
// what it printed and left behind.

/// How a process of the container ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

pub struct Container {
    bundle: PathBuf,
    /// The `config` member of the image's config.
    pub config: Value,
}

impl Container {
    /// Unpacks the only image of a layout, called `v1`.
    pub fn of(layout: &Path, bundle: &Path) -> Self {
        let read =
            |file: &str| -> Value { serde_json::from_slice(&std::fs::read(layout.join(file)).unwrap()).unwrap() };
        let blob = |descriptor: &Value| read(&blob_path(descriptor["digest"].as_str().unwrap()));
        let manifest = blob(&read("index.json")["manifests"][0]);
        let config = blob(&manifest["config"])["config"].clone();
        unpack(layout, "v1", bundle);
        Self { bundle: bundle.to_owned(), config }
    }

    /// Entrypoint and cmd.
    pub fn command(&self) -> (Vec<String>, Vec<String>) {
        let words = |key: &str| -> Vec<String> {
            let words = self.config[key].as_array().into_iter().flatten();
            words.map(|word| word.as_str().unwrap().to_owned()).collect()
        };
        (words("Entrypoint"), words("Cmd"))
    }

    /// As the image says.
    pub fn start(&self) -> Ended {
        let (entrypoint, cmd) = self.command();
        self.execute(&[entrypoint, cmd].concat())
    }

    /// With other words in the place of CMD, as whoever starts a container may give them.
    pub fn start_with(&self, cmd: &[&str]) -> Ended {
        let cmd = cmd.iter().map(|word| (*word).to_owned()).collect();
        self.execute(&[self.command().0, cmd].concat())
    }

    /// These words, in the surroundings that the image says.
    pub fn execute(&self, argv: &[String]) -> Ended {
        let file = self.bundle.join("config.json");
        let mut config: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        config["process"]["terminal"] = false.into();
        config["process"]["args"] = argv.into();
        std::fs::write(&file, config.to_string()).unwrap();
        let id = format!("underpin-{}-{}", std::process::id(), fastrand::u32(..));
        let mut runc = Command::new(super::skip::find("runc").unwrap());
        let runc = runc.arg("--root").arg(self.bundle.join("runc-state")).args(["run", "-b"]);
        let out = runc.arg(&self.bundle).arg(id).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ended { code: out.status.code(), stdout: text(out.stdout), stderr: text(out.stderr) }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.bundle.join("rootfs").join(path.trim_start_matches('/'))
    }

    /// What is in a file of it; empty where there is none.
    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap_or_default()
    }

    pub fn has(&self, path: &str) -> bool {
        self.path(path).symlink_metadata().is_ok()
    }

    /// The owner, the group and the mode of a file or folder.
    pub fn owner(&self, path: &str) -> (u32, u32, u32) {
        let data = self.path(path).symlink_metadata().unwrap();
        (data.uid(), data.gid(), data.mode() & 0o7777)
    }
}
