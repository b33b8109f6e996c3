//! `oci:`, an OCI image layout in a directory, as a source and as a sink.
//!
//! Processes may write to one layout at the same time: blobs are put beside each other without a
//! lock, since a blob's name says what is in it; `index.json` is read, changed and replaced under
//! an exclusive lock, so that no tag is lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::Map;

use super::atomic::{self, Temp};
use super::layout_index::{self, IndexChange, LayoutIndex};
use super::layout_reader::{self, INDEX, LayoutFiles, LayoutReader, MARKER, MARKER_BYTES};
use super::lock::{self, LockGuard, LockMode, LockWait};
use super::regular_file::{self, DirectoryCheck, Section, Symlinks};
use super::verified;
use crate::attest::Attachment;
use crate::store::publish::Publication;
use crate::store::{Blob, Delivery, ImageParts, Notices, Sink, Source};
use oci::error::{Error, Result};
use oci::{Descriptor, Digest, Document, LocalImage, Referrer};

/// `oci:DIR[:TAG][@DIGEST]`
pub struct Layout;

impl Layout {
    /// Success means that there is a layout of a known version; the image is looked for in
    /// [`Source::top`].
    pub fn source(local: &LocalImage) -> Result<impl Source + use<>> {
        if regular_file::directory(&local.path, Symlinks::Followed)? == DirectoryCheck::Missing {
            return Err(Error::missing("there is no such OCI layout").fact("path", local.path.display()));
        }
        LayoutReader::new(LayoutDirectory::new(&local.path), local)
    }

    /// The same place for writing. Nothing is created before the first blob comes.
    pub fn sink(local: &LocalImage, notices: &Notices) -> Result<LayoutSink> {
        LayoutSink::new(local, notices)
    }
}

/// The files of a layout in a directory. Below the directory itself no link is followed.
pub struct LayoutDirectory(PathBuf);

impl LayoutDirectory {
    pub fn new(root: &Path) -> Self {
        Self(root.to_owned())
    }

