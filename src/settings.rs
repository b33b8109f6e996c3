//! What a run was asked to do, checked before the world is touched.

mod amount;
mod file;

use crate::error::{Error, Result};
use crate::examine::base::OldBaseChoice;
use crate::oci::{Location, Platform};
use crate::plan::RebaseOptions;
use crate::policy::exceptions::Exception;
use crate::rules::Allow;
use crate::store::fetch::Request;

pub use amount::{duration, percent, size};
pub use file::{Place as SettingsPlace, SettingsFile, read as read_settings};

/// One image's move.
#[derive(Debug, Clone)]
pub struct Job {
    pub source: Location,
    pub targets: Vec<Location>,
    pub options: RebaseOptions,
    /// The old base of each platform, where a lock or a result records it.
    pub old_bases: Vec<(Platform, OldBaseChoice)>,
    /// The source may stay on its base; the move is refused where it would be all the same.
    pub exception: Option<Exception>,
}

impl Job {
    /// A move to no target yet.
    #[must_use]
    pub fn new(source: Location, options: RebaseOptions) -> Self {
        Self { source, targets: Vec::new(), options, old_bases: Vec::new(), exception: None }
    }

    /// What has to be fetched.
    #[must_use]
    pub fn request(&self) -> Request<'_> {
        Request { source: &self.source, options: &self.options, old_bases: &self.old_bases }
    }

    /// The same for a component of the exception list, whose refusals by these rules do not count.
    #[must_use]
    pub fn excepted(mut self, exception: Exception, rules: &[Allow]) -> Self {
        self.options.allow.extend(rules.iter().cloned());
        self.options = self.options.normalized();
        self.exception = Some(exception);
        self
    }

    /// Checks what only the parts together can show.
    pub fn check(self) -> Result<Self> {
        for target in &self.targets {
            check_target(&self.source, target)?;
        }
        Ok(self)
    }
}

/// The source's tag is only moved when it was written out.
fn check_target(source: &Location, target: &Location) -> Result<()> {
    let (Location::Registry(source), Location::Registry(to)) = (source, target) else { return Ok(()) };
    let same = source.name() == to.name() && source.effective_tag() == to.effective_tag();
    if same && to.tag().is_none() && to.digest().is_none() {
        return Err(Error::usage("--to would overwrite the source's tag without naming it")
            .fact("source", source)
            .fact("target", target)
            .hint(format!("write the tag out to overwrite it: --to {}", to.without_digest())));
    }
    Ok(())
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
}
