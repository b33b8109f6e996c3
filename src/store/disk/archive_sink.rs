//! Archives as a sink: a tar file of an OCI layout, and the same with Docker's `manifest.json`.
//!
//! The new archive is written beside the old one and takes its place at once when the image is
//! tagged. Images under other tags are carried over, under a lock, so that processes that write
//! to one archive keep each other's work. Blobs stand in the order in which they were put.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Map;

use super::atomic;
use super::contents::{self, Contents};
use super::docker_list::DockerList;
use super::draft::Draft;
use super::lock::{self, Mode, Patience};
use super::shelf::{self, Files, INDEX, MARKER, MARKER_BYTES};
use super::tarball::{Member, Tarball};
use crate::error::{Error, Result};
use crate::oci::{Descriptor, Digest, Document, DocumentKind, LocalImage, Manifest};
use crate::store::{Blob, Delivery, Notices, Sink, Stream};

pub const DOCKER_LIST: &str = "manifest.json";

/// The name that containerd's importer, and so `docker load`, gives to an image.
const CONTAINERD_NAME: &str = "io.containerd.image.name";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavor {
    Oci,
    /// An OCI layout that also has what `docker load` looks for, as `docker save` writes it.
    Docker,
}

/// `oci-archive:FILE[:TAG]` and `docker-archive:FILE[:[NAME:]TAG]`, for writing.
pub struct ArchiveSink {
    path: PathBuf,
    wanted: LocalImage,
    flavor: Flavor,
    notices: Notices,
    draft: Mutex<Option<Draft>>,
}

impl ArchiveSink {
    pub(super) fn new(local: &LocalImage, flavor: Flavor, notices: &Notices) -> Result<Self> {
        // Written where a link leads, so that the link stays.
        let path = std::fs::canonicalize(&local.path).unwrap_or_else(|_| local.path.clone());
        let sink = Self { path, wanted: local.clone(), flavor, notices: notices.clone(), draft: Mutex::new(None) };
        sink.find().map_err(|error| sink.named(error))?;
        Ok(sink)
    }

    /// What the target names now.
    fn find(&self) -> Result<Option<Digest>> {
        let contents = self.old()?.map(|old| shelf::contents(&old)).transpose()?.flatten();
        contents.map_or(Ok(None), |contents| contents.current(&self.wanted))
    }

    fn named(&self, error: Error) -> Error {
        error.fact("in", self.wanted.path.display())
    }

