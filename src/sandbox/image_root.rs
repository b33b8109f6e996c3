//! The root of an unpacked image: the one place where a path of an image meets the file system of the host.
//!
//! Every name is opened from a descriptor of the root with `openat2`, which follows no link by itself. Where links are to
//! be followed, they are read and followed here, step by step, and `/` and `..` never lead above the image's own root.
//! Nothing else joins a path of an image to one of the host: `clippy.toml` forbids the calls, and a path that a runtime
//! is told exists only as a `ContainerPath`, which is made here.
#![expect(clippy::disallowed_methods, reason = "this is the place")]

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Timestamps, Uid, chmodat, chownat, fstat, linkat,
    mkdirat, mknodat, openat, openat2, readlinkat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;
use serde::Serialize;

use layer::RootPath;
use oci::error::{Error, Kind, Result};

/// A directory that the files of an image are below. The directory used last stays open.
#[derive(Debug)]
pub(super) struct ImageRoot {
    root: OwnedFd,
    last: Option<(RootPath, OwnedFd)>,
}

/// Where a name is, or is to be made: nothing on the way to it is a link.
pub(super) struct Place<'a> {
    directory: BorrowedFd<'a>,
    name: &'a [u8],
}

type Done<T = ()> = std::result::Result<T, Errno>;

/// `NO_SYMLINKS` is about the way: a name at its end that is a link is opened as one, and never followed.
fn open_step(directory: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Done<OwnedFd> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(directory, path, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty(), resolve)
}

fn kind_of(file: &OwnedFd) -> Done<FileType> {
    Ok(FileType::from_raw_mode(fstat(file)?.st_mode))
}

impl ImageRoot {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty());
        let root = root.map_err(|error| Error::io("could not open the root of an image", path, &error.into()))?;
        Ok(Self { root, last: None })
    }

    /// The directory at `path`: real on every step of the way.
    pub(super) fn directory(&mut self, path: &RootPath) -> Result<BorrowedFd<'_>> {
        if path.is_root() {
            return Ok(self.root.as_fd());
        }
        if self.last.as_ref().is_none_or(|(open, _)| open != path) {
            let opened = open_step(self.root.as_fd(), path.as_bytes(), OFlags::PATH | OFlags::DIRECTORY);
            let opened = opened.map_err(|error| failed("a directory of the image could not be opened", error, path))?;
            self.last = Some((path.clone(), opened));
        }
        Ok(self.last.as_ref().map_or(self.root.as_fd(), |(_, directory)| directory.as_fd()))
    }

    /// The place of `path`; for the root itself, its own.
    pub(super) fn place<'a>(&'a mut self, path: &'a RootPath) -> Result<Place<'a>> {
        match (path.parent(), path.name()) {
            (Some(parent), Some(name)) => Ok(Place { directory: self.directory(&parent)?, name }),
            _ => Ok(Place { directory: self.root.as_fd(), name: b"." }),
        }
    }

    /// A directory that can be read, and given attributes.
    pub(super) fn readable_directory(&mut self, path: &RootPath) -> Result<Done<OwnedFd>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(openat(self.directory(path)?, c".", flags, Mode::empty()))
    }

    pub(super) fn make_directory(&mut self, path: &RootPath) -> Result<()> {
        let made = self.place(path)?.make_directory(Mode::RWXU);
        made.map_err(|error| failed("a directory could not be made", error, path))
    }

    /// A new file: never one that is there.
    pub(super) fn create_file(&mut self, path: &RootPath) -> Result<File> {
        let made = self.place(path)?.create_file();
        made.map_err(|error| failed("a file could not be made", error, path))
    }

    /// A further name for a file of this root.
    pub(super) fn link_within(&mut self, there: &RootPath, path: &RootPath) -> Result<()> {
        let Place { directory, .. } = self.place(there)?;
        let name = there.name().unwrap_or(b".");
        let lost = |error: std::io::Error| Error::new(Kind::Io, "a directory was lost").cause(error);
        let directory = directory.try_clone_to_owned().map_err(lost)?;
        Place { directory: directory.as_fd(), name }.link_to(&self.place(path)?, path)
    }

    /// A name for a file of another root, which underpin has written and nobody can write to.
    pub(super) fn link_from(&mut self, other: &mut Self, there: &RootPath, path: &RootPath) -> Result<()> {
        other.place(there)?.link_to(&self.place(path)?, path)
    }

    /// What is at a path without any link in it.
    pub(super) fn stat(&self, path: &RootPath) -> Option<Stat> {
        fstat(open_step(self.root.as_fd(), path.as_bytes(), OFlags::PATH).ok()?).ok()
    }
}

