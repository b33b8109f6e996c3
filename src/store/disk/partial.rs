//! A blob on its way into the cache.
//!
//! Its fetcher holds a lock on the file, so that a blob is fetched by one process and the others
//! wait. What has arrived stays when the fetch is interrupted, and the next run resumes it.
//! Nothing is believed: the blob gets its name only when all of it has been hashed.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cache::Cache;
use super::cache_layout::CacheLayout;
use super::lock::{LockWait, Wait};
use super::regular_file::{self, Section, Symlinks};
use super::{atomic, verified};
use oci::error::{Error, Result};
use oci::{Descriptor, Hashed};

/// What the cache has for somebody who is about to fetch a blob.
pub enum Receiving {
    /// The blob itself, verified.
    Present(File),
    /// A place to put the bytes that come.
    Partial(Partial),
    /// No place: the bytes are for the fetcher alone.
    Nothing,
}

/// A file that is filled from its start. Dropped before [`Partial::commit`], it stays, and a
/// later run goes on with it.
pub struct Partial {
    layout: Arc<CacheLayout>,
    of: Box<Descriptor>,
    file: Arc<File>,
    path: PathBuf,
    have: u64,
    state: PartialState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartialState {
    Filling,
    /// A write failed. The bytes are not kept, the fetch continues.
    Abandoned,
}

impl Partial {
    /// How many bytes are there from an earlier run.
    #[must_use]
    pub fn have(&self) -> u64 {
        self.have
    }

    /// The bytes that are there, to be hashed again.
    pub fn prefix(&self) -> Result<impl Read + Send + use<>> {
        Ok(Section::new(self.file.clone(), &self.path, self.have).reader(0))
    }

    /// Adds bytes at the end. A failure ends caching, not the fetch.
    pub fn append(&mut self, bytes: &[u8]) {
        if self.state == PartialState::Abandoned {
            return;
        }
        let written = self.file.write_all_at(bytes, self.have);
        self.settle(written, "could not write to the cache");
        self.have += bytes.len() as u64;
    }

    /// Begins again with nothing.
    pub fn restart(&mut self) {
        self.have = 0;
        if self.state == PartialState::Filling {
            let emptied = self.file.set_len(0);
            self.settle(emptied, "could not empty a file of the cache");
        }
    }

    /// Ends the fetch; `hashed` is what its bytes were. Gives the blob, opened at its start, or
    /// `None` where the cache could not keep it. Wrong bytes are an error and are not kept.
    pub fn commit(mut self, hashed: Hashed) -> Result<Option<File>> {
        if let Err(error) = verified::check(hashed, &self.of) {
            self.remove();
            return Err(error);
        }
        if self.state == PartialState::Abandoned {
            return Ok(None);
        }
        if self.have != hashed.len {
            // Somebody fed us other bytes than the hasher.
            self.remove();
            return Ok(None);
        }
        let named = self.name_it();
        if named.is_err() {
            self.abandon();
        }
        Ok(self.layout.tolerate(named))
    }

    fn name_it(&self) -> Result<File> {
        let to = self.layout.blob_path(&self.of.digest);
        self.file.sync_all().map_err(|error| Error::io("could not sync the file", &self.path, &error))?;
        let opened =
            File::open(&self.path).map_err(|error| Error::io("could not open the file", &self.path, &error))?;
        fs::rename(&self.path, &to).map_err(|error| Error::io("could not rename the new file", &to, &error))?;
        atomic::sync_directory(atomic::parent(&to))?;
        Ok(opened)
    }

    fn settle(&mut self, outcome: io::Result<()>, what: &str) {
        if let Err(error) = outcome {
            let error = Error::io(what, &self.path, &error).fact("needed", self.of.size);
            self.layout.tolerate::<()>(Err(error));
            self.abandon();
        }
    }

    /// Gives back the room on what may be a full disk.
    fn abandon(&mut self) {
        self.state = PartialState::Abandoned;
        self.remove();
    }

