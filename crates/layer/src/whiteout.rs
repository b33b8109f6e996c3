//! Whiteouts: file names that say what of the lower layers is gone (OCI image-spec, `layer.md`).

use super::path::RootPath;
use oci::error::{Error, Result};

pub(super) const PREFIX: &[u8] = b".wh.";
const AUFS: &[u8] = b".wh..wh.";
pub(super) const OPAQUE: &[u8] = b".wh..wh..opq";

/// What a path says by its name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Name {
    Plain,
    WhiteoutOf(RootPath),
    OpaqueMarkIn(RootPath),
    /// The old aufs driver's own files, which runtimes skip.
    AufsMetadata,
}

/// Reads the name of an entry. Any entry type can be a whiteout; runtimes look at the name only.
pub(super) fn read(path: &RootPath) -> Result<Name> {
    let (Some(name), Some(parent)) = (path.name(), path.parent()) else {
        return Ok(Name::Plain);
    };
    if parent.components().any(|component| component.starts_with(AUFS)) {
        return Ok(Name::AufsMetadata);
    }
    if parent.components().any(|component| component.starts_with(PREFIX)) {
        return Err(Error::input("entry is below a whiteout").fact("entry", path));
    }
    let Some(removed) = name.strip_prefix(PREFIX) else {
        return Ok(Name::Plain);
    };
    match (name, removed) {
        (OPAQUE, _) => Ok(Name::OpaqueMarkIn(parent)),
        (_, b"" | b"." | b"..") => Err(Error::input("whiteout names nothing").fact("entry", path)),
        _ if name.starts_with(AUFS) => Ok(Name::AufsMetadata),
        _ => Ok(Name::WhiteoutOf(parent.join(removed)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RootPath {
        RootPath::new(text).unwrap()
    }

    #[test]
    fn names_mean_what_the_spec_says() {
        for (written, name) in [
            ("", Name::Plain),
            ("a", Name::Plain),
            ("a/.white", Name::Plain),
            ("a/b.wh.c", Name::Plain),
            (".wh.a", Name::WhiteoutOf(path("a"))),
            ("a/.wh.b", Name::WhiteoutOf(path("a/b"))),
            ("a/.wh....", Name::WhiteoutOf(path("a/..."))),
            ("a/.wh..b", Name::WhiteoutOf(path("a/.b"))),
            (".wh..wh..opq", Name::OpaqueMarkIn(RootPath::root())),
            ("a/.wh..wh..opq", Name::OpaqueMarkIn(path("a"))),
            (".wh..wh.aufs", Name::AufsMetadata),
            (".wh..wh.orph", Name::AufsMetadata),
            (".wh..wh.plnk", Name::AufsMetadata),
            (".wh..wh.plnk/12.34", Name::AufsMetadata),
            ("a/.wh..wh.b", Name::AufsMetadata),
        ] {
            assert_eq!(read(&path(written)).unwrap(), name, "{written}");
        }
    }

    #[test]
    fn refuses_whiteouts_of_nothing_and_entries_below_them() {
        for written in [".wh.", "a/.wh.", ".wh..", "a/.wh..", ".wh...", "a/.wh...", ".wh.a/b", "a/.wh.b/.wh.c"] {
            assert!(read(&path(written)).is_err(), "{written} was accepted");
        }
    }
}
