//! Which bases an image may stand on: the KEP's goal "only `distroless/static` and `debian-base`",
//! where the second needs an entry in the exception list.

use std::fmt;
use std::str::FromStr;

use super::allow::Allow;
use super::exceptions::without_architecture;
use crate::error::{Error, Result};
use crate::examine::base::{OldBase, Rung, Sureness};
use crate::oci::{Location, RepositoryName};

/// `distroless/static` under the names it has.
const ALLOWED: [&str; 4] = [
    "gcr.io/distroless/static",
    "gcr.io/distroless/static-debian11",
    "gcr.io/distroless/static-debian12",
    "gcr.io/distroless/static-debian13",
];
/// `debian-base` where it was and where it is.
const WITH_EXCEPTION: [&str; 3] =
    ["k8s.gcr.io/debian-base", "k8s.gcr.io/build-image/debian-base", "registry.k8s.io/build-image/debian-base"];

/// A base as a policy names it. Without a tag or digest it means all of the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BaseName {
    Scratch,
    Image(Location),
}

impl FromStr for BaseName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "scratch" { Ok(Self::Scratch) } else { text.parse().map(Self::Image) }
    }
}

impl fmt::Display for BaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scratch => f.write_str("scratch"),
            Self::Image(location) => location.fmt(f),
        }
    }
}

/// What an image stands on, as far as it could be found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Footing {
    Scratch,
    /// Proven by its layers.
    Named(Location),
    /// There is a base, and nobody said which.
    Unnamed,
}

impl Footing {
    #[must_use]
    pub fn of(old: &OldBase) -> Self {
        let named = old.reference.as_deref().and_then(|reference| reference.parse().ok());
        match named {
            Some(location) => Self::Named(location),
            None if old.layers == 0 && old.sure != Sureness::Unknown && old.how != Rung::Content => Self::Scratch,
            None => Self::Unnamed,
        }
    }
}

impl fmt::Display for Footing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scratch => f.write_str("scratch"),
            Self::Named(location) => f.write_str(&location.without_digest()),
            Self::Unnamed => f.write_str("a base that could not be named"),
        }
    }
}

impl BaseName {
    #[must_use]
    pub fn covers(&self, footing: &Footing) -> bool {
        match (self, footing) {
            (Self::Scratch, Footing::Scratch) => true,
            (Self::Image(Location::Registry(ours)), Footing::Named(Location::Registry(theirs))) => {
                same_repository(ours.name(), theirs.name())
                    && ours.tag().is_none_or(|tag| theirs.tag().unwrap_or("latest") == tag)
                    && ours.digest().is_none_or(|digest| theirs.digest() == Some(digest))
            }
            (Self::Image(ours), Footing::Named(theirs)) => match (ours.local(), theirs.local()) {
                (Some(one), Some(other)) => {
                    one.path == other.path
                        && (one.tag.is_none() || one.tag == other.tag)
                        && (one.digest.is_none() || one.digest == other.digest)
                }
                _ => false,
            },
            _ => false,
        }
    }
}

/// `debian-base-amd64` is `debian-base` for one platform.
fn same_repository(one: &RepositoryName, other: &RepositoryName) -> bool {
    one.host() == other.host() && without_architecture(one.repository()) == without_architecture(other.repository())
}

/// The lists, and what an exception is good for.
#[derive(Debug, Clone)]
pub struct BasePolicy {
    pub allowed: Vec<BaseName>,
    pub with_exception: Vec<BaseName>,
    /// Refusals that do not count for a component of the exception list.
    pub excepted_rules: Vec<Allow>,
}

impl Default for BasePolicy {
    fn default() -> Self {
        let names = |names: &[&str]| names.iter().filter_map(|name| name.parse().ok()).collect();
        Self { allowed: names(&ALLOWED), with_exception: names(&WITH_EXCEPTION), excepted_rules: Vec::new() }
    }
}

impl BasePolicy {
    #[must_use]
    pub fn allows(&self, footing: &Footing) -> bool {
        self.allowed.iter().any(|base| base.covers(footing))
    }

    #[must_use]
    pub fn allows_with_exception(&self, footing: &Footing) -> bool {
        self.with_exception.iter().any(|base| base.covers(footing))
    }

    /// The images that it names, to be compared with an image that does not name its base.
    #[must_use]
    pub fn images(&self) -> Vec<Location> {
        let names = self.allowed.iter().chain(&self.with_exception);
        names
            .filter_map(|name| if let BaseName::Image(location) = name { Some(location.clone()) } else { None })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_covers_its_repository_unless_it_names_more() {
        const D: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        const E: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
        for (name, stands_on, expected) in [
            ("gcr.io/distroless/static", format!("gcr.io/distroless/static:nonroot@{D}"), true),
            ("gcr.io/distroless/static", format!("gcr.io/distroless/static-debian12@{D}"), false),
            ("gcr.io/distroless/static", format!("evil.io/distroless/static@{D}"), false),
            ("gcr.io/distroless/static:latest", format!("gcr.io/distroless/static:nonroot@{D}"), false),
            ("gcr.io/distroless/static:latest", format!("gcr.io/distroless/static:latest@{D}"), true),
            ("gcr.io/distroless/static:latest", format!("gcr.io/distroless/static@{D}"), true),
            ("gcr.io/distroless/static:nonroot", format!("gcr.io/distroless/static@{D}"), false),
            (&format!("a.io/b@{D}"), format!("a.io/b:c@{D}"), true),
            (&format!("a.io/b@{E}"), format!("a.io/b:c@{D}"), false),
            ("k8s.gcr.io/debian-base", format!("k8s.gcr.io/debian-base-amd64:v1.0.0@{D}"), true),
            ("k8s.gcr.io/debian-base-amd64:v1.0.0", format!("k8s.gcr.io/debian-base:v1.0.0@{D}"), true),
            ("oci:bases:static", format!("oci:bases:static@{D}"), true),
            ("oci:bases", format!("oci:bases:static@{D}"), true),
            ("oci:bases:debian", format!("oci:bases:static@{D}"), false),
            ("scratch", format!("a.io/b@{D}"), false),
        ] {
            let footing = Footing::Named(stands_on.parse().unwrap());
            assert_eq!(name.parse::<BaseName>().unwrap().covers(&footing), expected, "{name} {stands_on}");
        }
        assert!(BaseName::Scratch.covers(&Footing::Scratch) && !BaseName::Scratch.covers(&Footing::Unnamed));
    }

    #[test]
    fn the_default_is_the_one_of_the_proposal() {
        let policy = BasePolicy::default();
        assert_eq!((policy.allowed.len(), policy.with_exception.len()), (ALLOWED.len(), WITH_EXCEPTION.len()));
        let footing = |name: &str| Footing::Named(name.parse().unwrap());
        assert!(policy.allows(&footing("gcr.io/distroless/static:latest")));
        assert!(!policy.allows(&footing("k8s.gcr.io/debian-base:v1.0.0")));
        assert!(policy.allows_with_exception(&footing("k8s.gcr.io/debian-base:v1.0.0")));
        assert!(!policy.allows_with_exception(&footing("k8s.gcr.io/debian-iptables:v1")));
        assert!(!policy.allows(&Footing::Scratch) && !policy.allows(&Footing::Unnamed));
    }
}
