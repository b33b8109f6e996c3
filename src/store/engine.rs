//! Images of a container engine on this machine: a tool copies one into a private directory, where it is read.
//!
//! The rules this file owns: a tool is executed without a shell, for so long and no longer; what it says is shown where
//! it fails; and its copy is gone with the run, also if a signal ends that. What a run that was killed left behind, the
//! next one removes.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::{Pid, Signal, geteuid, kill_process_group};

use super::Notices;
use super::parallel::OnceMap;
use crate::error::{Error, Kind, Result};
use crate::oci::{Engine, EngineImage, LocalImage, Location};

/// As long as a tool may take: an hour is enough for the largest image on the slowest disk.
const LIMIT: Duration = Duration::from_secs(3600);
/// What is kept of what a tool says.
const SAID: usize = 4 << 10;
const TAG: &str = "image";

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
    _directory: CopyDirectory,
}

impl EngineCopy {
    fn make(image: &EngineImage, notices: &Notices) -> Result<Self> {
        let tool = EngineTool::find(image)?;
        let directory = CopyDirectory::create()?;
        notices.warn(format!(
            "{image} is copied with {}: the engine has its layers unpacked, so they and the result have other digests than from a registry",
            tool.name
        ));
        let location = tool.run(image, &directory.path)?;
        Ok(Self { location, _directory: directory })
    }
}

/// A program that copies an image of an engine.
struct EngineTool {
    name: &'static str,
    program: PathBuf,
}

impl EngineTool {
    /// The first that is installed of those that know the engine.
    fn find(image: &EngineImage) -> Result<Self> {
        let names: &[&'static str] = match image.engine {
            Engine::DockerDaemon => &["skopeo", "docker"],
            // Where the storage is elsewhere, only skopeo takes its place from the name.
            Engine::ContainersStorage if image.name.starts_with('[') => &["skopeo"],
            Engine::ContainersStorage => &["skopeo", "podman"],
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories: Vec<PathBuf> = std::env::split_paths(&path).filter(|it| it.is_absolute()).collect();
        let mut programs = names.iter().flat_map(|name| directories.iter().map(move |it| (*name, it.join(name))));
        let found = programs.find(|(_, program)| program.is_file());
        found.map(|(name, program)| Self { name, program }).ok_or_else(|| missing(image, names))
    }

    /// Copies the image, and yields where to.
    fn run(&self, image: &EngineImage, directory: &Path) -> Result<Location> {
        let (to, arguments) = self.arguments(image, directory)?;
        let mut command = Command::new(&self.program);
        command.args(&arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let failed = |why: String| {
            Error::new(Kind::Io, format!("{} could not copy the image", self.name)).fact("image", image).cause(why)
        };
        let child = start(&mut command).map_err(|error| failed(error.to_string()))?;
        match wait(child, LIMIT) {
            Ok(()) => Ok(to),
            Err(said) => Err(failed(said).hint(format!("run it by hand: {}", self.by_hand(image)))),
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
                let words =
                    ["--tmpdir", &tmp, "--insecure-policy", "copy", "--quiet", &from, &target].map(str::to_owned);
                (Location::Layout(local(layout, Some(TAG))), words.to_vec())
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

    fn by_hand(&self, image: &EngineImage) -> String {
        match self.name {
            "skopeo" => format!("skopeo copy {image} oci-archive:image.tar:latest"),
            "podman" => format!("podman save --format oci-archive -o image.tar {}", image.name),
            _ => format!("docker save -o image.tar {}", image.name),
        }
    }
}

fn missing(image: &EngineImage, names: &[&str]) -> Error {
    let archive = match image.engine {
        Engine::DockerDaemon => {
            format!("docker save -o image.tar {}, and name it docker-archive:image.tar", image.name)
        }
        Engine::ContainersStorage => {
            format!("podman save --format oci-archive -o image.tar {}, and name it oci-archive:image.tar", image.name)
        }
    };
    Error::usage("no tool that reads this image is installed")
        .fact("image", image)
        .fact("looked for", names.join(", "))
        .hint(format!("install {}", names.join(" or ")))
        .hint(format!("or make an archive where the engine is: {archive}"))
}

/// That an engine's image cannot be a target, and what to do instead.
#[must_use]
pub fn not_a_target(image: &EngineImage) -> Error {
    let (archive, load) = match image.engine {
        Engine::DockerDaemon => ("docker-archive:image.tar:NAME:TAG", "docker load -i image.tar".to_owned()),
        Engine::ContainersStorage => {
            ("oci-archive:image.tar:latest", format!("skopeo copy oci-archive:image.tar:latest {image}"))
        }
    };
    Error::usage(format!("an image cannot be published to {}", image.engine.transport()))
        .fact("target", image)
        .hint(format!("write an archive with --to {archive}"))
        .hint(format!("then load it: {load}"))
}

/// The tools that are running; `None` once a signal is ending this process: then none is started any more.
static RUNNING: Mutex<Option<Vec<Pid>>> = Mutex::new(Some(Vec::new()));

fn start(command: &mut Command) -> io::Result<Child> {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(running) = running.as_mut() else { return Err(io::ErrorKind::Interrupted.into()) };
    let child = command.spawn()?;
    running.push(Pid::from_child(&child));
    Ok(child)
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
    if let Some(running) = RUNNING.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        running.retain(|pid| *pid != group);
    }
    let said = stderr.and_then(|stderr| stderr.join().ok()).unwrap_or_default();
    match status {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(if said.is_empty() { status.to_string() } else { said }),
        None => Err(format!("it took longer than {} minutes", limit.as_secs() / 60)),
    }
}

/// The last of what a tool says.
fn tail(mut stderr: impl io::Read) -> String {
    let (mut said, mut piece) = (Vec::new(), [0; 1024]);
    while let Ok(read @ 1..) = stderr.read(&mut piece) {
        said.extend_from_slice(piece.get(..read).unwrap_or_default());
        let old = said.len().saturating_sub(SAID);
        said.drain(..old);
    }
    String::from_utf8_lossy(&said).trim().to_owned()
}

/// The copies of this process, for a signal that ends it.
static ALIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
const LOCK: &str = "lock";

/// Ends what copies images for this process, and removes the copies.
pub fn end_all_copies() {
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner).take();
    for group in running.into_iter().flatten() {
        let _ = kill_process_group(group, Signal::KILL);
    }
    for path in ALIVE.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        remove(path);
    }
}

/// A tool that was killed a moment ago may still have written something.
fn remove(path: &Path) {
    for _ in 0..50 {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => std::thread::sleep(Duration::from_millis(10)),
            _ => return,
        }
    }
}