    pub fn root(&self) -> &Path {
        &self.0
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl LayoutFiles for LayoutDirectory {
    fn open(&self, name: &str) -> Result<Option<Section>> {
        let path = self.path(name);
        // `blobs` and `blobs/sha256`: a link there would lead all blobs out of the layout.
        for directory in path.ancestors().skip(1).take_while(|directory| *directory != self.0) {
            regular_file::directory(directory, Symlinks::Refused)?;
        }
        regular_file::open(&path, Symlinks::Refused)
    }
}

/// `oci:DIR[:TAG]`, for writing.
pub struct LayoutSink {
    tree: LayoutDirectory,
    wanted: LocalImage,
    notices: Notices,
    stage: Mutex<Stage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing has been touched.
    New,
    /// The directory is a layout and swept.
    Prepared,
}

impl LayoutSink {
    pub(super) fn new(local: &LocalImage, notices: &Notices) -> Result<Self> {
        let sink = Self {
            tree: LayoutDirectory::new(&local.path),
            wanted: local.clone(),
            notices: notices.clone(),
            stage: Mutex::new(Stage::New),
        };
        // A directory that cannot be used is found out before any work is done.
        sink.find().map_err(|error| sink.named(error))?;
        Ok(sink)
    }

    /// What the target names now.
    fn find(&self) -> Result<Option<Digest>> {
        match check_usable(&self.tree)? {
            TargetState::Missing | TargetState::Empty => Ok(None),
            TargetState::Layout => self.contents()?.current(&self.wanted),
        }
    }

    fn named(&self, error: Error) -> Error {
        error.fact("in", self.tree.root().display())
    }

    fn contents(&self) -> Result<LayoutIndex> {
        Ok(layout_reader::contents(&self.tree)?.unwrap_or_else(LayoutIndex::empty))
    }

    fn lock(&self) -> Result<LockGuard> {
        lock::directory(self.tree.root(), LockMode::Exclusive, LockWait::default(), &self.notices)
    }

    /// Makes the directory a layout, once.
    fn prepare(&self) -> Result<()> {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        if *stage == Stage::Prepared {
            return Ok(());
        }
        let root = self.tree.root();
        atomic::create_directory(root)
            .map_err(|error| error.hint("only the directory itself is created; its parent must exist"))?;
        let held = self.lock()?;
        atomic::sweep(root);
        if check_usable(&self.tree)? == TargetState::Empty {
            atomic::replace(&self.tree.path(MARKER), MARKER_BYTES)?;
        }
        for name in ["blobs", "blobs/sha256"] {
            let directory = self.tree.path(name);
            atomic::create_directory(&directory)?;
            regular_file::directory(&directory, Symlinks::Refused)?;
        }
        drop(held);
        atomic::sweep(&self.tree.path("blobs/sha256"));
        *stage = Stage::Prepared;
        Ok(())
    }

    fn write_blob(&self, of: &Descriptor, open: &dyn Fn() -> Result<crate::store::Stream>) -> Result<Delivery> {
        self.prepare()?;
        if self.has(of)? {
            return Ok(Delivery::AlreadyThere);
        }
        let temp = Temp::create(&self.tree.path("blobs/sha256"))?;
        let mut at = 0;
        verified::copy(&mut open()?, of, |chunk| {
            temp.write_at(chunk, at).map_err(|error| error.fact("needed", of.size))?;
            at += chunk.len() as u64;
            Ok(())
        })?;
        temp.commit(&self.tree.path(&layout_reader::blob_name(&of.digest)))?;
        Ok(Delivery::Sent)
    }

    /// Whether the blob is there, whole and durable. A damaged one is not, and gets replaced.
    fn has(&self, of: &Descriptor) -> Result<bool> {
        let Some(section) = self.tree.open(&layout_reader::blob_name(&of.digest))? else { return Ok(false) };
        if section.len() != of.size || verified::hash(&mut section.reader(0))?.digest != of.digest {
            self.notices.warn(format!("replacing a damaged blob: {}", section.path().display()));
            return Ok(false);
        }
        // Whoever wrote it may not have synced it.
        section.file().sync_all().map_err(|error| Error::io("could not sync the file", section.path(), &error))?;
        atomic::sync_directory(atomic::parent(section.path()))?;
        Ok(true)
    }

    fn find_missing(&self, parts: &ImageParts) -> Result<Vec<Digest>> {
        let mut missing = Vec::new();
        for part in [&parts.top].into_iter().chain(&parts.children).chain(&parts.blobs) {
            if !self.has(part)? {
                missing.push(part.digest);
            }
        }
        if !self.contents()?.describes(&self.wanted, &parts.top)? {
            missing.push(parts.top.digest);
        }
        Ok(missing)
    }

    fn put_tag(&self, top: &Document) -> Result<()> {
        layout_index::check_target(self.wanted.digest, top)?;
        self.put_top(top)?;
        let _held = self.lock()?;
        let mut contents = self.contents()?;
        match contents.set(self.wanted.tag.as_deref(), top, Map::new())? {
            IndexChange::None => Ok(()),
            IndexChange::Made => atomic::replace(&self.tree.path(INDEX), &contents.bytes()?),
        }
    }

    fn put_attachments(&self, attachments: &[Attachment]) -> Result<Vec<Digest>> {
        let there = self.contents()?;
        let missing = not_in(&there, attachments, |part| self.has(part))?;
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        for new in &missing {
            for (of, bytes) in [&new.config, &new.layer] {
                self.write_blob(of, &|| Ok(Box::new(std::io::Cursor::new(bytes.clone()))))?;
            }
            self.put_top(&new.manifest)?;
        }
        let referrers: Vec<Referrer> = missing.iter().map(|new| new.referrer()).collect();
        let _held = self.lock()?;
        let mut contents = self.contents()?;
        if contents.attach(&referrers) == IndexChange::Made {
            atomic::replace(&self.tree.path(INDEX), &contents.bytes()?)?;
        }
        Ok(missing.iter().map(|new| new.manifest.digest()).collect())
    }

    fn put_top(&self, document: &Document) -> Result<()> {
        let bytes = document.bytes().to_vec();
        self.write_blob(&document.descriptor(), &|| Ok(Box::new(std::io::Cursor::new(bytes.clone())))).map(drop)
    }
}

impl Sink for LayoutSink {
    fn current(&self) -> Result<Option<Digest>> {
        let current = || match self.find()? {
            // Whoever wrote it may have been killed before its name was durable.
            Some(digest) => atomic::sync_directory(self.tree.root()).map(|()| Some(digest)),
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
        self.put_top(document).map_err(|error| self.named(error))
    }

    fn tag(&self, top: &Document) -> Result<()> {
        self.put_tag(top).map_err(|error| self.named(error))
    }

    fn attach(&self, attachments: &[Attachment], _: Publication) -> Result<Vec<Digest>> {
        self.put_attachments(attachments).map_err(|error| self.named(error))
    }
}

/// The attachments that `index.json` does not list, or of which a part is not there whole.
pub(super) fn not_in<'a>(
    contents: &LayoutIndex,
    attachments: &'a [Attachment],
    is_whole: impl Fn(&Descriptor) -> Result<bool>,
) -> Result<Vec<&'a Attachment>> {
    let mut missing = Vec::new();
    for new in attachments {
        let manifest = new.manifest.descriptor();
        let mut is_there = contents.entries().iter().any(|entry| entry.digest == manifest.digest);
        for part in [&manifest, &new.config.0, &new.layer.0] {
            is_there = is_there && is_whole(part)?;
        }
        if !is_there {
            missing.push(new);
        }
    }
    Ok(missing)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TargetState {
    Missing,
    Empty,
    Layout,
}

/// What is at the target. A directory with other files in it is not written to.
fn check_usable(tree: &LayoutDirectory) -> Result<TargetState> {
    if regular_file::directory(tree.root(), Symlinks::Followed)? == DirectoryCheck::Missing {
        return Ok(TargetState::Missing);
    }
    // The marker is the first file of a layout. Looked for again after the listing, it is found
    // even if another process made the layout in between.
    if tree.open(MARKER)?.is_none() {
        if is_empty(tree.root())? {
            return Ok(TargetState::Empty);
        }
        if tree.open(MARKER)?.is_none() {
            return Err(Error::input("the directory has other files in it and is not an OCI layout")
                .hint("choose a new or empty directory, or an existing OCI layout"));
        }
    }
    layout_reader::check_marker(tree)?;
    layout_reader::contents(tree)?;
    Ok(TargetState::Layout)
}

fn is_empty(root: &Path) -> Result<bool> {
    let entries = fs::read_dir(root).map_err(|error| Error::io("could not list the directory", root, &error))?;
    // The file of a writer that was killed while it made the layout, or that is making it now.
    Ok(entries.flatten().all(|entry| atomic::is_temp(&entry.file_name().to_string_lossy())))
}

#[cfg(test)]
mod tests;
