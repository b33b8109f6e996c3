//! The folder and the shell in which a guide is followed.

use std::path::PathBuf;

use super::guide::{Step, steps};
use crate::bazel::without_coverage;
use crate::support::containerd::Node;
use crate::support::docker_registry::Outside;
use crate::support::invocation::{Run, Sandbox, binary};

/// Where the runtime of a node listens, in documents; in a test it is a socket of its own.
pub const SOCKET: &str = "/run/containerd/containerd.sock";

/// Before the output of each command in a transcript.
const MARK: char = '\u{1}';

/// One guide and the folder it is read in.
pub struct Session {
    sandbox: Sandbox,
    outside: Option<Outside>,
    node: Option<Node>,
}

impl Session {
    /// With `underpin` and `sample-images` on the path, as the guides have people install them.
    pub fn new(outside: Option<Outside>, node: Option<Node>) -> Self {
        let sandbox = Sandbox::new();
        // Nothing of podman or Bazel is to be seen outside, or to stay running.
        let at = |name: &str| sandbox.path(name).display().to_string();
        let storage =
            format!("[storage]\ndriver = \"vfs\"\ngraphroot = \"{}\"\nrunroot = \"{}\"\n", at("graph"), at("run"));
        std::fs::write(at("storage.conf"), storage).unwrap();
        let coverage = without_coverage(&sandbox.path("coverage"));
        let bazel = format!("startup --batch --output_user_root={}\nbuild {coverage}\n", at("bazel"));
        std::fs::write(at("home/.bazelrc"), bazel).unwrap();
        let samples = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples/sample-images");
        assert!(samples.exists(), "`cargo build --examples` makes {}", samples.display());
        std::fs::create_dir(sandbox.path("bin")).unwrap();
        for (name, program) in [("underpin", PathBuf::from(binary())), ("sample-images", samples)] {
            std::os::unix::fs::symlink(program, sandbox.path("bin").join(name)).unwrap();
        }
        Self { sandbox, outside, node }
    }

    /// What the script prints, both streams in one; it must succeed.
    pub fn bash(&self, script: &str) -> String {
        self.run(&format!("exec 2>&1\nset -euo pipefail\n{script}")).ok().stdout
    }

    pub fn run(&self, script: &str) -> Run {
        let at = |name: &str| self.sandbox.path(name);
        let path = format!("{}:{}:/usr/sbin:/sbin", at("bin").display(), std::env::var("PATH").unwrap());
        let socket = self.node.as_ref().map_or_else(|| PathBuf::from(SOCKET), Node::socket);
        let script = script.replace(SOCKET, socket.to_str().unwrap());
        let run = self.sandbox.program("bash", ["-c", &script]).env("PATH", path);
        let run =
            run.env("UNDERPIN_CLONE", env!("CARGO_MANIFEST_DIR")).env("CONTAINERS_STORAGE_CONF", at("storage.conf"));
        let run = run.env("CONTAINERD_ADDRESS", socket).env("REGISTRY", "registry.example");
        let variables = self.outside.iter().flat_map(Outside::variables);
        let run = variables.fold(run, |run, (name, value)| run.env(name, value));
        // What GitHub Actions and prow give their jobs.
        let run = run.env("GITHUB_OUTPUT", at("github-output")).env("ARTIFACTS", at("here"));
        run.limit(std::time::Duration::from_secs(600)).run()
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let file = self.sandbox.path("here").join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &bytes).unwrap();
        if bytes.as_ref().starts_with(b"#!") {
            crate::support::tools::tool("chmod", &["755", file.to_str().unwrap()]);
        }
    }

    /// The transcript as it came out.
    pub fn console(&self, body: &str) -> Vec<Step> {
        let steps = steps(body);
        let mark = format!("{MARK}\n");
        let marked: Vec<String> = steps.iter().map(|step| format!("echo {mark}{}", step.command)).collect();
        let printed = self.bash(&marked.concat());
        let outputs = printed.split(&mark).skip(1).map(str::to_owned);
        steps.into_iter().zip(outputs).map(|(step, output)| Step { output, ..step }).collect()
    }
}
