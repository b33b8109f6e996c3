//! The local cache: blobs, documents and layer indexes by digest, shared by processes.
//!
//! It saves time: every read is verified, and what is damaged is removed and counts as missing. What proves something, an
//! index or a record, is believed only where nobody else can have written it. It never stops a run that could go on without:
//! at the first failed write it says so once and takes nothing more; what it has can still be read.

use std::fs::File;
use std::io::Seek;
use std::path::Path;
use std::sync::Arc;

use super::atomic;
use super::cache_layout::{CacheLayout, create_private_here, line};
use super::image_record::ImageRecord;
use super::image_use::{self, ImageUse};
use super::partial::{self, Receiving};
use super::regular_file::Section;
use super::timestamp::Timestamp;
use crate::store::Notices;
use oci::error::{Kind, Result};
use oci::{DOCUMENT_LIMIT, Descriptor, Digest, Hasher, Location, Reference};

const INDEX_LIMIT: u64 = 512 << 20;
/// The hex digits of the digest that ends the file of an index.
const SEAL: usize = 64;

/// Cheap to clone; all clones are one cache.
#[derive(Clone)]
pub struct Cache(Option<Arc<CacheLayout>>);

impl Cache {
    /// A cache that has nothing and takes nothing.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// The cache in the directory `root`, made where it is missing. A directory that cannot be used
    /// gives a warning and [`Cache::none`]; one that a newer underpin has made is an error.
    pub fn open(root: &Path, notices: &Notices) -> Result<Self> {
        match CacheLayout::open(root, notices) {
            Ok(layout) => Ok(Self(Some(Arc::new(layout)))),
            Err(error) if error.kind() == Kind::Io => {
                notices.warn(format!("working without a cache: {}", line(&error)));
                Ok(Self::none())
            }
            Err(error) => Err(error),
        }
    }

    /// Where large files can lie for a while; `None` without a cache that can be written to.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        self.writable().map(|layout| layout.root())
    }

    /// The blob, verified from first to last byte and set to its start.
    #[must_use]
    pub fn blob(&self, of: &Descriptor) -> Option<File> {
        let layout = self.0.as_ref()?;
        let section = layout.sound(&of.digest)?;
        // Right bytes under a wrong size: the descriptor lies, not the cache.
        (section.len() == of.size).then(|| hand_out(&section)).flatten()
    }

    /// The bytes of a document or config.
    #[must_use]
    pub fn small(&self, digest: &Digest) -> Option<Vec<u8>> {
        let layout = self.0.as_ref()?;
        let section = layout.section(&layout.blob_path(digest))?;
        if section.len() > DOCUMENT_LIMIT {
            return None;
        }
        let bytes = section.bytes(DOCUMENT_LIMIT, "the document").ok()?;
        if Digest::of(&bytes) != *digest {
            layout.discard(section.path());
            return None;
        }
        touch(&section);
        Some(bytes)
    }

    /// Keeps a document or config; `bytes` that are not those of `digest` are ignored.
    pub fn keep_small(&self, digest: &Digest, bytes: &[u8]) {
        let Some(layout) = self.writable() else { return };
        // A damaged one is noticed and replaced here too.
        if self.small(digest).is_none() && bytes.len() as u64 <= DOCUMENT_LIMIT && Digest::of(bytes) == *digest {
            layout.tolerate(atomic::replace_in_cache(&layout.blob_path(digest), bytes));
        }
    }

    /// The index of a layer in the format `version`.
    #[must_use]
    pub fn index(&self, digest: &Digest, version: u32) -> Option<Vec<u8>> {
        let layout = self.0.as_ref()?;
        let section = layout.section(&layout.index_path(digest, version))?;
        let Some(bytes) = sealed_index(&section, digest, version).ok()? else {
            layout.discard(section.path());
            return None;
        };
        touch(&section);
        Some(bytes)
    }

    pub fn keep_index(&self, digest: &Digest, version: u32, bytes: &[u8]) {
        let Some(layout) = self.writable() else { return };
        let path = layout.index_path(digest, version);
        let sealed = [bytes, seal(digest, version, bytes).as_bytes()].concat();
        let kept = create_private_here(atomic::parent(&path)).and_then(|()| atomic::replace_in_cache(&path, &sealed));
        layout.tolerate(kept);
    }

    /// A place for a blob that is about to be fetched. Where another process is fetching it,
    /// waits for that one.
    pub fn receive(&self, of: &Descriptor) -> Result<Receiving> {
        match self.writable() {
            Some(layout) => Ok(partial::receive(self, layout, of)),
            None => Ok(Receiving::Nothing),
        }
    }

    /// Keeps that an image was seen under a name, and that its parts belong to it. Yields all that is known of it.
    pub fn remember(&self, sighting: &ImageUse<'_>) -> Option<ImageRecord> {
        let layout = self.writable()?;
        match sighting.keep(&layout.images(), layout.notices()) {
            // A damaged record may be a root of more than was seen now. It is not replaced: it
            // keeps the collector out until somebody has looked at it.
            Err(error) if error.kind() != Kind::Io => {
                layout.notices().warn(line(&error));
                None
            }
            outcome => layout.tolerate(outcome),
        }
    }

    /// What a reference led to when it was last seen.
    pub fn last_seen(&self, reference: &Reference) -> Result<Option<ImageRecord>> {
        let Some(layout) = self.0.as_ref() else { return Ok(None) };
        let name = image_use::full_name(&Location::Registry(reference.clone()));
        ImageRecord::read(&layout.images().join(ImageRecord::file_name(&name)))
    }

    fn writable(&self) -> Option<&Arc<CacheLayout>> {
        self.0.as_ref().filter(|layout| layout.is_writable())
    }
}

