//! Images of a container engine on this machine: a tool copies one into a private directory, where it is read.
//!
//! The rules this file owns: a tool is executed without a shell, for so long and no longer; what it says is shown where
//! it fails; and its copy is gone with the run, also if a signal ends that. What a run that was killed left behind, the
//! next one removes.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use super::Notices;
use super::child_process::{self, ChildKind};
use super::disk::{
    PATIENCE, PrivateDirectory, Purpose, end_processes, name_of, proc_file, read_file, start_process, wait_if_ending,
};
use super::parallel::OnceMap;
use oci::error::{Error, Kind, Result, typed_word};
use oci::{Engine, EngineImage, LocalImage, Location};

/// As long as a tool may take: an hour is enough for the largest image on the slowest disk.
const LIMIT: Duration = Duration::from_secs(3600);
/// What is kept of what a tool says.
const SAID: usize = 4 << 10;
const TAG: &str = "image";
/// Of docker's own settings.
const LARGEST_CONFIG: u64 = 10 << 20;
/// What a tool, and everything that it starts, is known by: it has the name of the copy in its environment.
const MARK: &str = "UNDERPIN_COPY";

/// The copies of a run, each image once. They are gone when it is dropped.
#[derive(Default)]
pub struct EngineCopies(OnceMap<EngineImage, Arc<EngineCopy>>);

impl EngineCopies {
    /// Where the image has been copied to.
    pub(super) fn location(&self, image: &EngineImage, notices: &Notices) -> Result<Location> {
        let key = EngineImage { digest: None, ..image.clone() };
        let copy = self.0.get(key, || EngineCopy::make(image, notices).map(Arc::new))?;
        let location = copy.location.clone();
        Ok(image.digest.map_or(location.clone(), |digest| location.with_digest(digest)))
    }
}

struct EngineCopy {
    location: Location,
    /// Held as long as somebody reads from it.
    _directory: PrivateDirectory,
}

impl EngineCopy {
    fn make(image: &EngineImage, notices: &Notices) -> Result<Self> {
        let tool = EngineTool::find(image)?;
        let directory = PrivateDirectory::create(&COPY)?;
        notices.warn(format!(
            "{image} is copied with {}: the engine has its layers unpacked, so they and the result have other digests than from a registry",
            tool.name
        ));
        let location = tool.run(image, directory.path())?;
        Ok(Self { location, _directory: directory })
    }
}

/// Where docker's client finds its daemon. skopeo reads neither variables nor contexts.
#[derive(Debug, PartialEq, Eq)]
enum DockerHost {
    Default,
    /// A socket of this machine, which skopeo can be told.
    Socket(String),
    /// By TLS, by ssh, or in a context: the way is known to docker alone.
    OfClient,
}

impl DockerHost {
    fn of_environment() -> Self {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let text = |name: &str| variable(name).map(|value| value.to_string_lossy().into_owned());
        let config = variable("DOCKER_CONFIG").map(PathBuf::from);
        let config = config.or_else(|| variable("HOME").map(|home| Path::new(&home).join(".docker")));
        let current = || current_context(&config?.join("config.json"));
        Self::new(text("DOCKER_HOST"), || text("DOCKER_CONTEXT").or_else(current))
    }

    /// A host goes before a context.
    fn new(host: Option<String>, context: impl FnOnce() -> Option<String>) -> Self {
        match host {
            Some(host) if host.starts_with("unix://") => Self::Socket(host),
            Some(_) => Self::OfClient,
            None if context().is_some_and(|context| context != "default") => Self::OfClient,
            None => Self::Default,
        }
    }

    /// How skopeo is told of it.
    fn skopeo_flag(&self) -> Vec<String> {
        match self {
            Self::Socket(host) => vec!["--src-daemon-host".to_owned(), host.clone()],
            Self::Default | Self::OfClient => Vec::new(),
        }
    }
}

/// The context that was chosen with `docker context use`.
fn current_context(config: &Path) -> Option<String> {
    let bytes = read_file(config, LARGEST_CONFIG).ok()?;
    let config: Value = serde_json::from_slice(&bytes).ok()?;
    config.get("currentContext")?.as_str().filter(|context| !context.is_empty()).map(str::to_owned)
}

/// A program that copies an image of an engine.
struct EngineTool {
    name: &'static str,
    program: PathBuf,
    host: DockerHost,
}

