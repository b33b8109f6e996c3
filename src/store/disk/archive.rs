//! `oci-archive:`, a tar file of an OCI layout: as a source, and as a sink that can also add Docker's
//! `manifest.json`.
//!
//! The new archive is written beside the old one and replaces it at once when the image is tagged.
//! Images under other tags are carried over, under a lock, so that processes that write to one
//! archive keep each other's work. Blobs are in the order in which they were put.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Map;

use super::atomic;
use super::docker_manifest::DockerManifest;
use super::layout::not_in;
use super::layout_index::{self, LayoutIndex};
use super::layout_reader::{self, INDEX, LayoutFiles, LayoutReader, MARKER, MARKER_BYTES};
use super::lock::{self, LockMode, LockWait};
use super::tar_reader::{TarMember, TarReader};
use super::tar_writer::TarWriter;
use super::user_file;
use crate::attest::Attachment;
use crate::store::publish::Publication;
use crate::store::{Blob, Delivery, ImageParts, Notices, Sink, Source, Stream};
use oci::error::{Error, Result};
use oci::{Descriptor, Digest, Document, DocumentKind, LocalImage, Manifest, Referrer};

/// `oci-archive:FILE[:TAG][@DIGEST]`
pub struct OciArchive;

impl OciArchive {
    /// Success means that the file is a tar of a layout of a known version; the image is looked
    /// for in [`Source::top`].
    pub fn source(local: &LocalImage) -> Result<impl Source + use<>> {
        LayoutReader::new(open(local)?, local)
    }

    /// The same place for writing. Nothing is created before the first blob comes.
    pub fn sink(local: &LocalImage, notices: &Notices) -> Result<ArchiveSink> {
        ArchiveSink::new(local, Flavor::Oci, notices)
    }
}

pub(super) fn open(local: &LocalImage) -> Result<TarReader> {
    TarReader::open(&local.path)?.ok_or_else(|| {
        let error = Error::missing("there is no such archive").fact("path", local.path.display());
        if local.path.to_string_lossy().contains(':') {
            return error.hint("what follows the `:` is a tag, or in a docker archive NAME:TAG");
        }
        error
    })
}

pub const DOCKER_MANIFEST: &str = "manifest.json";

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
    draft: Mutex<Option<TarWriter>>,
}

impl ArchiveSink {
    pub(super) fn new(local: &LocalImage, flavor: Flavor, notices: &Notices) -> Result<Self> {
        user_file::refuse_link(&local.path)?;
        let path = local.path.clone();
        let sink = Self { path, wanted: local.clone(), flavor, notices: notices.clone(), draft: Mutex::new(None) };
        sink.find().map_err(|error| sink.named(error))?;
        Ok(sink)
    }

    /// What the target names now.
    fn find(&self) -> Result<Option<Digest>> {
        let contents = self.old()?.map(|old| layout_reader::contents(&old)).transpose()?.flatten();
        contents.map_or(Ok(None), |contents| contents.current(&self.wanted))
    }

    fn named(&self, error: Error) -> Error {
        error.fact("in", self.wanted.path.display())
    }

