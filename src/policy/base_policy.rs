//! The base-image policy: which bases are allowed, which only with an exception, and the file that says so.
//!
//! The default is the Kubernetes proposal's: `distroless/static`, and `debian-base` with an entry in the
//! exception list. `kubernetes` is what Kubernetes does today: the images of its `build-image` repositories, each
//! with an entry. A policy file replaces the default in whole or in part:
//!
//! ```yaml
//! allow_bases: [gcr.io/distroless/static]
//! exception_bases: [registry.k8s.io/build-image/debian-base]
//! exceptions: base-image-exception-list.md
//! excepted_rules: [needs-tool]
//! ```

use std::fmt;
use std::str::FromStr;

use super::dependencies::Dependency;
use super::exceptions::{is_short_for, without_architecture};
use crate::examine::base::{OldBase, Rung, Sureness};
use crate::rules::Allow;
use crate::yaml::{self, Position, YamlMap};
use oci::error::{Error, Result};
use oci::{Location, RegistryHost, RepositoryName};

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

/// The bases that Kubernetes' images are built on today, beside `distroless/static`. Its own list records an exception
/// for each image on one of them.
const KUBERNETES_WITH_EXCEPTION: [&str; 4] = [
    "registry.k8s.io/build-image/go-runner",
    "registry.k8s.io/build-image/distroless-iptables",
    "registry.k8s.io/build-image/debian-base",
    "registry.k8s.io/build-image/setcap",
];
/// Its images are served by `registry.k8s.io` under the same names.
const RETIRED: &str = "k8s.gcr.io";
const RETIRED_NOW: &str = "registry.k8s.io";

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

/// `debian-base-amd64` is `debian-base` for one platform, and a retired registry's images are those of its successor.
fn same_repository(one: &RepositoryName, other: &RepositoryName) -> bool {
    same_host(one.host(), other.host())
        && without_architecture(one.repository()) == without_architecture(other.repository())
}

/// Whether both names are of one registry.
#[must_use]
pub(super) fn same_host(one: &RegistryHost, other: &RegistryHost) -> bool {
    let today = |host: &RegistryHost| -> bool { host.is(RETIRED) || host.is(RETIRED_NOW) };
    one == other || (today(one) && today(other))
}

/// The repository under the other name of its registry, where a retired registry and its successor serve one.
#[must_use]
pub fn other_name(name: &RepositoryName) -> Option<RepositoryName> {
    let other = match name.host() {
        host if host.is(RETIRED) => RETIRED_NOW,
        host if host.is(RETIRED_NOW) => RETIRED,
        _ => return None,
    };
    other.parse().ok().map(|host| name.on(host))
}

fn is_retired(location: &Location) -> bool {
    location.repository().is_some_and(|name| name.host().is(RETIRED))
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
    /// Those of its bases that the user chose, and not a default: only these may cause a request.
    pub chosen: Vec<Location>,
    /// Its bases with the tag that a file of dependencies records for them.
    pub versions: Vec<Location>,
}

impl Default for BasePolicy {
    fn default() -> Self {
        let names = |names: &[&str]| names.iter().filter_map(|name| name.parse().ok()).collect();
        let (allowed, with_exception) = (names(&ALLOWED), names(&WITH_EXCEPTION));
        let (candidates, chosen, versions) = (Vec::new(), Vec::new(), Vec::new());
        Self { allowed, with_exception, excepted_rules: Vec::new(), candidates, chosen, versions }
    }
}

/// A policy that has a name instead of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyPreset {
    Kubernetes,
}

impl PolicyPreset {
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        (name == "kubernetes").then_some(Self::Kubernetes)
    }

    #[must_use]
    pub fn policy(self) -> BasePolicy {
        let mut policy = BasePolicy::default();
        policy.with_exception = kubernetes_bases().map(BaseName::Image).collect();
        policy.chosen = images(policy.with_exception.iter());
        policy
    }
}