    /// The archive that is there now; an empty file is none.
    fn old(&self) -> Result<Option<Tarball>> {
        if std::fs::metadata(&self.path).is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0) {
            return Ok(None);
        }
        let Some(old) = Tarball::open(&self.path)? else { return Ok(None) };
        let hint = "remove the file, or name another one";
        shelf::check_marker(&old).map_err(|error| error.hint(hint))?;
        match old.open(DOCKER_LIST)? {
            None if self.flavor == Flavor::Docker => {
                Err(Error::input("the file is an OCI archive without Docker's manifest.json").hint(hint))
            }
            Some(_) if self.flavor == Flavor::Oci => {
                Err(Error::input("the file is a docker archive").hint("write to it as docker-archive:, or remove it"))
            }
            _ => Ok(Some(old)),
        }
    }

    fn draft(&self) -> MutexGuard<'_, Option<Draft>> {
        self.draft.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self) -> Result<Draft> {
        let folder = atomic::parent(&self.path);
        atomic::sweep(folder);
        let mut draft = Draft::create(folder)?;
        draft.add(MARKER, MARKER_BYTES)?;
        draft.add_folder("blobs/")?;
        draft.add_folder("blobs/sha256/")?;
        Ok(draft)
    }

    /// One blob after the other: a tar has no gaps to fill in later.
    fn put(&self, of: &Descriptor, open: &dyn Fn() -> Result<Stream>) -> Result<Delivery> {
        let mut slot = self.draft();
        let draft = match &mut *slot {
            Some(draft) => draft,
            empty => empty.insert(self.start()?),
        };
        let name = shelf::blob_name(&of.digest);
        if draft.has(&name) || self.carry_over(draft, &name, of) {
            return Ok(Delivery::AlreadyThere);
        }
        draft.add_blob(&name, of, open()?)?;
        Ok(Delivery::Sent)
    }

    /// Takes the blob from the archive that is there, where it has it undamaged.
    fn carry_over(&self, draft: &mut Draft, name: &str, of: &Descriptor) -> bool {
        let Ok(Some(Ok(Some(section)))) = self.old().map(|old| old.map(|old| old.open(name))) else { return false };
        section.len() == of.size && draft.add_blob(name, of, section.stream(0)).is_ok()
    }

    fn put_whole(&self, document: &Document) -> Result<()> {
        let bytes = document.bytes().to_vec();
        self.put(&document.descriptor(), &|| Ok(Box::new(std::io::Cursor::new(bytes.clone())))).map(drop)
    }

    fn publish(&self, top: &Document) -> Result<()> {
        contents::check_target(self.wanted.digest, top)?;
        self.check_kind(top)?;
        self.put_whole(top)?;
        let Some(mut draft) = self.draft().take() else {
            return Err(Error::input("there is nothing to write"));
        };
        let folder = atomic::parent(&self.path);
        let _held = lock::folder(folder, Mode::Exclusive, Patience::default(), &self.notices)?;
        let old = self.old()?;
        if let Some(old) = &old {
            keep_others(&mut draft, old)?;
        }
        if self.flavor == Flavor::Docker {
            draft.add(DOCKER_LIST, &self.docker_list(old.as_ref(), top)?)?;
        }
        draft.add(INDEX, &self.contents(old.as_ref(), top)?)?;
        draft.commit(&self.path)
    }

    fn check_kind(&self, top: &Document) -> Result<()> {
        if self.flavor == Flavor::Docker && top.kind() == DocumentKind::Index {
            return Err(single_platform());
        }
        Ok(())
    }

    fn contents(&self, old: Option<&Tarball>, top: &Document) -> Result<Vec<u8>> {
        let mut contents = match old {
            Some(old) => shelf::contents(old)?.unwrap_or_else(Contents::empty),
            None => Contents::empty(),
        };
        let mut notes = Map::new();
        if let (Flavor::Docker, Some(tag)) = (self.flavor, &self.wanted.tag) {
            notes.insert(CONTAINERD_NAME.into(), DockerList::full_name(tag).into());
        }
        contents.put(self.wanted.tag.as_deref(), top, notes)?;
        contents.bytes()
    }

    fn docker_list(&self, old: Option<&Tarball>, top: &Document) -> Result<Vec<u8>> {
        let mut list = match old {
            Some(old) => DockerList::of(old)?,
            None => DockerList::default(),
        };
        list.put(self.wanted.tag.as_deref(), &Manifest::read(top)?);
        Ok(list.bytes())
    }
}

/// Copies what the old archive has and the new one does not have yet.
fn keep_others(draft: &mut Draft, old: &Tarball) -> Result<()> {
    for (name, member) in old.members() {
        match member {
            Member::Folder => {}
            _ if draft.has(name) || [INDEX, DOCKER_LIST].contains(&name) => {}
            Member::File(section) => draft.add_section(name, section)?,
            Member::Symlink(_) | Member::Other => {
                return Err(Error::input("the archive that is there has members that are not regular files")
                    .fact("member", name)
                    .hint("remove the file, or name another one"));
            }
        }
    }
    Ok(())
}

fn single_platform() -> Error {
    Error::input("a docker archive holds images of one platform only")
        .hint("choose one with --platform")
        .hint("write to oci-archive: to keep all platforms")
}

impl Sink for ArchiveSink {
    fn current(&self) -> Result<Option<Digest>> {
        let current = || match self.find()? {
            // Whoever wrote it may have been killed before its name was durable.
            Some(digest) => atomic::sync_folder(atomic::parent(&self.path)).map(|()| Some(digest)),
            None => Ok(None),
        };
        current().map_err(|error| self.named(error))
    }

    fn put_blob(&self, blob: &Blob<'_>) -> Result<Delivery> {
        self.put(blob.descriptor, &blob.open).map_err(|error| self.named(error))
    }

    fn put_document(&self, document: &Document) -> Result<()> {
        let put = || match self.flavor {
            // Only an index has children.
            Flavor::Docker => Err(single_platform()),
            Flavor::Oci => self.put_whole(document),
        };
        put().map_err(|error| self.named(error))
    }

