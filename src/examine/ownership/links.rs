//! Symbolic links that installations make. They lead to a file of a package that is written in the
//! same layer, or to an entry of `/etc/alternatives` that does: a link of `update-alternatives` to a
//! program of the application is the application's.

use std::collections::HashSet;

use super::pattern::matches;
use crate::examine::packages::{Claim, LayerPackages};
use crate::layer::{EntryKind, LayerIndex, RootPath};

/// Where links to a package's files switch something of the package on.
const SWITCHES: [&str; 8] = [
    "etc/*/*-enabled/*",
    "etc/dpkg/origins/default",
    "etc/fonts/conf.d/*",
    "etc/init.d/*",
    "etc/php/**",
    "etc/rc?.d/*",
    "etc/runit/**",
    "etc/systemd/**",
];
const ALTERNATIVES: &[u8] = b"etc/alternatives/";
/// What every system is set to before anybody chooses.
const DEFAULT_ZONE: &[u8] = b"/usr/share/zoneinfo/Etc/UTC";
const DEFAULT_ZONE_SIZE: u64 = 8;
/// Alpine's programs are links to one that knows all of them.
const BUSYBOX: &[u8] = b"/bin/busybox";
const PROGRAMS: [&str; 4] = ["bin/*", "sbin/*", "usr/bin/*", "usr/sbin/*"];

pub(super) struct Links<'a> {
    packages: &'a LayerPackages,
    /// The names in `/etc/alternatives` that lead to a file of a package.
    alternatives: HashSet<&'a [u8]>,
    has_default_zone: bool,
}

impl<'a> Links<'a> {
    pub(super) fn of(layer: &'a LayerIndex, packages: &'a LayerPackages) -> Self {
        let mut links = Self { packages, alternatives: HashSet::new(), has_default_zone: false };
        for entry in &layer.entries {
            let (path, EntryKind::Symlink(target)) = (entry.path.as_bytes(), &entry.kind) else { continue };
            links.has_default_zone |= path == b"etc/localtime" && target == DEFAULT_ZONE;
            if let Some(name) = path.strip_prefix(ALTERNATIVES)
                && links.leads_to_package(&entry.path, target)
            {
                links.alternatives.insert(name);
            }
        }
        links
    }

    /// Whether an installation made the link.
    pub(super) fn are_made(&self, link: &RootPath, target: &[u8]) -> bool {
        let path = link.as_bytes();
        let is_one_of = |patterns: &[&str]| patterns.iter().any(|pattern| matches(pattern, path));
        if let Some(name) = path.strip_prefix(ALTERNATIVES) {
            return self.alternatives.contains(name);
        }
        let alternative = target.strip_prefix(b"/").and_then(|target| target.strip_prefix(ALTERNATIVES));
        alternative.is_some_and(|name| self.alternatives.contains(name))
            || (path == b"etc/localtime" && target == DEFAULT_ZONE)
            || (is_one_of(&SWITCHES) && self.leads_to_package(link, target))
            || (target == BUSYBOX && is_one_of(&PROGRAMS) && self.leads_to_package(link, target))
    }

    /// Whether `/etc/timezone`, of this size, says what `/etc/localtime` does before anybody chooses.
    pub(super) const fn is_timezone(&self, size: u64) -> bool {
        self.has_default_zone && size == DEFAULT_ZONE_SIZE
    }

    fn leads_to_package(&self, link: &RootPath, target: &[u8]) -> bool {
        let Some(path) = seen_from(link, target) else { return false };
        let is_owned = |path: &RootPath| matches!(self.packages.claim(path), Some(Claim::Owned(_)));
        // A target may be written as it was before `/bin` and the like became links.
        let merged = || RootPath::new([b"usr/", path.as_bytes()].concat());
        is_owned(&path) || merged().is_ok_and(|path| is_owned(&path))
    }
}

/// Where a link leads, as it is written: links on the way are not followed.
fn seen_from(link: &RootPath, target: &[u8]) -> Option<RootPath> {
    let folder = if target.starts_with(b"/") { RootPath::root() } else { link.parent()? };
    let mut names: Vec<&[u8]> = folder.components().collect();
    for name in target.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    RootPath::new(names.join(&b'/')).ok()
}