fn kubernetes_bases() -> impl Iterator<Item = Location> {
    KUBERNETES_WITH_EXCEPTION.iter().filter_map(|name| name.parse().ok())
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

    /// The bases that the user chose.
    pub fn choose(&mut self, names: &[BaseName]) {
        self.chosen.extend(images(names.iter()));
    }

    /// What may be compared with an image that does not name its base, where the move is to `base`: the bases that
    /// the user chose, and those of the policy in the registry that is asked for `base` in any case.
    #[must_use]
    pub fn comparable(&self, base: Option<&Location>) -> Vec<Location> {
        let host = |location: &Location| location.repository().map(|name| name.host().clone());
        let asked = base.and_then(host);
        let beside = self.images().into_iter().filter(|location| asked.is_some() && host(location) == asked);
        let all = self.chosen.iter().cloned().chain(beside).map(|location| self.at_version(location));
        self.versions.iter().cloned().chain(all).collect()
    }

    /// A base that is named without a tag, in the version that is recorded for it.
    #[must_use]
    pub fn at_version(&self, base: Location) -> Location {
        let Location::Registry(name) = &base else { return base };
        if name.tag().is_some() || name.digest().is_some() {
            return base;
        }
        let version = self.versions.iter().find(|version| version.repository() == base.repository()).cloned();
        version.unwrap_or(base)
    }

    /// The bases that a row of an exception list means. A name without a registry means a base of the policy, or of
    /// Kubernetes, that is called so; else it is read as an image is.
    #[must_use]
    pub fn recorded(&self, text: &str) -> Vec<BaseName> {
        let all = self.images().into_iter().chain(kubernetes_bases());
        let (name, tag) = text.split_once(':').map_or((text, None), |(name, tag)| (name, Some(tag)));
        let mut short: Vec<BaseName> = Vec::new();
        for base in all.filter(|base| is_short_for(name, base)) {
            let base = tag.map_or_else(|| Some(base.clone()), |tag| with_tag(&base, tag)).map(BaseName::Image);
            short.extend(base.filter(|base| !short.contains(base)));
        }
        if short.is_empty() { text.parse().into_iter().collect() } else { short }
    }

    /// The images that such a row has compared with the layers: not those of a registry that is no more, unless
    /// the row itself names it.
    #[must_use]
    pub fn recorded_images(&self, text: &str) -> Vec<Location> {
        let all = images(self.recorded(text).iter()).into_iter();
        let asked = all.filter(|location| text.contains('/') || !is_retired(location));
        asked.map(|location| self.at_version(location)).collect()
    }

    /// The bases of the policy in the versions that the file records, each once.
    #[must_use]
    pub fn versions_in(&self, dependencies: &[Dependency]) -> Vec<Location> {
        let mut versions = Vec::new();
        for base in self.images().into_iter().chain(kubernetes_bases()).filter(|base| !is_retired(base)) {
            let version = dependencies.iter().find(|dependency| dependency.is_of(&base));
            let version = version.and_then(|dependency| with_tag(&base, &dependency.version));
            versions.extend(version.filter(|version| !versions.contains(version)));
        }
        versions
    }

    /// The images that it names.
    fn images(&self) -> Vec<Location> {
        images(self.allowed.iter().chain(&self.with_exception))
    }

    /// Those of them that need no exception, in the order of the list.
    #[must_use]
    pub fn allowed_images(&self) -> Vec<Location> {
        images(self.allowed.iter())
    }
}

/// The same repository at this tag.
fn with_tag(base: &Location, tag: &str) -> Option<Location> {
    format!("{}:{tag}", base.repository()?).parse().ok()
}

fn images<'n>(names: impl Iterator<Item = &'n BaseName>) -> Vec<Location> {
    names.filter_map(|name| if let BaseName::Image(location) = name { Some(location.clone()) } else { None }).collect()
}

const KEYS: [&str; 6] =
    ["signed_by", "allow_bases", "exception_bases", "base_candidates", "exceptions", "excepted_rules"];

