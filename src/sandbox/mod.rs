//! A real start of an image under an OCI runtime: the one place where something of an image is unpacked and executed,
//! and only where the user asked for it.
//!
//! ```text
//! layers ► merged root ► private directory ► overlay that is thrown away ► runtime ► Observation ► compare ► findings
//! ```
//!
//! The rules it owns: nothing is written outside the directory of the run (`unpack`, `run_directory`), and no path of an
//! image is followed on the host (`image_root`); the process sees no network, no path of the host that was not named
//! (`mounts`), and has limits (`bundle`, `seccomp`); whatever happens, nothing stays behind for longer than until the next
//! run (`run_directory`). `docs/security.md` says it to users.

mod bundle;
mod compare;
mod emulator;
mod image_root;
mod mounts;
mod opened;
mod run_directory;
mod runtime;
mod seccomp;
mod subordinate;
mod syscalls;
mod unpack;
mod worker;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, mkdir};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{Resource, chdir, geteuid, getrlimit, setrlimit};
use serde_json::Value;

pub use compare::{Comparison, PlatformStart, compare, judge_start};
pub use opened::{OpenedFile, OpenedFiles};
pub use runtime::{HealthRun, OutputTail, StartEnd};
pub use unpack::OpenLayer;
pub use worker::{is_worker, work};

use crate::plan::StartOptions;
use crate::process::{self, Container, MountKind, PodMount, PodSurroundings, Start};
use crate::store::disk::wait_if_ending;
use bundle::{Bundle, EmptyVolume, HostMount, StartRights, WRITTEN};
use emulator::Machine;
use layer::LayerIndex;
use oci::error::{Error, Kind, Result};
use oci::{Descriptor, Platform};
use opened::Watch;
use run_directory::RunDirectory;
use runtime::{HEALTH_FILE, HealthCheck, RunOutcome};
use start::rootfs::{Root, merge};
use subordinate::UserNamespace;
use unpack::{OwnedNode, Ownership, Unpacked, Unpacking, WrittenFiles};
use worker::StartJob;

/// The directory of what was unpacked, below the one of an image.
const LOWER: &str = "lower";
/// The directory that the root of the container is mounted on, there.
const ROOT: &str = "root";

/// A layer, and what is in it.
#[derive(Debug, Clone)]
pub struct SandboxLayer {
    pub descriptor: Descriptor,
    pub index: Arc<LayerIndex>,
}

/// An image to start.
pub struct SandboxImage<'a> {
    pub role: ImageRole,
    pub platform: &'a Platform,
    pub container: &'a Container,
    pub layers: &'a [SandboxLayer],
    pub open: OpenLayer<'a>,
}

/// Which image of a run it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageRole {
    Source,
    Result,
    /// The only one.
    Alone,
}

impl ImageRole {
    const fn word(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Result => "result",
            Self::Alone => "image",
        }
    }
}

/// What was asked for and came of it.
#[derive(Debug, Clone)]
pub enum Attempt {
    Started(Box<Observation>),
    NotStarted(NotStarted),
}

/// Why an image was not started, and what would change that.
#[derive(Debug, Clone)]
pub struct NotStarted {
    pub reason: String,
    pub fix: &'static str,
}

impl NotStarted {
    fn attempt(reason: impl Into<String>, fix: &'static str) -> Attempt {
        Attempt::NotStarted(Self { reason: reason.into(), fix })
    }
}

const OTHER_MACHINE: &str = "start it on a machine of this platform, or install qemu-user-static";
const NO_COMMAND: &str = "name the program to start with --start-arg";
const OTHER_USER: &str =
    "run underpin as root, or lend its user numbers in /etc/subuid and /etc/subgid and install uidmap";

