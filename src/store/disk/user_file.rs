//! Files that the user named: digests and reports to write, certificates and credentials to read.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::atomic::{self, Temp};
use super::run_files::{self, OutputRole};
use oci::error::{Error, Result};

/// The content of the file, at most `limit` bytes of it: more is an error. The run writes nothing over it.
pub fn read_file(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    run_files::note_input(path);
    read_edited(path, limit)
}

/// The content of a file that the same run changes.
pub fn read_edited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("it is larger than {limit} bytes")));
    }
    Ok(bytes)
}

/// The directory that a file is in, without links, and its name there.
pub fn place_of(path: &Path) -> PathBuf {
    let directory = fs::canonicalize(atomic::parent(path)).unwrap_or_else(|_| atomic::parent(path).to_owned());
    directory.join(path.file_name().unwrap_or_default())
}

/// Whether the path leads to anything, be it a link to nothing.
pub fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Kept free for a file until it is written, so that the work in between cannot take the last space.
static RESERVED: [u8; 64 << 10] = [0; 64 << 10];

/// A file to write when the work is done, opened before it begins: what cannot be written is known while nothing has
/// been published yet.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    role: OutputRole,
    destination: Destination,
    /// Space in the same directory, under no name.
    reserve: Option<File>,
}

impl OutputFile {
    /// Proves that [`Self::write`] can write, as far as that can be known now, and that nothing else of the run is there.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_as(path, OutputRole::unique())
    }

    /// The same for an output that is opened more than once.
    pub fn open_as(path: &Path, role: OutputRole) -> Result<Self> {
        let failed = |error: io::Error| Error::io("cannot write the file", path, &error);
        run_files::check_output(path, role)?;
        let destination = destination(path)?;
        let reserve = match &destination {
            Destination::Stream(_) => None,
            Destination::File(_) if !atomic::parent(path).is_dir() => {
                return Err(
                    Error::usage("cannot write the file: its directory does not exist").fact("path", path.display())
                );
            }
            Destination::File(_) => {
                let file = atomic::scratch(atomic::parent(path)).map_err(|error| error.fact("for", path.display()))?;
                file.write_all_at(&RESERVED, 0).map_err(failed)?;
                Some(file)
            }
        };
        Ok(Self { path: path.to_owned(), role, destination, reserve })
    }

    /// Writes the file, whole or not at all. A link that has come in between is replaced.
    pub fn write(self, bytes: &[u8]) -> Result<()> {
        // The run may have read it since, by a name that only an image or a settings file knew.
        run_files::check_output(&self.path, self.role)?;
        drop(self.reserve);
        write_to(&self.path, self.destination, bytes, Owner::IfAllowed)
    }
}

/// Puts `bytes` into a file that the run has read, whole or not at all: it keeps its owner and who may do what with it, or
/// nothing is changed.
pub fn edit_file(path: &Path, bytes: &[u8]) -> Result<()> {
    write_to(path, destination(path)?, bytes, Owner::Kept)
}

/// Puts `bytes` into the file, whole or not at all. A link is not followed. A pipe or a device, such as `/dev/stdout`, is written to as it is.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    write_to(path, destination(path)?, bytes, Owner::IfAllowed)
}

/// Adds a line to the end of the file, by one write. A file that is missing is begun with `heading`. A link is not
/// followed.
pub fn add_line(path: &Path, line: &str, heading: &dyn Fn() -> Result<String>) -> Result<()> {
    let failed = |error: io::Error| Error::io("could not write the file", path, &error);
    let open =
        |options: &mut OpenOptions| options.append(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path);
    loop {
        match open(&mut OpenOptions::new()) {
            Ok(file) if file.metadata().map_err(failed)?.nlink() > 1 => {
                return Err(Error::usage(
                    "cannot write the file: it has another name, under which it would change, too",
                )
                .fact("path", path.display())
                .hint("remove the file"));
            }
            Ok(mut file) => return file.write_all(format!("{line}\n").as_bytes()).map_err(failed),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        let text = format!("{}{line}\n", heading()?);
        match open(OpenOptions::new().create_new(true)) {
            Ok(mut file) => return file.write_all(text.as_bytes()).map_err(failed),
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Removes the file; one that is not there is fine.
pub fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("could not remove the file", path, &error))
        }
        _ => Ok(()),
    }
}

/// Whether a file that is replaced stays its owner's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// Or it is not replaced.
    Kept,
    /// What is written is new, and nobody's but ours.
    IfAllowed,
}

fn write_to(path: &Path, destination: Destination, bytes: &[u8], owner: Owner) -> Result<()> {
    match destination {
        Destination::Stream(mut stream) => {
            stream.write_all(bytes).map_err(|error| Error::io("could not write the file", path, &error))
        }
        Destination::File(there) => replace_file(path, bytes, there.as_ref(), owner),
    }
}

/// What a path that the user named leads to.
#[derive(Debug)]
enum Destination {
    /// A regular file, or nothing yet.
    File(Option<Metadata>),
    /// A pipe, a terminal or a device, open.
    Stream(File),
}

