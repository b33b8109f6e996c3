//! Files that appear whole or not at all.
//!
//! A temporary file beside its target is written, synced, renamed, and the directory synced, so that
//! neither a crash nor a power cut shows half a file. The living writer holds a lock on its
//! temporary file; whoever starts later removes those whose lock is free: their writer is dead.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{XattrFlags, fsetxattr, lgetxattr, llistxattr};

use super::regular_file::{self, Symlinks};
use oci::error::{Error, Result};

const PREFIX: &str = ".underpin-";

/// A file in the making. Dropped without [`Temp::commit`], it is gone.
#[derive(Debug)]
pub struct Temp {
    file: File,
    path: PathBuf,
    fate: TempFileFate,
}

#[derive(Debug, PartialEq, Eq)]
enum TempFileFate {
    Removed,
    Renamed,
}

impl Temp {
    /// A new, locked file in the directory `dir`, which the umask says who may read and write.
    pub fn create(dir: &Path) -> Result<Self> {
        Self::with_mode(dir, 0o666)
    }

    /// A new, locked file that nobody but its owner can write to, whatever the umask is.
    pub fn of_cache(dir: &Path) -> Result<Self> {
        Self::with_mode(dir, 0o644)
    }

    fn with_mode(dir: &Path, mode: u32) -> Result<Self> {
        loop {
            let path = dir.join(format!("{PREFIX}{}-{:016x}", std::process::id(), fastrand::u64(..)));
            let file = match OpenOptions::new().write(true).read(true).create_new(true).mode(mode).open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(Error::io("could not create a file in the directory", dir, &error)),
            };
            let temp = Self { file, path, fate: TempFileFate::Removed };
            temp.file.lock().map_err(|error| Error::io("could not lock the new file", &temp.path, &error))?;
            // Between the two calls above a cleaner may have taken us for dead.
            if names(&temp.path, &temp.file) {
                return Ok(temp);
            }
        }
    }

    pub fn write_at(&self, bytes: &[u8], at: u64) -> Result<()> {
        self.file
            .write_all_at(bytes, at)
            .map_err(|error| Error::io("could not write the file", &self.path, &error).fact("written", at))
    }

    /// Forgets what was written from `len` on.
    pub fn truncate(&self, len: u64) -> Result<()> {
        self.file.set_len(len).map_err(|error| Error::io("could not truncate the file", &self.path, &error))
    }

    /// Sets the time of modification that the file will have under its name.
    pub fn date(&self, time: SystemTime) -> Result<()> {
        self.file
            .set_modified(time)
            .map_err(|error| Error::io("could not set the modification time of the file", &self.path, &error))
    }

    /// Sets who may do what with the file.
    pub fn permit(&self, permissions: Permissions) -> Result<()> {
        let failed = |error| Error::io("could not set the permissions of the file", &self.path, &error);
        self.file.set_permissions(permissions).map_err(failed)
    }

    /// Makes another user and group the owner of the file, where they are not yet.
    pub fn give_to(&self, user: u32, group: u32) -> Result<()> {
        let failed = |error: io::Error| Error::io("could not keep the owner of the file", &self.path, &error);
        let own = self.file.metadata().map_err(failed)?;
        let changed = |own: u32, wanted: u32| (own != wanted).then_some(wanted);
        let (user, group) = (changed(own.uid(), user), changed(own.gid(), group));
        if user.is_none() && group.is_none() {
            return Ok(());
        }
        std::os::unix::fs::fchown(&self.file, user, group).map_err(failed)
    }

    /// Gives the file the extended attributes of the one at `from`, access lists among them. Best effort: a file system may
    /// not have them, and some only root may set.
    pub fn copy_attributes(&self, from: &Path) {
        let mut names = vec![0; 64 << 10];
        let Ok(length) = llistxattr(from, &mut names[..]) else { return };
        let names = names.get(..length).unwrap_or_default();
        for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let mut value = vec![0; 64 << 10];
            if let Ok(length) = lgetxattr(from, name, &mut value[..]) {
                let _ = fsetxattr(&self.file, name, value.get(..length).unwrap_or_default(), XattrFlags::empty());
            }
        }
    }

    /// Gives the file its name `to`, in the same directory. Success means that it will be there
    /// after a power cut too.
    pub fn commit(mut self, to: &Path) -> Result<()> {
        self.file.sync_all().map_err(|error| Error::io("could not sync the file", &self.path, &error))?;
        fs::rename(&self.path, to).map_err(|error| Error::io("could not rename the new file", to, &error))?;
        self.fate = TempFileFate::Renamed;
        sync_directory(parent(to))
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if self.fate == TempFileFate::Removed {
            // Best effort: a later run finds it dead and removes it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A file without a name in the directory. Nothing of it is left when it is closed.
pub fn scratch(directory: &Path) -> Result<File> {
    // Whoever was killed before the name was gone has left it.
    sweep(directory);
    let temp = Temp::create(directory)?;
    temp.file.try_clone().map_err(|error| Error::io("could not use the file", &temp.path, &error))
}

/// Puts `bytes` at `to`, in place of what was there.
pub fn replace(to: &Path, bytes: &[u8]) -> Result<()> {
    replace_with(Temp::create(parent(to))?, to, bytes)
}

/// Puts `bytes` at `to` in the cache, where nobody else may write to a file.
pub fn replace_in_cache(to: &Path, bytes: &[u8]) -> Result<()> {
    replace_with(Temp::of_cache(parent(to))?, to, bytes)
}

fn replace_with(temp: Temp, to: &Path, bytes: &[u8]) -> Result<()> {
    temp.write_at(bytes, 0).map_err(|error| error.fact("needed", bytes.len()))?;
    temp.commit(to)
}

/// The directory that `path` is in.
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Whether `path` still names the open `file`.
pub fn names(path: &Path, file: &File) -> bool {
    let (Ok(named), Ok(open)) = (fs::symlink_metadata(path), file.metadata()) else { return false };
    (named.dev(), named.ino()) == (open.dev(), open.ino())
}

/// Makes the names in a directory durable.
pub fn sync_directory(path: &Path) -> Result<()> {
    match File::open(path).and_then(|directory| directory.sync_all()) {
        Ok(()) => Ok(()),
        // Some network and FUSE file systems cannot sync a directory, and need not.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        Err(error) => Err(Error::io("could not sync the directory", path, &error)),
    }
}

/// Creates the directory `path` and those that lead to it.
pub fn create_directories(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| Error::io("could not create the directory", path, &error))
}

/// Creates the directory `path` itself, durably; one that is there is fine.
pub fn create_directory(path: &Path) -> Result<()> {
    match fs::create_dir(path) {
        Ok(()) => sync_directory(parent(path)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Error::io("could not create the directory", path, &error)),
    }
}

/// Removes temporary files of dead writers from the directory. Best effort: what cannot be removed
/// does no harm and is tried again next time.
pub fn sweep(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if is_temp(&entry.file_name().to_string_lossy()) {
            remove_if_dead(&entry.path());
        }
    }
}

