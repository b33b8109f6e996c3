//! The directories of the cache, and what holds for every file in them.
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

use super::cache::sealed_index;
use super::image_record::ImageRecord;
use super::lock::LockGuard;
use super::node_record::{NODES, NodeRecord};
use super::private_access::{check_directory, check_place, check_room, is_own_file};
use super::regular_file::{self, DirectoryCheck, Section, Symlinks};
use super::{atomic, gc_lock, partial, verified};
use crate::store::Notices;
use oci::Digest;
use oci::error::{CommandLine, Error, Kind, Result};

const VERSION: u32 = 1;
/// Where the records of images are, in the format that is written here.
pub const IMAGES: &str = "images/v1";

/// What removes this record, which is damaged: the directory of its format is in one of the cache's.
pub(super) fn verify_command(record: &Path) -> CommandLine {
    let root = record.ancestors().nth(3).unwrap_or(record);
    CommandLine::underpin("cache").arg("verify").flag("--cache", root.display())
}

pub struct CacheLayout {
    root: PathBuf,
    notices: Notices,
    /// Set at the first write that fails.
    full: AtomicBool,
    /// While it is held, nobody collects garbage.
    _held: LockGuard,
}

impl CacheLayout {
    /// Makes the directories that are missing, and takes part in the lock that keeps garbage
    /// collectors out.
    pub fn open(root: &Path, notices: &Notices) -> Result<Self> {
        check_place(root)?;
        create_private(root)?;
        let root = &check_cache(root)?;
        let held = gc_lock::lock_shared(root, notices)?;
        check_version(&root.join("version"))?;
        for room in ["blobs", "blobs/sha256", "indexes", "partial", "images", IMAGES] {
            let path = root.join(room);
            if regular_file::directory(&path, Symlinks::Refused)? == DirectoryCheck::Missing {
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

    /// What cannot be opened is missing; what is no file, or somebody else's, is in the way and removed.
    pub fn section(&self, path: &Path) -> Option<Section> {
        match regular_file::open(path, Symlinks::Refused) {
            Ok(Some(section)) if !is_own_file(path, section.file()).unwrap_or(false) => {
                self.discard(path);
                None
            }
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
                    self.notices.warn(format!("nothing more is written to the cache in this run: {}", line(&error)));
                }
                None
            }
        }
    }
}

/// The path of the cache, if nobody else can change what is in it.
pub fn check_cache(root: &Path) -> Result<PathBuf> {
    let resolved = check_directory(root)?;
    let versions = |of: &str| fs::read_dir(resolved.join(of)).into_iter().flatten().flatten().map(|entry| entry.path());
    let rooms = ["blobs", "blobs/sha256", "indexes", "partial", "images", "nodes"].map(|room| resolved.join(room));
    let rooms = rooms.into_iter().chain(["indexes", "images", "nodes"].into_iter().flat_map(versions));
    for room in rooms.filter(|room| fs::symlink_metadata(room).is_ok_and(|found| found.is_dir())) {
        check_room(&resolved, &room)?;
    }
    Ok(resolved)
}

/// Whether there is a cache in the directory that nobody else can change, or can be one.
pub fn check_usable(root: &Path) -> Result<()> {
    check_place(root)?;
    if root.is_dir() { check_cache(root).map(drop) } else { Ok(()) }
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

/// Creates the directory and its missing parents, durably, as the files in it will be.
pub fn create_private(path: &Path) -> Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|it| !it.as_os_str().is_empty() && !it.is_dir()).collect();
    missing.into_iter().rev().try_for_each(create_private_here)
}

/// Creates the directory itself; one that is there is fine.
pub(super) fn create_private_here(directory: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Ok(()) => atomic::sync_directory(atomic::parent(directory)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Error::io("could not create the directory of the cache", directory, &error)),
    }
}

/// Whether there is a cache in the directory at all. One that is of another version is an error.
pub fn has_known_version(root: &Path) -> Result<bool> {
    known_version(&root.join("version"))
}

fn check_version(path: &Path) -> Result<()> {
    if known_version(path)? { Ok(()) } else { atomic::replace_in_cache(path, format!("{VERSION}\n").as_bytes()) }
}

fn known_version(path: &Path) -> Result<bool> {
    let Some(file) = regular_file::open(path, Symlinks::Refused)? else { return Ok(false) };
    let text = String::from_utf8_lossy(&file.bytes(64, "the version of the cache")?).trim().to_owned();
    if text.parse() == Ok(VERSION) {
        return Ok(true);
    }
    Err(Error::input("the cache was made by another version of underpin")
        .fact("path", path.display())
        .fact("version", text)
        .fact("expected", VERSION)
        .hint("choose another directory with --cache, or pass --no-cache"))
}

/// An error in one line, for a warning.
pub fn line(error: &Error) -> String {
    let facts = error.facts().iter().map(|(name, value)| format!(", {name} {value}"));
    let causes = error.causes().iter().map(|cause| format!(": {cause}"));
    std::iter::once(error.what().to_owned()).chain(facts).chain(causes).collect()
}

/// Whether a file of the cache has the bytes that its name promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState {
    /// It is, and has so many bytes.
    Sound(u64),
    Damaged,
    /// Somebody has removed it meanwhile.
    Gone,
}

/// Reads a blob, an index or a record of the cache in `root` to its end. A file that cannot be read
/// is an error: that says nothing about its bytes.
pub fn file_state(root: &Path, path: &Path) -> Result<FileState> {
    if path.starts_with(root.join(IMAGES)) {
        return of_record(path, ImageRecord::read(path));
    }
    if path.starts_with(root.join(NODES)) {
        return of_record(path, NodeRecord::read(path));
    }
    let Some(section) = regular_file::open(path, Symlinks::Refused)? else { return Ok(FileState::Gone) };
    if !is_own_file(path, section.file())? {
        return Ok(FileState::Damaged);
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let sound = match (Digest::from_hex(name), version(root, path)) {
        (Ok(digest), Some(version)) => sealed_index(&section, &digest, version)?.is_some(),
        (Ok(digest), None) => verified::hash(&mut section.reader(0))?.digest == digest,
        (Err(_), _) => false,
    };
    Ok(if sound { FileState::Sound(section.len()) } else { FileState::Damaged })
}

fn of_record<R>(path: &Path, read: Result<Option<R>>) -> Result<FileState> {
    match read {
        Ok(Some(_)) => Ok(FileState::Sound(std::fs::symlink_metadata(path).map_or(0, |data| data.len()))),
        Ok(None) => Ok(FileState::Gone),
        Err(error) if error.kind() == Kind::Io => Err(error),
        Err(_) => Ok(FileState::Damaged),
    }
}

/// The index of a layer in this file of the cache in `root`, with its digest and the version of its format. `None` where it is
/// none, or damaged.
pub fn read_index(root: &Path, path: &Path) -> Result<Option<(Digest, u32, Vec<u8>)>> {
    let Some(section) = regular_file::open(path, Symlinks::Refused)? else { return Ok(None) };
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let (Ok(digest), Some(version)) = (Digest::from_hex(name), version(root, path)) else { return Ok(None) };
    Ok(sealed_index(&section, &digest, version)?.map(|bytes| (digest, version, bytes)))
}

/// The version of the format of an index, from the directory it lies in.
fn version(root: &Path, path: &Path) -> Option<u32> {
    let directory = path.parent()?.strip_prefix(root.join("indexes")).ok()?;
    directory.to_str()?.strip_prefix('v')?.parse().ok()
}
