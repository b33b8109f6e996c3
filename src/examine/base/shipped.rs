//! What base images ship that no package owns, and what else a guessed base holds.
//!
//! The rule this file owns: where the old base is only likely, a file in its layers that no package
//! owns and that no base is known to ship may be the application's, and must not be thrown away.

use super::content::holds_a_package;
use crate::examine::LayerFacts;
use crate::examine::ownership::generated::is_made;
use crate::examine::ownership::paths::{is_standard, matches, written};
use crate::examine::ownership::{Ownership, Side};
use layer::{Entry, EntryKind, RootPath};
use start::rootfs::{FileNode, Root};

/// The bundle of certificates. A person may have put it there, unless its licence is beside it.
pub(super) const CERTIFICATES: &[u8] = b"etc/ssl/certs/ca-certificates.crt";
pub(super) const CERTIFICATES_LICENCE: &[u8] = b"usr/share/doc/ca-certificates/copyright";

/// The files of a distroless image that belong to none of its packages.
const DISTROLESS: [&str; 6] = [
    "etc/group",
    "etc/nsswitch.conf",
    "etc/os-release",
    "etc/passwd",
    "usr/lib/os-release",
    "usr/share/doc/ca-certificates/copyright",
];

/// What the images of distributions have beside packages: settings of the root, what their builders
/// write for containers, shells' settings of root.
const SHIPPED: &[&str] = &[
    ".dockerenv",
    "bin/bash",
    "bin/sh",
    "busybox/**",
    "etc/.updated",
    "etc/alpine-release",
    "etc/apk/**",
    "etc/apt/**",
    "etc/bash.bashrc",
    "etc/busybox-paths.d/**",
    "etc/debian_version",
    "etc/dnf/**",
    "etc/dpkg/**",
    "etc/host.conf",
    "etc/inputrc",
    "etc/issue",
    "etc/issue.net",
    "etc/ld.so.conf",
    "etc/locale.conf",
    "etc/lsb-release",
    "etc/machine-id",
    "etc/motd",
    "etc/network/**",
    "etc/nsswitch.conf",
    "etc/os-release",
    "etc/profile",
    "etc/protocols",
    "etc/rpm/**",
    "etc/securetty",
    "etc/services",
    "etc/vconsole.conf",
    "etc/yum.conf",
    "etc/yum.repos.d/**",
    "etc/yum/**",
    "root/.bash_logout",
    "root/.bash_profile",
    "root/.bashrc",
    "root/.cshrc",
    "root/.profile",
    "root/.tcshrc",
    "root/anaconda-*",
    "root/buildinfo/**",
    "root/original-ks.cfg",
    "run/systemd/container",
    "sbin/initctl",
    "sbin/initctl.distrib",
    "usr/bin/bash",
    "usr/bin/sh",
    "usr/lib/os-release",
    "usr/local/bin/clean-install",
    "usr/local/sbin/unminimize",
    "usr/sbin/initctl",
    "usr/sbin/initctl.distrib",
    "usr/sbin/policy-rc.d",
    "usr/share/buildinfo/**",
    "usr/share/locale/locale.alias",
    "var/.updated",
    "var/lib/alternatives/*",
    "var/lib/apt/**",
    "var/lib/dbus/machine-id",
    "var/lib/rpm/.*",
    "var/log/apt/**",
    "var/log/lastlog",
    "var/log/faillog",
];

/// The C library and the time zone beside busybox in images that have no packages.
const BESIDE_BUSYBOX: [&str; 15] = [
    "bin/getconf",
    "etc/localtime",
    "lib/ld-*",
    "lib/ld64-*",
    "lib/libc.musl-*",
    "lib/libc.so*",
    "lib/libcrypt*",
    "lib/libdl*",
    "lib/libm.so*",
    "lib/libnss_*",
    "lib/libpthread*",
    "lib/libresolv*",
    "lib/librt*",
    "lib/libuClibc*",
    "lib64",
];
const BUSYBOX: &str = "bin/busybox";
/// The databases of package managers that are not read.
const UNREAD: [&[u8]; 7] = [
    b"usr/lib/sysimage/rpm/Packages.db",
    b"usr/lib/sysimage/rpm/rpmdb.sqlite",
    b"usr/share/rpm/rpmdb.sqlite",
    b"var/lib/pacman/local/ALPM_DB_VERSION",
    b"var/lib/rpm/Packages",
    b"var/lib/rpm/Packages.db",
    b"var/lib/rpm/rpmdb.sqlite",
];
/// Where these install. What is elsewhere, or below `usr/local`, was put there by somebody else.
const INSTALLED: [&str; 10] =
    ["bin/**", "boot/**", "etc/**", "lib/**", "lib64/**", "sbin/**", "usr/**", "var/**", "afs/**", "run/**"];

