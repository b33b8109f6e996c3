//! The base-image policy: which bases are allowed, which only with an exception, and the file that says so.
//!
//! The default is the Kubernetes proposal's: `distroless/static`, and `debian-base` with an entry in the
//! exception list. A policy file replaces it in whole or in part:
//!
//! ```yaml
//! allow_bases: [gcr.io/distroless/static]
//! exception_bases: [registry.k8s.io/build-image/debian-base]
//! exceptions: base-image-exception-list.md
//! excepted_rules: [needs-tool]
//! ```

use std::fmt;
use std::str::FromStr;

use super::exceptions::without_architecture;
use crate::error::{Error, Result};
use crate::examine::base::{OldBase, Rung, Sureness};
use crate::oci::{Location, RepositoryName};
use crate::rules::Allow;
use crate::yaml::{self, YamlMap};

/// `distroless/static` under all of its names.
const ALLOWED: [&str; 4] = [
    "gcr.io/distroless/static",
    "gcr.io/distroless/static-debian11",
    "gcr.io/distroless/static-debian12",
    "gcr.io/distroless/static-debian13",
];
/// `debian-base` in its former and present repositories.
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

/// What an image is based on, as far as that could be determined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CurrentBase {
    Scratch,
    /// Proven by its layers.
    Named(Location),
    /// There is a base, but nothing names it.
    Unnamed,
}

