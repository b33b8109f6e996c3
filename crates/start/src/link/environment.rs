//! What of a process its dynamic loader looks at: variables, user, working directory.

use crate::rootfs::{Credentials, FileNode};
use layer::RootPath;

/// A process that is about to start a program.
#[derive(Debug, Clone, Default)]
pub struct LoaderEnvironment {
    pub library_path: Option<String>,
    pub preload: Option<String>,
    /// `LD_BIND_NOW`: nothing is bound when it is called first.
    pub binds_now: bool,
    pub working_dir: RootPath,
    pub who: Credentials,
}

impl LoaderEnvironment {
    #[must_use]
    pub fn new(variables: &[(String, String)], working_dir: RootPath, who: Credentials) -> Self {
        let value = |name: &str| {
            let found = variables.iter().rfind(|(other, _)| other == name).map(|(_, value)| value.clone());
            found.filter(|value| !value.is_empty())
        };
        Self {
            library_path: value("LD_LIBRARY_PATH"),
            preload: value("LD_PRELOAD"),
            binds_now: value("LD_BIND_NOW").is_some(),
            working_dir,
            who,
        }
    }

    /// The same for a program that gives rights its user does not have: the kernel says so to the loader
    /// (`AT_SECURE`), and that then ignores the variables.
    pub(super) fn seen_by(&self, program: &FileNode<'_>) -> (Self, Trust) {
        let mode = program.mode();
        let has_capability = || {
            let attributes = program.entry().map(|entry| entry.xattrs.as_slice()).unwrap_or_default();
            attributes.iter().any(|(name, _)| name == b"security.capability")
        };
        let is_privileged = (mode & 0o4000 != 0 && program.uid() != self.who.uid)
            || (mode & 0o2000 != 0 && program.gid() != self.who.gid)
            || (!self.who.is_root() && has_capability());
        if is_privileged {
            let Self { working_dir, who, .. } = self.clone();
            return (Self { working_dir, who, ..Self::default() }, Trust::Privileged);
        }
        (self.clone(), Trust::Plain)
    }
}

/// Whether the loader may believe the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    Plain,
    /// `AT_SECURE`.
    Privileged,
}