/// A directory that nobody else can enter, gone when it is dropped. Its owner holds a lock in it as long as it lives.
struct CopyDirectory {
    path: PathBuf,
    _lock: File,
}

impl CopyDirectory {
    fn create() -> Result<Self> {
        let (all, prefix) = (std::env::temp_dir(), format!("underpin-copy-{}-", geteuid().as_raw()));
        sweep(&all, &prefix);
        let number = fastrand::u64(..);
        let (begun, path) =
            (all.join(format!("underpin-begun-{number:016x}")), all.join(format!("{prefix}{number:016x}")));
        let make = || -> io::Result<File> {
            DirBuilder::new().mode(0o700).create(&begun)?;
            let lock = locked(&begun.join(LOCK), OpenOptions::new().write(true).create_new(true).mode(0o600))?;
            // Only now it is seen: with its lock held.
            fs::rename(&begun, &path)?;
            Ok(lock)
        };
        let lock = make().map_err(|error| Error::io("could not make a directory for the copy", &path, &error))?;
        ALIVE.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
        Ok(Self { path, _lock: lock })
    }
}

impl Drop for CopyDirectory {
    fn drop(&mut self) {
        remove(&self.path);
        ALIVE.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| *path != self.path);
    }
}

fn locked(path: &Path, how: &mut OpenOptions) -> io::Result<File> {
    let file = how.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// Removes our own copies whose owner is dead: their lock can be taken.
fn sweep(all: &Path, prefix: &str) {
    let is_ours = |path: &Path| {
        let found = fs::symlink_metadata(path);
        found.is_ok_and(|found| found.is_dir() && found.uid() == geteuid().as_raw())
    };
    let copies = fs::read_dir(all).into_iter().flatten().flatten();
    let copies = copies.filter(|it| it.file_name().to_str().is_some_and(|name| name.starts_with(prefix)));
    for path in copies.map(|it| it.path()).filter(|path| is_ours(path)) {
        if locked(&path.join(LOCK), OpenOptions::new().write(true)).is_ok() {
            remove(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waited(script: &str, limit: Duration) -> Result<(), String> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        wait(start(&mut command).unwrap(), limit)
    }

    #[test]
    fn a_tool_ends_and_what_it_said_last_is_shown() {
        let long = Duration::from_secs(60);
        assert_eq!(waited("echo fine >&2", long), Ok(()));
        assert_eq!(waited("echo why >&2; exit 3", long), Err("why".to_owned()));
        assert!(waited("exit 3", long).unwrap_err().contains('3'));
        let much = waited("yes wide | head -c 100000 >&2; echo end >&2; exit 1", long).unwrap_err();
        assert!(much.len() <= SAID && much.ends_with("end"), "{}", much.len());
        let began = Instant::now();
        assert!(waited("sleep 60 & sleep 60", Duration::from_millis(100)).unwrap_err().contains("longer"));
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_copy_is_gone_with_its_owner_and_dead_ones_with_the_next() {
        let directory = CopyDirectory::create().unwrap();
        let path = directory.path.clone();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        let other = CopyDirectory::create().unwrap();
        assert!(path.is_dir(), "its owner lives");
        drop((directory, other));
        assert!(!path.exists());
        fs::create_dir(&path).unwrap();
        fs::write(path.join(LOCK), "").unwrap();
        drop(CopyDirectory::create().unwrap());
        assert!(!path.exists(), "nobody held its lock");
    }
}