    /// The archive that is there now; an empty file is none.
    fn old(&self) -> Result<Option<TarReader>> {
        if std::fs::metadata(&self.path).is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0) {
            return Ok(None);
        }
        let Some(old) = TarReader::open(&self.path)? else { return Ok(None) };
        let hint = "remove the file, or choose another one";
        layout_reader::check_marker(&old).map_err(|error| error.hint(hint))?;
        match old.open(DOCKER_MANIFEST)? {
            None if self.flavor == Flavor::Docker => {
                Err(Error::input("the file is an OCI archive without Docker's manifest.json").hint(hint))
            }
            Some(_) if self.flavor == Flavor::Oci => {
                Err(Error::input("the file is a docker archive").hint("write to it as docker-archive:, or remove it"))
            }
            _ => Ok(Some(old)),
        }
    }

    fn draft(&self) -> MutexGuard<'_, Option<TarWriter>> {
        self.draft.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self) -> Result<TarWriter> {
        let directory = atomic::parent(&self.path);
        atomic::sweep(directory);
        let mut draft = TarWriter::create(directory)?;
        draft.add(MARKER, MARKER_BYTES)?;
        draft.add_directory("blobs/")?;
        draft.add_directory("blobs/sha256/")?;
        Ok(draft)
    }

    /// One blob after the other: a tar has no gaps to fill in later.
    fn write_blob(&self, of: &Descriptor, open: &dyn Fn() -> Result<Stream>) -> Result<Delivery> {
        let mut slot = self.draft();
        let draft = match &mut *slot {
            Some(draft) => draft,
            empty => empty.insert(self.start()?),
        };
        let name = layout_reader::blob_name(&of.digest);
        if draft.has(&name) || self.carry_over(draft, &name, of) {
            return Ok(Delivery::AlreadyThere);
        }
        draft.add_blob(&name, of, open()?)?;
        Ok(Delivery::Sent)
    }

    /// Takes the blob from the archive that is there, where it has it undamaged.
    fn carry_over(&self, draft: &mut TarWriter, name: &str, of: &Descriptor) -> bool {
        let Ok(Some(Ok(Some(section)))) = self.old().map(|old| old.map(|old| old.open(name))) else { return false };
        section.len() == of.size && draft.add_blob(name, of, section.stream(0)).is_ok()
    }

    fn put_whole(&self, document: &Document) -> Result<()> {
        let bytes = document.bytes().to_vec();
        self.write_blob(&document.descriptor(), &|| Ok(Box::new(std::io::Cursor::new(bytes.clone())))).map(drop)
    }

    fn publish(&self, top: &Document) -> Result<()> {
        layout_index::check_target(self.wanted.digest, top)?;
        self.check_kind(top)?;
        self.put_whole(top)?;
        let Some(mut draft) = self.draft().take() else {
            return Err(Error::input("there is nothing to write"));
        };
        let directory = atomic::parent(&self.path);
        let _held = lock::directory(directory, LockMode::Exclusive, LockWait::default(), &self.notices)?;
        let old = self.old()?;
        if let Some(old) = &old {
            keep_others(&mut draft, old)?;
        }
        if self.flavor == Flavor::Docker {
            draft.add(DOCKER_MANIFEST, &self.docker_manifest(old.as_ref(), top)?)?;
        }
        draft.add(INDEX, &self.contents(old.as_ref(), top)?)?;
        draft.commit(&self.path)
    }

    /// Writes the archive again, with the statements in it.
    fn put_attachments(&self, attachments: &[Attachment]) -> Result<Vec<Digest>> {
        if self.flavor == Flavor::Docker {
            return Err(Error::input("a docker archive cannot hold statements about an image"));
        }
        let directory = atomic::parent(&self.path);
        let _held = lock::directory(directory, LockMode::Exclusive, LockWait::default(), &self.notices)?;
        let old = self.old()?.ok_or_else(|| Error::input("there is no archive to attach statements to"))?;
        let mut contents = layout_reader::contents(&old)?.unwrap_or_else(LayoutIndex::empty);
        let missing = not_in(&contents, attachments, |part| layout_reader::is_whole(&old, part))?;
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let mut draft = self.start()?;
        // Before what is kept: a damaged part is not kept.
        for new in &missing {
            let manifest = (new.manifest.descriptor(), new.manifest.bytes().to_vec());
            for (of, bytes) in [&new.config, &new.layer, &manifest] {
                let name = layout_reader::blob_name(&of.digest);
                if !draft.has(&name) {
                    draft.add_blob(&name, of, Box::new(std::io::Cursor::new(bytes.clone())))?;
                }
            }
        }
        keep_others(&mut draft, &old)?;
        let referrers: Vec<Referrer> = missing.iter().map(|new| new.referrer()).collect();
        contents.attach(&referrers);
        draft.add(INDEX, &contents.bytes()?)?;
        draft.commit(&self.path)?;
        Ok(missing.iter().map(|new| new.manifest.digest()).collect())
    }

    fn find_missing(&self, parts: &ImageParts) -> Result<Vec<Digest>> {
        let all = || [&parts.top].into_iter().chain(&parts.children).chain(&parts.blobs);
        let Some(old) = self.old()? else { return Ok(all().map(|part| part.digest).collect()) };
        let mut missing = Vec::new();
        for part in all() {
            if !layout_reader::is_whole(&old, part)? {
                missing.push(part.digest);
            }
        }
        let contents = layout_reader::contents(&old)?.unwrap_or_else(LayoutIndex::empty);
        let is_listed = contents.describes(&self.wanted, &parts.top)?;
        if missing.is_empty() && !(is_listed && self.is_known_to_docker(&old, &parts.top)?) {
            missing.push(parts.top.digest);
        }
        Ok(missing)
    }

    /// Whether the image is also what Docker's list has under its name.
    fn is_known_to_docker(&self, old: &TarReader, top: &Descriptor) -> Result<bool> {
        if self.flavor == Flavor::Oci {
            return Ok(true);
        }
        let manifest = Manifest::read(&layout_reader::document(old, top)?)?;
        Ok(DockerManifest::open(old)
            .and_then(|list| list.pick(&self.wanted).map(|item| item.is(&manifest)))
            .unwrap_or(false))
    }

    fn check_kind(&self, top: &Document) -> Result<()> {
        if self.flavor == Flavor::Docker && top.kind() == DocumentKind::Index {
            return Err(single_platform());
        }
        Ok(())
    }

    fn contents(&self, old: Option<&TarReader>, top: &Document) -> Result<Vec<u8>> {
        let mut contents = match old {
            Some(old) => layout_reader::contents(old)?.unwrap_or_else(LayoutIndex::empty),
            None => LayoutIndex::empty(),
        };
        let mut notes = Map::new();
        if let (Flavor::Docker, Some(tag)) = (self.flavor, &self.wanted.tag) {
            notes.insert(CONTAINERD_NAME.into(), DockerManifest::full_name(tag).into());
        }
        contents.set(self.wanted.tag.as_deref(), top, notes)?;
        contents.bytes()
    }

    fn docker_manifest(&self, old: Option<&TarReader>, top: &Document) -> Result<Vec<u8>> {
        let mut list = match old {
            Some(old) => DockerManifest::open(old)?,
            None => DockerManifest::default(),
        };
        list.add(self.wanted.tag.as_deref(), &Manifest::read(top)?);
        Ok(list.bytes())
    }
}

