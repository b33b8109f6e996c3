//! The first thing that a dynamic loader would miss, and who asked for it.

use std::fmt;

use elf::BoundWhen;
use layer::RootPath;
use oci::error::printable;

/// Why a program is not proven to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// The loader itself, or the interpreter of a script.
    Interpreter {
        path: String,
        asked_by: RootPath,
    },
    Library {
        name: String,
        asked_by: RootPath,
    },
    /// The file is there, and does not have the version.
    Version {
        file: String,
        version: String,
        asked_by: RootPath,
    },
    Symbol {
        name: String,
        version: Option<String>,
        bound: BoundWhen,
        asked_by: RootPath,
    },
    /// A file is in the way that the loader cannot use.
    Unusable {
        path: String,
        why: String,
        asked_by: RootPath,
    },
    /// It may start, but that cannot be shown.
    Unproven {
        why: String,
        about: RootPath,
    },
}

impl Missing {
    /// The thing itself, for lists.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Interpreter { path, .. } | Self::Unusable { path, .. } => named(path),
            Self::Library { name, .. } => named(name),
            Self::Version { file, version, .. } => format!("{} of {}", named(version), named(file)),
            Self::Symbol { name, version, .. } => symbol(name, version.as_deref()),
            Self::Unproven { about, .. } => about.to_string(),
        }
    }

    /// Whether it fails before its first instruction; otherwise only when it calls what is missing.
    #[must_use]
    pub const fn is_at_start(&self) -> bool {
        !matches!(self, Self::Symbol { bound: BoundWhen::Called, .. })
    }

    /// Whether the thing is missing, not just unproven.
    #[must_use]
    pub const fn is_certain(&self) -> bool {
        !matches!(self, Self::Unproven { .. })
    }

    /// What is missing `place`, such as "the rebased image", and who asked for it.
    #[must_use]
    pub fn in_place(&self, place: &str) -> String {
        match self {
            Self::Interpreter { path, asked_by } => {
                format!("its interpreter {} is not in {place}{}", named(path), needed_by(asked_by))
            }
            Self::Library { name, asked_by } => format!("{} is not in {place}{}", named(name), needed_by(asked_by)),
            Self::Version { file, version, asked_by } => {
                format!("{} in {place} does not have version {}{}", named(file), named(version), needed_by(asked_by))
            }
            Self::Symbol { name, version, asked_by, .. } => {
                format!("no library in {place} defines {}{}", symbol(name, version.as_deref()), needed_by(asked_by))
            }
            Self::Unusable { path, why, asked_by } => {
                format!("{} in {place} {why}{}", named(path), needed_by(asked_by))
            }
            Self::Unproven { why, about } => format!("{about} {why}"),
        }
    }
}

/// A name out of a file, for a message: nothing in it acts, and it does not go on for ever.
fn named(name: &str) -> String {
    const SHOWN: usize = 400;
    let cut: String = name.chars().take(SHOWN).collect();
    let more = if cut.len() < name.len() { "…" } else { "" };
    format!("{}{more}", printable(&cut))
}

fn needed_by(file: &RootPath) -> String {
    format!(" (needed by {file})")
}

fn symbol(name: &str, version: Option<&str>) -> String {
    let version = version.map(|version| format!("@{version}")).unwrap_or_default();
    named(&format!("{name}{version}"))
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_place("the image"))
    }
}
