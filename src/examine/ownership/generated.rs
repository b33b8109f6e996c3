//! What the installation of packages makes beside their files. It counts only in a layer in which a
//! package database was written, and where a path alone says too little, only with a proof: a link
//! must lead to a package's file, a compiled module must have a package's source, and so on.

use std::collections::HashSet;

use super::links::Links;
use super::pattern::matches;
use super::trust::Trust;
use crate::examine::packages::{Claim, LayerPackages, MERGED};
use crate::layer::{Entry, EntryKind, LayerIndex, RootPath};

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
        let is_made = MADE.iter().any(|pattern| matches(pattern, path)) && !matches(SOURCES, path);
        is_made
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
/// The links that every merged `/usr` and every system with `/run` has.
fn is_of_systems(path: &[u8], target: &[u8]) -> bool {
    let target = target.strip_prefix(b"/").unwrap_or(target);
    MERGED.iter().any(|(link, to)| *link == path && *to == target)
}