impl EngineTool {
    /// The first that is installed of those that know the engine.
    fn find(image: &EngineImage) -> Result<Self> {
        let host = match image.engine {
            Engine::DockerDaemon => DockerHost::of_environment(),
            Engine::ContainersStorage => DockerHost::Default,
        };
        let names: &[&'static str] = match image.engine {
            Engine::DockerDaemon if host == DockerHost::OfClient => &["docker"],
            Engine::DockerDaemon => &["skopeo", "docker"],
            // Where the storage is elsewhere, only skopeo takes its place from the name.
            Engine::ContainersStorage if image.name.starts_with('[') => &["skopeo"],
            Engine::ContainersStorage => &["skopeo", "podman"],
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories: Vec<PathBuf> = std::env::split_paths(&path).filter(|it| it.is_absolute()).collect();
        let mut programs = names.iter().flat_map(|name| directories.iter().map(move |it| (*name, it.join(name))));
        let found = programs.find(|(_, program)| program.is_file());
        found.map(|(name, program)| Self { name, program, host }).ok_or_else(|| missing(image, names))
    }

    /// Copies the image, and yields where to.
    fn run(&self, image: &EngineImage, directory: &Path) -> Result<Location> {
        let (to, arguments) = self.arguments(image, directory)?;
        let mut command = child_process::command(&self.program, ChildKind::EngineTool);
        command
            .args(&arguments)
            .env(MARK, name_of(directory))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
        let failed = |why: String| {
            Error::new(Kind::Io, format!("{} could not copy the image", self.name)).fact("image", image).cause(why)
        };
        let child = start_process(&mut command).map_err(|error| failed(error.to_string()))?;
        let ended = wait(child, LIMIT);
        wait_if_ending();
        match ended {
            Ok(()) => Ok(to),
            Err(said) => {
                let (command, archive) = by_hand(self.name, &self.host, image);
                Err(failed(said).hint(format!("run it by hand: {command}, and name it {archive}")))
            }
        }
    }

    /// The arguments, and where the image is once it has run with them.
    fn arguments(&self, image: &EngineImage, directory: &Path) -> Result<(Location, Vec<String>)> {
        let path = |name: &str| directory.join(name);
        let text = |path: &Path| match path.to_str().filter(|text| !text.contains(':')) {
            Some(text) => Ok(text.to_owned()),
            None => Err(Error::usage("the directory for temporary files has a name that other tools cannot be given")
                .fact("directory", path.display())
                .hint("set TMPDIR to one without a colon")),
        };
        let local = |path: PathBuf, tag: Option<&str>| LocalImage { path, tag: tag.map(str::to_owned), digest: None };
        let (to, words) = match self.name {
            "skopeo" => {
                let layout = path("copy");
                let target = format!("oci:{}:{TAG}", text(&layout)?);
                let (tmp, from) = (text(directory)?, image.to_string());
                // Whom to trust is asked of the result, as for every other source.
                let before = ["--tmpdir", &tmp, "--insecure-policy", "copy", "--quiet"].map(str::to_owned);
                let words = before.into_iter().chain(self.host.skopeo_flag()).chain([from, target]);
                (Location::Layout(local(layout, Some(TAG))), words.collect())
            }
            "podman" => {
                let file = path("copy.tar");
                let out = text(&file)?;
                let words = ["save", "--quiet", "--format", "oci-archive", "--output", &out, "--", &image.name];
                (Location::OciArchive(local(file, None)), words.map(str::to_owned).to_vec())
            }
            _ => {
                let file = path("copy.tar");
                let words = ["save", "--output", &text(&file)?, "--", &image.name].map(str::to_owned);
                (Location::DockerArchive(local(file, None)), words.to_vec())
            }
        };
        Ok((to, words))
    }
}

/// The command by which a person makes an archive of the image, and what the archive is then called.
fn by_hand(tool: &str, host: &DockerHost, image: &EngineImage) -> (String, &'static str) {
    let name = typed_word(&image.name);
    match tool {
        "skopeo" => {
            let words = ["skopeo", "copy"].map(str::to_owned).into_iter().chain(host.skopeo_flag());
            let words = words.chain([image.to_string(), "oci-archive:image.tar:latest".to_owned()]);
            let words: Vec<String> = words.map(|word| typed_word(&word)).collect();
            (words.join(" "), "oci-archive:image.tar:latest")
        }
        "podman" => (format!("podman save --format oci-archive -o image.tar {name}"), "oci-archive:image.tar"),
        _ => (format!("docker save -o image.tar {name}"), "docker-archive:image.tar"),
    }
}

fn missing(image: &EngineImage, names: &[&str]) -> Error {
    // The engine's own tool, which is where the engine is.
    let (command, archive) = by_hand(names.last().unwrap_or(&"skopeo"), &DockerHost::Default, image);
    Error::usage("no tool that reads this image is installed")
        .fact("image", image)
        .fact("looked for", names.join(", "))
        .hint(format!("install {}", names.join(" or ")))
        .hint(format!("or make an archive where the engine is: {command}, and name it {archive}"))
}

/// That an engine's image cannot be a target, and what to do instead.
#[must_use]
pub fn not_a_target(image: &EngineImage) -> Error {
    let (archive, load) = match image.engine {
        Engine::DockerDaemon => ("docker-archive:image.tar:NAME:TAG", "docker load -i image.tar".to_owned()),
        Engine::ContainersStorage => {
            let to = typed_word(&image.to_string());
            ("oci-archive:image.tar:latest", format!("skopeo copy oci-archive:image.tar:latest {to}"))
        }
    };
    Error::usage(format!("an image cannot be published to {}", image.engine.transport()))
        .fact("target", image)
        .hint(format!("write an archive with --to {archive}"))
        .hint(format!("then load it: {load}"))
}

/// Waits for the tool, which ends at the limit; else what it said.
fn wait(mut child: Child, limit: Duration) -> Result<(), String> {
    let (deadline, group) = (Instant::now() + limit, Pid::from_child(&child));
    let stderr = child.stderr.take().map(|stderr| std::thread::spawn(move || tail(stderr)));
    let status = loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
            Ok(Some(status)) => break Some(status),
            Ok(None) | Err(_) => break None,
        }
    };
    // Nothing that it started stays, and nobody waits for it.
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
    let said = stderr.and_then(|stderr| stderr.join().ok()).unwrap_or_default();
    match status {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(if said.is_empty() { status.to_string() } else { said }),
        None => Err(format!("it took longer than {} minutes", limit.as_secs() / 60)),
    }
}

