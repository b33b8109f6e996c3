//! An OCI image layout in a folder, as a source.

use std::path::{Path, PathBuf};

use super::layout_sink::LayoutSink;
use super::regular::{self, Folder, Links};
use super::section::Section;
use super::shelf::{Files, Shelf};
use crate::error::{Error, Result};
use crate::oci::LocalImage;
use crate::store::{Notices, Source};

/// `oci:DIR[:TAG][@DIGEST]`
pub struct Layout;

impl Layout {
    /// Success means that there is a layout of a known version; the image is looked for in
    /// [`Source::top`].
    pub fn source(local: &LocalImage) -> Result<impl Source + use<>> {
        if regular::folder(&local.path, Links::Followed)? == Folder::Missing {
            return Err(Error::missing("there is no such OCI layout").fact("path", local.path.display()));
        }
        Shelf::new(Tree::new(&local.path), local)
    }

    /// The same place for writing. Nothing is created before the first blob comes.
    pub fn sink(local: &LocalImage, notices: &Notices) -> Result<LayoutSink> {
        LayoutSink::new(local, notices)
    }
}

/// The files of a layout in a folder. Below the folder itself no link is followed.
pub struct Tree(PathBuf);

impl Tree {
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

impl Files for Tree {
    fn open(&self, name: &str) -> Result<Option<Section>> {
        let path = self.path(name);
        // `blobs` and `blobs/sha256`: a link there would lead all blobs out of the layout.
        for folder in path.ancestors().skip(1).take_while(|folder| *folder != self.0) {
            regular::folder(folder, Links::Refused)?;
        }
        regular::open(&path, Links::Refused)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;
    use crate::error::Kind;
    use crate::store::disk::sample::{self, Sample};

    type Harm = fn(&Path, &Sample);

    /// Each row does one harm to a good layout; the good layout itself is the benign twin.
    #[test]
    fn refuses_hostile_layouts() {
        let rows: &[(&str, Kind, Harm)] = &[
            ("no marker", Kind::Input, |dir, _| fs::remove_file(dir.join("oci-layout")).unwrap()),
            ("version 2", Kind::Input, |dir, _| {
                fs::write(dir.join("oci-layout"), r#"{"imageLayoutVersion":"2.0.0"}"#).unwrap();
            }),
            ("version 1.0.", Kind::Input, |dir, _| {
                fs::write(dir.join("oci-layout"), r#"{"imageLayoutVersion":"1.0."}"#).unwrap();
            }),
            ("marker is a FIFO", Kind::Input, |dir, _| {
                fs::remove_file(dir.join("oci-layout")).unwrap();
                assert!(Command::new("mkfifo").arg(dir.join("oci-layout")).status().unwrap().success());
            }),
            ("no index.json", Kind::Input, |dir, _| fs::remove_file(dir.join("index.json")).unwrap()),
            ("index.json of 100 GB", Kind::Input, |dir, _| {
                File::options().write(true).open(dir.join("index.json")).unwrap().set_len(100 << 30).unwrap();
            }),
            ("index.json is a link", Kind::Input, |dir, _| {
                fs::rename(dir.join("index.json"), dir.join("other.json")).unwrap();
                symlink("other.json", dir.join("index.json")).unwrap();
            }),
            ("blobs is a link", Kind::Input, |dir, _| {
                fs::rename(dir.join("blobs"), dir.join("elsewhere")).unwrap();
                symlink("elsewhere", dir.join("blobs")).unwrap();
            }),
            ("blobs/sha256 is a link", Kind::Input, |dir, _| {
                fs::rename(dir.join("blobs/sha256"), dir.join("elsewhere")).unwrap();
                symlink("../elsewhere", dir.join("blobs/sha256")).unwrap();
            }),
            ("manifest is a link", Kind::Input, |dir, sample| {
                let path = sample::blob_path(dir, &sample.manifest.digest());
                fs::rename(&path, dir.join("m")).unwrap();
                symlink(dir.join("m"), path).unwrap();
            }),
            ("manifest is a folder", Kind::Input, |dir, sample| {
                let path = sample::blob_path(dir, &sample.manifest.digest());
                fs::remove_file(&path).unwrap();
                fs::create_dir(path).unwrap();
            }),
            ("layer is a FIFO", Kind::Input, |dir, sample| {
                let path = sample::blob_path(dir, &sample.layer.0.digest);
                fs::remove_file(&path).unwrap();
                assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
            }),
            ("layer is missing", Kind::Input, |dir, sample| {
                fs::remove_file(sample::blob_path(dir, &sample.layer.0.digest)).unwrap();
            }),
            ("layer is cut", Kind::Integrity, |dir, sample| {
                fs::write(sample::blob_path(dir, &sample.layer.0.digest), "x").unwrap();
            }),
            ("manifest is changed", Kind::Integrity, |dir, sample| {
                let path = sample::blob_path(dir, &sample.manifest.digest());
                let text = fs::read_to_string(&path).unwrap();
                fs::write(path, text.replace("schemaVersion", "schemaversion")).unwrap();
            }),
        ];
        for (name, kind, harm) in rows {
            let dir = tempfile::tempdir().unwrap();
            let sample = Sample::new("layer");
            let local = sample::local(dir.path(), Some("v1"));
            sample.publish(&Layout::sink(&local, &Notices::silent()).unwrap());
            sample.check(&Layout::source(&local).unwrap());
            harm(dir.path(), &sample);
            let error = sample::read_all(|| Layout::source(&local), &sample).expect_err(name);
            assert_eq!(error.kind(), *kind, "{name}: {error}");
        }
    }

    #[test]
    fn a_digest_picks_an_entry_or_any_manifest_among_the_blobs() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (Sample::new("one"), Sample::new("two"));
        let local = sample::local(dir.path(), Some("v1"));
        for sample in [&one, &two] {
            sample.publish(&Layout::sink(&local, &Notices::silent()).unwrap());
        }
        // The tag has moved on to `two`; `one` is a blob only.
        for sample in [&one, &two] {
            let pinned = LocalImage { digest: Some(sample.manifest.digest()), ..local.clone() };
            sample.check(&Layout::source(&pinned).unwrap());
        }
        let config = LocalImage { digest: Some(one.config.0.digest), ..local.clone() };
        assert_eq!(Layout::source(&config).unwrap().top().unwrap_err().kind(), Kind::Input);
    }

    #[test]
    fn a_blob_is_read_from_the_middle() {
        let dir = tempfile::tempdir().unwrap();
        let sample = Sample::new("0123456789");
        let local = sample::local(dir.path(), None);
        sample.publish(&Layout::sink(&local, &Notices::silent()).unwrap());
        let source = Layout::source(&local).unwrap();
        for (from, expected) in [(0, "0123456789"), (4, "456789"), (10, ""), (99, "")] {
            let text = std::io::read_to_string(source.open(&sample.layer.0, from).unwrap()).unwrap();
            assert_eq!(text, expected);
        }
    }
}
