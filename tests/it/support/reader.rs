//! Readers that are not underpin's own: what they say of an image is what users will see.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs a tool that must succeed.
pub fn tool(program: &str, args: &[&str]) -> Output {
    let path = super::need::find(program).unwrap_or_else(|| panic!("{program} is not installed"));
    let out = Command::new(path).args(args).output().unwrap();
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    out
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

#[test]
fn the_stock_application_starts_where_it_was_built() {
    use super::need::need;
    if !need(&["umoci", "runc", "skopeo"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    super::stock::app("linux/amd64", 100).build().layout(&path("layout"), "t");
    skopeo_to_layout(&format!("oci:{}:t", path("layout").display()), &path("copy"), "t");
    assert_eq!(start(&path("copy"), "t", &path("bundle")), super::stock::LINE);
}
