//! What a run was asked to do, checked before the world is touched.

mod amount;
mod file;

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::examine::Wishes;
use crate::examine::base::Choice;
use crate::oci::{Digest, Location};
use crate::plan::{Epoch, Options};
use crate::policy::exceptions::Exception;
use crate::policy::{Allow, OnMissing};
use crate::store::fetch::{OldBaseChoice, Request};

pub use amount::{duration, percent, size};
pub use file::{Place as SettingsPlace, SettingsFile, read as read_settings};

/// The base that an image moves to unless told otherwise.
pub const DEFAULT_BASE: &str = "gcr.io/distroless/static";

/// One image's move.
#[derive(Debug, Clone)]
pub struct Job {
    pub request: Request,
    pub on_missing: OnMissing,
    pub options: Options,
    pub targets: Vec<Location>,
    pub expect: Option<Digest>,
    /// The source may stay on its base; the move is refused where it would be all the same.
    pub exception: Option<Exception>,
}

impl Job {
    /// A move with nothing said but source and base.
    #[must_use]
    pub fn plain(source: Location, base: Location, epoch: Option<Epoch>) -> Self {
        let request = Request {
            source,
            base,
            old_base: OldBaseChoice::Same(Choice::Detect),
            platforms: Vec::new(),
            known: Vec::new(),
            wishes: Wishes::default(),
            log_runner: None,
        };
        let options = Options { epoch, ..Options::default() };
        Self { request, on_missing: OnMissing::Refuse, options, targets: Vec::new(), expect: None, exception: None }
    }

    /// The same for a component of the exception list, whose refusals by these rules do not count.
    #[must_use]
    pub fn excepted(mut self, exception: Exception, rules: &[Allow]) -> Self {
        self.options.allow.extend(rules.iter().cloned());
        self.options.allow.sort();
        self.options.allow.dedup();
        self.exception = Some(exception);
        self
    }

    /// Checks what only the parts together can show.
    pub fn check(self) -> Result<Self> {
        for target in &self.targets {
            check_target(&self.request.source, target)?;
        }
        Ok(self)
    }
}

/// The source's tag is only moved when it was written out.
fn check_target(source: &Location, target: &Location) -> Result<()> {
    let (Location::Registry(source), Location::Registry(to)) = (source, target) else { return Ok(()) };
    let same = source.name() == to.name() && source.effective_tag() == to.effective_tag();
    if same && to.tag().is_none() && to.digest().is_none() {
        return Err(Error::usage("--to would move the source's own tag, which it does not name")
            .fact("source", source)
            .fact("target", target)
            .hint(format!("write the tag out to move it: --to {}", to.without_digest())));
    }
    Ok(())
}

/// How a run deals with the world.
#[derive(Debug, Clone)]
pub struct Surroundings {
    pub cache: CacheChoice,
    pub insecure: Vec<String>,
    pub cacert: Option<PathBuf>,
    pub network: Network,
    pub jobs: usize,
    /// All waits of the registry client are divided by this; for tests of faults.
    pub pace: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheChoice {
    Folder(PathBuf),
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    Online,
    Offline,
}

/// Reads `--old-base`.
pub fn old_base(text: &str) -> Result<Choice> {
    if text == "scratch" {
        return Ok(Choice::Scratch);
    }
    match text.strip_prefix("layers:") {
        Some(count) => match count.parse() {
            Ok(count) => Ok(Choice::Layers(count)),
            Err(_) => Err(Error::usage("--old-base layers:N takes a whole number").fact("given", text)),
        },
        None => text.parse().map(Choice::Image),
    }
}

/// Reads `SOURCE_DATE_EPOCH`.
pub fn epoch(text: &str) -> Result<Epoch> {
    const YEAR_9999: u64 = 253_402_300_799;
    let seconds = text.parse().ok().filter(|seconds| *seconds <= YEAR_9999 && !text.starts_with('+'));
    seconds
        .map(Epoch)
        .ok_or_else(|| Error::usage("SOURCE_DATE_EPOCH is not a number of seconds since 1970").fact("value", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_tag_must_be_written_out_to_be_moved() {
        for (source, target, allowed) in [
            ("gcr.io/a/b", "gcr.io/a/b", false),
            ("gcr.io/a/b:latest", "gcr.io/a/b", false),
            ("gcr.io/a/b:latest", "gcr.io/a/b:latest", true),
            ("gcr.io/a/b:v1", "gcr.io/a/b", true),
            ("gcr.io/a/b", "gcr.io/a/c", true),
            ("oci:a", "oci:a", true),
        ] {
            let result = check_target(&source.parse().unwrap(), &target.parse().unwrap());
            assert_eq!(result.is_ok(), allowed, "{source} -> {target}");
        }
    }

    #[test]
    fn old_base_is_scratch_a_count_or_a_location() {
        assert_eq!(old_base("scratch").unwrap(), Choice::Scratch);
        assert_eq!(old_base("layers:3").unwrap(), Choice::Layers(3));
        assert!(matches!(old_base("debian:12").unwrap(), Choice::Image(_)));
        for bad in ["layers:", "layers:-1", "layers:x", "", "NO"] {
            assert!(old_base(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn epochs_are_plain_seconds() {
        assert_eq!(epoch("0").unwrap(), Epoch(0));
        for bad in ["", "-1", "+1", "1.5", "x", "99999999999999999999", "253402300800"] {
            assert!(epoch(bad).is_err(), "{bad}");
        }
    }
}
