//! The certificates below `/etc/ssl/certs`: made by `update-ca-certificates` from those of a package,
//! or with some of the application's among them.
//!
//! They are the system's only where nothing else can be in them: no link leads to other certificates,
//! and the bundle has exactly the size of the package's certificates one after the other.

use super::pattern::matches;
use crate::layer::{Entry, EntryKind, LayerIndex};

const BUNDLE: &[u8] = b"etc/ssl/certs/ca-certificates.crt";
const LINKS: &[u8] = b"etc/ssl/certs/";
const SYSTEMS: &[u8] = b"usr/share/ca-certificates/";
const OWN: &str = "usr/local/share/ca-certificates/**";
/// All that `update-ca-certificates` writes.
const MADE: [&str; 2] = ["etc/ssl/certs/**", "etc/ca-certificates.conf"];

/// Whose certificates a layer's programs trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// The certificates are those of a package of this layer, and no others.
    System,
    /// Others are there, or may be.
    Application,
}

impl Trust {
    pub(super) fn of(layer: &LayerIndex) -> Self {
        let mut seen = Seen::default();
        for entry in &layer.entries {
            seen.look(entry);
        }
        seen.judge()
    }

    /// Whether `path` was made of the package's certificates.
    pub(super) fn made(self, path: &[u8]) -> bool {
        self == Self::System && MADE.iter().any(|pattern| matches(pattern, path))
    }

    /// Whether `path` is needed to trust what the application trusts, whatever package it is of.
    pub(super) fn needs(self, path: &[u8]) -> bool {
        self == Self::Application && path.starts_with(SYSTEMS)
    }
}

#[derive(Default)]
struct Seen {
    certificates: u64,
    bytes: u64,
    bundle: Option<u64>,
    foreign: bool,
}

impl Seen {
    fn look(&mut self, entry: &Entry) {
        let path = entry.path.as_bytes();
        match &entry.kind {
            EntryKind::Directory | EntryKind::Whiteout | EntryKind::Opaque => {}
            _ if matches(OWN, path) => self.foreign = true,
            EntryKind::File { size } if path == BUNDLE => self.bundle = Some(*size),
            EntryKind::File { size } if path.starts_with(SYSTEMS) && path.ends_with(b".crt") => {
                self.certificates += 1;
                self.bytes = self.bytes.saturating_add(*size);
            }
            EntryKind::Symlink(target) if path.starts_with(LINKS) => self.foreign |= !is_systems(target),
            _ if path.starts_with(LINKS) => self.foreign = true,
            _ => {}
        }
    }

    fn judge(&self) -> Trust {
        // A certificate without a newline at its end is given one in the bundle.
        let of_all = self.bytes..=self.bytes.saturating_add(self.certificates);
        let is_proven = self.certificates > 0 && self.bundle.is_none_or(|size| of_all.contains(&size));
        if is_proven && !self.foreign { Trust::System } else { Trust::Application }
    }
}

/// To a certificate of the package, or to another link in the same folder.
fn is_systems(target: &[u8]) -> bool {
    let absolute = target.strip_prefix(b"/").unwrap_or_default();
    absolute.starts_with(SYSTEMS) || !target.contains(&b'/')
}
