//! containerd as a node of a cluster runs it, with folders and a socket of its own, until the end of the test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tonic::client::Grpc;
use tonic::transport::Endpoint;

use super::invocation::die_with_us;
use super::skip::{Part, find, missing, need};

/// Whose containerd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Make {
    /// The one that is installed.
    Installed,
    /// 1.7, of the next Debian, which `scripts/test` unpacks. It tells a kubelet what is pinned.
    Newer,
    /// 2.x, of the Debian after it.
    Latest,
}

/// The image that sandboxes are made from, where there are any.
pub const SANDBOX_IMAGE: &str = "registry.example/pause:3.9";

pub struct Node {
    child: Child,
    folder: TempDir,
}

/// All containerds of a machine would listen on the one socket of the interface for resources, and end where they do
/// not get it. Those before 1.7 do not know it.
const NO_SHARED_SOCKET: &str = "[plugins.\"io.containerd.nri.v1.nri\"]\ndisable = true\n";

impl Node {
    /// containerd by itself; Skips where it is not installed.
    pub fn start() -> Part<Self> {
        Self::with(Make::Installed, "disabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n")
    }

    /// containerd with the interface that a kubelet uses.
    pub fn kubernetes(make: Make) -> Part<Self> {
        let cri = "[plugins.\"io.containerd.grpc.v1.cri\"]\n";
        let settings = format!("sandbox_image = \"{SANDBOX_IMAGE}\"\nstats_collect_period = 1\n");
        let streaming = "stream_server_address = \"127.0.0.1\"\nstream_server_port = \"0\"\n";
        let cni = "[plugins.\"io.containerd.grpc.v1.cri\".cni]\nbin_dir = \"FOLDER/cni\"\nconf_dir = \"FOLDER/cni\"\n";
        Self::with(make, &[cri, &settings, streaming, cni].concat())
    }

    /// `config` stands in for more of containerd's configuration; FOLDER in it is the node's own.
    fn with(make: Make, config: &str) -> Part<Self> {
        need(&["containerd", "ctr"])?;
        let program = match make {
            Make::Installed => find("containerd").ok_or_else(|| missing("containerd"))?,
            Make::Newer => newer("trixie")?,
            Make::Latest => newer("sid")?,
        };
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let (root, state, socket, opt) = (at("root"), at("state"), at("socket"), at("opt"));
        // Disabled plugins must stand before the first table.
        let (disabled, tables) = if config.starts_with('[') { ("", config) } else { (config, "") };
        let config = format!(
            "version = 2\nroot = \"{root}\"\nstate = \"{state}\"\n{disabled}[grpc]\naddress = \"{socket}\"\n\
             [plugins.\"io.containerd.internal.v1.opt\"]\npath = \"{opt}\"\n{NO_SHARED_SOCKET}{}",
            tables.replace("FOLDER", &folder.path().display().to_string())
        );
        std::fs::write(at("config.toml"), config).unwrap();
        let log = std::fs::File::create(at("log")).unwrap();
        let mut command = Command::new(program);
        command.args(["-c", &at("config.toml")]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = die_with_us(&mut command).spawn().unwrap();
        let node = Self { child, folder };
        node.wait_until_it_answers();
        Ok(node)
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// What `ctr` prints, in the namespace of Kubernetes.
    pub fn ctr(&self, args: &[&str]) -> String {
        let mut ctr = Command::new(find("ctr").unwrap());
        let out = ctr.arg("-a").arg(self.socket()).args(["-n", "k8s.io"]).args(args).output().unwrap();
        assert!(out.status.success(), "ctr {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    fn wait_until_it_answers(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        let answers = || {
            let mut ctr = Command::new(find("ctr").unwrap());
            ctr.arg("-a").arg(self.socket()).arg("version").output().is_ok_and(|out| out.status.success())
        };
        while !answers() {
            let log = || std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "containerd does not answer: {}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// What `scripts/test` has fetched. It is skipped and failed like any part of the machine.
fn newer(suite: &str) -> Part<PathBuf> {
    let packages = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/newer");
    let path = packages.join(suite).join("containerd/usr/bin/containerd");
    need(&[path.to_str().unwrap()]).map(|()| path)
}

impl Drop for Node {
    fn drop(&mut self) {
        // Asked first: it unmounts what it has mounted.
        let pid = libc::pid_t::try_from(self.child.id()).unwrap();
        // SAFETY: the child has not been waited for, so the number is still its own.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        let _ = self.child.wait();
    }
}

// A kubelet's look at a node: the images as CRI v1 lists them.

#[derive(Clone, PartialEq, prost::Message)]
struct Nothing {}

#[derive(Clone, PartialEq, prost::Message)]
struct Listed {
    #[prost(message, repeated, tag = "1")]
    images: Vec<Image>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Image {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, repeated, tag = "2")]
    pub repo_tags: Vec<String>,
    #[prost(bool, tag = "8")]
    pub pinned: bool,
}

pub fn images(socket: &Path) -> Vec<Image> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display())).unwrap();
    let listed = runtime.block_on(async {
        let mut client = Grpc::new(endpoint.connect().await.unwrap());
        client.ready().await.unwrap();
        let path = http::uri::PathAndQuery::from_static("/runtime.v1.ImageService/ListImages");
        let codec = tonic_prost::ProstCodec::<Nothing, Listed>::default();
        client.unary(tonic::Request::new(Nothing {}), path, codec).await.unwrap().into_inner()
    });
    listed.images
}
