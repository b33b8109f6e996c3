//! containerd as a node of a cluster runs it, with folders and a socket of its own, until the end of the test.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::need::{find, need};
use super::registry::die_with_us;

pub struct Node {
    child: Child,
    folder: TempDir,
}

impl Node {
    /// `None` where containerd is not installed.
    pub fn start() -> Option<Self> {
        if !need(&["containerd", "ctr"]) {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let (root, state, socket) = (at("root"), at("state"), at("socket"));
        let config = format!(
            "version = 2\nroot = \"{root}\"\nstate = \"{state}\"\n\
             disabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = \"{socket}\"\n"
        );
        std::fs::write(at("config.toml"), config).unwrap();
        let log = std::fs::File::create(at("log")).unwrap();
        let mut command = Command::new(find("containerd")?);
        command.args(["-c", &at("config.toml")]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = die_with_us(&mut command).spawn().unwrap();
        let node = Self { child, folder };
        node.wait_until_it_answers();
        Some(node)
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
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

impl Drop for Node {
    fn drop(&mut self) {
        // Asked first: it unmounts what it has mounted.
        let pid = libc::pid_t::try_from(self.child.id()).unwrap();
        // SAFETY: the child has not been waited for, so the number is still its own.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        let _ = self.child.wait();
    }
}
