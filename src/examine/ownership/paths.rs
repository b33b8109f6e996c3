//! The tables of paths that say by themselves what they are.

use super::Ownership;
use layer::{Entry, EntryKind, RootPath};

/// What package managers and the loader themselves write, file by file. A file beside these, in the
/// same directory, is somebody else's: an application may keep its data below `/var/lib/rpm`.
const WRITTEN: [(Ownership, &[&str]); 5] = [
    (
        Ownership::Database,
        &[
            "var/lib/dpkg/arch",
            "var/lib/dpkg/available",
            "var/lib/dpkg/available-old",
            "var/lib/dpkg/cmethopt",
            "var/lib/dpkg/diversions",
            "var/lib/dpkg/diversions-old",
            "var/lib/dpkg/lock",
            "var/lib/dpkg/lock-frontend",
            "var/lib/dpkg/statoverride",
            "var/lib/dpkg/statoverride-old",
            "var/lib/dpkg/status",
            "var/lib/dpkg/status-old",
            "var/lib/dpkg/status-new",
            "var/lib/dpkg/status.d/**",
            "var/lib/dpkg/alternatives/*",
            "var/lib/dpkg/methods/**",
            "var/lib/dpkg/triggers/**",
            "var/lib/dpkg/updates/*",
            "var/lib/dpkg/tmp.ci/**",
            "var/lib/dpkg/info/format",
            "var/lib/dpkg/info/*.list",
            "var/lib/dpkg/info/*.md5sums",
            "var/lib/dpkg/info/*.conffiles",
            "var/lib/dpkg/info/*.config",
            "var/lib/dpkg/info/*.templates",
            "var/lib/dpkg/info/*.preinst",
            "var/lib/dpkg/info/*.postinst",
            "var/lib/dpkg/info/*.prerm",
            "var/lib/dpkg/info/*.postrm",
            "var/lib/dpkg/info/*.shlibs",
            "var/lib/dpkg/info/*.symbols",
            "var/lib/dpkg/info/*.triggers",
            "lib/apk/db/installed",
            "lib/apk/db/lock",
            "lib/apk/db/scripts.tar",
            "lib/apk/db/scripts.tar.gz",
            "lib/apk/db/triggers",
            "lib/apk/exec/*",
            "usr/lib/apk/db/installed",
            "usr/lib/apk/db/lock",
            "usr/lib/apk/db/scripts.tar",
            "usr/lib/apk/db/scripts.tar.gz",
            "usr/lib/apk/db/triggers",
            "usr/lib/apk/exec/*",
            "var/lib/rpm-state/**",
            "var/lib/yum/groups/**",
            "var/lib/yum/history/**",
            "var/lib/yum/repos/**",
            "var/lib/yum/rpmdb-indexes/**",
            "var/lib/yum/transaction-*",
            "var/lib/yum/uuid",
            "var/lib/yum/yumdb/**",
            "var/lib/dnf/groups.json",
            "var/lib/dnf/history.sqlite*",
            "var/lib/dnf/modulefailsafe/**",
            "var/lib/dnf/repos/**",
            "usr/lib/sysimage/libdnf5/environments.toml",
            "usr/lib/sysimage/libdnf5/groups.toml",
            "usr/lib/sysimage/libdnf5/modules.toml",
            "usr/lib/sysimage/libdnf5/nevras.toml",
            "usr/lib/sysimage/libdnf5/packages.toml",
            "usr/lib/sysimage/libdnf5/system.toml",
            "usr/lib/sysimage/libdnf5/transaction_history.sqlite*",
        ],
    ),
    (
        Ownership::Cache,
        &[
            "var/lib/apt/cdroms.list",
            "var/lib/apt/daily_lock",
            "var/lib/apt/extended_states",
            "var/lib/apt/lists/*_*",
            "var/lib/apt/lists/auxfiles/**",
            "var/lib/apt/lists/lock",
            "var/lib/apt/lists/partial/**",
            "var/lib/apt/mirrors/**",
            "var/lib/apt/periodic/**",
            "var/cache/apt/archives/*.deb",
            "var/cache/apt/archives/lock",
            "var/cache/apt/archives/partial/**",
            "var/cache/apt/pkgcache.bin",
            "var/cache/apt/srcpkgcache.bin",
            "var/cache/debconf/config.dat*",
            "var/cache/debconf/passwords.dat*",
            "var/cache/debconf/templates.dat*",
            "var/cache/debconf/tmp.ci/**",
            "var/cache/apk/*.apk",
            "var/cache/apk/APKINDEX.*",
            "var/cache/apk/installed",
            "var/cache/yum/*/*/*/**",
            "var/cache/yum/*/*/timedhosts",
            "var/cache/dnf/*-*/**",
            "var/cache/dnf/*.solv",
            "var/cache/dnf/*.solvx",
            "var/cache/dnf/*_lock.pid",
            "var/cache/dnf/expired_repos.json",
            "var/cache/dnf/last_makecache",
            "var/cache/dnf/packages.db",
            "var/cache/dnf/tempfiles.json",
            "var/cache/libdnf5/*-*/**",
        ],
    ),
    (
        Ownership::Log,
        &[
            "var/log/dpkg.log",
            "var/log/apt/eipp.log.xz",
            "var/log/apt/history.log",
            "var/log/apt/term.log",
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
    (Ownership::LoaderCache, &["etc/ld.so.cache", "var/cache/ldconfig/aux-cache"]),
    (Ownership::Settings, &["etc/apk/arch", "etc/apk/world", "etc/dnf/modules.d/*.module"]),
];

/// The directories of package databases.
const DATABASES: [&[u8]; 5] = [b"var/lib/dpkg", b"lib/apk", b"usr/lib/apk", b"var/lib/rpm", b"usr/lib/sysimage/rpm"];

pub(super) fn is_in_database(path: &RootPath) -> bool {
    let is_within = |directory: &&[u8]| {
        path.as_bytes().strip_prefix(*directory).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    DATABASES.iter().any(is_within)
}

/// What rpm writes in each of its two directories.
const RPM_DIRECTORIES: [&[u8]; 2] = [b"var/lib/rpm/", b"usr/lib/sysimage/rpm/"];
const RPM: [&str; 30] = [
    ".dbenv.lock",
    ".migratedb",
    ".rpm.lock",
    "Basenames",
    "Conflictname",
    "Dirnames",
    "Enhancename",
    "Filetriggername",
    "Group",
    "Index.db",
    "Installtid",
    "Name",
    "Obsoletename",
    "Packages",
    "Packages.db",
    "Providename",
    "Pubkeys",
    "Recommendname",
    "Requirename",
    "Sha1header",
    "Sigmd5",
    "Suggestname",
    "Supplementname",
    "Transfiletriggername",
    "Triggername",
    "__db.*",
    "lock",
    "rpmdb.sqlite",
    "rpmdb.sqlite-shm",
    "rpmdb.sqlite-wal",
];

/// The directories that package managers make for themselves, empty ones too.
const MANAGERS: [&str; 21] = [
    "etc/apk/**",
    "etc/apt/**",
    "etc/dnf/**",
    "etc/dpkg/**",
    "etc/yum/**",
    "etc/yum.repos.d/**",
    "lib/apk/**",
    "usr/lib/apk/**",
    "usr/lib/sysimage/libdnf5/**",
    "usr/lib/sysimage/rpm/**",
    "var/cache/apk/**",
    "var/cache/apt/**",
    "var/cache/debconf/**",
    "var/cache/dnf/**",
    "var/cache/ldconfig/**",
    "var/cache/libdnf5/**",
    "var/cache/yum/**",
    "var/lib/apt/**",
    "var/lib/dpkg/**",
    "var/lib/rpm/**",
    "var/log/apt/**",
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

/// Users and groups, in every layer.
pub(super) fn is_account(path: &[u8]) -> bool {
    ACCOUNTS.iter().any(|account| account.as_bytes() == path)
}

/// What a package manager or the loader wrote, where one was at work.
pub(in crate::examine) fn written(entry: &Entry) -> Option<Ownership> {
    let path = entry.path.as_bytes();
    let is_in = |patterns: &[&str]| patterns.iter().any(|pattern| matches(pattern, path));
    if entry.kind == EntryKind::Directory {
        return is_in(&MANAGERS).then_some(Ownership::Database);
    }
    if RPM_DIRECTORIES.iter().any(|directory| is_rpms(path, directory)) {
        return Some(Ownership::Database);
    }
    WRITTEN.iter().find(|(_, patterns)| is_in(patterns)).map(|(owner, _)| *owner)
}

fn is_rpms(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|name| RPM.iter().any(|file| matches(file, name)))
}

/// Whether a folder is one that every system has, as systems have it. One that was given to another
/// user, or opened to all, was made for the application.
pub(in crate::examine) fn is_standard(folder: &Entry) -> bool {
    const WRITABLE_BY_ALL: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    let path = folder.path.as_bytes();
    let is_usual = folder.uid == 0 && (folder.mode & WRITABLE_BY_ALL == 0 || folder.mode & STICKY != 0);
    is_usual && (folder.path.is_root() || STANDARD.iter().any(|pattern| matches(pattern, path)))
}

/// Whether a path without a slash at its start is one that the pattern means.
pub(in crate::examine) fn matches(pattern: &str, path: &[u8]) -> bool {
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

/// A star stands for any bytes. Patterns are those of our tables, with two stars at most.
fn is_named(wanted: &[u8], name: &[u8]) -> bool {
    match wanted.iter().position(|byte| *byte == b'*') {
        None => wanted.len() == name.len() && is_same(wanted, name),
        Some(star) => {
            let (start, end) = (wanted.get(..star).unwrap_or_default(), wanted.get(star + 1..).unwrap_or_default());
            name.len() >= star && is_same(start, name) && ends_with(end, name.get(star..).unwrap_or_default())
        }
    }
}

/// Whether a name ends as the pattern does behind a star.
fn ends_with(end: &[u8], name: &[u8]) -> bool {
    match end.iter().position(|byte| *byte == b'*') {
        None => name.len().checked_sub(end.len()).is_some_and(|at| is_same(end, name.get(at..).unwrap_or_default())),
        Some(star) => {
            let (middle, end) = (end.get(..star).unwrap_or_default(), end.get(star + 1..).unwrap_or_default());
            let found = name.windows(middle.len().max(1)).position(|part| is_same(middle, part));
            found.is_some_and(|at| ends_with(end, name.get(at + middle.len()..).unwrap_or_default()))
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
            ("a/*_*", "a/x_y", true),
            ("a/*_*", "a/_", true),
            ("a/*_*", "a/xy", false),
            ("a/*-*/**", "a/base-01/x/y", true),
            ("a/*-*.b", "a/x-y.b", true),
            ("a/*-*.b", "a/x.b", false),
        ] {
            assert_eq!(matches(pattern, path.as_bytes()), meant, "{pattern} {path}");
        }
    }
}