/// What was seen of one start.
#[derive(Debug, Clone)]
pub struct Observation {
    pub argv: Vec<String>,
    pub end: StartEnd,
    pub stdout: OutputTail,
    pub stderr: OutputTail,
    /// TCP ports that were listened on when its time was over.
    pub ports: BTreeSet<u16>,
    pub health: Option<HealthRun>,
    pub opened: OpenedFiles,
    /// Files of the image that were not unpacked, and why.
    pub left_out: Vec<String>,
    /// The emulator that executed its program.
    pub emulator: Option<String>,
}

/// A place to start images in. Everything in it is gone when it is dropped.
pub struct Sandbox {
    options: StartOptions,
    runtime: PathBuf,
    run: RunDirectory,
    written: WrittenFiles,
    namespace: Option<UserNamespace>,
    count: usize,
}

impl Sandbox {
    /// A new one, once what dead runs left is gone.
    pub fn new(options: &StartOptions) -> Result<Self> {
        let runtime = runtime::find_runtime(options.runtime.as_deref())?;
        for mount in &options.mounts {
            let found = std::fs::symlink_metadata(&mount.from);
            found.map_err(|error| Error::io("a path of --start-mount cannot be read", &mount.from, &error))?;
            if mount.from.to_str().is_none() {
                return Err(Error::usage("a path of --start-mount is not UTF-8").fact("path", mount.from.display()));
            }
        }
        raise_file_limit();
        let namespace = if geteuid().is_root() { None } else { Some(UserNamespace::of_this_user()) };
        let (run, written) = (RunDirectory::create()?, WrittenFiles::default());
        Ok(Self { options: options.clone(), runtime, run, written, namespace, count: 0 })
    }

    /// Unpacks the image, starts it, and ends it.
    pub fn start(&mut self, image: &SandboxImage<'_>) -> Result<Attempt> {
        let machine = Machine::of(image.platform);
        if let Machine::Foreign(reason) = machine {
            return Ok(NotStarted::attempt(reason, OTHER_MACHINE));
        }
        let root = merge(image.layers.iter().map(|layer| layer.index.as_ref()));
        let start = self.start_of(image.container, &root);
        if start.argv.is_empty() {
            return Ok(NotStarted::attempt("it has no command", NO_COMMAND));
        }
        if let Some(reason) = self.unmapped(&start) {
            return Ok(NotStarted::attempt(reason, OTHER_USER));
        }
        let (argv, emulator) = match &machine {
            Machine::Emulated(emulator) => match emulator::emulated(&start, &start.argv) {
                Ok(argv) => (argv, Some(emulator.as_path())),
                Err(reason) => return Ok(NotStarted::attempt(reason, OTHER_MACHINE)),
            },
            _ => (start.argv.clone(), None),
        };
        let mut observation = Observation {
            argv: start.argv.clone(),
            end: StartEnd::Running,
            stdout: OutputTail::default(),
            stderr: OutputTail::default(),
            ports: BTreeSet::new(),
            health: None,
            opened: OpenedFiles::NotWatched("it was not executed".to_owned()),
            left_out: Vec::new(),
            emulator: emulator.map(|path| path.display().to_string()),
        };
        if let Err(unknown) = &start.user {
            observation.end = StartEnd::NotExecuted(format!("{} does not have {}", unknown.which.path(), unknown.name));
            return Ok(Attempt::Started(Box::new(observation)));
        }
        let executed = self.execute(image, &root, (&start, &argv, emulator), &mut observation);
        wait_if_ending();
        executed?;
        Ok(Attempt::Started(Box::new(observation)))
    }

    /// What the image starts, with the arguments and variables of the run.
    fn start_of(&self, container: &Container, root: &Root<'_>) -> Start {
        let mut container = container.clone();
        let variables = self.options.env.iter().map(|variable| (variable.name.clone(), variable.value.clone()));
        container.add_environment(&variables.collect::<Vec<_>>());
        let argv: Vec<String> = container.command.argv().into_iter().chain(self.options.args.iter().cloned()).collect();
        process::start_of(&container, &argv, root)
    }

