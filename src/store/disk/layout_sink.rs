//! An OCI image layout in a folder, as a sink.
//!
//! Processes may write to one layout at the same time: blobs are put beside each other without a
//! lock, since a blob's name says what is in it; `index.json` is read, changed and replaced under
//! an exclusive lock, so that no tag is lost.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::Map;

use super::atomic::{self, Temp};
use super::contents::{self, Change, Contents};
use super::layout::Tree;
use super::lock::{self, Held, Mode, Patience};
use super::regular::{self, Folder, Links};
use super::shelf::{self, Files, INDEX, MARKER, MARKER_BYTES};
use super::verified;
use crate::error::{Error, Result};
use crate::oci::{Descriptor, Digest, Document, LocalImage};
use crate::store::{Blob, Delivery, Notices, Sink};

/// `oci:DIR[:TAG]`, for writing.
pub struct LayoutSink {
    tree: Tree,
    wanted: LocalImage,
    notices: Notices,
    stage: Mutex<Stage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing has been touched.
    New,
    /// The folder is a layout and swept.
    Prepared,
}

impl LayoutSink {
    pub(super) fn new(local: &LocalImage, notices: &Notices) -> Result<Self> {
        let sink = Self {
            tree: Tree::new(&local.path),
            wanted: local.clone(),
            notices: notices.clone(),
            stage: Mutex::new(Stage::New),
        };
        // A folder that cannot be used is found out before any work is done.
        sink.find().map_err(|error| sink.named(error))?;
        Ok(sink)
    }

    /// What the target names now.
    fn find(&self) -> Result<Option<Digest>> {
        match check_usable(&self.tree)? {
            Standing::Missing | Standing::Empty => Ok(None),
            Standing::Layout => self.contents()?.current(&self.wanted),
        }
    }

    fn named(&self, error: Error) -> Error {
        error.fact("in", self.tree.root().display())
    }

    fn contents(&self) -> Result<Contents> {
        Ok(shelf::contents(&self.tree)?.unwrap_or_else(Contents::empty))
    }

    fn lock(&self) -> Result<Held> {
        lock::folder(self.tree.root(), Mode::Exclusive, Patience::default(), &self.notices)
    }

    /// Makes the folder a layout, once.
    fn prepare(&self) -> Result<()> {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        if *stage == Stage::Prepared {
            return Ok(());
        }
        let root = self.tree.root();
        atomic::create_folder(root)
            .map_err(|error| error.hint("only the folder itself is created; the one it stands in must be there"))?;
        let held = self.lock()?;
        atomic::sweep(root);
        if check_usable(&self.tree)? == Standing::Empty {
            atomic::replace(&self.tree.path(MARKER), MARKER_BYTES)?;
        }
        for name in ["blobs", "blobs/sha256"] {
            let folder = self.tree.path(name);
            atomic::create_folder(&folder)?;
            regular::folder(&folder, Links::Refused)?;
        }
        drop(held);
        atomic::sweep(&self.tree.path("blobs/sha256"));
        *stage = Stage::Prepared;
        Ok(())
    }

    fn put(&self, of: &Descriptor, open: &dyn Fn() -> Result<crate::store::Stream>) -> Result<Delivery> {
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
        temp.commit(&self.tree.path(&shelf::blob_name(&of.digest)))?;
        Ok(Delivery::Sent)
    }

    /// Whether the blob is there, whole and durable. A damaged one is not, and gets replaced.
    fn has(&self, of: &Descriptor) -> Result<bool> {
        let Some(section) = self.tree.open(&shelf::blob_name(&of.digest))? else { return Ok(false) };
        if section.len() != of.size || verified::hash(&mut section.reader(0))?.digest != of.digest {
            self.notices.warn(format!("replacing a damaged blob: {}", section.path().display()));
            return Ok(false);
        }
        // Whoever wrote it may not have synced it.
        section.file().sync_all().map_err(|error| Error::io("could not sync the file", section.path(), &error))?;
        atomic::sync_folder(atomic::parent(section.path()))?;
        Ok(true)
    }

    fn put_tag(&self, top: &Document) -> Result<()> {
        contents::check_target(self.wanted.digest, top)?;
        self.put_top(top)?;
        let _held = self.lock()?;
        let mut contents = self.contents()?;
        match contents.put(self.wanted.tag.as_deref(), top, Map::new())? {
            Change::None => Ok(()),
            Change::Made => atomic::replace(&self.tree.path(INDEX), &contents.bytes()?),
        }
    }

