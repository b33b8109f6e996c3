//! The folders of the cache, and what holds for every file in them.
//!
//! ```text
//! version                  the number of this arrangement
//! blobs/sha256/HEX         layers, configs, manifests
//! indexes/vN/HEX           indexes of layers, N is the number of their format
//! partial/HEX              downloads that are running or were broken off
//! images/vN/HEX            records of images, by the digest of the name they were seen under
//! nodes/vN/HEX             records of nodes, by the digest of their endpoint
//! ```

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::atomic;
use super::gate;
use super::lock::Held;
use super::partial;
use super::regular::{self, Folder, Links};
use super::section::Section;
use super::verified;
use crate::error::{Error, Kind, Result};
use crate::oci::Digest;
use crate::store::Notices;

const VERSION: u32 = 1;
/// Where the records of images are, in the format that is written here.
pub const IMAGES: &str = "images/v1";

pub struct Rooms {
    root: PathBuf,
    notices: Notices,
    /// Set at the first write that fails.
    full: AtomicBool,
    /// While it is held, nobody collects garbage.
    _held: Held,
}

impl Rooms {
    /// Makes the rooms, where they are missing, and takes part in the lock that keeps garbage
    /// collectors out.
    pub fn enter(root: &Path, notices: &Notices) -> Result<Self> {
        create_private(root)?;
        let held = gate::enter(root, notices)?;
        check_version(&root.join("version"))?;
        for room in ["blobs", "blobs/sha256", "indexes", "partial", "images", IMAGES] {
            let path = root.join(room);
            if regular::folder(&path, Links::Refused)? == Folder::Missing {
                create_private(&path)?;
            }
        }
        sweep(root);
        Ok(Self { root: root.to_owned(), notices: notices.clone(), full: AtomicBool::new(false), _held: held })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn is_writable(&self) -> bool {
        !self.full.load(Ordering::Relaxed)
    }

    pub fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.root.join("blobs/sha256").join(digest.hex())
    }

    pub fn index_path(&self, digest: &Digest, version: u32) -> PathBuf {
        self.root.join(format!("indexes/v{version}")).join(digest.hex())
    }

    pub fn partial_path(&self, digest: &Digest) -> PathBuf {
        self.root.join("partial").join(digest.hex())
    }

    pub fn images(&self) -> PathBuf {
        self.root.join(IMAGES)
    }

    pub fn notices(&self) -> &Notices {
        &self.notices
    }

    /// What cannot be opened is missing; what is no file is in the way and removed.
    pub fn section(&self, path: &Path) -> Option<Section> {
        match regular::open(path, Links::Refused) {
            Ok(section) => section,
            Err(error) => {
                if error.kind() == Kind::Input {
                    self.discard(path);
                }
                None
            }
        }
    }

    pub fn sound(&self, digest: &Digest) -> Option<Section> {
        let section = self.section(&self.blob_path(digest))?;
        let hashed = verified::hash(&mut section.reader(0)).ok()?;
        if hashed.digest == *digest {
            return Some(section);
        }
        self.discard(section.path());
        None
    }

    pub fn discard(&self, path: &Path) {
        self.notices.warn(format!("removing a damaged file from the cache: {}", path.display()));
        let _ = fs::remove_file(path);
    }

    /// The first failure is told, and ends writing for this run.
    pub fn tolerate<T>(&self, outcome: Result<T>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                if !self.full.swap(true, Ordering::Relaxed) {
                    self.notices.warn(format!("the cache takes nothing more in this run: {}", line(&error)));
                }
                None
            }
        }
    }
}

/// Removes what killed writers left; what has come of a download stays, it is taken up again.
pub fn sweep(root: &Path) {
    atomic::sweep(root);
    partial::sweep(&root.join("partial"));
    atomic::sweep(&root.join("blobs/sha256"));
    atomic::sweep(&root.join(IMAGES));
    for version in fs::read_dir(root.join("indexes")).into_iter().flatten().flatten() {
        atomic::sweep(&version.path());
    }
}

/// Makes the folder and those it stands in, durably, as what will be in it is.
pub fn create_private(path: &Path) -> Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|it| !it.as_os_str().is_empty() && !it.is_dir()).collect();
    for folder in missing.into_iter().rev() {
        match DirBuilder::new().mode(0o700).create(folder) {
            Ok(()) => atomic::sync_folder(atomic::parent(folder))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("could not create the folder of the cache", folder, &error)),
        }
    }
    Ok(())
}

/// Whether there is a cache in the folder at all. One that is of another version is an error.
pub fn has_known_version(root: &Path) -> Result<bool> {
    known_version(&root.join("version"))
}

fn check_version(path: &Path) -> Result<()> {
    if known_version(path)? { Ok(()) } else { atomic::replace(path, format!("{VERSION}\n").as_bytes()) }
}

fn known_version(path: &Path) -> Result<bool> {
    let Some(file) = regular::open(path, Links::Refused)? else { return Ok(false) };
    let text = String::from_utf8_lossy(&file.bytes(64, "the version of the cache")?).trim().to_owned();
    if text.parse() == Ok(VERSION) {
        return Ok(true);
    }
    Err(Error::input("the cache was made by another version of underpin")
        .fact("path", path.display())
        .fact("version", text)
        .fact("expected", VERSION)
        .hint("name another folder with --cache, or work without one: --no-cache"))
}

/// An error in one line, for a warning.
pub fn line(error: &Error) -> String {
    let facts = error.facts().iter().map(|(name, value)| format!(", {name} {value}"));
    let causes = error.causes().iter().map(|cause| format!(": {cause}"));
    std::iter::once(error.what().to_owned()).chain(facts).chain(causes).collect()
}