    /// A file that has got the name of its blob already stays: it is whole.
    fn remove(&self) {
        if atomic::names(&self.path, &self.file) {
            // Emptied too: somebody who waits for the lock has the file open.
            let _ = self.file.set_len(0);
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Finds or waits for the blob, or makes a place for it.
pub(super) fn receive(cache: &Cache, layout: &Arc<CacheLayout>, of: &Descriptor) -> Receiving {
    receive_within(cache, layout, of, LockWait::default())
}

fn receive_within(cache: &Cache, layout: &Arc<CacheLayout>, of: &Descriptor, patience: LockWait) -> Receiving {
    let path = layout.partial_path(&of.digest);
    let mut wait = Wait::new(patience);
    let mut seen = 0;
    loop {
        if let Some(blob) = cache.blob(of) {
            return Receiving::Present(blob);
        }
        match take(&path) {
            Err(error) => {
                layout.tolerate::<()>(Err(error));
                return Receiving::Nothing;
            }
            Ok(Taken::Ours(file)) => return begin(cache, layout, of, file, path),
            Ok(Taken::Moved) => {}
            Ok(Taken::Theirs(len)) => {
                if len != seen {
                    wait.go_on();
                    seen = len;
                }
                wait.pause(|| {
                    layout.notices().warn(format!("waiting for another process that is fetching {}", of.digest));
                });
                // Stopped, or too slow to wait for: we fetch for ourselves.
                if wait.is_over() {
                    return Receiving::Nothing;
                }
            }
        }
    }
}

enum Taken {
    Ours(File),
    /// Another process holds it, and has got so far.
    Theirs(u64),
    /// It was finished or removed while we asked.
    Moved,
}

fn take(path: &Path) -> Result<Taken> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o644)
        .custom_flags(regular_file::flags(Symlinks::Refused))
        .open(path)
        .map_err(|error| Error::io("could not open a file of the cache", path, &error))?;
    match file.try_lock() {
        Ok(()) if atomic::names(path, &file) => Ok(Taken::Ours(file)),
        Ok(()) => Ok(Taken::Moved),
        Err(TryLockError::WouldBlock) => Ok(Taken::Theirs(file.metadata().map_or(0, |metadata| metadata.len()))),
        Err(TryLockError::Error(error)) => Err(Error::io("could not lock a file of the cache", path, &error)),
    }
}

fn begin(cache: &Cache, layout: &Arc<CacheLayout>, of: &Descriptor, file: File, path: PathBuf) -> Receiving {
    // Another process may have finished between our look and our lock.
    if let Some(blob) = cache.blob(of) {
        let _ = fs::remove_file(&path);
        return Receiving::Present(blob);
    }
    let section = match regular_file::section(file, &path) {
        Ok(section) => section,
        Err(error) => {
            layout.tolerate::<()>(Err(error));
            return Receiving::Nothing;
        }
    };
    let have = section.len();
    let file = section.into_file();
    let mut partial =
        Partial { layout: layout.clone(), of: Box::new(of.clone()), file, path, have, state: PartialState::Filling };
    if have > of.size {
        partial.restart();
    }
    Receiving::Partial(partial)
}

/// Removes files of dead fetchers that hold nothing: there is nothing to go on with.
pub(super) fn sweep(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(Some(section)) = regular_file::open(&path, Symlinks::Refused) else { continue };
        // Looked at under the lock: until then somebody may have begun.
        let is_dead = section.len() == 0 && section.file().try_lock().is_ok();
        if is_dead && section.file().metadata().is_ok_and(|metadata| metadata.len() == 0) {
            let _ = fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::Notices;
    use oci::error::Kind;
    use oci::{Hasher, MediaType};

    const BYTES: &[u8] = b"the bytes of a layer";

    fn descriptor() -> Descriptor {
        Descriptor::of(MediaType::new("a/b"), BYTES)
    }

    fn open(dir: &Path) -> Cache {
        Cache::open(dir, &Notices::silent()).unwrap()
    }

    fn partial(cache: &Cache) -> Partial {
        match cache.receive(&descriptor()).unwrap() {
            Receiving::Partial(partial) => partial,
            Receiving::Present(_) => panic!("present"),
            Receiving::Nothing => panic!("nothing"),
        }
    }

    fn hashed(bytes: &[u8]) -> Hashed {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        hasher.finish()
    }

    #[test]
    fn a_broken_fetch_goes_on_where_it_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = partial(&open(dir.path()));
        first.append(&BYTES[..7]);
        drop(first);
        let cache = open(dir.path());
        assert!(cache.blob(&descriptor()).is_none(), "half a blob is no blob");
        let mut second = partial(&cache);
        assert_eq!(second.have(), 7);
        let mut hasher = Hasher::default();
        io::copy(&mut second.prefix().unwrap(), &mut hasher).unwrap();
        second.append(&BYTES[7..]);
        hasher.update(&BYTES[7..]);
        let blob = second.commit(hasher.finish()).unwrap().unwrap();
        assert_eq!(io::read_to_string(blob).unwrap().as_bytes(), BYTES);
        assert!(cache.blob(&descriptor()).is_some());
        assert_eq!(fs::read_dir(dir.path().join("partial")).unwrap().count(), 0);
        assert!(matches!(cache.receive(&descriptor()).unwrap(), Receiving::Present(_)));
    }

    #[test]
    fn wrong_bytes_never_become_a_blob() {
        for wrong in [&b"the bytes of a LAYER"[..], b"short", b"the bytes of a layer and more"] {
            let dir = tempfile::tempdir().unwrap();
            let cache = open(dir.path());
            let mut fetch = partial(&cache);
            fetch.append(wrong);
            assert_eq!(fetch.commit(hashed(wrong)).unwrap_err().kind(), Kind::Integrity);
            assert!(cache.blob(&descriptor()).is_none());
            assert_eq!(partial(&cache).have(), 0);
        }
    }

    #[test]
    fn leftovers_that_are_too_long_are_dropped_and_restart_empties() {
        let dir = tempfile::tempdir().unwrap();
        let cache = open(dir.path());
        fs::write(dir.path().join("partial").join(descriptor().digest.hex()), [0; 99]).unwrap();
        let mut fetch = partial(&cache);
        assert_eq!(fetch.have(), 0);
        fetch.append(b"wrong");
        fetch.restart();
        fetch.append(BYTES);
        fetch.commit(hashed(BYTES)).unwrap().unwrap();
        assert!(cache.blob(&descriptor()).is_some());
    }

    #[test]
    fn an_empty_file_of_a_dead_fetcher_goes_and_any_other_stays() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("partial");
        let living = partial(&open(dir.path()));
        let (dead, begun) = (directory.join("0".repeat(64)), directory.join("1".repeat(64)));
        fs::write(&dead, "").unwrap();
        fs::write(&begun, "the").unwrap();
        drop(open(dir.path()));
        assert!(!dead.exists() && begun.exists() && living.path.exists());
    }