#[derive(Debug, Clone, Default)]
pub struct PolicyFile {
    pub policy: BasePolicy,
    /// The exception list, relative to the policy file's directory.
    pub exceptions: Option<String>,
    /// Whose signature images must carry.
    pub signed_by: Vec<SignedBy>,
}

/// Images that must be signed, by patterns of their names, and the files of the keys, relative to the policy file's
/// directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedBy {
    pub images: Vec<String>,
    pub keys: Vec<String>,
    pub at: Position,
}

impl PolicyFile {
    /// Reads the file; what it does not set keeps its default.
    pub fn read(text: &str) -> Result<Self> {
        let document = yaml::read(text)?;
        let members = document.members(&KEYS)?;
        let mut policy = BasePolicy::default();
        if let Some(names) = list::<BaseName>(members, "allow_bases")? {
            policy.choose(&names);
            policy.allowed = names;
        }
        if let Some(names) = list::<BaseName>(members, "exception_bases")? {
            policy.choose(&names);
            policy.with_exception = names;
        }
        if let Some(rules) = list::<Allow>(members, "excepted_rules")? {
            policy.excepted_rules = rules;
        }
        if let Some(candidates) = list::<Location>(members, "base_candidates")? {
            policy.candidates = candidates;
        }
        let exceptions = members.get("exceptions").map(|node| node.text().map(str::to_owned)).transpose()?;
        Ok(Self { policy, exceptions, signed_by: signed_by(members)? })
    }
}