pub(super) fn is_distroless_file(path: &[u8]) -> bool {
    DISTROLESS.iter().any(|file| file.as_bytes() == path)
}

/// Of every system, of the bundle of certificates, or the home of `nonroot`.
pub(super) fn is_distroless_directory(entry: &Entry) -> bool {
    let path = entry.path.as_bytes();
    is_standard(entry) || matches("usr/share/doc/ca-certificates", path) || matches("home/nonroot", path)
}

/// The files of the first layers, taken as the old base without proof, that may be the application's:
/// no package owns them, no base is known to ship them, and the source still has them. `source` is the
/// source's root; each comes with the number of its layer, from 0.
#[must_use]
pub fn unproven_files(base: &[LayerFacts], source: &Root<'_>, unread: UnreadDatabase) -> Vec<(usize, RootPath)> {
    let kinds = LayerKind::of_all(base, unread);
    let busybox = RootPath::new(BUSYBOX).ok().and_then(|path| source.resolve(&path).ok()?.node.place());
    let suspects = source.entries().filter_map(|(path, node)| {
        let (layer, position) = node.place().filter(|_| node.layer() < base.len() && !node.is_directory())?;
        let owner = base.get(layer)?.owners().entries.get(position).copied().unwrap_or(Ownership::Application);
        let is_open = owner.side() == Side::Stays;
        let is_shipped = || kinds.get(layer).is_some_and(|kind| kind.ships(&path, node));
        let is_applet = || busybox.is_some() && leads_to(source, &path) == busybox;
        (is_open && !is_shipped() && !is_applet()).then_some((layer, path))
    });
    suspects.collect()
}

/// What a database that is not read (rpm's, pacman's) says of the lowest layer that has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnreadDatabase {
    /// The layer is the root of a base: what is where packages install is a package's.
    OfBase,
    /// Nothing.
    Unknown,
}

fn leads_to(root: &Root<'_>, path: &RootPath) -> Option<(usize, usize)> {
    root.resolve(path).ok()?.node.place()
}

/// What a layer is made by, as far as that says whose its files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LayerKind {
    /// Packages unpacked by a build tool: their checksums list neither settings nor links.
    StatusFiles,
    /// The root of a system whose package database is not read.
    UnreadRoot,
    /// With the certificates of a distribution in it.
    Certificates,
    /// With busybox and no package database.
    Busybox,
    Other,
}

impl LayerKind {
    /// Only the lowest layer with an unread database is a root: what a later one installed lies beside
    /// what its step wrote.
    fn of_all(base: &[LayerFacts], unread: UnreadDatabase) -> Vec<Self> {
        let has = |layer: &LayerFacts, paths: &[&[u8]]| {
            layer.index.entries.iter().any(|entry| paths.contains(&entry.path.as_bytes()))
        };
        let root = base.iter().position(|layer| has(layer, &UNREAD)).filter(|_| unread == UnreadDatabase::OfBase);
        let kind = |(at, layer): (usize, &LayerFacts)| match layer {
            _ if root == Some(at) => Self::UnreadRoot,
            layer if holds_a_package(&layer.index) => Self::StatusFiles,
            layer if has(layer, &[CERTIFICATES_LICENCE]) => Self::Certificates,
            layer if has(layer, &[BUSYBOX.as_bytes()]) => Self::Busybox,
            _ => Self::Other,
        };
        base.iter().enumerate().map(kind).collect()
    }

