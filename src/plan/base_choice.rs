//! Which base an image moves to: one that was named, or with `auto` the first of several that it fits on.
//!
//! The rule this file owns: candidates are tried in the order given, smallest first, and the first on which every
//! platform passes is taken. `run` fetches and judges each of them; what was excluded, and why, is kept for the report.

use std::fmt;
use std::str::FromStr;

use super::rebase_options::RebaseOptions;
use crate::examine::Origin;
use crate::process::Container;
use crate::rules::Finding;
use oci::error::{Error, Result};
use oci::{Config, Location, Platform};

/// The word that leaves the choice of the base to underpin.
const AUTO: &str = "auto";
/// What `auto` chooses from where nothing else is said, smallest first.
const DEFAULT_CANDIDATES: [&str; 4] =
    ["gcr.io/distroless/static", "gcr.io/distroless/base-nossl", "gcr.io/distroless/base", "gcr.io/distroless/cc"];
/// The tag of the same images with a user that is not root.
const NONROOT: &str = "nonroot";

/// What `--base` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BaseChoice {
    Image(Location),
    /// The first of the candidates that the image fits on.
    Auto,
}

impl BaseChoice {
    /// The base that was named; `None` where it is still to be chosen.
    #[must_use]
    pub const fn location(&self) -> Option<&Location> {
        match self {
            Self::Image(location) => Some(location),
            Self::Auto => None,
        }
    }
}

impl FromStr for BaseChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == AUTO { Ok(Self::Auto) } else { text.parse().map(Self::Image) }
    }
}

impl fmt::Display for BaseChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(location) => location.fmt(f),
            Self::Auto => f.write_str(AUTO),
        }
    }
}

impl From<Location> for BaseChoice {
    fn from(location: Location) -> Self {
        Self::Image(location)
    }
}

/// A base that a move to was judged.
#[derive(Debug, Clone)]
pub struct TriedBase {
    pub base: Origin,
    /// The compressed size of its layers, over all platforms that it shares with the source.
    pub size: u64,
    /// What excludes it, by platform; nothing where the image fits on it.
    pub refusals: Vec<(Platform, Finding)>,
}

impl TriedBase {
    #[must_use]
    pub const fn fits(&self) -> bool {
        self.refusals.is_empty()
    }
}

/// Whom an image runs as, as far as its candidates depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunsAs {
    Root,
    /// Every platform names a user that is not root.
    Other,
}

impl RunsAs {
    /// The user of the images of all platforms, or the one that was given instead.
    #[must_use]
    pub fn of<'c>(configs: impl Iterator<Item = &'c Config>, options: &RebaseOptions) -> Self {
        let is_root = match &options.user {
            Some(user) => is_root(user),
            None => configs.into_iter().any(|config| is_root(Container::of(config).text("User"))),
        };
        if is_root { Self::Root } else { Self::Other }
    }
}

fn is_root(user: &str) -> bool {
    let name = user.split(':').next().unwrap_or_default();
    matches!(name, "" | "root") || name.parse() == Ok(0_u64)
}

/// The bases to try, in this order.
pub fn candidates(options: &RebaseOptions, runs_as: RunsAs) -> Result<Vec<Location>> {
    if !options.base_candidates.is_empty() {
        return Ok(options.base_candidates.clone());
    }
    let twin = |name: &str| (runs_as == RunsAs::Other).then(|| format!("{name}:{NONROOT}"));
    let names = DEFAULT_CANDIDATES.iter().flat_map(|name| twin(name).into_iter().chain([(*name).to_owned()]));
    names.map(|name| name.parse()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_a_word_and_everything_else_an_image() {
        assert_eq!("auto".parse::<BaseChoice>().unwrap(), BaseChoice::Auto);
        for text in ["oci:auto", "a.io/auto:v1", "debian:12"] {
            let choice: BaseChoice = text.parse().unwrap();
            assert_eq!(choice.location(), Some(&text.parse().unwrap()), "{text}");
        }
        assert!("NOT A NAME".parse::<BaseChoice>().is_err());
        assert_eq!(BaseChoice::Auto.to_string(), "auto");
    }

    #[test]
    fn only_an_image_that_does_not_run_as_root_gets_the_twins_for_nonroot() {
        let config = |user: &str| {
            let value = serde_json::json!({"os": "linux", "architecture": "amd64", "config": {"User": user}, "rootfs": {"diff_ids": []}});
            Config::read(value.to_string().into_bytes()).unwrap()
        };
        let given = |user: &str| RebaseOptions { user: Some(user.to_owned()), ..RebaseOptions::default() };
        for (users, options, first, count) in [
            (&[""][..], RebaseOptions::default(), "gcr.io/distroless/static", 4),
            (&["root:1"], RebaseOptions::default(), "gcr.io/distroless/static", 4),
            (&["0"], RebaseOptions::default(), "gcr.io/distroless/static", 4),
            (&["65532"], RebaseOptions::default(), "gcr.io/distroless/static:nonroot", 8),
            (&["65532", "0:0"], RebaseOptions::default(), "gcr.io/distroless/static", 4),
            (&["0"], given("nobody"), "gcr.io/distroless/static:nonroot", 8),
            (&["1"], given("0"), "gcr.io/distroless/static", 4),
        ] {
            let configs: Vec<Config> = users.iter().map(|user| config(user)).collect();
            let found = candidates(&options, RunsAs::of(configs.iter(), &options)).unwrap();
            assert_eq!(found.first(), Some(&first.parse().unwrap()), "{users:?}");
            assert_eq!(found.len(), count, "{users:?}");
        }
        let own = RebaseOptions { base_candidates: vec!["oci:x".parse().unwrap()], ..RebaseOptions::default() };
        assert_eq!(candidates(&own, RunsAs::Root).unwrap(), own.base_candidates);
    }
}