impl CurrentBase {
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

impl fmt::Display for CurrentBase {
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
    pub fn covers(&self, current: &CurrentBase) -> bool {
        match (self, current) {
            (Self::Scratch, CurrentBase::Scratch) => true,
            (Self::Image(Location::Registry(ours)), CurrentBase::Named(Location::Registry(theirs))) => {
                same_repository(ours.name(), theirs.name())
                    && ours.tag().is_none_or(|tag| theirs.tag().unwrap_or("latest") == tag)
                    && ours.digest().is_none_or(|digest| theirs.digest() == Some(digest))
            }
            (Self::Image(ours), CurrentBase::Named(theirs)) => match (ours.local(), theirs.local()) {
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

/// The two lists, and the rules that an exception covers.
#[derive(Debug, Clone)]
pub struct BasePolicy {
    pub allowed: Vec<BaseName>,
    pub with_exception: Vec<BaseName>,
    /// Refusals that do not count for a component of the exception list.
    pub excepted_rules: Vec<Allow>,
    /// What `--base auto` chooses from where neither the command line nor the batch file says; smallest first.
    pub candidates: Vec<Location>,
}

impl Default for BasePolicy {
    fn default() -> Self {
        let names = |names: &[&str]| names.iter().filter_map(|name| name.parse().ok()).collect();
        let (allowed, with_exception) = (names(&ALLOWED), names(&WITH_EXCEPTION));
        Self { allowed, with_exception, excepted_rules: Vec::new(), candidates: Vec::new() }
    }
}

impl BasePolicy {
    #[must_use]
    pub fn allows(&self, current: &CurrentBase) -> bool {
        self.allowed.iter().any(|base| base.covers(current))
    }

    #[must_use]
    pub fn allows_with_exception(&self, current: &CurrentBase) -> bool {
        self.with_exception.iter().any(|base| base.covers(current))
    }

    /// The images that it names, to be compared with an image that does not name its base.
    #[must_use]
    pub fn images(&self) -> Vec<Location> {
        images(self.allowed.iter().chain(&self.with_exception))
    }

    /// Those of them that need no exception, in the order of the list.
    #[must_use]
    pub fn allowed_images(&self) -> Vec<Location> {
        images(self.allowed.iter())
    }
}

fn images<'n>(names: impl Iterator<Item = &'n BaseName>) -> Vec<Location> {
    names.filter_map(|name| if let BaseName::Image(location) = name { Some(location.clone()) } else { None }).collect()
}

const KEYS: [&str; 5] = ["allow_bases", "exception_bases", "base_candidates", "exceptions", "excepted_rules"];

#[derive(Debug, Clone, Default)]
pub struct PolicyFile {
    pub policy: BasePolicy,
    /// The exception list, relative to the policy file's directory.
    pub exceptions: Option<String>,
}

impl PolicyFile {
    /// Reads the file; what it does not set keeps its default.
    pub fn read(text: &str) -> Result<Self> {
        let document = yaml::read(text)?;
        let members = document.members(&KEYS)?;
        let mut policy = BasePolicy::default();
        if let Some(names) = list::<BaseName>(members, "allow_bases")? {
            policy.allowed = names;
        }
        if let Some(names) = list::<BaseName>(members, "exception_bases")? {
            policy.with_exception = names;
        }
        if let Some(rules) = list::<Allow>(members, "excepted_rules")? {
            policy.excepted_rules = rules;
        }
        if let Some(candidates) = list::<Location>(members, "base_candidates")? {
            policy.candidates = candidates;
        }
        let exceptions = members.get("exceptions").map(|node| node.text().map(str::to_owned)).transpose()?;
        Ok(Self { policy, exceptions })
    }
}

fn list<T: std::str::FromStr<Err = Error>>(members: YamlMap<'_>, key: &str) -> Result<Option<Vec<T>>> {
    let Some(node) = members.get(key) else { return Ok(None) };
    node.texts()?.into_iter().map(yaml::YamlNode::parse).collect::<Result<Vec<T>>>().map(Some)
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
            let current = CurrentBase::Named(stands_on.parse().unwrap());
            assert_eq!(name.parse::<BaseName>().unwrap().covers(&current), expected, "{name} {stands_on}");
        }
        assert!(BaseName::Scratch.covers(&CurrentBase::Scratch) && !BaseName::Scratch.covers(&CurrentBase::Unnamed));
    }

    #[test]
    fn the_default_is_the_one_of_the_proposal() {
        let policy = BasePolicy::default();
        assert_eq!((policy.allowed.len(), policy.with_exception.len()), (ALLOWED.len(), WITH_EXCEPTION.len()));
        let current = |name: &str| CurrentBase::Named(name.parse().unwrap());
        assert!(policy.allows(&current("gcr.io/distroless/static:latest")));
        assert!(!policy.allows(&current("k8s.gcr.io/debian-base:v1.0.0")));
        assert!(policy.allows_with_exception(&current("k8s.gcr.io/debian-base:v1.0.0")));
        assert!(!policy.allows_with_exception(&current("k8s.gcr.io/debian-iptables:v1")));
        assert!(!policy.allows(&CurrentBase::Scratch) && !policy.allows(&CurrentBase::Unnamed));
    }

    #[test]
    fn what_the_file_says_takes_the_place_of_the_default() {
        let file = PolicyFile::read("allow_bases: [a.io/b, scratch]\nexceptions: list.md\n").unwrap();
        assert_eq!(file.policy.allowed, ["a.io/b".parse().unwrap(), BaseName::Scratch]);
        assert_eq!(file.policy.with_exception, BasePolicy::default().with_exception);
        assert_eq!(file.exceptions.as_deref(), Some("list.md"));
        let rules = PolicyFile::read("excepted_rules: needs-tool\n").unwrap().policy.excepted_rules;
        assert_eq!(rules, ["needs-tool".parse().unwrap()]);
        let candidates = PolicyFile::read("base_candidates: [a.io/static, a.io/base]\n").unwrap().policy.candidates;
        assert_eq!(candidates, ["a.io/static".parse().unwrap(), "a.io/base".parse().unwrap()]);
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_place() {
        for (text, place) in [
            ("allow_bases: [a]\nexcept: x\n", "line 2, column 1"),
            ("allow_bases:\n  - NOT A NAME\n", "line 2, column 5"),
            ("excepted_rules: [no-such-rule]\n", "line 1, column 18"),
            ("allow_bases: {a: b}\n", "line 1, column 14"),
        ] {
            let error = PolicyFile::read(text).unwrap_err();
            assert!(error.to_string().contains(place), "{text}: {error}");
        }
    }
}