/// Exactly the names that [`Temp::create`] gives, so that nobody else's file is touched.
pub fn is_temp(name: &str) -> bool {
    let Some((pid, random)) = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-')) else { return false };
    !pid.is_empty()
        && pid.bytes().all(|b| b.is_ascii_digit())
        && random.len() == 16
        && random.bytes().all(|b| b.is_ascii_hexdigit())
}

fn remove_if_dead(path: &Path) {
    let Ok(Some(section)) = regular_file::open(path, Symlinks::Refused) else { return };
    match section.file().try_lock() {
        Ok(()) => {
            let _ = fs::remove_file(path);
        }
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_in(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_stays() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("index.json");
        replace(&to, b"a longer text").unwrap();
        replace(&to, b"short").unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"short");
        let temp = Temp::create(dir.path()).unwrap();
        temp.write_at(b"lost", 0).unwrap();
        drop(temp);
        assert_eq!(names_in(dir.path()), ["index.json"]);
    }

    #[test]
    fn sweeping_removes_what_the_dead_left_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let orphan = dir.path().join(".underpin-4000000-0123456789abcdef");
        let strangers = [".underpin-1-short", ".underpin-x-0123456789abcdef", ".underpin.toml", "0123"];
        for name in strangers {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        fs::write(&orphan, "half").unwrap();
        let living = Temp::create(dir.path()).unwrap();
        sweep(dir.path());
        assert!(!orphan.exists(), "orphan stayed");
        assert!(living.path.exists(), "a living writer lost its file");
        assert!(strangers.iter().all(|name| dir.path().join(name).exists()));
    }

    #[test]
    fn cleaners_and_writers_at_once_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let dir = dir.path();
                scope.spawn(move || {
                    for turn in 0..50 {
                        sweep(dir);
                        replace(&dir.join(format!("{writer}-{turn}")), b"x").unwrap();
                    }
                });
            }
        });
        assert_eq!(names_in(dir.path()).len(), 200);
    }
}