    fn tag(&self, top: &Document) -> Result<()> {
        self.publish(top).map_err(|error| self.named(error))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::error::Kind;
    use crate::oci::{MediaType, json};
    use crate::store::Source;
    use crate::store::disk::sample::{self, Packer, Sample, local, names};
    use crate::store::disk::{DockerArchive, OciArchive};
    use serde_json::Value;

    const FLAVORS: [Flavor; 2] = [Flavor::Oci, Flavor::Docker];

    fn sink(path: &Path, flavor: Flavor, tag: Option<&str>) -> Result<ArchiveSink> {
        ArchiveSink::new(&local(path, tag), flavor, &Notices::silent())
    }

    fn source(path: &Path, flavor: Flavor, tag: Option<&str>) -> Box<dyn Source> {
        let local = local(path, tag);
        match flavor {
            Flavor::Oci => Box::new(OciArchive::source(&local).unwrap()),
            Flavor::Docker => Box::new(DockerArchive::source(&local).unwrap()),
        }
    }

    #[test]
    fn what_is_written_is_read_back_with_its_digest_and_twice_gives_the_same_bytes() {
        for flavor in FLAVORS {
            for tag in [Some("v1"), None] {
                let dir = tempfile::tempdir().unwrap();
                let path = dir.path().join("a.tar");
                let sample = Sample::new("layer");
                sample.publish(&sink(&path, flavor, tag).unwrap());
                sample.check(&*source(&path, flavor, tag));
                sample.check(&*source(&path, flavor, None));
                let first = fs::read(&path).unwrap();
                let again = sink(&path, flavor, tag).unwrap();
                assert_eq!(sample.put_blobs(&again).unwrap(), [Delivery::AlreadyThere; 2]);
                again.tag(&sample.manifest).unwrap();
                assert!(fs::read(&path).unwrap() == first, "{flavor:?} {tag:?}");
                assert_eq!(names(dir.path()), ["a.tar"]);
            }
        }
    }

    #[test]
    fn a_pinned_location_finds_its_image_after_the_tag_has_moved() {
        for flavor in FLAVORS {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a.tar");
            let (one, two) = (Sample::new("one"), Sample::new("two"));
            one.publish(&sink(&path, flavor, Some("v1")).unwrap());
            two.publish(&sink(&path, flavor, Some("v1")).unwrap());
            two.check(&*source(&path, flavor, Some("v1")));
            let pinned = LocalImage { digest: Some(one.manifest.digest()), ..local(&path, Some("v1")) };
            match flavor {
                Flavor::Oci => one.check(&OciArchive::source(&pinned).unwrap()),
                Flavor::Docker => one.check(&DockerArchive::source(&pinned).unwrap()),
            }
        }
    }

    #[test]
    fn images_of_two_names_with_one_tag_stand_in_one_docker_archive() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        let publish = |text: &str, tag| {
            Sample::new(text).publish(&DockerArchive::sink(&local(&path, Some(tag)), &Notices::silent()).unwrap());
        };
        let holds = |tag, text: &str| Sample::new(text).check(&*source(&path, Flavor::Docker, Some(tag)));
        let (a, b, bare) = ("r.example/a:v1", "docker.io/library/b:v1", "docker.io/library/underpin:v1");
        publish("first", a);
        publish("one", a);
        publish("two", b);
        publish("three", "v1");
        publish("four", bare);
        for (tag, text) in [(a, "one"), (b, "two"), (bare, "four")] {
            holds(tag, text);
        }
        let ambiguous = DockerArchive::source(&local(&path, Some("v1"))).unwrap().top().unwrap_err();
        assert!(ambiguous.to_string().contains("whole name"), "{ambiguous}");
        let archive = Tarball::open(&path).unwrap().unwrap();
        let index = archive.open(INDEX).unwrap().unwrap().bytes(1 << 20, INDEX).unwrap();
        let index: Value = serde_json::from_slice(&index).unwrap();
        let name = |entry: &Value| entry["annotations"][CONTAINERD_NAME].as_str().unwrap().to_owned();
        let names: Vec<String> = index["manifests"].as_array().unwrap().iter().map(name).collect();
        assert_eq!(names, [a, b, bare]);
    }

    #[test]
    fn eight_writers_keep_eight_tags() {
        for flavor in FLAVORS {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a.tar");
            std::thread::scope(|scope| {
                for writer in 0..8 {
                    let path = &path;
                    scope.spawn(move || {
                        let sample = Sample::new(&format!("layer {writer}"));
                        sample.publish(&sink(path, flavor, Some(&format!("t{writer}"))).unwrap());
                    });
                }
            });
            for writer in 0..8 {
                Sample::new(&format!("layer {writer}")).check(&*source(&path, flavor, Some(&format!("t{writer}"))));
            }
            assert_eq!(names(dir.path()), ["a.tar"]);
        }
    }

