//! Opens regular files and nothing else.
//!
//! A layout may come from anywhere. A blob in it that is a link would make us read, and then
//! publish, a file of the host; a FIFO would make us wait for ever.

use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use super::section::Section;
use crate::error::{Error, Result};

/// What to do when the last part of a path is a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// For names that an image brings along.
    Refused,
    /// For paths that the user has typed.
    Followed,
}

/// The regular file at `path`, or `None` where there is nothing.
pub fn open(path: &Path, links: Links) -> Result<Option<Section>> {
    // Looked at before opening too: to open a device can already have an effect.
    let before = match links {
        Links::Refused => fs::symlink_metadata(path),
        Links::Followed => fs::metadata(path),
    };
    match before {
        Ok(metadata) => check(path, &metadata)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("could not look at the file", path, &error)),
    }
    let file = match OpenOptions::new().read(true).custom_flags(flags(links)).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("could not open the file", path, &error)),
    };
    section(file, path).map(Some)
}

/// The whole of an open file, which must be a regular one.
pub fn section(file: File, path: &Path) -> Result<Section> {
    let metadata = file.metadata().map_err(|error| Error::io("could not look at the file", path, &error))?;
    check(path, &metadata)?;
    Ok(Section::new(Arc::new(file), path, metadata.len()))
}

/// The flags that keep `open` from following a link and from waiting for a FIFO's other end.
pub fn flags(links: Links) -> i32 {
    match links {
        Links::Refused => libc::O_NOFOLLOW | libc::O_NONBLOCK,
        Links::Followed => libc::O_NONBLOCK,
    }
}

fn check(path: &Path, metadata: &Metadata) -> Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    Err(Error::input(format!("expected a regular file, found a {}", word(metadata.file_type())))
        .fact("path", path.display()))
}

fn word(kind: FileType) -> &'static str {
    if kind.is_symlink() {
        "symbolic link"
    } else if kind.is_dir() {
        "folder"
    } else if kind.is_fifo() {
        "FIFO"
    } else if kind.is_socket() {
        "socket"
    } else {
        "device"
    }
}

/// Whether a folder stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folder {
    There,
    Missing,
}

/// Looks for a folder; anything else at `path` is refused.
pub fn folder(path: &Path, links: Links) -> Result<Folder> {
    let metadata = match links {
        Links::Refused => fs::symlink_metadata(path),
        Links::Followed => fs::metadata(path),
    };
    match metadata {
        Ok(metadata) if metadata.is_dir() => Ok(Folder::There),
        Ok(metadata) => {
            let found = if metadata.is_file() { "regular file" } else { word(metadata.file_type()) };
            Err(Error::input(format!("expected a folder, found a {found}")).fact("path", path.display()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Folder::Missing),
        Err(error) => Err(Error::io("could not look at the folder", path, &error)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;
    use crate::error::Kind;

    #[test]
    fn opens_regular_files_only_and_never_waits() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "text").unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink(at("missing"), at("dangling")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        assert!(Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
        let _socket = UnixListener::bind(at("socket")).unwrap();

        assert_eq!(open(&at("file"), Links::Refused).unwrap().unwrap().bytes(9, "x").unwrap(), b"text");
        assert!(open(&at("missing"), Links::Refused).unwrap().is_none());
        for name in ["link", "dangling", "folder", "fifo", "socket"] {
            let error = open(&at(name), Links::Refused).unwrap_err();
            assert_eq!(error.kind(), Kind::Input, "{name}: {error}");
            assert!(error.to_string().contains(name), "{error}");
        }
        assert!(open(&at("link"), Links::Followed).unwrap().is_some());
        assert!(open(Path::new("/dev/zero"), Links::Followed).is_err());
    }

    #[test]
    fn a_folder_that_is_a_link_is_not_a_folder_of_the_layout() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        symlink("/", &link).unwrap();
        assert_eq!(folder(&link, Links::Refused).unwrap_err().kind(), Kind::Input);
        assert_eq!(folder(&link, Links::Followed).unwrap(), Folder::There);
        assert_eq!(folder(&dir.path().join("none"), Links::Refused).unwrap(), Folder::Missing);
    }
}