fn hand_out(section: &Section) -> Option<File> {
    touch(section);
    let mut file = section.file().try_clone().ok()?;
    file.rewind().ok()?;
    Some(file)
}

/// The time of last use, for whoever collects garbage. A cache that is read-only stays as it is.
fn touch(section: &Section) {
    let _ = section.file().set_modified(Timestamp::now().time());
}

/// The index that was kept for this layer in this format; `None` where the file is damaged.
pub(super) fn sealed_index(section: &Section, digest: &Digest, version: u32) -> Result<Option<Vec<u8>>> {
    if section.len() > INDEX_LIMIT {
        return Ok(None);
    }
    let mut bytes = section.bytes(INDEX_LIMIT, "the index")?;
    let seal = bytes.split_off(bytes.len().saturating_sub(SEAL));
    Ok((seal == self::seal(digest, version, &bytes).as_bytes()).then_some(bytes))
}

/// Binds the bytes of an index to what they are the index of.
fn seal(digest: &Digest, version: u32, bytes: &[u8]) -> String {
    let mut hasher = Hasher::default();
    hasher.update(format!("{digest} v{version}\n").as_bytes());
    hasher.update(bytes);
    hasher.finish().digest.hex()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;
    use std::sync::Mutex;

    use super::*;
    use crate::store::Notice;
    use crate::store::disk::lock::{self, LockMode, LockWait};
    use oci::MediaType;

    type Look = fn(&Cache, &Descriptor) -> bool;
    type Harm = fn(&Path);

    /// A cache whose warnings can be counted.
    fn watched(root: &Path) -> (Cache, Arc<Mutex<Vec<Notice>>>) {
        let said = Arc::new(Mutex::new(Vec::new()));
        let ears = said.clone();
        let cache = Cache::open(root, &Notices::new(move |notice| ears.lock().unwrap().push(notice))).unwrap();
        (cache, said)
    }

    fn blob_file(root: &Path, digest: &Digest) -> PathBuf {
        root.join("blobs/sha256").join(digest.hex())
    }

    #[test]
    fn keeps_what_it_is_given_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("deep/cache");
        let (cache, said) = watched(&root);
        let digest = Digest::of(b"document");
        assert_eq!(cache.small(&digest), None);
        cache.keep_small(&digest, b"document");
        cache.keep_small(&Digest::of(b"other"), b"document");
        cache.keep_index(&digest, 3, b"index");
        let (again, _) = watched(&root);
        assert_eq!(again.small(&digest).unwrap(), b"document");
        assert_eq!(again.small(&Digest::of(b"other")), None);
        assert_eq!(again.index(&digest, 3).unwrap(), b"index");
        assert_eq!(again.index(&digest, 4), None);
        let of = Descriptor::of(MediaType::oci_config(), b"document");
        assert_eq!(io::read_to_string(again.blob(&of).unwrap()).unwrap(), "document");
        assert_eq!(fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(said.lock().unwrap().is_empty());
    }

    #[test]
    fn damage_is_a_miss_with_one_warning() {
        let of = Descriptor::of(MediaType::oci_config(), b"document");
        let looks: [(Look, &str); 3] = [
            (|cache, of| cache.blob(of).is_some(), "blobs/sha256"),
            (|cache, of| cache.small(&of.digest).is_some(), "blobs/sha256"),
            (|cache, of| cache.index(&of.digest, 1).is_some(), "indexes/v1"),
        ];
        let harms: [Harm; 5] = [
            |path| fs::write(path, "").unwrap(),
            |path| fs::write(path, "documen").unwrap(),
            |path| fs::write(path, "Document").unwrap(),
            |path| fs::write(path, [b'x'; 200]).unwrap(),
            |path| {
                fs::remove_file(path).unwrap();
                symlink("/etc/passwd", path).unwrap();
            },
        ];
        for (look, room) in looks {
            for harm in harms {
                let dir = tempfile::tempdir().unwrap();
                let (cache, said) = watched(dir.path());
                cache.keep_small(&of.digest, b"document");
                cache.keep_index(&of.digest, 1, b"document");
                assert!(look(&cache, &of), "the benign twin");
                harm(&dir.path().join(room).join(of.digest.hex()));
                assert!(!look(&cache, &of) && !look(&cache, &of));
                assert_eq!(said.lock().unwrap().len(), 1, "{:?}", said.lock().unwrap());
                assert!(!dir.path().join(room).join(of.digest.hex()).exists());
            }
        }
    }

    #[test]
    fn an_index_under_a_wrong_name_is_damage() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, _) = watched(dir.path());
        let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
        cache.keep_index(&one, 1, b"index of one");
        fs::copy(dir.path().join("indexes/v1").join(one.hex()), dir.path().join("indexes/v1").join(two.hex())).unwrap();
        assert_eq!((cache.index(&two, 1), cache.index(&one, 1).is_some()), (None, true));
    }

    #[test]
    fn a_descriptor_with_a_wrong_size_is_a_miss_and_no_damage() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, said) = watched(dir.path());
        let of = Descriptor::of(MediaType::oci_config(), b"document");
        cache.keep_small(&of.digest, b"document");
        assert!(cache.blob(&Descriptor { size: 9, ..of.clone() }).is_none());
        assert!(cache.blob(&of).is_some() && said.lock().unwrap().is_empty());
    }

    #[test]
    fn the_first_failed_write_is_told_once_and_reading_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, said) = watched(dir.path());
        let kept = Digest::of(b"kept");
        cache.keep_small(&kept, b"kept");
        // Root may write anywhere, so the directory itself has to go.
        fs::rename(dir.path().join("indexes"), dir.path().join("moved")).unwrap();
        cache.keep_index(&kept, 1, b"x");
        cache.keep_index(&kept, 1, b"x");
        cache.keep_small(&Digest::of(b"new"), b"new");
        assert_eq!(said.lock().unwrap().len(), 1);
        assert!(!blob_file(dir.path(), &Digest::of(b"new")).exists());
        let of = Descriptor::of(MediaType::oci_config(), b"new");
        assert!(matches!(cache.receive(&of).unwrap(), Receiving::Nothing));
        assert!(cache.small(&kept).is_some());
    }

    #[test]
    fn the_next_run_removes_what_a_killed_one_left() {
        let dir = tempfile::tempdir().unwrap();
        watched(dir.path()).0.keep_index(&Digest::of(b"1"), 1, b"x");
        let orphans: Vec<_> = ["", "blobs/sha256", "indexes/v1"]
            .map(|room| dir.path().join(room).join(".underpin-4000000-0123456789abcdef"))
            .into_iter()
            .inspect(|orphan| fs::write(orphan, "half").unwrap())
            .collect();
        watched(dir.path());
        assert!(orphans.iter().all(|orphan| !orphan.exists()));
    }

    #[test]
    fn folders_that_cannot_be_used() {
        let dir = tempfile::tempdir().unwrap();
        watched(dir.path());
        fs::write(dir.path().join("version"), "2\n").unwrap();
        assert!(Cache::open(dir.path(), &Notices::silent()).is_err());
        fs::write(dir.path().join("file"), "x").unwrap();
        let (cache, said) = watched(&dir.path().join("file/cache"));
        assert!(cache.0.is_none() && said.lock().unwrap().len() == 1);
    }

    #[test]
    fn whoever_uses_the_cache_keeps_the_collector_out() {
        let dir = tempfile::tempdir().unwrap();
        let now = LockWait { speak: std::time::Duration::ZERO, stop: std::time::Duration::ZERO };
        let collect = || lock::directory(dir.path(), LockMode::Exclusive, now, &Notices::silent());
        let (one, two) = (watched(dir.path()).0, watched(dir.path()).0);
        drop(one);
        assert_eq!(collect().unwrap_err().kind(), Kind::Lock);
        drop(two);
        collect().unwrap();
    }
}