/// Copies what the old archive has and the new one does not have yet.
fn keep_others(draft: &mut TarWriter, old: &TarReader) -> Result<()> {
    for (name, member) in old.members() {
        match member {
            TarMember::Directory => {}
            _ if draft.has(name) || [INDEX, DOCKER_MANIFEST].contains(&name) => {}
            TarMember::File(section) => draft.add_section(name, section)?,
            TarMember::Symlink(_) | TarMember::Other => {
                return Err(Error::input("the existing archive has members that are not regular files")
                    .fact("member", name)
                    .hint("remove the file, or choose another one"));
            }
        }
    }
    Ok(())
}

fn single_platform() -> Error {
    Error::input("a docker archive holds images of one platform only")
}

impl Sink for ArchiveSink {
    fn current(&self) -> Result<Option<Digest>> {
        let current = || match self.find()? {
            // Whoever wrote it may have been killed before its name was durable.
            Some(digest) => atomic::sync_directory(atomic::parent(&self.path)).map(|()| Some(digest)),
            None => Ok(None),
        };
        current().map_err(|error| self.named(error))
    }

    fn missing_parts(&self, parts: &ImageParts, _: usize) -> Result<Vec<Digest>> {
        self.find_missing(parts).map_err(|error| self.named(error))
    }

    fn put_blob(&self, blob: &Blob<'_>) -> Result<Delivery> {
        self.write_blob(blob.descriptor, &blob.open).map_err(|error| self.named(error))
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

    fn attach(&self, attachments: &[Attachment], _: Publication) -> Result<Vec<Digest>> {
        self.put_attachments(attachments).map_err(|error| self.named(error))
    }
}

#[cfg(test)]
mod tests;
