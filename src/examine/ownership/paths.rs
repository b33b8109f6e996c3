//! The tables of paths that say by themselves what they are.

use super::Ownership;
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

/// Whether a path without a slash at its start is one that the pattern means.
pub(super) fn matches(pattern: &str, path: &[u8]) -> bool {
    let mut names = path.split(|byte| *byte == b'/');
    for wanted in pattern.as_bytes().split(|byte| *byte == b'/') {
        if wanted == b"**" {
            return true;
        }
        if !names.next().is_some_and(|name| is_named(wanted, name)) {
            return false;
        }
    }
    names.next().is_none()
}

/// One star at most: the tables need no more, and so this cannot become slow.
fn is_named(wanted: &[u8], name: &[u8]) -> bool {
    match wanted.iter().position(|byte| *byte == b'*') {
        None => wanted.len() == name.len() && is_same(wanted, name),
        Some(star) => {
            let (start, end) = (wanted.get(..star).unwrap_or_default(), wanted.get(star + 1..).unwrap_or_default());
            let Some(rest) = name.len().checked_sub(end.len()) else { return false };
            rest >= start.len()
                && is_same(start, name.get(..star).unwrap_or_default())
                && is_same(end, name.get(rest..).unwrap_or_default())
        }
    }
}

fn is_same(wanted: &[u8], name: &[u8]) -> bool {
    wanted.iter().zip(name).all(|(wanted, byte)| wanted == byte || *wanted == b'?')
}

#[cfg(test)]
mod pattern_tests {
    use super::*;

    #[test]
    fn patterns_mean_whole_paths() {
        for (pattern, path, meant) in [
            ("etc/shells", "etc/shells", true),
            ("etc/shells", "etc/shells-", false),
            ("etc/shells", "etc", false),
            ("etc/shells", "etc/shells/x", false),
            ("etc/rc?.d/**", "etc/rc2.d/S01x", true),
            ("etc/rc?.d/**", "etc/rc2.d", true),
            ("etc/rc?.d/**", "etc/rc.d/x", false),
            ("var/lib/apt/**", "var/lib/apt", true),
            ("var/lib/apt/**", "var/lib/apt/a/b/c", true),
            ("var/lib/apt/**", "var/lib/aptitude", false),
            ("etc/pam.d/common-*", "etc/pam.d/common-auth", true),
            ("etc/pam.d/common-*", "etc/pam.d/common", false),
            ("a/x*y", "a/xy", true),
            ("a/x*y", "a/x", false),
            ("a/xx*xx", "a/xxx", false),
        ] {
            assert_eq!(matches(pattern, path.as_bytes()), meant, "{pattern} {path}");
        }
    }
}
