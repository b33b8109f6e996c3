//! How an image is started for real: `--start` and what belongs to it. None of it enters a result.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use super::rebase_options::{RebaseOptions, Variable, number_or_text};
use layer::RootPath;
use oci::error::{Error, Result};

/// How long a program is watched where nothing is said.
pub const DEFAULT_START_SECONDS: &str = "5";

/// How an image is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartOptions {
    pub seconds: StartSeconds,
    /// After the image's command.
    pub args: Vec<String>,
    pub env: Vec<Variable>,
    pub mounts: Vec<StartMount>,
    pub runtime: Option<PathBuf>,
    pub require_all_platforms: bool,
}

impl RebaseOptions {
    /// How to start source and result, where that was asked for.
    #[must_use]
    pub fn start_options(&self) -> Option<StartOptions> {
        Some(StartOptions {
            seconds: self.start?,
            args: self.start_args.clone(),
            env: self.start_env.clone(),
            mounts: self.start_mounts.clone(),
            runtime: self.runtime.as_ref().map(|path| PathBuf::from(&path.0)),
            require_all_platforms: self.require_all_platforms,
        })
    }

    /// What belongs to a start is of no use without one.
    pub fn check_start(&self) -> Result<()> {
        let given = [
            ("--start-arg", !self.start_args.is_empty()),
            ("--start-env", !self.start_env.is_empty()),
            ("--start-mount", !self.start_mounts.is_empty()),
            ("--runtime", self.runtime.is_some()),
            ("--require-all-platforms", self.require_all_platforms),
        ];
        match given.iter().find(|(_, is_given)| *is_given && self.start.is_none()) {
            Some((flag, _)) => {
                let message = format!("{flag} says how to start the image, which was not asked for");
                Err(Error::usage(message).hint("pass --start, too"))
            }
            None => Ok(()),
        }
    }
}

/// Seconds that a program is watched: from 1 to 600.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StartSeconds(pub u16);

impl StartSeconds {
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::from_secs(u64::from(self.0))
    }
}

impl FromStr for StartSeconds {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let seconds = text.parse().ok().filter(|seconds| (1..=600).contains(seconds) && !text.starts_with('+'));
        seconds
            .map(Self)
            .ok_or_else(|| Error::usage("the time to watch a start must be 1 to 600 seconds").fact("given", text))
    }
}

impl<'de> Deserialize<'de> for StartSeconds {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        number_or_text(from)
    }
}

/// A path of the host that the program may read: `HOST-PATH:PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartMount {
    pub from: PathBuf,
    pub to: RootPath,
}

impl FromStr for StartMount {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::usage("a mount must be given as HOST-PATH:PATH, both absolute").fact("given", text);
        let (from, to) = text.rsplit_once(':').ok_or_else(wrong)?;
        if !from.starts_with('/') || !to.starts_with('/') || text.contains('\0') {
            return Err(wrong());
        }
        let to = RootPath::new(to)?;
        if to.is_root() { Err(wrong()) } else { Ok(Self { from: PathBuf::from(from), to }) }
    }
}

impl fmt::Display for StartMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.from.display(), self.to)
    }
}

/// The program that starts containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimePath(pub String);

impl FromStr for RuntimePath {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "" => Err(Error::usage("the runtime must be given as a path")),
            path => Ok(Self(path.to_owned())),
        }
    }
}

impl fmt::Display for RuntimePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_or_refused() {
        for (text, is_good) in [("1", true), ("600", true), ("0", false), ("601", false), ("-1", false), ("x", false)] {
            assert_eq!(text.parse::<StartSeconds>().is_ok(), is_good, "{text}");
        }
        for (text, is_good) in
            [("/a:/b", true), ("/a:b:/c", true), ("a:/b", false), ("/a", false), ("/a:/", false), ("/a:/../b", false)]
        {
            assert_eq!(text.parse::<StartMount>().is_ok(), is_good, "{text}");
        }
    }

    #[test]
    fn what_belongs_to_a_start_needs_one() {
        let options = RebaseOptions { start_args: vec!["x".to_owned()], ..RebaseOptions::default() };
        assert!(options.check_start().is_err());
        let options = RebaseOptions { start: Some(StartSeconds(1)), ..options };
        assert!(options.check_start().is_ok());
        assert_eq!(options.start_options().unwrap().args, ["x"]);
    }
}
