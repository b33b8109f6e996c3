//! The exception list: the Markdown tables of components that may stay on their base, and why.
//!
//! The rule of this directory: the page belongs to people. It is read as it is, and an edit changes
//! one line and no other byte.

mod edit;
mod list;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

pub use edit::{ComponentBase, EMPTY_PAGE, NewException, render};
pub use list::{Exception, ExceptionList, Gravity, Problem};
pub use table::LARGEST;

use oci::error::{Error, Result};
use oci::{LocalImage, Location, Reference};

/// Images for one platform used to have it in their name.
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
/// of its name, that without an architecture, its whole name. On disk: the name of the directory or
/// file, and the tag, or what its whole name in a docker archive gives.
#[must_use]
pub fn component_names(image: &Location) -> Vec<Component> {
    let mut names = match image {
        Location::Registry(reference) => names_in_registry(reference),
        Location::Layout(local) | Location::OciArchive(local) | Location::DockerArchive(local) => names_on_disk(local),
        Location::Engine(image) => {
            image.name.parse().map(|reference| names_in_registry(&reference)).unwrap_or_default()
        }
        Location::Cache(_) => Vec::new(),
    };
    names.dedup();
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

fn names_in_registry(reference: &Reference) -> Vec<String> {
    let name = reference.name();
    let last = name.repository().rsplit('/').next().unwrap_or_default();
    vec![last.to_owned(), without_architecture(last).to_owned(), name.to_string()]
}

fn names_on_disk(local: &LocalImage) -> Vec<String> {
    let stem = local.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let called = match &local.tag {
        Some(whole) if whole.contains(':') => {
            whole.parse().map_or_else(|_| Vec::new(), |name| names_in_registry(&name))
        }
        Some(tag) => vec![tag.clone()],
        None => Vec::new(),
    };
    stem.into_iter().chain(called).collect()
}

/// `etcd` of `etcd-amd64`.
#[must_use]
pub fn without_architecture(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((name, architecture)) if ARCHITECTURES.contains(&architecture) && !name.is_empty() => name,
        _ => name,
    }
}

/// Whether a list means this image by a name without a registry: `debian-base` is short for
/// `registry.k8s.io/build-image/debian-base`, in any version unless it names one.
#[must_use]
pub fn is_short_for(short: &str, image: &Location) -> bool {
    let Location::Registry(image) = image else { return false };
    let (name, tag) = short.split_once(':').map_or((short, None), |(name, tag)| (name, Some(tag)));
    let last = image.name().repository().rsplit('/').next().unwrap_or_default();
    !name.is_empty()
        && without_architecture(last) == without_architecture(name)
        && (tag.is_none() || tag == image.tag())
}
