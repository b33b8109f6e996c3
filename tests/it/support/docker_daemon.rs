//! Docker's daemon with directories and a socket of its own, until the end of the test. Its package is not installed, which
//! would start a service: `scripts/test` unpacks it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::invocation::die_with_us;
use super::skip::{Part, find, missing, need};
use super::tools::{newer, newer_directory};

const PACKAGE: &str = "bookworm/docker.io";

/// It mounts its directory on itself, and writes to `/etc/docker` and `/run/docker` whatever it is told: in a namespace that
/// goes with it.
const APART: &str = "mount -t tmpfs tmpfs /etc; mount -t tmpfs tmpfs /run; exec \"$@\"";

pub struct Daemon {
    child: Child,
    directory: TempDir,
    client: PathBuf,
}

impl Daemon {
    /// Without a network, and without a trace outside its directory. Skips where it was not fetched.
    pub fn start() -> Part<Self> {
        need(&["containerd", "runc", "unshare"])?;
        // SAFETY: the call has no arguments and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            return Err(missing("root, for docker's daemon"));
        }
        let (program, client) = (newer_directory(PACKAGE)?.join("usr/sbin/dockerd"), newer(PACKAGE, "docker")?);
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).display().to_string();
        std::fs::write(at("daemon.json"), "{}").unwrap();
        let log = std::fs::File::create(at("log")).unwrap();
        let mut command = Command::new(find("unshare").unwrap());
        command.args(["--mount", "sh", "-ec", APART, "sh"]).arg(program).args([
            "--bridge=none",
            "--iptables=false",
            "--ip6tables=false",
        ]);
        command.args(["--ip-forward=false", "--ip-masq=false", "--userland-proxy=false", "--storage-driver=vfs"]);
        command.args(["--data-root", &at("data"), "--exec-root", &at("exec"), "--pidfile", &at("pid")]);
        command.args(["--config-file", &at("daemon.json"), "-H", &format!("unix://{}", at("socket"))]);
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", directory.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = die_with_us(&mut command).spawn().unwrap();
        let daemon = Self { child, directory, client };
        daemon.wait_until_it_answers();
        Ok(daemon)
    }

    /// As `DOCKER_HOST` has it.
    pub fn host(&self) -> String {
        format!("unix://{}", self.directory.path().join("socket").display())
    }

    /// Its client.
    pub fn client(&self) -> &Path {
        &self.client
    }

    /// What the client prints.
    pub fn docker(&self, args: &[&str]) -> String {
        let out = self.command(args).output().unwrap();
        assert!(out.status.success(), "docker {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.client);
        command.args(args).env("DOCKER_HOST", self.host()).env("HOME", self.directory.path());
        command
    }

    fn wait_until_it_answers(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.command(&["version"]).output().is_ok_and(|out| out.status.success()) {
            let log = || std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "docker's daemon does not answer: {}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Asked first: it ends the containerd that it has started.
        let pid = libc::pid_t::try_from(self.child.id()).unwrap();
        // SAFETY: the child has not been waited for, so the number is still its own.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        let _ = self.child.wait();
    }
}