impl Place<'_> {
    fn make_directory(&self, mode: Mode) -> Done {
        mkdirat(self.directory, self.name, mode)
    }

    fn create_file(&self) -> Done<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(self.directory, self.name, flags, Mode::RUSR | Mode::WUSR).map(File::from)
    }

    fn link_to(&self, new: &Place<'_>, path: &RootPath) -> Result<()> {
        let linked = linkat(self.directory, self.name, new.directory, new.name, AtFlags::empty());
        linked.map_err(|error| failed("a hard link could not be made", error, path))
    }

    pub(super) fn make_symlink(&self, target: &[u8]) -> Done {
        symlinkat(target, self.directory, self.name)
    }

    pub(super) fn make_pipe(&self, mode: Mode) -> Done {
        mknodat(self.directory, self.name, FileType::Fifo, mode, 0)
    }

    /// Of a link itself, where it is one.
    pub(super) fn own(&self, uid: Uid, gid: Gid) -> Done {
        chownat(self.directory, self.name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
    }

    pub(super) fn set_times(&self, times: &Timestamps) -> Done {
        utimensat(self.directory, self.name, times, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Only of what is no link: the kernel follows one.
    pub(super) fn set_mode(&self, mode: Mode) -> Done {
        let found = open_step(self.directory, self.name, OFlags::PATH)?;
        match kind_of(&found)? {
            FileType::Symlink => Err(Errno::LOOP),
            _ => chmodat(self.directory, self.name, mode, AtFlags::empty()),
        }
    }

    /// The file itself, without waiting for a writer where it is a pipe.
    pub(super) fn open_for_attributes(&self) -> Done<OwnedFd> {
        open_step(self.directory, self.name, OFlags::RDONLY | OFlags::NONBLOCK)
    }
}

/// A path in a container that a runtime may be told: absolute, and without a link in it. Made by `ImageRoot` only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(super) struct ContainerPath(String);

/// What is needed at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// To mount a directory on. What is no directory is replaced.
    Directory,
    /// To mount a file on. A link is followed.
    File,
    /// To mount a file of the runtime's on. A link is replaced.
    OwnFile,
    /// To begin in, as runtimes have it: nothing is replaced, and none is made where a link leads nowhere.
    WorkingDirectory,
}

/// A path of the image, made ready.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) path: ContainerPath,
    /// What is there; `None` below a file system that the runtime has yet to mount.
    pub(super) file: Option<OwnedFd>,
}

/// Why a path of the image cannot be had, in words about the image.
pub(super) type Blocked = String;

/// The directories that every runtime mounts a file system of its own on. Nothing of the image below them is seen.
const MOUNTED_BY_RUNTIMES: [&str; 3] = ["dev", "proc", "sys"];
/// As many as the kernel follows.
const MOST_LINKS: usize = 40;

impl ImageRoot {
    /// Makes real directories of those that a runtime mounts on, and says what it replaced.
    pub(super) fn prepare_for_runtime(&self) -> Result<Vec<String>> {
        let mut replaced = Vec::new();
        for name in MOUNTED_BY_RUNTIMES {
            let place = Place { directory: self.root.as_fd(), name: name.as_bytes() };
            let mut made = || match place.look() {
                Ok((_, FileType::Directory)) => Ok(()),
                Ok((_, kind)) => {
                    replaced.push(note(&format!("/{name}"), kind));
                    place.replace(Need::Directory).map(drop)
                }
                Err(Errno::NOENT) => place.make(Need::Directory).map(drop),
                Err(error) => Err(error),
            };
            made().map_err(|error| not_ready(error).fact("path", format!("/{name}")))?;
        }
        Ok(replaced)
    }