    #[test]
    fn wrong_bytes_are_refused_and_do_not_spoil_the_archive() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        let sample = Sample::new("layer");
        let sink = sink(&path, Flavor::Oci, None).unwrap();
        for wrong in ["Layer", "laye", "layer and much more"] {
            let error = sample::put(&sink, &sample.layer.0, wrong.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), Kind::Integrity, "{error}");
        }
        assert!(!path.exists());
        sample.publish(&sink);
        sample.check(&*source(&path, Flavor::Oci, None));
    }

    #[test]
    fn a_damaged_blob_of_the_old_archive_is_sent_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        let sample = Sample::new("a layer to find in the file");
        sample.publish(&sink(&path, Flavor::Oci, None).unwrap());
        let mut bytes = fs::read(&path).unwrap();
        let at = bytes.windows(7).position(|window| window == b"a layer").unwrap();
        bytes[at] = b'A';
        fs::write(&path, bytes).unwrap();
        let again = sink(&path, Flavor::Oci, None).unwrap();
        assert_eq!(sample.put_blobs(&again).unwrap(), [Delivery::AlreadyThere, Delivery::Sent]);
        again.tag(&sample.manifest).unwrap();
        sample.check(&*source(&path, Flavor::Oci, None));
    }

    #[test]
    fn an_unfinished_archive_leaves_no_trace_and_orphans_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        fs::write(dir.path().join(".underpin-4000000-0123456789abcdef"), "half").unwrap();
        let unfinished = sink(&path, Flavor::Oci, None).unwrap();
        Sample::new("layer").put_blobs(&unfinished).unwrap();
        drop(unfinished);
        assert!(names(dir.path()).is_empty(), "{:?}", names(dir.path()));
    }

    #[test]
    fn refuses_files_that_it_would_spoil() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        let marker = || Packer::new().file(MARKER, MARKER_BYTES);
        let index = br#"{"schemaVersion":2,"manifests":[]}"#;
        for (name, bytes, flavor) in [
            ("text", b"my thesis".repeat(100), Flavor::Oci),
            ("another tar", Packer::new().file("a", b"x").finish(), Flavor::Oci),
            ("bad index", marker().file(INDEX, b"{").finish(), Flavor::Oci),
            ("docker archive", marker().file(INDEX, index).file(DOCKER_LIST, b"[]").finish(), Flavor::Oci),
            ("OCI archive", marker().file(INDEX, index).finish(), Flavor::Docker),
        ] {
            fs::write(&path, &bytes).unwrap();
            let error = sink(&path, flavor, None).err().expect(name);
            assert_eq!(error.kind(), Kind::Input, "{name}: {error}");
            assert!(fs::read(&path).unwrap() == bytes, "{name} was changed");
        }
        assert!(sink(dir.path(), Flavor::Oci, None).is_err());
        fs::write(&path, "").unwrap();
        Sample::new("layer").publish(&sink(&path, Flavor::Oci, None).unwrap());
    }

    #[test]
    fn a_link_to_an_archive_stays_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("a.tar"), dir.path().join("link.tar"));
        Sample::new("one").publish(&sink(&path, Flavor::Oci, Some("one")).unwrap());
        std::os::unix::fs::symlink("a.tar", &link).unwrap();
        Sample::new("two").publish(&sink(&link, Flavor::Oci, Some("two")).unwrap());
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        for tag in ["one", "two"] {
            Sample::new(tag).check(&*source(&path, Flavor::Oci, Some(tag)));
        }
    }

    #[test]
    fn an_index_goes_into_an_oci_archive_only() {
        let dir = tempfile::tempdir().unwrap();
        let sample = Sample::new("layer");
        let index = json::write(&serde_json::json!({
            "schemaVersion": 2, "mediaType": MediaType::oci_index().as_str(),
            "manifests": [sample.manifest.descriptor().to_value()],
        }));
        let index = Document::read(index, None).unwrap();
        for flavor in FLAVORS {
            let path = dir.path().join(format!("{flavor:?}.tar"));
            let sink = sink(&path, flavor, None).unwrap();
            sample.put_blobs(&sink).unwrap();
            let outcome = sink.put_document(&sample.manifest).and_then(|()| sink.tag(&index));
            match flavor {
                Flavor::Oci => {
                    outcome.unwrap();
                    let source = source(&path, flavor, None);
                    assert_eq!(source.top().unwrap().digest(), index.digest());
                    source.document(&sample.manifest.descriptor()).unwrap();
                }
                Flavor::Docker => {
                    assert_eq!(outcome.unwrap_err().kind(), Kind::Input);
                    assert_eq!(sink.tag(&index).unwrap_err().kind(), Kind::Input);
                    assert!(!path.exists());
                }
            }
        }
    }
}
