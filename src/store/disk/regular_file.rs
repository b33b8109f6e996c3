//! Opens regular files and nothing else.
//!
//! A layout may come from anywhere. A blob in it that is a link would make us read, and then
//! publish, a file of the host; a FIFO would make us wait forever.

use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use super::run_files;
use crate::store::Stream;
use oci::error::{Error, Result};

/// What to do when the last part of a path is a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symlinks {
    /// For names that an image brings along.
    Refused,
    /// For paths that the user has typed.
    Followed,
}

/// The regular file at `path`, or `None` where there is nothing.
pub fn open(path: &Path, links: Symlinks) -> Result<Option<Section>> {
    // Looked at before opening too: to open a device can already have an effect.
    let before = match links {
        Symlinks::Refused => fs::symlink_metadata(path),
        Symlinks::Followed => fs::metadata(path),
    };
    if links == Symlinks::Followed {
        run_files::note_input(path);
    }
    match before {
        Ok(metadata) => check(path, &metadata)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("could not examine the file", path, &error)),
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
    let metadata = file.metadata().map_err(|error| Error::io("could not examine the file", path, &error))?;
    check(path, &metadata)?;
    Ok(Section::new(Arc::new(file), path, metadata.len()))
}

/// The flags that keep `open` from following a link and from waiting for a FIFO's other end.
pub fn flags(links: Symlinks) -> i32 {
    match links {
        Symlinks::Refused => libc::O_NOFOLLOW | libc::O_NONBLOCK,
        Symlinks::Followed => libc::O_NONBLOCK,
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
        "directory"
    } else if kind.is_fifo() {
        "FIFO"
    } else if kind.is_socket() {
        "socket"
    } else {
        "device"
    }
}

/// Whether there is a directory at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectoryCheck {
    There,
    Missing,
}

/// Looks for a directory; anything else at `path` is refused.
pub fn directory(path: &Path, links: Symlinks) -> Result<DirectoryCheck> {
    let metadata = match links {
        Symlinks::Refused => fs::symlink_metadata(path),
        Symlinks::Followed => fs::metadata(path),
    };
    match metadata {
        Ok(metadata) if metadata.is_dir() => Ok(DirectoryCheck::There),
        Ok(metadata) => {
            let found = if metadata.is_file() { "regular file" } else { word(metadata.file_type()) };
            Err(Error::input(format!("expected a directory, found a {found}")).fact("path", path.display()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(DirectoryCheck::Missing),
        Err(error) => Err(Error::io("could not examine the directory", path, &error)),
    }
}

/// A range of an open file. It keeps the file that was examined: what another process puts in its
/// place later is not read by mistake.
#[derive(Debug, Clone)]
pub struct Section {
    file: Arc<File>,
    path: Arc<Path>,
    start: u64,
    len: u64,
}

impl Section {
    /// The first `len` bytes of a file; `path` is for messages only.
    pub fn new(file: Arc<File>, path: &Path, len: u64) -> Self {
        Self { file, path: path.into(), start: 0, len }
    }

    /// The part at `start` with `len` bytes, or `None` where it reaches beyond the end.
    pub fn part(&self, start: u64, len: u64) -> Option<Self> {
        let end = start.checked_add(len)?;
        let absolute = self.start.checked_add(start)?;
        (end <= self.len).then(|| Self { start: absolute, len, ..self.clone() })
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn into_file(self) -> Arc<File> {
        self.file
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// The bytes from offset `from` on; none where `from` is beyond the end.
    pub fn reader(&self, from: u64) -> SectionReader {
        SectionReader { section: self.clone(), at: from.min(self.len) }
    }

    pub fn stream(&self, from: u64) -> Stream {
        Box::new(self.reader(from))
    }

    /// All bytes, at most `limit`. `what` names the file in messages.
    pub fn bytes(&self, limit: u64, what: &str) -> Result<Vec<u8>> {
        if self.len > limit {
            return Err(Error::input(format!("{what} is too large"))
                .fact("path", self.path.display())
                .fact("size", self.len)
                .fact("limit", limit));
        }
        // One more, so that its end is found without growing.
        let mut bytes = Vec::with_capacity(usize::try_from(self.len).unwrap_or(0).saturating_add(1));
        self.reader(0)
            .read_to_end(&mut bytes)
            .map_err(|error| Error::from_stream(error, &format!("could not read {what}")))?;
        Ok(bytes)
    }
}

/// Reads a section. Its failures carry an [`Error`] that names the path.
#[derive(Debug)]
pub struct SectionReader {
    section: Section,
    at: u64,
}

impl Read for SectionReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Section { file, path, start, len } = &self.section;
        let left = usize::try_from(len - self.at).unwrap_or(usize::MAX);
        let wanted = left.min(buffer.len());
        let Some(room) = buffer.get_mut(..wanted) else { return Ok(0) };
        match file.read_at(room, start + self.at) {
            Ok(got) => {
                self.at += got as u64;
                Ok(got)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => Err(Error::io("could not read the file", path, &error).into()),
        }
    }
}

/// Offsets count from the section's start, and none is beyond its end: there is nothing to write.
impl Seek for SectionReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.section.len.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = target
            .filter(|at| *at <= self.section.len)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "seek beyond the end of the file"))?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;
    use oci::error::Kind;

    #[test]
    fn opens_regular_files_only_and_never_waits() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "text").unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink(at("missing"), at("dangling")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        assert!(Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
        let _socket = UnixListener::bind(at("socket")).unwrap();

        assert_eq!(open(&at("file"), Symlinks::Refused).unwrap().unwrap().bytes(9, "x").unwrap(), b"text");
        assert!(open(&at("missing"), Symlinks::Refused).unwrap().is_none());
        for name in ["link", "dangling", "directory", "fifo", "socket"] {
            let error = open(&at(name), Symlinks::Refused).unwrap_err();
            assert_eq!(error.kind(), Kind::Input, "{name}: {error}");
            assert!(error.to_string().contains(name), "{error}");
        }
        assert!(open(&at("link"), Symlinks::Followed).unwrap().is_some());
        assert!(open(Path::new("/dev/zero"), Symlinks::Followed).is_err());
    }

    #[test]
    fn a_folder_that_is_a_link_is_not_a_folder_of_the_layout() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        symlink("/", &link).unwrap();
        assert_eq!(directory(&link, Symlinks::Refused).unwrap_err().kind(), Kind::Input);
        assert_eq!(directory(&link, Symlinks::Followed).unwrap(), DirectoryCheck::There);
        assert_eq!(directory(&dir.path().join("none"), Symlinks::Refused).unwrap(), DirectoryCheck::Missing);
    }

    #[test]
    fn a_reader_moves_inside_its_section_only() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        io::Write::write_all(&mut file, b"0123456789").unwrap();
        let whole = Section::new(Arc::new(file.reopen().unwrap()), file.path(), 10);
        let mut reader = whole.part(2, 5).unwrap().reader(0);
        for (to, rest) in [
            (SeekFrom::Start(1), "3456"),
            (SeekFrom::End(-1), "6"),
            (SeekFrom::End(0), ""),
            (SeekFrom::Current(-5), "23456"),
        ] {
            let at = reader.seek(to).unwrap();
            assert_eq!(io::read_to_string(&mut reader).unwrap(), rest, "{to:?}");
            assert_eq!(at, 5 - rest.len() as u64);
        }
        for to in [SeekFrom::Start(6), SeekFrom::End(1), SeekFrom::End(-6), SeekFrom::Current(i64::MIN)] {
            assert!(reader.seek(to).is_err(), "{to:?}");
        }
    }
}