    /// Makes ready what is needed at `path`, inside the root whatever links say. What is replaced on the way is noted.
    pub(super) fn prepare(
        &self,
        path: &str,
        need: Need,
        replaced: &mut Vec<String>,
    ) -> Result<std::result::Result<Prepared, Blocked>> {
        let mut walk = Walk { root: self, need, steps: Vec::new(), rest: Vec::new(), links: 0, replaced };
        walk.push(path.as_bytes(), Written::Path);
        let walked = match walk.run() {
            Ok(()) => walk.end(),
            Err(Stop::Blocked(reason)) => Err(reason),
            Err(Stop::Failed(
                error @ (Errno::NAMETOOLONG | Errno::INVAL | Errno::NOTDIR | Errno::LOOP | Errno::ROFS),
            )) => Err(error.to_string()),
            Err(Stop::Failed(error)) => return Err(not_ready(error).fact("path", oci::error::printable(path))),
        };
        let shown = oci::error::printable(path);
        Ok(walked.map_err(|reason| match need {
            Need::WorkingDirectory => format!("cannot begin in the working directory {shown}: {reason}"),
            _ => format!("cannot mount on {shown}: {reason}"),
        }))
    }
}

impl Place<'_> {
    fn look(&self) -> Done<(OwnedFd, FileType)> {
        let found = open_step(self.directory, self.name, OFlags::PATH)?;
        let kind = kind_of(&found)?;
        Ok((found, kind))
    }

    /// For everybody to see, whatever the mask of this process.
    fn make(&self, need: Need) -> Done<OwnedFd> {
        let open = match need {
            Need::Directory | Need::WorkingDirectory => {
                self.make_directory(Mode::RWXU)?;
                0o755
            }
            Need::File | Need::OwnFile => {
                self.create_file()?;
                0o644
            }
        };
        self.set_mode(Mode::from_raw_mode(open))?;
        self.look().map(|(found, _)| found)
    }

    fn replace(&self, need: Need) -> Done<OwnedFd> {
        unlinkat(self.directory, self.name, AtFlags::empty())?;
        self.make(need)
    }
}

/// Where a name to walk to was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Path,
    Link,
}

enum Stop {
    Blocked(Blocked),
    Failed(Errno),
}

impl From<Errno> for Stop {
    fn from(error: Errno) -> Self {
        Self::Failed(error)
    }
}

/// A step from the root.
struct Step {
    name: Vec<u8>,
    /// `None` below a file system that the runtime has yet to mount.
    file: Option<OwnedFd>,
}

struct Walk<'a> {
    root: &'a ImageRoot,
    need: Need,
    steps: Vec<Step>,
    /// The next one last.
    rest: Vec<(Vec<u8>, Written)>,
    links: usize,
    replaced: &'a mut Vec<String>,
}