    /// Whether a base is known to have a file that no package owns at this path.
    fn ships(self, path: &RootPath, node: &FileNode<'_>) -> bool {
        let is_one_of = |patterns: &[&str]| patterns.iter().any(|pattern| matches(pattern, path.as_bytes()));
        let is_link = matches!(node.kind(), EntryKind::Symlink(_));
        let by_kind = match self {
            Self::StatusFiles => is_link || matches("etc/**", path.as_bytes()),
            Self::UnreadRoot => is_one_of(&INSTALLED) && !matches("usr/local/**", path.as_bytes()),
            Self::Certificates => path.as_bytes() == CERTIFICATES,
            Self::Busybox => path.as_bytes() == BUSYBOX.as_bytes() || is_one_of(&BESIDE_BUSYBOX),
            Self::Other => false,
        };
        by_kind
            || is_distroless_file(path.as_bytes())
            || is_one_of(SHIPPED)
            || is_made(path.as_bytes())
            || node.entry().is_some_and(|entry| written(entry).is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::examine::packages::testing::Layer;
    use oci::testing::TestImage;
    use start::rootfs::merge;

    /// The files that may be the application's, of a base of these layers under an application's layer.
    fn unproven(base: &[Layer], own: &Layer) -> Vec<String> {
        let facts =
            |layer: &Layer| LayerFacts::new(TestImage::of(&["a"]).image().layers[0].clone(), Arc::new(layer.index()));
        let base: Vec<LayerFacts> = base.iter().map(facts).collect();
        let own = own.index();
        let source = merge(base.iter().map(|layer| layer.index.as_ref()).chain([&own]));
        let files = unproven_files(&base, &source, UnreadDatabase::OfBase);
        files.into_iter().map(|(layer, path)| format!("{layer}{path}")).collect()
    }

    fn debian() -> Layer {
        Layer::default()
            .dpkg(&[("base-files", "12", "/etc/issue\n/usr/bin/x\n")])
            .at(-1)
            .file("etc/issue", b"x")
            .file("usr/bin/x", b"x")
            .file("usr/sbin/policy-rc.d", b"x")
            .file("etc/apt/apt.conf.d/docker-clean", b"x")
            .file("etc/passwd", b"x")
            .file("etc/shells", b"x")
            .folder("data")
    }

    fn busybox() -> Layer {
        Layer::default()
            .file("bin/[", b"x")
            .hard_link("bin/busybox", "bin/[")
            .hard_link("bin/ls", "bin/[")
            .symlink("bin/sh", "busybox")
            .symlink("linuxrc", "bin/busybox")
            .symlink("usr/bin/env", "../../bin/env")
            .hard_link("bin/env", "bin/[")
            .file("lib/libc.so.6", b"x")
            .file("etc/localtime", b"x")
            .file("etc/group", b"x")
    }

    fn distroless() -> [Layer; 4] {
        let package = Layer::default()
            .file("var/lib/dpkg/status.d/netbase", b"Package: netbase\nVersion: 6\n")
            .file("var/lib/dpkg/status.d/netbase.md5sums", b"0  usr/share/doc/netbase/copyright\n")
            .file("usr/share/doc/netbase/copyright", b"x")
            .file("etc/services", b"x")
            .file("etc/protocols", b"x")
            .symlink("usr/share/netbase", "doc");
        let certificates = Layer::default().file("etc/ssl/certs/ca-certificates.crt", b"x");
        let certificates = certificates.file("usr/share/doc/ca-certificates/copyright", b"x");
        [
            package,
            Layer::default().file("etc/passwd", b"x"),
            Layer::default().file("etc/os-release", b"x"),
            certificates,
        ]
    }

    fn rpm() -> Layer {
        Layer::default().unread("var/lib/rpm/rpmdb.sqlite").file("usr/bin/rpm", b"x").file("etc/bashrc", b"x")
    }

    #[test]
    fn of_ordinary_bases_nothing_may_be_the_applications() {
        let own = Layer::default().file("app", b"x");
        for base in [vec![debian()], vec![busybox()], distroless().into(), vec![rpm()]] {
            assert_eq!(unproven(&base, &own), [""; 0]);
        }
    }

    #[test]
    fn what_no_package_owns_and_no_base_ships_is_named_with_its_layer() {
        let own = Layer::default().file("app", b"x");
        let data = || Layer::default().file("data/model", b"x");
        let certificates = Layer::default().file("etc/ssl/certs/ca-certificates.crt", b"corp");
        for (base, expected) in [
            (vec![debian(), data()], vec!["1/data/model"]),
            (vec![debian().file("opt/agent", b"x")], vec!["0/opt/agent"]),
            (vec![debian(), Layer::default().file("usr/bin/x", b"mine")], vec!["1/usr/bin/x"]),
            (vec![debian(), Layer::default().symlink("data/link", "x")], vec!["1/data/link"]),
            (vec![debian(), certificates], vec!["1/etc/ssl/certs/ca-certificates.crt"]),
            (vec![busybox().file("bin/tool", b"x")], vec!["0/bin/tool"]),
            (vec![Layer::default().file("lib/libc.so.6", b"x")], vec!["0/lib/libc.so.6"]),
            (vec![rpm(), rpm().file("etc/app.conf", b"x")], vec!["1/etc/app.conf", "1/etc/bashrc", "1/usr/bin/rpm"]),
            (
                vec![rpm().file("opt/app", b"x").file("usr/local/bin/app", b"x")],
                vec!["0/opt/app", "0/usr/local/bin/app"],
            ),
            (vec![Layer::default().file("var/lib/rpm/app.db", b"x")], vec!["0/var/lib/rpm/app.db"]),
        ] {
            assert_eq!(unproven(&base, &own), expected);
        }
    }

    #[test]
    fn what_the_application_removed_or_replaced_is_not_lost() {
        let base = [debian(), Layer::default().file("data/model", b"x")];
        assert_eq!(unproven(&base, &Layer::default().whiteout("data/model")), [""; 0]);
        assert_eq!(unproven(&base, &Layer::default().file("data/model", b"new")), [""; 0]);
        assert_eq!(unproven(&base, &Layer::default().file("data/other", b"new")), ["1/data/model"]);
    }
}
