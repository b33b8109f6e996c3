//! The tables of paths that say by themselves what they are.

use super::Ownership;
use super::pattern::matches;
use crate::layer::Entry;

/// The system's in every layer.
const ALWAYS: [(Ownership, &[&str]); 5] = [
    (
        Ownership::Database,
        &[
            "var/lib/dpkg/**",
            "lib/apk/**",
            "usr/lib/apk/**",
            "var/lib/rpm/**",
            "usr/lib/sysimage/rpm/**",
            "var/lib/rpm-state/**",
            "var/lib/yum/**",
            "var/lib/dnf/**",
            "usr/lib/sysimage/libdnf5/**",
        ],
    ),
    (
        Ownership::Cache,
        &[
            "var/lib/apt/**",
            "var/cache/apt/**",
            "var/cache/debconf/**",
            "var/cache/apk/**",
            "var/cache/yum/**",
            "var/cache/dnf/**",
            "var/cache/libdnf5/**",
        ],
    ),
    (
        Ownership::Log,
        &[
            "var/log/dpkg.log",
            "var/log/apt/**",
            "var/log/alternatives.log",
            "var/log/bootstrap.log",
            "var/log/apk.log",
            "var/log/yum.log",
            "var/log/dnf.log",
            "var/log/dnf.librepo.log",
            "var/log/dnf.rpm.log",
            "var/log/hawkey.log",
        ],
    ),
    (Ownership::LoaderCache, &["etc/ld.so.cache", "var/cache/ldconfig/**"]),
    (
        Ownership::Settings,
        &["etc/apk/**", "etc/apt/**", "etc/dpkg/**", "etc/dnf/**", "etc/yum/**", "etc/yum.conf", "etc/yum.repos.d/**"],
    ),
];

const ACCOUNTS: [&str; 12] = [
    "etc/passwd",
    "etc/passwd-",
    "etc/group",
    "etc/group-",
    "etc/shadow",
    "etc/shadow-",
    "etc/gshadow",
    "etc/gshadow-",
    "etc/subuid",
    "etc/subuid-",
    "etc/subgid",
    "etc/subgid-",
];

/// The folders that every system has, below the root.
const STANDARD: &[&str] = &[
    "bin",
    "boot",
    "dev",
    "dev/pts",
    "dev/shm",
    "etc",
    "etc/alternatives",
    "etc/opt",
    "etc/ssl",
    "etc/ssl/certs",
    "home",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "media",
    "mnt",
    "opt",
    "proc",
    "root",
    "run",
    "run/lock",
    "sbin",
    "srv",
    "sys",
    "tmp",
    "usr",
    "usr/bin",
    "usr/games",
    "usr/include",
    "usr/lib",
    "usr/lib32",
    "usr/lib64",
    "usr/libexec",
    "usr/libx32",
    "usr/sbin",
    "usr/share",
    "usr/share/doc",
    "usr/share/info",
    "usr/share/man",
    "usr/share/man/man?",
    "usr/share/misc",
    "usr/src",
    "usr/local",
    "usr/local/bin",
    "usr/local/etc",
    "usr/local/games",
    "usr/local/include",
    "usr/local/lib",
    "usr/local/lib64",
    "usr/local/libexec",
    "usr/local/man",
    "usr/local/sbin",
    "usr/local/share",
    "usr/local/share/man",
    "usr/local/share/ca-certificates",
    "usr/local/share/fonts",
    "usr/local/lib/python*",
    "usr/local/lib/python*/dist-packages",
    "usr/local/src",
    "var",
    "var/backups",
    "var/cache",
    "var/empty",
    "var/lib",
    "var/lib/misc",
    "var/local",
    "var/lock",
    "var/log",
    "var/mail",
    "var/opt",
    "var/run",
    "var/spool",
    "var/tmp",
    "var/www",
    "var/www/html",
];

/// What a path is in every layer.
pub(super) fn known(path: &[u8]) -> Option<Ownership> {
    if ACCOUNTS.iter().any(|account| account.as_bytes() == path) {
        return Some(Ownership::Account);
    }
    let is_in = |patterns: &[&str]| patterns.iter().any(|pattern| matches(pattern, path));
    ALWAYS.iter().find(|(_, patterns)| is_in(patterns)).map(|(owner, _)| *owner)
}

/// Whether a folder is one that every system has, as systems have it. One that was given to another
/// user, or opened to all, was made for the application.
pub(super) fn is_standard(folder: &Entry) -> bool {
    const WRITABLE_BY_ALL: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    let path = folder.path.as_bytes();
    let is_usual = folder.uid == 0 && (folder.mode & WRITABLE_BY_ALL == 0 || folder.mode & STICKY != 0);
    is_usual && (folder.path.is_root() || STANDARD.iter().any(|pattern| matches(pattern, path)))
}