fn destination(path: &Path) -> Result<Destination> {
    if !names_descriptor(path) {
        refuse_link(path)?;
    }
    let there = match fs::symlink_metadata(path) {
        Ok(there) => there,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Destination::File(None)),
        Err(error) => return Err(Error::io("cannot write the file", path, &error)),
    };
    if there.is_dir() {
        Err(Error::usage("cannot write the file: the path is a directory").fact("path", path.display()))
    } else if there.is_file() {
        Ok(Destination::File(Some(there)))
    } else {
        open_stream(path).map(Destination::Stream)
    }
}

/// Opens a pipe or a device without waiting for somebody who reads it. Writing waits for the reader, as everywhere.
fn open_stream(path: &Path) -> Result<File> {
    let failed = |error: io::Error| Error::io("cannot write the file", path, &error);
    let flags = OFlags::NONBLOCK.union(OFlags::NOCTTY).bits().cast_signed();
    let file = match OpenOptions::new().append(true).custom_flags(flags).open(path) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
            return Err(Error::usage("cannot write the file: it is a FIFO or a socket, and nobody reads it")
                .fact("path", path.display())
                .hint("start its reader first, or name a file"));
        }
        opened => opened.map_err(failed)?,
    };
    let flags = fcntl_getfl(&file).map_err(|error| failed(error.into()))?;
    fcntl_setfl(&file, flags.difference(OFlags::NONBLOCK)).map_err(|error| failed(error.into()))?;
    Ok(file)
}

/// What is written never goes through a link: whoever can write to a shared directory could make us overwrite any
/// file of ours.
pub(super) fn refuse_link(path: &Path) -> Result<()> {
    if !path.is_symlink() {
        return Ok(());
    }
    Err(Error::usage("cannot write the file: the path is a symbolic link, which is not followed")
        .fact("path", path.display())
        .hint("name the file that the link points to"))
}

/// Whether the link is one of the system's own, to an open file of ours: `/dev/stdout`, `/dev/fd/3`.
pub(super) fn names_descriptor(path: &Path) -> bool {
    let Ok(directory) = fs::canonicalize(atomic::parent(path)) else { return false };
    directory == Path::new("/dev") || (directory.starts_with("/proc") && directory.ends_with("fd"))
}

/// A file that was there keeps its owner, its permissions and its attributes. Nobody but us looks for what a killed writer
/// left here.
fn replace_file(path: &Path, bytes: &[u8], there: Option<&Metadata>, owner: Owner) -> Result<()> {
    let directory = atomic::parent(path);
    atomic::sweep(directory);
    let temp = Temp::create(directory)?;
    // Before there is anything in it: what only its owner may read is nobody else's for a moment.
    if let Some(there) = there {
        match (temp.give_to(there.uid(), there.gid()), owner) {
            (Ok(()), _) => {
                temp.permit(there.permissions())?;
                temp.copy_attributes(path);
            }
            (Err(error), Owner::Kept) => {
                return Err(error
                    .fact("file", path.display())
                    .fact("owner", format_args!("user {}, group {}", there.uid(), there.gid()))
                    .hint("run as its owner, or copy the file and change the copy"));
            }
            // It becomes ours, and what its group could do says nothing about ours.
            (Err(_), Owner::IfAllowed) => temp.permit(Permissions::from_mode(there.mode() & 0o707))?,
        }
    }
    temp.write_at(bytes, 0).map_err(|error| error.fact("needed", bytes.len()))?;
    temp.commit(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_written_to_and_files_are_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("digest");
        write_file(&file, b"one").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        fs::write(directory.path().join(".underpin-4000000-0123456789abcdef"), "half").unwrap();
        write_file(&file, b"two").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "two");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "what a killed writer left is gone");
        write_file(Path::new("/dev/null"), b"x").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        assert!(write_file(directory.path(), b"x").is_err());
        assert!(write_file(&directory.path().join("no/such"), b"x").is_err());
    }

    #[test]
    fn links_are_not_followed_except_to_what_is_open() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("victim"), "precious").unwrap();
        for (link, to) in [("link", at("victim")), ("dangling", at("none")), ("device", "/dev/null".into())] {
            std::os::unix::fs::symlink(to, at(link)).unwrap();
            for error in [write_file(&at(link), b"x").unwrap_err(), OutputFile::open(&at(link)).unwrap_err()] {
                assert!(error.to_string().contains("symbolic link"), "{error}");
            }
        }
        assert_eq!(fs::read_to_string(at("victim")).unwrap(), "precious");
        assert!(!at("none").exists());
        let open = File::options().append(true).open(at("victim")).unwrap();
        let descriptor = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open));
        OutputFile::open(Path::new(&descriptor)).unwrap().write(b"!").unwrap();
        assert_eq!(fs::read_to_string(at("victim")).unwrap(), "precious!");
        // A link that comes in between is replaced.
        let output = OutputFile::open(&at("report")).unwrap();
        std::os::unix::fs::symlink(at("victim"), at("report")).unwrap();
        output.write(b"report").unwrap();
        assert!(at("report").symlink_metadata().unwrap().is_file());
        assert_eq!(fs::read_to_string(at("victim")).unwrap(), "precious!");
    }

    #[test]
    fn what_cannot_be_written_is_known_before() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("digest"), "old").unwrap();
        for (path, allowed) in [("digest", true), ("new", true), ("no/such", false), ("digest/x", false), ("", false)] {
            assert_eq!(OutputFile::open(&directory.path().join(path)).is_ok(), allowed, "{path}");
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left of an attempt");
        assert!(OutputFile::open(Path::new("plain")).is_ok());
    }
}