impl Walk<'_> {
    fn push(&mut self, path: &[u8], written: Written) {
        let names = path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
        self.rest.extend(names.rev().map(|name| (name.to_vec(), written)));
    }

    fn run(&mut self) -> std::result::Result<(), Stop> {
        while let Some((name, written)) = self.rest.pop() {
            if name == b".." {
                // Where that is, only the file system knows that is not mounted yet.
                if self.steps.len() > 1 && self.steps.last().is_some_and(|step| step.file.is_none()) {
                    return Err(Stop::Blocked(format!("a path leads through {}", self.shown(&name))));
                }
                self.steps.pop();
                continue;
            }
            let is_runtimes = self.steps.is_empty() && MOUNTED_BY_RUNTIMES.iter().any(|of| of.as_bytes() == name);
            let directory = match self.steps.last() {
                Some(step) => step.file.as_ref().map(OwnedFd::try_clone),
                None => (!is_runtimes).then(|| self.root.root.try_clone()),
            };
            match directory {
                None => self.steps.push(Step { name, file: None }),
                Some(directory) => {
                    let directory = directory.map_err(|_| Errno::MFILE)?;
                    self.step(&directory, name, written)?;
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, directory: &OwnedFd, name: Vec<u8>, written: Written) -> std::result::Result<(), Stop> {
        let place = Place { directory: directory.as_fd(), name: &name };
        let is_last = self.rest.is_empty();
        // What is needed on the way is a directory.
        let need = if is_last || self.need == Need::WorkingDirectory { self.need } else { Need::Directory };
        let found = match (place.look(), need) {
            (Err(Errno::NOENT), Need::WorkingDirectory) if written == Written::Link => {
                return Err(Stop::Blocked(format!("a link leads to {}, which is not there", self.shown(&name))));
            }
            (Err(Errno::NOENT), _) => place.make(need)?,
            (Err(error), _) => return Err(error.into()),
            (Ok((_, FileType::Symlink)), need) if need != Need::OwnFile => return self.follow(&place),
            (Ok((found, FileType::Directory)), Need::Directory | Need::WorkingDirectory)
            | (Ok((found, FileType::RegularFile)), Need::File | Need::OwnFile) => found,
            (Ok((_, FileType::Directory)), _) => {
                return Err(Stop::Blocked(format!("{} is a directory", self.shown(&name))));
            }
            (Ok(_), Need::WorkingDirectory) => {
                return Err(Stop::Blocked(format!("{} is not a directory", self.shown(&name))));
            }
            (Ok((_, kind)), _) => {
                self.replaced.push(note(&self.shown(&name), kind));
                place.replace(need)?
            }
        };
        self.steps.push(Step { name, file: Some(found) });
        Ok(())
    }

    fn follow(&mut self, place: &Place<'_>) -> std::result::Result<(), Stop> {
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(Stop::Blocked(format!("{} is a link among too many", self.shown(place.name))));
        }
        let target = readlinkat(place.directory, place.name, Vec::new())?;
        let target = target.as_bytes();
        if target.starts_with(b"/") {
            self.steps.clear();
        }
        self.push(target, Written::Link);
        Ok(())
    }

    /// The path of the steps, and one more name.
    fn shown(&self, name: &[u8]) -> String {
        let names = self.steps.iter().map(|step| step.name.as_slice()).chain([name]);
        let path: Vec<u8> = names.flat_map(|name| [b"/", name].concat()).collect();
        oci::error::printable(&String::from_utf8_lossy(&path))
    }

    /// Below `/proc` and `/sys` nothing is mounted or begun in: what is there is the kernel's, and leads out. Below
    /// `/dev` a runtime makes links to `/proc`.
    fn end(&mut self) -> std::result::Result<Prepared, Blocked> {
        let names: Vec<&[u8]> = self.steps.iter().map(|step| step.name.as_slice()).collect();
        let is_begun_in = self.need == Need::WorkingDirectory;
        let may = match names.as_slice() {
            [] | [b"proc" | b"sys" | b"dev"] => is_begun_in,
            [b"proc" | b"sys", ..] => false,
            [b"dev", b"shm" | b"mqueue", ..] => true,
            [b"dev", ..] => !is_begun_in,
            _ => true,
        };
        let path: Vec<u8> = names.iter().flat_map(|name| [b"/", *name].concat()).collect();
        let path = if path.is_empty() { b"/".to_vec() } else { path };
        match String::from_utf8(path) {
            Ok(path) if may => {
                let file = match self.steps.pop() {
                    Some(step) => step.file,
                    None => self.root.root.try_clone().ok(),
                };
                Ok(Prepared { path: ContainerPath(path), file })
            }
            Ok(path) => Err(format!("{} is the runtime's", oci::error::printable(&path))),
            Err(_) => Err("it leads to a name that is not UTF-8".to_owned()),
        }
    }
}

/// What is said of something in the place of a mount.
fn note(path: &str, kind: FileType) -> String {
    let what = match kind {
        FileType::Symlink => "a symbolic link",
        FileType::RegularFile => "a file",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        _ => "a device",
    };
    format!("{path} ({what} in the place of a mount)")
}

fn not_ready(error: Errno) -> Error {
    Error::new(Kind::Io, "a path of the image could not be made ready for the start").cause(error)
}

fn failed(what: &str, error: Errno, path: &RootPath) -> Error {
    let error = std::io::Error::from(error);
    with_hint(Error::new(Kind::Io, what).cause(&error).fact("path", path), &error)
}

/// Where there is no room, another directory may have some.
pub(super) fn with_hint(failure: Error, error: &std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            failure.hint("set TMPDIR to a directory with more room")
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A root in a directory of the host, which has a file and a directory that links lead to.
    struct Host {
        directory: tempfile::TempDir,
        root: ImageRoot,
    }

    impl Host {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            for name in ["outside/below", "root/run", "root/usr/lib"] {
                std::fs::create_dir_all(directory.path().join(name)).unwrap();
            }
            std::fs::write(directory.path().join("outside/file"), "as it was").unwrap();
            let root = ImageRoot::open(&directory.path().join("root")).unwrap();
            Self { directory, root }
        }

        fn path(&self, name: &str) -> std::path::PathBuf {
            self.directory.path().join(name)
        }

        fn link(&self, name: &str, to: &str) {
            let to = to.replace("OUT", self.path("outside").to_str().unwrap());
            symlink(to, self.path("root").join(name)).unwrap();
        }

        fn prepare(&self, path: &str, need: Need) -> (std::result::Result<String, String>, Vec<String>) {
            let mut replaced = Vec::new();
            let prepared = self.root.prepare(path, need, &mut replaced).unwrap();
            (prepared.map(|prepared| prepared.path.0), replaced)
        }

        fn assert_untouched(&self) {
            let mut names: Vec<_> =
                std::fs::read_dir(self.path("outside")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, ["below", "file"]);
            assert_eq!(std::fs::read_dir(self.path("outside/below")).unwrap().count(), 0);
        }
    }

    #[test]
    fn links_are_followed_inside_the_root_and_never_outside() {
        let host = Host::new();
        for (name, to) in [
            ("absolute", "OUT"),
            ("up", "../../../../../../../../../../OUT"),
            ("chain", "chain-2"),
            ("chain-2", "absolute"),
            ("file", "OUT/file"),
            ("dangling", "OUT/not-there/below"),
            ("var", "usr/../run/./x"),
            ("lib", "usr/lib"),
        ] {
            host.link(name, to);
        }
        let out = host.path("outside").display().to_string();
        for need in [Need::Directory, Need::File] {
            let end = if need == Need::File { "a-file" } else { "a-directory" };
            for (path, ends) in [
                ("/absolute/new", format!("{out}/new")),
                ("/up/new", format!("{out}/new")),
                ("/chain/new", format!("{out}/new")),
                ("/file/new", format!("{out}/file/new")),
                ("/dangling/new", format!("{out}/not-there/below/new")),
                ("/var/new", "/run/x/new".to_owned()),
                ("/lib/new", "/usr/lib/new".to_owned()),
                ("/../../lib/../new", "/usr/new".to_owned()),
                ("//a/./b/new", "/a/b/new".to_owned()),
            ] {
                let (path, ends) = (path.replace("new", end), ends.replace("new", end));
                assert_eq!(host.prepare(&path, need), (Ok(ends.clone()), vec![]), "{path}");
                let made = host.path("root").join(ends.trim_start_matches('/')).symlink_metadata().unwrap();
                assert_eq!(made.is_dir(), need == Need::Directory, "{path}");
                assert_eq!(made.permissions().mode() & 0o777, if made.is_dir() { 0o755 } else { 0o644 });
            }
        }
        host.assert_untouched();
    }

    #[test]
    fn what_is_in_the_place_of_a_mount_is_replaced() {
        let host = Host::new();
        let at = |name: &str| host.path("root").join(name);
        let place = |kind: &str, name: &str| match kind {
            "a file" => std::fs::write(at(name), "x").unwrap(),
            "a pipe" => rustix::fs::mknodat(rustix::fs::CWD, at(name), FileType::Fifo, Mode::RWXU, 0).unwrap(),
            "a socket" => drop(UnixListener::bind(at(name)).unwrap()),
            _ => host.link(name, "OUT"),
        };
        for (number, kind) in ["a file", "a pipe", "a socket"].into_iter().enumerate() {
            let name = format!("place-{number}");
            place(kind, &name);
            let noted = vec![format!("/{name} ({kind} in the place of a mount)")];
            assert_eq!(host.prepare(&format!("/{name}/below"), Need::Directory), (Ok(format!("/{name}/below")), noted));
            assert!(at(&name).join("below").is_dir());
        }
        place("a pipe", "mounted-file");
        assert_eq!(host.prepare("/mounted-file", Need::File).1.len(), 1);
        assert!(!at("mounted-file").symlink_metadata().unwrap().file_type().is_fifo());
        host.link("resolv.conf", "OUT/file");
        assert_eq!(
            host.prepare("/resolv.conf", Need::OwnFile).1,
            ["/resolv.conf (a symbolic link in the place of a mount)"]
        );
        assert!(at("resolv.conf").symlink_metadata().unwrap().is_file());
        for (name, kind) in [("dev", "a symbolic link"), ("proc", "a file"), ("sys", "a pipe")] {
            place(kind, name);
        }
        assert_eq!(host.root.prepare_for_runtime().unwrap().len(), 3);
        assert_eq!(host.root.prepare_for_runtime().unwrap(), Vec::<String>::new());
        assert!(["dev", "proc", "sys"].iter().all(|name| at(name).symlink_metadata().unwrap().is_dir()));
        host.assert_untouched();
    }

    #[test]
    fn what_no_runtime_could_mount_on_or_begin_in_is_blocked() {
        let host = Host::new();
        for (name, to) in [
            ("loop", "loop"),
            ("a", "b"),
            ("b", "a"),
            ("kernel", "/proc/self/fd"),
            ("dangling", "nowhere/x"),
            ("far", "../../proc/1"),
        ] {
            host.link(name, to);
        }
        std::fs::write(host.path("root/file"), "x").unwrap();
        let long = format!("/{}", "n".repeat(256));
        for path in [
            "/loop",
            "/loop/x",
            "/a/x",
            "/kernel/7",
            "/far/root",
            "/proc/self",
            "/sys/x",
            "/proc",
            "/dev",
            "/",
            "/run/..",
            &long,
            "/nul\0",
        ] {
            for need in [Need::Directory, Need::File] {
                assert!(host.prepare(path, need).0.is_err(), "{path}");
            }
        }
        assert!(host.prepare("/run", Need::File).0.unwrap_err().contains("is a directory"));
        for path in [
            "/loop",
            "/kernel/7",
            "/far/cwd",
            "/proc/self/cwd",
            "/dev/fd/7",
            "/dev/x",
            "/dangling/x",
            "/file",
            "/file/x",
            &long,
        ] {
            assert!(host.prepare(path, Need::WorkingDirectory).0.is_err(), "{path}");
        }
        for (path, ends) in [
            ("/", "/"),
            ("/proc", "/proc"),
            ("/dev/shm/x", "/dev/shm/x"),
            ("/run/new/x", "/run/new/x"),
            ("/run/../run/", "/run"),
        ] {
            assert_eq!(host.prepare(path, Need::WorkingDirectory), (Ok(ends.to_owned()), vec![]), "{path}");
        }
        assert_eq!(host.prepare("/dev/given/x", Need::Directory).0.unwrap(), "/dev/given/x");
        assert!(!host.path("root/dev/given").exists(), "the runtime's file system is not there yet");
    }
}
