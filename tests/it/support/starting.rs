//! Starts an image the way a cluster does, many at a time: unpacked by umoci, started by runc, with the
//! capabilities that containerd and Docker give a container, and without a network.
//!
//! umoci's own `config.json` gives root only three capabilities and forbids set-user-ID programs; a root
//! that may not read another user's file is not what images meet in the field.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::recipe::blob_path;
use super::skip::find;
use super::tools::Ended;

/// What containerd and Docker give a container that asks for nothing.
pub const CAPABILITIES: [&str; 14] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FSETID",
    "CAP_FOWNER",
    "CAP_MKNOD",
    "CAP_NET_RAW",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETFCAP",
    "CAP_SETPCAP",
    "CAP_NET_BIND_SERVICE",
    "CAP_SYS_CHROOT",
    "CAP_KILL",
    "CAP_AUDIT_WRITE",
];

/// As Docker has it: only root starts with any. containerd leaves the effective ones to other users too, until
/// `execve` takes them, so that there a user can start a program in a directory that is closed to it, and fails
/// elsewhere. What must start everywhere is tried where less is allowed.
fn capabilities(uid: &Value) -> Value {
    let all = json!(CAPABILITIES);
    match uid.as_u64() {
        Some(0) => json!({"bounding": all, "effective": all, "permitted": all}),
        _ => json!({"bounding": all}),
    }
}

/// What runtimes set where the image does not.
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Longer than anything here runs; a container that waits for something is ended.
const PATIENCE: Duration = Duration::from_secs(30);

/// An unpacked image.
pub struct Bundle {
    directory: PathBuf,
    /// The `config` member of the image's config.
    pub config: Value,
}

impl Bundle {
    /// Unpacks the image `v1` of a layout. umoci resolves the user there, so a user that is in no account
    /// file fails here, with umoci's words.
    pub fn unpack(layout: &Path, directory: &Path) -> Result<Self, String> {
        let image = format!("{}:v1", layout.display());
        let mut umoci = Command::new(find("umoci").unwrap());
        let out = umoci.args(["unpack", "--image", &image]).arg(directory).output().unwrap();
        if !out.status.success() {
            return Err(String::from_utf8_lossy(&out.stderr).trim().to_owned());
        }
        Ok(Self { directory: directory.to_owned(), config: image_config(layout) })
    }

    /// The words that a runtime executes: ENTRYPOINT, then CMD.
    pub fn command(&self) -> Vec<String> {
        let words = |key: &str| self.config[key].as_array().cloned().unwrap_or_default();
        let both = words("Entrypoint").into_iter().chain(words("Cmd"));
        both.map(|word| word.as_str().unwrap().to_owned()).collect()
    }

    /// What umoci made of the image's config: `process.user`, `process.env`, `process.cwd`.
    pub fn runtime_config(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.directory.join("config.json")).unwrap()).unwrap()
    }

    /// Starts these words in the surroundings that the image asks for.
    pub fn start(&self, argv: &[String]) -> Ended {
        self.start_and_end(argv, None)
    }

    /// The same for a server: it is ended once it has said this.
    pub fn start_until(&self, argv: &[String], said: &str) -> Ended {
        self.start_and_end(argv, Some(said))
    }

    fn start_and_end(&self, argv: &[String], said: Option<&str>) -> Ended {
        if argv.is_empty() {
            let stderr = "the image has no command".to_owned();
            return Ended { code: None, stdout: String::new(), stderr };
        }
        let mut config = self.runtime_config();
        config["process"]["terminal"] = false.into();
        config["process"]["env"] = self.environment().into();
        config["process"]["args"] = argv.into();
        config["process"]["noNewPrivileges"] = false.into();
        config["process"]["capabilities"] = capabilities(&config["process"]["user"]["uid"]);
        std::fs::write(self.directory.join("config.json"), config.to_string()).unwrap();
        self.run(said)
    }

    /// The image's variables and a PATH where it has none, as containerd and Docker do. umoci writes HOME in, even
    /// over the image's own; runc sets it from the account file, and only where it is unset.
    fn environment(&self) -> Vec<String> {
        let own = self.config["Env"].as_array().into_iter().flatten();
        let own: Vec<String> = own.map(|entry| entry.as_str().unwrap().to_owned()).collect();
        let path = if own.iter().any(|entry| entry.starts_with("PATH=")) { None } else { Some(PATH.to_owned()) };
        path.into_iter().chain(own).collect()
    }

    fn run(&self, said: Option<&str>) -> Ended {
        let id = format!("underpin-{}-{:x}", std::process::id(), fastrand::u64(..));
        let output = |name: &str| std::fs::File::create(self.directory.join(name)).unwrap();
        let mut runc = self.runc(&["run", "-b", &self.directory.display().to_string(), &id]);
        let runc = runc.stdin(Stdio::null()).stdout(output("stdout")).stderr(output("stderr"));
        let code = self.wait(runc.spawn().unwrap(), &id, said);
        Ended { code, stdout: self.output("stdout"), stderr: self.output("stderr") }
    }

    fn output(&self, name: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.directory.join(name)).unwrap()).into_owned()
    }

    fn wait(&self, mut runc: Child, id: &str, said: Option<&str>) -> Option<i32> {
        let started = Instant::now();
        loop {
            if let Some(status) = runc.try_wait().unwrap() {
                return status.code();
            }
            let has_said =
                said.is_some_and(|said| ["stdout", "stderr"].iter().any(|name| self.output(name).contains(said)));
            if has_said || started.elapsed() > PATIENCE {
                let _ = self.runc(&["kill", id, "KILL"]).status();
            }
            std::thread::sleep(Duration::from_millis(if started.elapsed() > PATIENCE { 500 } else { 3 }));
        }
    }

    fn runc(&self, args: &[&str]) -> Command {
        let mut runc = Command::new(find("runc").unwrap());
        runc.arg("--root").arg(self.directory.join("runc-state")).args(args);
        runc
    }
}

/// The `config` member of the config of a layout's only image.
fn image_config(layout: &Path) -> Value {
    let read = |file: &str| -> Value { serde_json::from_slice(&std::fs::read(layout.join(file)).unwrap()).unwrap() };
    let blob = |descriptor: &Value| read(&blob_path(descriptor["digest"].as_str().unwrap()));
    let manifest = blob(&read("index.json")["manifests"][0]);
    blob(&manifest["config"])["config"].clone()
}