fn signed_by(members: YamlMap<'_>) -> Result<Vec<SignedBy>> {
    let Some(node) = members.get("signed_by") else { return Ok(Vec::new()) };
    let one = |entry: &yaml::YamlNode| {
        let members = entry.members(&["images", "keys"])?;
        let texts = |key: &str| {
            let node = members.get(key).ok_or_else(|| yaml::wrong(format!("`signed_by` needs `{key}`"), entry.at))?;
            let texts =
                node.texts()?.into_iter().map(|node| node.text().map(str::to_owned)).collect::<Result<Vec<_>>>()?;
            if texts.is_empty() { Err(yaml::wrong(format!("`{key}` is empty"), node.at)) } else { Ok(texts) }
        };
        Ok(SignedBy { images: texts("images")?, keys: texts("keys")?, at: entry.at })
    };
    node.list()?.iter().map(one).collect()
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
    fn the_retired_registry_is_the_one_of_today() {
        let current = |name: &str| CurrentBase::Named(name.parse().unwrap());
        let policy = PolicyPreset::named("kubernetes").unwrap().policy();
        for (base, allowed, excepted) in [
            ("gcr.io/distroless/static:latest", true, false),
            ("registry.k8s.io/build-image/go-runner:v2.4.0", false, true),
            ("k8s.gcr.io/build-image/go-runner:v2.3.0", false, true),
            ("registry.k8s.io/build-image/distroless-iptables:v0.7.1", false, true),
            ("registry.k8s.io/build-image/debian-base-arm64:bookworm-v1.0.4", false, true),
            ("k8s.gcr.io/build-image/setcap:buster-v2.0.4", false, true),
            ("registry.k8s.io/pause:3.10", false, false),
            ("evil.io/build-image/go-runner:v2", false, false),
        ] {
            let current = current(base);
            assert_eq!(
                (policy.allows(&current), policy.allows_with_exception(&current)),
                (allowed, excepted),
                "{base}"
            );
        }
        assert!(BasePolicy::default().allows_with_exception(&current("registry.k8s.io/debian-base:v1")));
        assert_eq!(PolicyPreset::named("policy.yaml"), None);
    }

    #[test]
    fn nothing_is_compared_that_nobody_named() {
        let hosts = |policy: &BasePolicy, base: &str| -> Vec<String> {
            let base = base.parse().unwrap();
            let mut hosts: Vec<String> = policy.comparable(Some(&base)).iter().map(ToString::to_string).collect();
            for host in &mut hosts {
                host.truncate(host.find('/').unwrap_or_default());
            }
            hosts.dedup();
            hosts
        };
        let default = BasePolicy::default();
        assert_eq!(hosts(&default, "gcr.io/distroless/static"), ["gcr.io"]);
        assert_eq!(hosts(&default, "oci:new:v1"), [""; 0]);
        assert_eq!(hosts(&default, "registry.example/static"), [""; 0]);
        let file = PolicyFile::read("exception_bases: [a.io/b]\n").unwrap().policy;
        assert_eq!(hosts(&file, "registry.example/static"), ["a.io"]);
        let today = PolicyPreset::Kubernetes.policy();
        assert_eq!(hosts(&today, "registry.example/static"), ["registry.k8s.io"], "and not the retired one");
    }

    #[test]
    fn a_name_without_a_registry_is_a_base_that_is_known() {
        let shown = |name: String| name.strip_suffix(":latest").map(str::to_owned).unwrap_or(name);
        let names = |text: &str| -> Vec<String> {
            BasePolicy::default().recorded(text).iter().map(|name| shown(name.to_string())).collect()
        };
        assert_eq!(names("debian-base"), WITH_EXCEPTION);
        assert_eq!(names("go-runner"), ["registry.k8s.io/build-image/go-runner"]);
        assert_eq!(names("go-runner:v2"), ["registry.k8s.io/build-image/go-runner:v2"]);
        assert_eq!(names("ruby:2.7-slim-buster"), ["docker.io/library/ruby:2.7-slim-buster"]);
        assert_eq!(names("k8s.gcr.io/debian-iptable"), ["k8s.gcr.io/debian-iptable"]);
        assert_eq!(names(""), [""; 0]);
        let asked = |text: &str| -> Vec<String> {
            BasePolicy::default().recorded_images(text).iter().map(|name| shown(name.to_string())).collect()
        };
        assert_eq!(asked("debian-base"), ["registry.k8s.io/build-image/debian-base"]);
        let versions = vec!["registry.k8s.io/build-image/debian-base:v9".parse().unwrap()];
        let policy = BasePolicy { versions, ..BasePolicy::default() };
        assert_eq!(policy.recorded_images("debian-base"), policy.versions);
        assert_eq!(policy.comparable(None), policy.versions);
        let tagged: Location = "registry.k8s.io/build-image/debian-base:v1".parse().unwrap();
        assert_eq!(policy.at_version(tagged.clone()), tagged);
        assert_eq!(asked("k8s.gcr.io/debian-base"), ["k8s.gcr.io/debian-base"], "the row names the registry");
    }

    #[test]
    fn what_the_file_says_takes_the_place_of_the_default() {
        let file = PolicyFile::read("allow_bases: [a.io/b, scratch]\nexceptions: list.md\n").unwrap();
        assert_eq!(file.policy.allowed, ["a.io/b".parse().unwrap(), BaseName::Scratch]);
        assert_eq!(file.policy.with_exception, BasePolicy::default().with_exception);
        assert_eq!(file.exceptions.as_deref(), Some("list.md"));
        let rules = PolicyFile::read("excepted_rules: needs-tool\n").unwrap().policy.excepted_rules;
        assert_eq!(rules, ["needs-tool".parse().unwrap()]);
        let signed = PolicyFile::read("signed_by: [{images: a.io/*, keys: [k.pub, l.pub]}]\n").unwrap().signed_by;
        assert_eq!((signed[0].images.len(), signed[0].keys.len()), (1, 2));
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
            ("signed_by:\n- images: a\n", "line 2"),
            ("signed_by:\n- {images: a, keys: []}\n", "line 2"),
            ("signed_by:\n- {images: a, keys: b, key: c}\n", "line 2"),
        ] {
            let error = PolicyFile::read(text).unwrap_err();
            assert!(error.to_string().contains(place), "{text}: {error}");
        }
    }
}
