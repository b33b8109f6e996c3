//! What a component is called, and which component an image is.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::oci::Location;

/// Images of one platform used to carry it in their name.
const ARCHITECTURES: [&str; 7] = ["amd64", "arm", "arm64", "ppc64le", "riscv64", "s390x", "386"];

/// The name of a component: letters, digits, `.`, `_`, `-` and `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component(String);

impl Component {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Component {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        if text.is_empty() || !text.chars().all(fits) {
            return Err(Error::usage("a component has letters, digits, dots, dashes, underscores and slashes")
                .fact("given", text));
        }
        Ok(Self(text.to_owned()))
    }
}

/// The names under which a list may record the image, the best first. In a registry: the last part
/// of its name, that without an architecture, its whole name. On disk: the name of the folder or
/// file, and the tag.
#[must_use]
pub fn component_names(image: &Location) -> Vec<Component> {
    let mut names = Vec::new();
    if let Location::Registry(reference) = image {
        let name = reference.name();
        let last = name.repository().rsplit('/').next().unwrap_or_default();
        names.extend([last.to_owned(), without_architecture(last).to_owned(), name.to_string()]);
    } else {
        let local = image.local();
        let stem = local.and_then(|local| local.path.file_stem()).map(|stem| stem.to_string_lossy().into_owned());
        names.extend(stem.into_iter().chain(local.and_then(|local| local.tag.clone())));
    }
    names.dedup();
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

/// `etcd` of `etcd-amd64`.
#[must_use]
pub fn without_architecture(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((name, architecture)) if ARCHITECTURES.contains(&architecture) && !name.is_empty() => name,
        _ => name,
    }
}