    /// Without root's rights only some users can be had.
    fn unmapped(&self, start: &Start) -> Option<String> {
        let namespace = self.namespace.as_ref()?;
        let user = start.user.as_ref().ok()?;
        let (uid, gid) = (user.credentials.uid, user.credentials.gid);
        (!namespace.covers(uid, gid)).then(|| {
            format!("it runs as user {uid} and group {gid}, which takes root's rights or numbers of /etc/subuid and /etc/subgid")
        })
    }

    fn execute(
        &mut self,
        image: &SandboxImage<'_>,
        root: &Root<'_>,
        (start, argv, emulator): (&Start, &[String], Option<&Path>),
        observation: &mut Observation,
    ) -> Result<()> {
        self.count += 1;
        let name = format!("{}-{}", self.count, image.role.word());
        let place = self.run.directory(&name, 0o700)?;
        let lower = self.run.directory(&format!("{name}/{LOWER}"), 0o755)?;
        let Unpacked { left_out, mut owners } = self.unpack(image, root, &lower)?;
        observation.left_out = left_out;
        observation.left_out.extend(self.without_owners(&mut owners));
        let id = format!("{}-{name}", self.run.name());
        self.run.directory(&format!("{name}/{ROOT}"), 0o755)?;
        self.run.directory(&format!("{name}/writable"), 0o700)?;
        let credentials = start.credentials();
        let bundle = Bundle {
            place: place.clone(),
            id: id.clone(),
            argv: argv.to_vec(),
            environment: start.environment.iter().map(|(name, value)| format!("{name}={value}")).collect(),
            working_dir: start.working_dir.written.clone(),
            uid: credentials.uid,
            gid: credentials.gid,
            groups: credentials.groups,
            volumes: self.volumes(&name, &image.container.pod)?,
            has_read_only_root: image.container.pod.has_read_only_root,
            mounts: self.host_mounts(emulator)?,
            rights: if self.namespace.is_none() { StartRights::Root } else { StartRights::Namespace },
        };
        let container = runtime::Container {
            runtime: self.runtime.clone(),
            run: self.run.path().to_owned(),
            bundle: place,
            id,
            program: argv.first().cloned().unwrap_or_default(),
        };
        let health = health_check(image.container).filter(|_| emulator.is_none());
        let job = StartJob { container, bundle, seconds: self.options.seconds.duration(), health, owners };
        let (outcome, opened) = match &self.namespace {
            None => start_as_root(&job, emulator)?,
            Some(namespace) => {
                (worker::start(namespace, job)?, OpenedFiles::NotWatched("that takes root's rights".to_owned()))
            }
        };
        let RunOutcome { end, stdout, stderr, ports, health, replaced } = outcome;
        observation.left_out.extend(replaced);
        (observation.end, observation.ports, observation.health) = (end, ports, health);
        (observation.stdout, observation.stderr, observation.opened) = (stdout, stderr, opened);
        Ok(())
    }

    /// The volumes of a pod, without what they would have in a cluster.
    fn volumes(&self, name: &str, pod: &PodSurroundings) -> Result<Vec<EmptyVolume>> {
        let volume = |(at, mount): (usize, &PodMount)| {
            let file = match mount.kind {
                MountKind::Directory => None,
                MountKind::File => Some(self.run.file(&format!("{name}/volume-{at}"), b"")?),
            };
            // Its owner is not the pod's user: whether that may write to it is for the volume to say.
            if let Some(file) = file.as_ref().filter(|_| mount.is_writable) {
                let all = std::os::unix::fs::PermissionsExt::from_mode(0o666);
                std::fs::set_permissions(file, all)
                    .map_err(|error| Error::io("a file of the sandbox cannot be made", file, &error))?;
            }
            Ok(EmptyVolume { to: mount.path.to_string(), file, is_writable: mount.is_writable })
        };
        pod.mounts.iter().enumerate().map(volume).collect()
    }

