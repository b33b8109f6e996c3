//! A path inside an image's root. It cannot point outside: there is no leading slash to be
//! misread, no `.`, no empty component, and `..` is refused rather than resolved.

use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use oci::error::{Error, Result, printable};

/// Components joined by `/`; the root itself is empty. Bytes, since Linux names are bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RootPath(Box<[u8]>);

impl RootPath {
    /// The path that `written` means: `/a`, `./a` and `a//.` are all `a`.
    pub fn new(written: impl AsRef<[u8]>) -> Result<Self> {
        let written = written.as_ref();
        if written.contains(&0) {
            return Err(Error::input("path contains a NUL byte").fact("path", shown(written)));
        }
        let mut path = Vec::with_capacity(written.len());
        for component in written.split(|byte| *byte == b'/') {
            match component {
                b"" | b"." => {}
                b".." => {
                    return Err(Error::input("path contains `..`, which could lead out of the image")
                        .fact("path", shown(written)));
                }
                name => {
                    if !path.is_empty() {
                        path.push(b'/');
                    }
                    path.extend_from_slice(name);
                }
            }
        }
        Ok(Self(path.into_boxed_slice()))
    }

    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path without a leading slash.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The names along the path, outermost first; none for the root.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
    }

    /// The last component; `None` for the root.
    #[must_use]
    pub fn name(&self) -> Option<&[u8]> {
        self.components().next_back()
    }

    /// The directory that holds it; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let name = self.name()?;
        let kept = self.0.len().saturating_sub(name.len() + 1);
        Some(Self(self.0.iter().copied().take(kept).collect()))
    }

    /// Whether it is `directory` itself or something below it.
    #[must_use]
    pub fn is_within(&self, directory: &Self) -> bool {
        let rest = self.0.strip_prefix(directory.as_bytes());
        rest.is_some_and(|rest| directory.is_root() || rest.is_empty() || rest.starts_with(b"/"))
    }

    /// `written` seen from this directory. It can only lead further down.
    pub fn join(&self, written: impl AsRef<[u8]>) -> Result<Self> {
        Self::new([&self.0, b"/".as_slice(), written.as_ref()].concat())
    }
}

/// As people write it: with a leading slash, and everything a terminal would act on escaped.
impl std::str::FromStr for RootPath {
    type Err = Error;

    fn from_str(written: &str) -> Result<Self> {
        Self::new(written)
    }
}

impl fmt::Display for RootPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", shown(&self.0))
    }
}

impl fmt::Debug for RootPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Bytes of a name for a message: escaped, and cut where they get long.
pub fn shown(name: &[u8]) -> String {
    const SHOWN: usize = 4096;
    let mut text = String::new();
    for chunk in name.get(..SHOWN).unwrap_or(name).utf8_chunks() {
        text.push_str(&printable(chunk.valid()));
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    if name.len() > SHOWN {
        text.push('…');
    }
    text
}

impl Serialize for RootPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

/// Only what [`RootPath::new`] could have made is read back.
impl<'de> Deserialize<'de> for RootPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(PathVisitor)
    }
}

struct PathVisitor;

impl Visitor<'_> for PathVisitor {
    type Value = RootPath;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a normalised path")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<RootPath, E> {
        match RootPath::new(bytes) {
            Ok(path) if path.as_bytes() == bytes => Ok(path),
            _ => Err(E::custom("path is not normalised")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_path_has_one_form() {
        for (written, path) in [
            ("", ""),
            (".", ""),
            ("/", ""),
            ("./", ""),
            ("//", ""),
            ("a", "a"),
            ("./a", "a"),
            ("/a", "a"),
            ("//a", "a"),
            ("a/", "a"),
            ("a/./b//c/.", "a/b/c"),
            ("...", "..."),
            ("a/..b/c..", "a/..b/c.."),
        ] {
            assert_eq!(RootPath::new(written).unwrap().as_bytes(), path.as_bytes(), "{written:?}");
        }
    }

    #[test]
    fn refuses_what_leads_upwards_and_nul() {
        for written in ["..", "../a", "a/..", "a/../b", "/..", "a/b/../../../c", "a\0b"] {
            assert!(RootPath::new(written).is_err(), "{written:?} was accepted");
        }
    }

    #[test]
    fn shows_names_without_letting_them_act() {
        let path = RootPath::new(b"a\xff\x1b[2J\n\xe2\x80\xae/b").unwrap();
        assert_eq!(path.to_string(), "/a\\xff\\u{1b}[2J\\n\\u{202e}/b");
    }

    #[test]
    fn parent_and_name_take_a_path_apart() {
        let path = RootPath::new("usr/lib/os-release").unwrap();
        assert_eq!(path.name(), Some(b"os-release".as_slice()));
        assert_eq!(path.parent(), Some(RootPath::new("usr/lib").unwrap()));
        assert_eq!(RootPath::new("usr").unwrap().parent(), Some(RootPath::root()));
        assert_eq!(RootPath::root().parent(), None);
        assert_eq!(path.parent().unwrap().join("./os-release").unwrap(), path);
        assert!(path.join("../x").is_err());
    }

    #[test]
    fn within_means_at_or_below() {
        let path = |text: &str| RootPath::new(text).unwrap();
        for (inner, outer, expected) in [
            ("a/b", "a", true),
            ("a", "a", true),
            ("ab", "a", false),
            ("a", "a/b", false),
            ("a", "", true),
            ("", "", true),
        ] {
            assert_eq!(path(inner).is_within(&path(outer)), expected, "{inner} in {outer}");
        }
    }

    proptest! {
        #[test]
        fn a_normalised_path_stays_as_it_is(written in proptest::collection::vec(
            prop_oneof![Just(b'/'), Just(b'.'), any::<u8>()], 0..40)) {
            if let Ok(path) = RootPath::new(&written) {
                prop_assert_eq!(&RootPath::new(path.as_bytes()).unwrap(), &path);
                prop_assert!(path.components().all(|name| !matches!(name, b"" | b"." | b"..")));
                prop_assert!(!path.as_bytes().starts_with(b"/") && !path.as_bytes().ends_with(b"/"));
            }
        }
    }
}
