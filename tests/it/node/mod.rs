//! `cache gc`, `ls` and `match` with `--cri`, on real containerd.

mod collector;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::containerd::{self, Make, Node};
use crate::support::invocation::{Invocation, Run, Sandbox};
use crate::support::recipe::Recipe;
use crate::support::tar_layer::{Layer, Pack, file, noise};

// A node with images, and the `cache` commands on it.

pub struct Setup {
    pub make: Make,
    pub node: Node,
    pub sandbox: Sandbox,
    pub cache: PathBuf,
}

/// The same on each containerd that there is.
pub fn on_each(test: impl Fn(&Setup)) {
    for make in [Make::Installed, Make::Newer, Make::Latest] {
        let Ok(node) = Node::kubernetes(make) else { continue };
        let sandbox = Sandbox::new();
        let cache = sandbox.path("store");
        eprintln!("on {make:?}");
        test(&Setup { make, node, sandbox, cache });
    }
}

/// `registry.example/NAME:v1`
pub fn name(of: &str) -> String {
    format!("registry.example/{of}:v1")
}

impl Setup {
    /// Puts an image of about `kib` KiB on the node, under this name, and gives the digest of its manifest.
    pub fn import(&self, name: &str, kib: usize) -> String {
        let seed = name.bytes().fold(7, |sum, byte| sum * 31 % 65_521 + u32::from(byte));
        let layer = Layer::of(Pack::Gzip, &[file("payload", noise(seed.into(), kib * 1024))]);
        let config = serde_json::json!({"Entrypoint": ["/payload"], "Labels": {"name": name}});
        let image = Recipe { config, ..Recipe::new("linux/amd64", vec![layer]) }.build();
        let archive = self.sandbox.path("image.tar");
        image.oci_archive(&archive, name);
        self.node.ctr(&["images", "import", archive.to_str().unwrap()]);
        std::fs::remove_file(archive).unwrap();
        self.wait("the image is listed", || self.listed().contains(&name.to_owned()));
        image.digest()
    }

    /// A container that has been made from the image and was never started.
    pub fn container(&self, image: &str, id: &str) {
        self.node.ctr(&["containers", "create", image, id]);
    }

    /// The tags that a kubelet sees.
    pub fn listed(&self) -> Vec<String> {
        let mut tags: Vec<String> =
            containerd::images(&self.node.socket()).into_iter().flat_map(|image| image.repo_tags).collect();
        tags.sort();
        tags
    }

    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.node.socket().display())
    }

    pub fn command(&self, args: &[&str]) -> Invocation {
        let command = self.sandbox.underpin(["cache"]).args(args);
        command.args(["--cri", &self.endpoint(), "--cache"]).arg(&self.cache)
    }

    pub fn run(&self, args: &[&str]) -> Run {
        self.command(args).run()
    }

    pub fn json(&self, args: &[&str]) -> Value {
        self.command(args).arg("--json").run().ok().json()
    }

    /// Collects whatever may go: the disk is always fuller than nothing.
    pub fn collect(&self, more: &[&str]) -> Value {
        self.json(&[&["gc", "--high", "0", "--low", "0", "--min-age", "0s"], more].concat())
    }

    /// How much containerd says that images take, once it has counted all of them.
    pub fn used(&self) -> u64 {
        let used = || self.json(&["ls"])["used"].as_u64().unwrap();
        let mut last = used();
        self.wait("containerd has counted", || {
            std::thread::sleep(Duration::from_millis(1500));
            let before = std::mem::replace(&mut last, used());
            before == last
        });
        last
    }

    pub fn wait(&self, what: &str, mut done: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !done() {
            assert!(Instant::now() < deadline, "not within 30 s on {:?}: {what}", self.make);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A file in the sandbox with this text.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.sandbox.path(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

/// The references of a list of objects.
pub fn references(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|one| one["reference"].as_str().unwrap().to_owned()).collect()
}