    fn put_top(&self, document: &Document) -> Result<()> {
        let bytes = document.bytes().to_vec();
        self.put(&document.descriptor(), &|| Ok(Box::new(std::io::Cursor::new(bytes.clone())))).map(drop)
    }
}

impl Sink for LayoutSink {
    fn current(&self) -> Result<Option<Digest>> {
        let current = || match self.find()? {
            // Whoever wrote it may have been killed before its name was durable.
            Some(digest) => atomic::sync_folder(self.tree.root()).map(|()| Some(digest)),
            None => Ok(None),
        };
        current().map_err(|error| self.named(error))
    }

    fn put_blob(&self, blob: &Blob<'_>) -> Result<Delivery> {
        self.put(blob.descriptor, &blob.open).map_err(|error| self.named(error))
    }

    fn put_document(&self, document: &Document) -> Result<()> {
        self.put_top(document).map_err(|error| self.named(error))
    }

    fn tag(&self, top: &Document) -> Result<()> {
        self.put_tag(top).map_err(|error| self.named(error))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Missing,
    Empty,
    Layout,
}

/// What stands at the target. A folder with other things in it is not ours to fill.
fn check_usable(tree: &Tree) -> Result<Standing> {
    if regular::folder(tree.root(), Links::Followed)? == Folder::Missing {
        return Ok(Standing::Missing);
    }
    // The marker is the first file of a layout. Looked for again after the listing, it is found
    // even if another process made the layout in between.
    if tree.open(MARKER)?.is_none() {
        if is_empty(tree.root())? {
            return Ok(Standing::Empty);
        }
        if tree.open(MARKER)?.is_none() {
            return Err(Error::input("the folder has other files in it and is not an OCI layout")
                .hint("name a new or empty folder, or an OCI layout to add to"));
        }
    }
    shelf::check_marker(tree)?;
    shelf::contents(tree)?;
    Ok(Standing::Layout)
}

fn is_empty(root: &Path) -> Result<bool> {
    let entries = fs::read_dir(root).map_err(|error| Error::io("could not list the folder", root, &error))?;
    // The file of a writer that was killed while it made the layout, or that is making it now.
    Ok(entries.flatten().all(|entry| atomic::is_temp(&entry.file_name().to_string_lossy())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use crate::store::disk::Layout;
    use crate::store::disk::sample::{self, Sample, local, names};

    fn sink(dir: &Path, tag: Option<&str>) -> LayoutSink {
        Layout::sink(&local(dir, tag), &Notices::silent()).unwrap()
    }

    #[test]
    fn what_is_written_is_read_back_and_a_second_run_sends_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        let sample = Sample::new("layer");
        for tag in [Some("v1"), None] {
            let first = sink(&target, tag);
            assert_eq!(first.current().unwrap(), None);
            sample.publish(&first);
            sample.check(&Layout::source(&local(&target, tag)).unwrap());
        }
        let before = fs::read(target.join("index.json")).unwrap();
        let second = sink(&target, Some("v1"));
        assert_eq!(sample.put_blobs(&second).unwrap(), [Delivery::AlreadyThere; 2]);
        second.tag(&sample.manifest).unwrap();
        assert_eq!(fs::read(target.join("index.json")).unwrap(), before);
        assert_eq!(names(&target), ["blobs", "index.json", "oci-layout"]);
    }

    #[test]
    fn eight_writers_keep_eight_tags() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let target = &target;
                scope.spawn(move || {
                    Sample::new(&format!("layer {writer}")).publish(&sink(target, Some(&format!("t{writer}"))));
                });
            }
        });
        for writer in 0..8 {
            let source = Layout::source(&local(&target, Some(&format!("t{writer}")))).unwrap();
            Sample::new(&format!("layer {writer}")).check(&source);
        }
        assert_eq!(names(&target), ["blobs", "index.json", "oci-layout"]);
    }

    #[test]
    fn wrong_bytes_leave_no_trace() {
        let dir = tempfile::tempdir().unwrap();
        let sample = Sample::new("layer");
        let sink = sink(dir.path(), None);
        for wrong in ["Layer", "laye", "layer!"] {
            let error = sample::put(&sink, &sample.layer.0, wrong.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), Kind::Integrity, "{error}");
        }
        assert!(names(&dir.path().join("blobs/sha256")).is_empty());
        assert!(!dir.path().join("index.json").exists());
    }

    #[test]
    fn a_damaged_blob_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let sample = Sample::new("layer");
        let sink = sink(dir.path(), None);
        sample.publish(&sink);
        for damage in ["LAYER", ""] {
            fs::write(sample::blob_path(dir.path(), &sample.layer.0.digest), damage).unwrap();
            assert_eq!(sample.put_blobs(&sink).unwrap(), [Delivery::AlreadyThere, Delivery::Sent]);
        }
        sample.check(&Layout::source(&local(dir.path(), None)).unwrap());
    }

    #[test]
    fn the_next_writer_removes_what_a_killed_one_left() {
        let dir = tempfile::tempdir().unwrap();
        let sample = Sample::new("layer");
        let orphan = ".underpin-4000000-0123456789abcdef";
        fs::write(dir.path().join(orphan), "half a marker").unwrap();
        sample.publish(&sink(dir.path(), None));
        fs::write(dir.path().join("blobs/sha256").join(orphan), "half a blob").unwrap();
        fs::write(dir.path().join(orphan), "half an index").unwrap();
        sample.publish(&sink(dir.path(), None));
        assert_eq!(names(dir.path()), ["blobs", "index.json", "oci-layout"]);
        assert_eq!(names(&dir.path().join("blobs/sha256")).len(), 3);
    }

    #[test]
    fn refuses_targets_that_it_would_spoil() {
        type Make<'a> = &'a dyn Fn(&Path);
        let sample = Sample::new("layer");
        let rows: [(&str, Make); 5] = [
            ("other files", &|dir| fs::write(dir.join("thesis.txt"), "x").unwrap()),
            ("bad index.json", &|dir| {
                sample.publish(&sink(dir, None));
                fs::write(dir.join("index.json"), "{").unwrap();
            }),
            ("a file", &|dir| {
                fs::remove_dir(dir).unwrap();
                fs::write(dir, "x").unwrap();
            }),
            ("version 2", &|dir| fs::write(dir.join("oci-layout"), r#"{"imageLayoutVersion":"2.0.0"}"#).unwrap()),
            ("marker is a link", &|dir| std::os::unix::fs::symlink("/etc/passwd", dir.join("oci-layout")).unwrap()),
        ];
        for (name, make) in rows {
            let dir = tempfile::tempdir().unwrap();
            let target = dir.path().join("out");
            fs::create_dir(&target).unwrap();
            make(&target);
            let error = Layout::sink(&local(&target, Some("v1")), &Notices::silent()).err().expect(name);
            assert_eq!(error.kind(), Kind::Input, "{name}: {error}");
        }
        let dir = tempfile::tempdir().unwrap();
        let deep = Layout::sink(&local(&dir.path().join("no/such"), None), &Notices::silent()).unwrap();
        assert_eq!(sample.put_blobs(&deep).unwrap_err().kind(), Kind::Io);
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn blobs_that_would_go_through_a_link_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (target, elsewhere) = (dir.path().join("out"), dir.path().join("elsewhere"));
        let sample = Sample::new("layer");
        sample.publish(&sink(&target, None));
        fs::create_dir(&elsewhere).unwrap();
        fs::remove_dir_all(target.join("blobs")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, target.join("blobs")).unwrap();
        assert_eq!(sample.put_blobs(&sink(&target, None)).unwrap_err().kind(), Kind::Input);
        assert!(names(&elsewhere).is_empty());
    }

    #[test]
    fn a_target_with_a_digest_takes_only_that_image() {
        let dir = tempfile::tempdir().unwrap();
        let (right, wrong) = (Sample::new("right"), Sample::new("wrong"));
        let pinned = LocalImage { digest: Some(right.manifest.digest()), ..local(dir.path(), Some("v1")) };
        let sink = Layout::sink(&pinned, &Notices::silent()).unwrap();
        assert_eq!(sink.tag(&wrong.manifest).unwrap_err().kind(), Kind::Integrity);
        right.publish(&sink);
    }
}
