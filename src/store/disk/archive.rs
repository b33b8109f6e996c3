//! `oci-archive:`, a tar file of an OCI layout, as a source.

use super::archive_sink::{ArchiveSink, Flavor};
use super::shelf::Shelf;
use super::tarball::Tarball;
use crate::error::{Error, Result};
use crate::oci::LocalImage;
use crate::store::{Notices, Source};

/// `oci-archive:FILE[:TAG][@DIGEST]`
pub struct OciArchive;

impl OciArchive {
    /// Success means that the file is a tar of a layout of a known version; the image is looked
    /// for in [`Source::top`].
    pub fn source(local: &LocalImage) -> Result<impl Source + use<>> {
        Shelf::new(open(local)?, local)
    }

    /// The same place for writing. Nothing is created before the first blob comes.
    pub fn sink(local: &LocalImage, notices: &Notices) -> Result<ArchiveSink> {
        ArchiveSink::new(local, Flavor::Oci, notices)
    }
}

pub(super) fn open(local: &LocalImage) -> Result<Tarball> {
    Tarball::open(&local.path)?.ok_or_else(|| {
        let error = Error::missing("there is no such archive").fact("path", local.path.display());
        if local.path.to_string_lossy().contains(':') {
            return error.hint("behind the file stands a tag; in a docker archive also a whole name, with its tag");
        }
        error
    })
}