/// The last of what a tool says, in one line.
fn tail(mut stderr: impl io::Read) -> String {
    let (mut said, mut piece) = (Vec::new(), [0; 1024]);
    while let Ok(read @ 1..) = stderr.read(&mut piece) {
        said.extend_from_slice(piece.get(..read).unwrap_or_default());
        let old = said.len().saturating_sub(SAID);
        said.drain(..old);
    }
    let said = String::from_utf8_lossy(&said);
    said.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

static COPY: Purpose = Purpose { name: "copy", remove };

/// Ends what writes to it, and removes it.
fn remove(path: &Path) {
    let until = Instant::now() + PATIENCE;
    let mark = format!("{MARK}={}", name_of(path));
    let is_ours = |pid| proc_file(pid, "environ").split(|byte| *byte == 0).any(|word| word == mark.as_bytes());
    while end_processes(is_ours) > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = fs::remove_dir_all(path);
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn waited(script: &str, limit: Duration) -> Result<(), String> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        wait(start_process(&mut command).unwrap(), limit)
    }

    #[test]
    fn skopeo_is_told_of_a_socket_and_docker_knows_the_rest() {
        let new = |host: Option<&str>, context: Option<&str>| {
            DockerHost::new(host.map(str::to_owned), || context.map(str::to_owned))
        };
        assert_eq!(new(None, None), DockerHost::Default);
        assert_eq!(new(None, Some("default")), DockerHost::Default);
        assert_eq!(new(None, Some("rootless")), DockerHost::OfClient);
        let socket = "unix:///run/user/1000/docker.sock";
        assert_eq!(new(Some(socket), Some("rootless")), DockerHost::Socket(socket.to_owned()));
        assert_eq!(new(Some("ssh://builder"), None), DockerHost::OfClient);
        assert_eq!(new(Some("tcp://builder:2376"), None), DockerHost::OfClient);
    }

    #[test]
    fn a_tool_ends_and_what_it_said_last_is_shown() {
        let long = Duration::from_secs(60);
        assert_eq!(waited("echo fine >&2", long), Ok(()));
        assert_eq!(waited("echo why >&2; exit 3", long), Err("why".to_owned()));
        assert_eq!(waited("printf 'one\\n\\n two\\n' >&2; exit 3", long), Err("one; two".to_owned()));
        assert!(waited("exit 3", long).unwrap_err().contains('3'));
        let much = waited("yes wide | head -c 100000 >&2; echo end >&2; exit 1", long).unwrap_err();
        // Between two lines is one byte more than there was.
        assert!(much.len() <= SAID + SAID / 2 && much.ends_with("end"), "{}", much.len());
        let began = Instant::now();
        assert!(waited("sleep 60 & sleep 60", Duration::from_millis(100)).unwrap_err().contains("longer"));
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