    #[test]
    fn one_fetches_and_the_others_wait() {
        let dir = tempfile::tempdir().unwrap();
        let fetched: usize = std::thread::scope(|scope| {
            let fetchers: Vec<_> = (0..6)
                .map(|_| {
                    scope.spawn(|| match open(dir.path()).receive(&descriptor()).unwrap() {
                        Receiving::Present(blob) => {
                            assert_eq!(io::read_to_string(blob).unwrap().as_bytes(), BYTES);
                            0
                        }
                        Receiving::Partial(mut partial) => {
                            std::thread::sleep(Duration::from_millis(30));
                            partial.append(BYTES);
                            partial.commit(hashed(BYTES)).unwrap().unwrap();
                            1
                        }
                        Receiving::Nothing => panic!("nothing"),
                    })
                })
                .collect();
            fetchers.into_iter().map(|fetcher| fetcher.join().unwrap()).sum()
        });
        assert_eq!(fetched, 1);
    }

    #[test]
    fn a_fetcher_that_stands_still_is_not_waited_for_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let cache = open(dir.path());
        let holder = partial(&cache);
        let short = LockWait { speak: Duration::from_millis(5), stop: Duration::from_millis(60) };
        let second = receive_within(&cache, &holder.layout, &descriptor(), short);
        assert!(matches!(second, Receiving::Nothing));
        drop(holder);
        partial(&cache);
    }

    #[test]
    fn a_full_disk_ends_caching_and_not_the_fetch() {
        let dir = tempfile::tempdir().unwrap();
        let cache = open(dir.path());
        let mut fetch = partial(&cache);
        fetch.append(b"the ");
        fetch.settle(Err(io::Error::from(io::ErrorKind::StorageFull)), "could not write to the cache");
        fetch.append(b"bytes of a layer");
        assert!(fetch.commit(hashed(BYTES)).unwrap().is_none());
        assert!(cache.blob(&descriptor()).is_none());
        assert_eq!(fs::read_dir(dir.path().join("partial")).unwrap().count(), 0);
        assert!(matches!(cache.receive(&descriptor()).unwrap(), Receiving::Nothing));
    }

    #[test]
    fn without_a_cache_there_is_no_place() {
        assert!(matches!(Cache::none().receive(&descriptor()).unwrap(), Receiving::Nothing));
    }
}
