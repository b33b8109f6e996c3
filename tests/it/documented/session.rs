//! The folder and the shell in which a guide is followed.

use std::path::PathBuf;

use super::guide::{Step, steps};
use crate::rig::cli::{Sandbox, binary};
use crate::rig::node::Node;
use crate::rig::registry::Registry;

/// Before the output of each command in a transcript.
const MARK: char = '\u{1}';

/// One guide and the folder it is read in.
pub struct Session {
    sandbox: Sandbox,
    registry: Option<Registry>,
    node: Option<Node>,
}

impl Session {
    /// With `underpin` and `sample-images` on the path, as the guides have people install them.
    pub fn new(registry: Option<Registry>, node: Option<Node>) -> Self {
        let sandbox = Sandbox::new();
        // Nothing of podman or Bazel is to be seen outside, or to stay running.
        let at = |name: &str| sandbox.path(name).display().to_string();
        let storage =
            format!("[storage]\ndriver = \"vfs\"\ngraphroot = \"{}\"\nrunroot = \"{}\"\n", at("graph"), at("run"));
        std::fs::write(at("storage.conf"), storage).unwrap();
        std::fs::write(at("home/.bazelrc"), format!("startup --batch --output_user_root={}\n", at("bazel"))).unwrap();
        let samples = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples/sample-images");
        assert!(samples.exists(), "`cargo build --examples` makes {}", samples.display());
        std::fs::create_dir(sandbox.path("bin")).unwrap();
        for (name, program) in [("underpin", PathBuf::from(binary())), ("sample-images", samples)] {
            std::os::unix::fs::symlink(program, sandbox.path("bin").join(name)).unwrap();
        }
        Self { sandbox, registry, node }
    }

    /// What the script prints, both streams in one.
    pub fn bash(&self, script: &str) -> String {
        let path = format!("{}:{}:/usr/sbin:/sbin", self.sandbox.path("bin").display(), std::env::var("PATH").unwrap());
        let clone = env!("CARGO_MANIFEST_DIR");
        let script = self
            .registry
            .as_ref()
            .map_or_else(|| script.to_owned(), |to| script.replace("registry.example", to.host()));
        let script = format!("exec 2>&1\nset -euo pipefail\n{script}");
        let run = self.sandbox.program("bash", ["-c", &script]).env("PATH", path).env("UNDERPIN_CLONE", clone);
        let host = self.registry.as_ref().map_or("", Registry::host);
        let socket = self.node.as_ref().map_or_else(PathBuf::new, Node::socket);
        let run =
            run.env("CONTAINERS_STORAGE_CONF", self.sandbox.path("storage.conf")).env("CONTAINERD_ADDRESS", socket);
        // What GitHub Actions and prow give their jobs.
        let run =
            run.env("GITHUB_OUTPUT", self.sandbox.path("github-output")).env("ARTIFACTS", self.sandbox.path("here"));
        run.env("REGISTRY", host).limit(std::time::Duration::from_secs(600)).run().ok().stdout
    }

    pub fn write(&self, name: &str, text: &str) {
        let file = self.sandbox.path("here").join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        if text.starts_with("#!") {
            crate::rig::reader::tool("chmod", &["755", file.to_str().unwrap()]);
        }
    }

    /// The transcript as it came out.
    pub fn console(&self, body: &str) -> Vec<Step> {
        let steps = steps(body);
        let mark = format!("{MARK}\n");
        let marked: Vec<String> = steps.iter().map(|step| format!("echo {mark}{}", step.command)).collect();
        let printed = self.bash(&marked.concat());
        let outputs = printed.split(&mark).skip(1).map(|output| self.steady(output));
        steps.into_iter().zip(outputs).map(|(step, output)| Step { output, ..step }).collect()
    }

    /// Without what differs from run to run: the port of the registry.
    fn steady(&self, output: &str) -> String {
        self.registry
            .as_ref()
            .map_or_else(|| output.to_owned(), |registry| output.replace(registry.host(), "registry.example"))
    }
}