    fn unpack(&mut self, image: &SandboxImage<'_>, root: &Root<'_>, into: &Path) -> Result<Unpacked> {
        let (ownership, shared) = match self.namespace {
            None => (Ownership::Kept, Some(&mut self.written)),
            Some(_) => (Ownership::Ours, None),
        };
        let unpacked = Unpacking { root, layers: image.layers, open: image.open, into, ownership }.run(shared);
        unpacked.map_err(|error| error.fact("into", into.display()))
    }

    /// Gives to root what belongs to users that the namespace does not have, and says so.
    fn without_owners(&self, owners: &mut [OwnedNode]) -> Option<String> {
        let namespace = self.namespace.as_ref()?;
        let strangers = owners.iter_mut().filter(|node| !namespace.covers(node.uid, node.gid));
        let count = strangers.map(|node| (node.uid, node.gid) = (0, 0)).count();
        (count > 0).then(|| {
            let files =
                if count == 1 { "the owner of 1 file".to_owned() } else { format!("the owners of {count} files") };
            format!("{files} (takes root's rights or numbers of /etc/subuid and /etc/subgid)")
        })
    }

    /// What every runtime gives a container, what the user names, and the emulator.
    fn host_mounts(&self, emulator: Option<&Path>) -> Result<Vec<HostMount>> {
        let hosts = b"127.0.0.1\tlocalhost underpin\n::1\tlocalhost ip6-localhost ip6-loopback\n";
        let mut mounts = Vec::new();
        for (name, content) in [("hosts", hosts.as_slice()), ("hostname", b"underpin\n"), ("resolv.conf", b"")] {
            mounts.push(HostMount { from: self.run.file(name, content)?, to: format!("/etc/{name}"), is_own: true });
        }
        let named = self.options.mounts.iter();
        mounts.extend(named.map(|mount| HostMount {
            from: mount.from.clone(),
            to: mount.to.to_string(),
            is_own: false,
        }));
        mounts.extend(emulator.map(|path| HostMount {
            from: path.to_owned(),
            to: emulator::PLACE.to_owned(),
            is_own: true,
        }));
        Ok(mounts)
    }
}

/// In this process, with opened files watched where that is possible.
fn start_as_root(job: &StartJob, emulator: Option<&Path>) -> Result<(RunOutcome, OpenedFiles)> {
    in_own_mounts(|| {
        let mut watch = Err("it was not executed".to_owned());
        let outcome = job.run(|| {
            watch = match emulator {
                None => {
                    Watch::begin(&job.bundle.root()).map_err(|error| format!("fanotify is not allowed here: {error}"))
                }
                Some(_) => Err("an emulator opens its files".to_owned()),
            };
        });
        let opened = match watch {
            Ok(watch) => OpenedFiles::Seen(watch.end()),
            Err(reason) => OpenedFiles::NotWatched(reason),
        };
        Ok((outcome?, opened))
    })
}

impl StartJob {
    /// Mounts everything, tells it to the runtime, and runs. `watch` is called when only the runtime is left to come.
    fn run(&self, watch: impl FnOnce()) -> Result<RunOutcome> {
        mount_root(&self.bundle.place, self.bundle.rights)?;
        let mut replaced = Vec::new();
        let prepared = match self.bundle.prepare(&mut replaced)? {
            Ok(prepared) => prepared,
            Err(reason) => return Ok(RunOutcome::not_executed(reason, replaced)),
        };
        self.container.write("config.json", &prepared.config()?)?;
        let health = match &self.health {
            None => None,
            Some(check) => {
                self.container.write(HEALTH_FILE, &prepared.process(&check.argv))?;
                Some(check)
            }
        };
        watch();
        let outcome = self.container.run(self.seconds, health)?;
        Ok(RunOutcome { replaced, ..outcome })
    }
}

