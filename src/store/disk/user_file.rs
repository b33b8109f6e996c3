//! Files that the user named: digests and reports to write, certificates and credentials to read.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use super::atomic::{self, Temp};
use crate::error::{Error, Result};

/// The content of the file, at most `limit` bytes of it: more is an error.
pub fn read_file(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("it is larger than {limit} bytes")));
    }
    Ok(bytes)
}

/// Whether [`write_file`] has a directory to write into: better known before the work than after it.
pub fn check_writable(path: &Path) -> Result<()> {
    let directory = atomic::parent(path);
    if path.is_dir() {
        Err(Error::usage("cannot write the file: the path is a directory").fact("path", path.display()))
    } else if directory.is_dir() {
        Ok(())
    } else {
        Err(Error::usage("cannot write the file: its directory does not exist").fact("path", path.display()))
    }
}

/// Puts `bytes` into the file, whole or not at all. A pipe or a device, such as `/dev/stdout`, is
/// written to as it is: it must not be replaced by a file.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |error| Error::io("could not write the file", path, &error);
    match fs::metadata(path) {
        Ok(there) if there.is_dir() => {
            Err(Error::usage("cannot write the file: the path is a directory").fact("path", path.display()))
        }
        Ok(there) if !there.is_file() => {
            OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(bytes)).map_err(failed)
        }
        // A link keeps pointing to the file it points to.
        Ok(there) => replace_file(&fs::canonicalize(path).map_err(failed)?, bytes, Some(there.permissions())),
        Err(_) => replace_file(path, bytes, None),
    }
}

/// A file that was there keeps its permissions. Nobody but us looks for what a killed writer left here.
fn replace_file(path: &Path, bytes: &[u8], permissions: Option<Permissions>) -> Result<()> {
    let directory = atomic::parent(path);
    atomic::sweep(directory);
    let temp = Temp::create(directory)?;
    temp.write_at(bytes, 0).map_err(|error| error.fact("needed", bytes.len()))?;
    if let Some(permissions) = permissions {
        temp.permit(permissions)?;
    }
    temp.commit(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn devices_are_written_to_and_files_are_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("digest"), directory.path().join("link"));
        write_file(&file, b"one").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        fs::write(directory.path().join(".underpin-4000000-0123456789abcdef"), "half").unwrap();
        write_file(&link, b"two").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "two");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "what a killed writer left is gone");
        assert!(link.is_symlink());
        write_file(Path::new("/dev/null"), b"x").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        assert!(write_file(directory.path(), b"x").is_err());
        assert!(write_file(&directory.path().join("no/such"), b"x").is_err());
        for (path, allowed) in [("digest", true), ("new", true), ("no/such", false), ("", false)] {
            assert_eq!(check_writable(&directory.path().join(path)).is_ok(), allowed, "{path}");
        }
        assert!(check_writable(Path::new("plain")).is_ok());
    }
}
