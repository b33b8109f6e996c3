//! What the installation of packages makes beside their files. It counts only in a layer in which a
//! package database was written, and where a path alone says too little, only with a proof: a link
//! must lead to a package's file, a compiled module must have a package's source, and so on.

use std::collections::HashSet;

use super::paths::matches;
use crate::examine::packages::{Claim, LayerPackages, MERGED};
use layer::{Entry, EntryKind, LayerIndex, RootPath};

/// What only maintainer scripts write, and the tools that they call.
const MADE: &[&str] = &[
    "dev/**",
    "etc/.java/**",
    "etc/.pwd.lock",
    "etc/apparmor.d/local/**",
    "etc/fstab",
    "etc/hostname",
    "etc/hosts",
    "etc/hosts.allow",
    "etc/hosts.deny",
    "etc/mailcap",
    "etc/mtab",
    "etc/networks",
    "etc/pam.d/common-*",
    "etc/python3/debian_config",
    "etc/resolv.conf",
    "etc/shells",
    "run/adduser",
    "run/runit/**",
    "usr/lib/*/gconv/gconv-modules.cache",
    "usr/lib/*/gdk-pixbuf-2.0/*/loaders.cache",
    "usr/lib/*/gio/modules/giomodule.cache",
    "usr/local/man",
    "usr/share/applications/mimeinfo.cache",
    "usr/share/glib-2.0/schemas/gschemas.compiled",
    "usr/share/icons/*/icon-theme.cache",
    "usr/share/info/dir",
    "usr/share/mime/**",
    "var/cache/fontconfig/**",
    "var/cache/man/**",
    "var/lib/ca-certificates-java/**",
    "var/lib/man-db/**",
    "var/lib/misc/**",
    "var/lib/pam/**",
    "var/lib/python/**",
    "var/lib/shells.state",
    "var/lib/systemd/**",
    "var/lib/ucf/**",
    "var/log/btmp",
    "var/log/faillog",
    "var/log/fontconfig.log",
    "var/log/lastlog",
    "var/log/tallylog",
    "var/log/wtmp",
    "var/spool/mail",
    "var/www/html/index.nginx-debian.html",
];
/// What others are made of: put there by packages, or by people.
const SOURCES: &str = "usr/share/mime/packages/**";
/// Made as empty files; with something in them they are somebody's.
const MADE_EMPTY: [&str; 2] = ["etc/environment", "etc/security/opasswd"];

/// The traces that installations left in one layer.
pub(super) struct Generated<'a> {
    packages: &'a LayerPackages,
    trust: Trust,
    links: Links<'a>,
    /// Name, size and time of the packages' files.
    originals: HashSet<(&'a [u8], u64, i64)>,
}

impl<'a> Generated<'a> {
    pub(super) fn of(layer: &'a LayerIndex, packages: &'a LayerPackages) -> Self {
        let newest = layer.entries.iter().map(|entry| entry.mtime).max().unwrap_or_default();
        let original = |entry: &'a Entry| match (&entry.kind, packages.claim(&entry.path)?) {
            // A time that was set by whoever packed the layer is the same for all, and the newest.
            (EntryKind::File { size }, Claim::Owned(_)) if entry.mtime < newest => {
                Some((entry.path.name()?, *size, entry.mtime))
            }
            _ => None,
        };
        Self {
            packages,
            trust: Trust::of(layer),
            links: Links::of(layer, packages),
            originals: layer.entries.iter().filter_map(original).collect(),
        }
    }

    /// Whether a package's file has to stay, since what the application trusts is made of it.
    pub(super) fn is_trusted(&self, entry: &Entry) -> bool {
        self.trust.needs(entry.path.as_bytes())
    }

    /// Whether the installation of a package of this layer made `entry`.
    pub(super) fn has(&self, entry: &Entry) -> bool {
        let path = entry.path.as_bytes();
        is_made(path)
            || self.trust.made(path)
            || match &entry.kind {
                EntryKind::Symlink(target) => is_of_systems(path, target) || self.links.are_made(&entry.path, target),
                EntryKind::File { size } => {
                    self.is_empty_file(&entry.path, *size)
                        || self.is_compiled(path)
                        || self.is_copy(entry, *size)
                        || (path == b"etc/timezone" && self.links.is_timezone(*size))
                }
                _ => false,
            }
    }

    /// Logs that a package made in its own folder, before anything was written to them.
    fn is_empty_file(&self, path: &RootPath, size: u64) -> bool {
        let is_packages = || path.parent().is_some_and(|folder| self.is_owned(&folder));
        size == 0
            && (MADE_EMPTY.iter().any(|made| made.as_bytes() == path.as_bytes())
                || (matches("var/log/**", path.as_bytes()) && is_packages()))
    }

    /// `a/__pycache__/b.cpython-311.pyc` of the package's `a/b.py`.
    fn is_compiled(&self, path: &[u8]) -> bool {
        const FOLDER: &[u8] = b"__pycache__/";
        let Some(at) = path.windows(FOLDER.len()).position(|part| part == FOLDER) else { return false };
        let (folder, file) = path.split_at_checked(at).unwrap_or_default();
        let name = file.get(FOLDER.len()..).unwrap_or_default();
        let module = name.split(|byte| *byte == b'.').next().unwrap_or_default();
        name.ends_with(b".pyc")
            && RootPath::new([folder, module, b".py"].concat()).is_ok_and(|source| self.is_owned(&source))
    }

    /// Settings that were copied from a template of a package, with its time.
    fn is_copy(&self, entry: &Entry, size: u64) -> bool {
        let name = entry.path.name().unwrap_or_default();
        let is_original = |name: &[u8]| self.originals.contains(&(name, size, entry.mtime));
        let path = entry.path.as_bytes();
        path.starts_with(b"etc/") && is_original(name)
            || path.starts_with(b"root/.") && is_original(&[b"dot", name].concat())
    }

    fn is_owned(&self, path: &RootPath) -> bool {
        matches!(self.packages.claim(path), Some(Claim::Owned(_)))
    }
}

/// Whether only maintainer scripts write there, and the tools that they call.
pub(in crate::examine) fn is_made(path: &[u8]) -> bool {
    MADE.iter().any(|pattern| matches(pattern, path)) && !matches(SOURCES, path)
}

/// The links that every merged `/usr` and every system with `/run` has.
fn is_of_systems(path: &[u8], target: &[u8]) -> bool {
    let target = target.strip_prefix(b"/").unwrap_or(target);
    MERGED.iter().any(|(link, to)| *link == path && *to == target)
}

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

const BUNDLE: &[u8] = b"etc/ssl/certs/ca-certificates.crt";
const LINKS: &[u8] = b"etc/ssl/certs/";
const SYSTEMS: &[u8] = b"usr/share/ca-certificates/";
const OWN: &str = "usr/local/share/ca-certificates/**";
/// All that `update-ca-certificates` writes.
const CERTIFICATES: [&str; 2] = ["etc/ssl/certs/**", "etc/ca-certificates.conf"];

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
        self == Self::System && CERTIFICATES.iter().any(|pattern| matches(pattern, path))
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