/// Does `work` on a thread whose mounts nobody else sees. They are gone with its last process, whatever ends it.
fn in_own_mounts<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let within = || {
        let private = || -> std::io::Result<()> {
            syscalls::unshare_mounts()?;
            Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
        };
        private().map_err(|error| {
            Error::new(Kind::Io, "could not get mounts of its own to start the image on")
                .cause(error)
                .hint("run underpin as a user without root's rights, or with CAP_SYS_ADMIN")
        })?;
        work()
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("sandbox".to_owned()).spawn_scoped(scope, within);
        let thread = thread.map_err(|error| Error::new(Kind::Io, "could not start a thread").cause(error))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Mounts what was unpacked below a directory in memory that takes what is written. Names are relative to the place,
/// whose own name may hold characters that the options of a mount cannot.
fn mount_root(place: &Path, rights: StartRights) -> Result<()> {
    let mounted = || -> rustix::io::Result<()> {
        chdir(place)?;
        let size = std::ffi::CString::new(format!("size={WRITTEN},mode=755")).unwrap_or_default();
        mount("tmpfs", "writable", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, size.as_c_str())?;
        mkdir("writable/upper", Mode::from_raw_mode(0o755))?;
        mkdir("writable/work", Mode::from_raw_mode(0o755))?;
        copy_root_attributes()?;
        let layers = match rights {
            StartRights::Root => c"lowerdir=lower,upperdir=writable/upper,workdir=writable/work",
            // The marks of an overlay are attributes that only root of the machine can set, unless they are a user's.
            StartRights::Namespace => c"lowerdir=lower,upperdir=writable/upper,workdir=writable/work,userxattr",
        };
        mount("overlay", "root", "overlay", MountFlags::NODEV, layers)
    };
    mounted().map_err(|error| {
        let error = Error::new(Kind::Io, "could not mount a root to start the image on")
            .fact("directory", place.display())
            .cause(error);
        match rights {
            StartRights::Root => error,
            StartRights::Namespace => error.hint("run underpin as root, or on Linux 5.11 or newer"),
        }
    })
}

/// The root of an overlay has the attributes of its upper directory.
fn copy_root_attributes() -> rustix::io::Result<()> {
    use rustix::fs::{Gid, Uid, chmod, chown, lstat};
    let found = lstat("lower")?;
    chown("writable/upper", Some(Uid::from_raw(found.st_uid)), Some(Gid::from_raw(found.st_gid)))?;
    chmod("writable/upper", Mode::from_raw_mode(found.st_mode))
}

/// A deep directory is removed with one open file for each level.
fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

/// The image's health check, as a process of its container.
fn health_check(container: &Container) -> Option<HealthCheck> {
    const LONGEST: Duration = Duration::from_secs(30);
    let check = container.members.get("Healthcheck")?;
    let words: Vec<String> =
        check.get("Test")?.as_array()?.iter().filter_map(|word| Some(word.as_str()?.to_owned())).collect();
    let argv = match words.split_first() {
        Some((kind, rest)) if kind == "CMD" && !rest.is_empty() => rest.to_vec(),
        Some((kind, rest)) if kind == "CMD-SHELL" => {
            let shell = container.members.get("Shell").and_then(Value::as_array);
            let shell =
                shell.map(|words| words.iter().filter_map(|word| Some(word.as_str()?.to_owned())).collect::<Vec<_>>());
            let shell =
                shell.filter(|words| !words.is_empty()).unwrap_or_else(|| vec!["/bin/sh".to_owned(), "-c".to_owned()]);
            shell.into_iter().chain(rest.first().cloned()).collect()
        }
        _ => return None,
    };
    let timeout = check.get("Timeout").and_then(Value::as_u64).filter(|nanoseconds| *nanoseconds > 0);
    let patience = timeout.map_or(LONGEST, Duration::from_nanos).min(LONGEST);
    Some(HealthCheck { argv, patience })
}
