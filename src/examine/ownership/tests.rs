//! Layers as people make them, each rule beside a twin for which it must not speak.

use super::*;
use crate::examine::packages::testing::{Layer, path};

/// What a report says of the entry at a path; of several, of the last.
fn word(layer: &Layer, at: &str) -> String {
    let index = layer.index();
    let owners = of(&index);
    assert_eq!(owners.entries.len(), index.entries.len());
    let place = index.entries.iter().rposition(|entry| entry.path == path(at)).unwrap();
    owners.word(owners.entries[place])
}

fn check(layer: &Layer, expected: &[(&str, &str)]) {
    for (at, meant) in expected {
        assert_eq!(word(layer, at), *meant, "{at}");
    }
}

/// A layer in which dpkg installed one package.
fn installed(list: &str) -> Layer {
    Layer::default().dpkg(&[("p", "1", list)])
}

const MADE: &str = "made by the installation of a package";
const PASSAGE: &str = "directory on the way to the application";

#[test]
fn what_package_managers_write_is_theirs_where_one_was_at_work_and_nothing_beside_it() {
    let cases = [
        ("var/lib/dpkg/available", "package database"),
        ("lib/apk/db/triggers", "package database"),
        ("usr/lib/apk/db/triggers", "package database"),
        ("var/lib/rpm/__db.001", "package database"),
        ("usr/lib/sysimage/rpm/lock", "package database"),
        ("var/lib/apt/lists/deb.debian.org_debian_dists_bookworm_InRelease", "package cache"),
        ("var/lib/apt/lists/partial/x", "package cache"),
        ("var/cache/apt/archives/curl.deb", "package cache"),
        ("var/cache/debconf/config.dat", "package cache"),
        ("var/cache/apk/APKINDEX.0.tar.gz", "package cache"),
        ("var/cache/dnf/baseos-0123/repodata/repomd.xml", "package cache"),
        ("var/cache/yum/x86_64/7/base/packages/a.rpm", "package cache"),
        ("var/log/dpkg.log", "log of a package manager"),
        ("var/log/apt/history.log", "log of a package manager"),
        ("var/log/alternatives.log", "log of a package manager"),
        ("etc/ld.so.cache", "loader cache"),
        ("var/cache/ldconfig/aux-cache", "loader cache"),
        ("etc/apk/world", "settings of a package manager"),
        ("etc/apt/sources.list", "application"),
        ("etc/apt/sources.list.d/my.list", "application"),
        ("etc/dpkg/app.cfg", "application"),
        ("etc/yum.repos.d/my.repo", "application"),
        ("lib/apk/app/x", "application"),
        ("var/cache/apt/my.bin", "application"),
        ("var/cache/dnf/my.bin", "application"),
        ("var/lib/apt/lists/mine", "application"),
        ("var/lib/dpkg/app/state", "application"),
        ("var/lib/dpkg/info/app.data", "application"),
        ("var/lib/rpm/app.db", "application"),
        ("var/log/apt/app.log", "application"),
        ("etc/passwd", "account file"),
        ("etc/gshadow-", "account file"),
        ("etc/subuid", "account file"),
        ("var/lib/dpkg-app/x", "application"),
        ("opt/lib/apk/x", "application"),
        ("var/cache/app", "application"),
        ("var/log/app.log", "application"),
        ("etc/ld.so.conf.d/app.conf", "application"),
        ("etc/passwd.app", "application"),
        ("usr/bin/app", "application"),
    ];
    let layer = cases.iter().fold(Layer::default(), |layer, (at, _)| layer.file(at, b"x"));
    check(&layer, &cases);
}

#[test]
fn where_no_package_manager_was_at_work_all_but_accounts_is_the_applications() {
    let paths = ["etc/ld.so.cache", "var/log/dpkg.log", "etc/apk/world", "etc/apt/sources.list", "var/lib/rpm/app.db"];
    let layer = || paths.iter().fold(Layer::default(), |layer, at| layer.file(at, b"x")).file("etc/passwd", b"x");
    check(&layer(), &paths.map(|at| (at, "application")));
    check(&layer(), &[("etc/passwd", "account file")]);
    let managed = layer().file("var/lib/apt/lists/lock", b"");
    check(&managed, &[("etc/ld.so.cache", "loader cache"), ("var/log/dpkg.log", "log of a package manager")]);
    check(&managed, &[("etc/apk/world", "settings of a package manager"), ("var/lib/rpm/app.db", "application")]);
}

#[test]
fn a_package_has_what_its_list_says_and_nothing_else() {
    let layer = installed("/.\n/usr\n/usr/bin\n/usr/bin/curl\n/etc/curlrc\n")
        .folder("usr")
        .folder("usr/bin")
        .at(-1)
        .file("usr/bin/curl", b"x")
        .at(1)
        .file("etc/curlrc", b"x")
        .file("usr/local/bin/app", b"x");
    check(
        &layer,
        &[
            ("usr/bin", "package p"),
            ("usr/bin/curl", "package p"),
            ("etc/curlrc", "changed file of package p"),
            ("usr/local/bin/app", "application"),
        ],
    );
}

#[test]
fn what_installations_make_needs_a_database_in_the_same_layer() {
    let traces = |layer: Layer| {
        layer
            .file("etc/shells", b"x")
            .file("etc/pam.d/common-auth", b"x")
            .file("var/lib/ucf/registry", b"x")
            .file("var/log/lastlog", b"x")
            .file("usr/lib/x86_64-linux-gnu/gconv/gconv-modules.cache", b"x")
            .file("usr/share/mime/globs", b"x")
            .folder("var/cache/man/de")
    };
    let own = |layer: &Layer| {
        check(layer, &[("etc/pam.d/app", "application"), ("usr/share/mime/packages/app.xml", "application")]);
    };
    let all = [
        "etc/shells",
        "etc/pam.d/common-auth",
        "var/lib/ucf/registry",
        "var/log/lastlog",
        "usr/lib/x86_64-linux-gnu/gconv/gconv-modules.cache",
        "usr/share/mime/globs",
        "var/cache/man/de",
    ];
    let with = |layer: Layer| traces(layer).file("etc/pam.d/app", b"").file("usr/share/mime/packages/app.xml", b"x");
    for (layer, meant) in [
        (with(installed("")), MADE),
        (with(Layer::default()), "application"),
        (with(installed("").unread("var/lib/dpkg/info/huge.list")), "application"),
    ] {
        check(&layer, &all.map(|at| (at, meant)));
        own(&layer);
    }
}

#[test]
fn links_are_made_where_they_lead_to_a_package() {
    let layer =
        installed("/usr/bin/less\n/etc/init.d/p\n/lib/systemd/system/p.service\n/bin/more\n/usr/share/zoneinfo/x\n")
            .file("usr/bin/less", b"x")
            .file("usr/bin/more", b"x")
            .file("etc/init.d/p", b"x")
            .file("usr/lib/systemd/system/p.service", b"x")
            .file("usr/share/zoneinfo/x", b"x")
            .file("opt/jdk/bin/java", b"x")
            .symlink("etc/alternatives/pager", "/usr/bin/less")
            .symlink("etc/alternatives/old-pager", "/bin/more")
            .symlink("etc/alternatives/java", "/opt/jdk/bin/java")
            .symlink("usr/bin/pager", "/etc/alternatives/pager")
            .symlink("usr/bin/java", "/etc/alternatives/java")
            .symlink("usr/bin/unknown", "/etc/alternatives/unknown")
            .symlink("etc/rc2.d/S01p", "../init.d/p")
            .symlink("etc/rc2.d/S01app", "../init.d/app")
            .symlink("etc/systemd/system/multi-user.target.wants/p.service", "/lib/systemd/system/p.service")
            .symlink("etc/localtime", "/usr/share/zoneinfo/x")
            .symlink("opt/app/less", "/usr/bin/less")
            .symlink("etc/nginx/sites-enabled/up", "../../../../../usr/bin/less");
    check(
        &layer,
        &[
            ("etc/alternatives/pager", MADE),
            ("etc/alternatives/old-pager", MADE),
            ("etc/alternatives/java", "application"),
            ("usr/bin/pager", MADE),
            ("usr/bin/java", "application"),
            ("usr/bin/unknown", "application"),
            ("etc/rc2.d/S01p", MADE),
            ("etc/rc2.d/S01app", "application"),
            ("etc/systemd/system/multi-user.target.wants/p.service", MADE),
            ("etc/localtime", "application"),
            ("opt/app/less", "application"),
            ("etc/nginx/sites-enabled/up", MADE),
        ],
    );
}

#[test]
fn the_time_zone_is_the_systems_until_somebody_chooses() {
    let layer = |target: &str, zone: &[u8]| installed("").symlink("etc/localtime", target).file("etc/timezone", zone);
    for (target, zone, meant) in [
        ("/usr/share/zoneinfo/Etc/UTC", b"Etc/UTC\n".as_slice(), [MADE, MADE]),
        ("/usr/share/zoneinfo/Europe/Rome", b"Europe/Rome\n", ["application"; 2]),
        ("/usr/share/zoneinfo/Etc/UTC", b"Europe/Rome\n", [MADE, "application"]),
        ("/usr/share/zoneinfo/Asia/Aden", b"Etc/UTC\n", ["application"; 2]),
    ] {
        check(&layer(target, zone), &[("etc/localtime", meant[0]), ("etc/timezone", meant[1])]);
    }
}

#[test]
fn compiled_modules_copies_and_empty_logs_need_their_package() {
    let layer = installed("/usr/lib/python3/a.py\n/usr/share/p/inputrc\n/usr/share/base/dot.bashrc\n/var/log/p\n")
        .at(-5)
        .file("usr/lib/python3/a.py", b"x")
        .file("usr/share/p/inputrc", b"four")
        .file("usr/share/base/dot.bashrc", b"four")
        .file("etc/inputrc", b"four")
        .file("root/.bashrc", b"four")
        .file("opt/inputrc", b"four")
        .at(-4)
        .file("etc/other/inputrc", b"four")
        .at(0)
        .file("usr/lib/python3/__pycache__/a.cpython-311.pyc", b"x")
        .file("usr/lib/python3/__pycache__/b.cpython-311.pyc", b"x")
        .file("usr/lib/python3/__pycache__/a.txt", b"x")
        .folder("var/log/p")
        .file("var/log/p/access.log", b"")
        .file("var/log/p/error.log", b"x")
        .file("var/log/app/error.log", b"");
    check(
        &layer,
        &[
            ("usr/lib/python3/__pycache__/a.cpython-311.pyc", MADE),
            ("usr/lib/python3/__pycache__/b.cpython-311.pyc", "application"),
            ("usr/lib/python3/__pycache__/a.txt", "application"),
            ("etc/inputrc", MADE),
            ("root/.bashrc", MADE),
            ("opt/inputrc", "application"),
            ("etc/other/inputrc", "application"),
            ("var/log/p/access.log", MADE),
            ("var/log/p/error.log", "application"),
            ("var/log/app/error.log", "application"),
        ],
    );
}

#[test]
fn certificates_are_the_systems_only_where_no_others_can_be_among_them() {
    let bundle = "etc/ssl/certs/ca-certificates.crt";
    let layer = |content: &[u8]| {
        installed("/usr/share/ca-certificates/mozilla/a.crt\n/usr/share/ca-certificates/mozilla/b.crt\n")
            .file("usr/share/ca-certificates/mozilla/a.crt", b"AAAA\n")
            .file("usr/share/ca-certificates/mozilla/b.crt", b"BBBB")
            .symlink("etc/ssl/certs/a.pem", "/usr/share/ca-certificates/mozilla/a.crt")
            .symlink("etc/ssl/certs/0123abcd.0", "a.pem")
            .file("etc/ca-certificates.conf", b"x")
            .file(bundle, content)
    };
    let plain = || layer(b"AAAA\nBBBB\n");
    let all = ["etc/ssl/certs/a.pem", "etc/ssl/certs/0123abcd.0", "etc/ca-certificates.conf", bundle];
    check(&plain(), &all.map(|at| (at, MADE)));
    check(&plain(), &[("usr/share/ca-certificates/mozilla/a.crt", "package p")]);
    for own in [
        plain().file("usr/local/share/ca-certificates/corp.crt", b"CORP"),
        plain().symlink("etc/ssl/certs/corp.pem", "/usr/local/share/ca-certificates/corp.crt"),
        plain().file("etc/ssl/certs/corp.pem", b"CORP"),
        layer(b"AAAA\nBBBB\nCORP\n"),
        layer(b"AAAA\n"),
    ] {
        check(&own, &all.map(|at| (at, "application")));
        check(&own, &[("usr/share/ca-certificates/mozilla/a.crt", "application")]);
    }
    let rewritten = installed("").file(bundle, b"AAAA\nBBBB\n");
    check(&rewritten, &[(bundle, "application")]);
}

#[test]
fn folders_belong_with_what_they_lead_to() {
    let layer = installed("/usr/share/p\n/usr/share/p/x\n/usr/share/q\n/srv/unlisted/x\n")
        .folder("")
        .folder("usr")
        .folder("usr/share")
        .folder("usr/share/p")
        .file("usr/share/p/x", b"x")
        .folder("usr/share/q")
        .file("usr/share/q/mine", b"x")
        .folder("usr/share/q-like")
        .folder("srv")
        .folder("srv/unlisted")
        .file("srv/unlisted/x", b"x")
        .folder("opt")
        .folder("opt/app")
        .file("opt/app/x", b"x")
        .folder("data")
        .folder("home")
        .folder("tmp")
        .owned_by(0, 0o1777)
        .folder("var/log")
        .owned_by(65532, 0o755)
        .folder("var/tmp")
        .owned_by(0, 0o777)
        .folder("var/cache/apt")
        .folder("etc")
        .file("etc/passwd", b"x")
        .folder("mnt")
        .whiteout("mnt/old");
    check(
        &layer,
        &[
            ("", PASSAGE),
            ("usr", PASSAGE),
            ("usr/share", PASSAGE),
            ("usr/share/p", "package p"),
            ("usr/share/q", PASSAGE),
            ("usr/share/q-like", "application"),
            ("srv/unlisted", "directory of the system's files"),
            ("srv", "directory of every system"),
            ("opt", PASSAGE),
            ("opt/app", "application"),
            ("data", "application"),
            ("home", "directory of every system"),
            ("tmp", "directory of every system"),
            ("var/log", "application"),
            ("var/tmp", "application"),
            ("var/cache/apt", "package database"),
            ("etc", "directory of every system"),
            ("mnt", "directory of every system"),
            ("mnt/old", "whiteout"),
        ],
    );
}

#[test]
fn a_hard_link_that_stays_keeps_its_content() {
    let layer = installed("/usr/bin/a\n/usr/bin/b\n/usr/bin/c\n/usr/bin/d\n")
        .folder("usr/bin")
        .file("usr/bin/a", b"x")
        .hard_link("usr/bin/b", "usr/bin/a")
        .hard_link("opt/app", "usr/bin/b")
        .file("usr/bin/c", b"x")
        .file("opt/own", b"x")
        .hard_link("usr/bin/d", "opt/own")
        .hard_link("opt/lower", "usr/bin/not-here");
    let held = "content of a hard link that the application has";
    check(
        &layer,
        &[
            ("opt/app", "application"),
            ("usr/bin/b", held),
            ("usr/bin/a", held),
            ("usr/bin", PASSAGE),
            ("usr/bin/c", "package p"),
            ("opt/own", "application"),
            ("usr/bin/d", "package p"),
            ("opt/lower", "application"),
        ],
    );
}

#[test]
fn hard_links_in_a_circle_and_paths_that_are_there_twice_come_to_an_end() {
    let layer = installed("/x\n")
        .hard_link("a", "b")
        .hard_link("b", "a")
        .file("x", b"first")
        .hard_link("mine", "x")
        .file("x", b"second")
        .folder("x")
        .file("x/y", b"");
    let owners = of(&layer.index());
    let sides: Vec<Side> = owners.entries.iter().map(|owner| owner.side()).collect();
    assert!(sides[2..].iter().all(|side| *side != Side::Open), "{:?}", owners.entries);
    assert_eq!(owners.entries[4], Ownership::Held, "the link leads to the first");
}

#[test]
fn deep_and_many_folders_are_settled() {
    let deep = "d/".repeat(1000);
    let layer = (0..2000).fold(Layer::default(), |layer, number| layer.folder(&format!("{number}/{deep}")));
    let layer = layer.folder("d").file(&format!("{deep}x"), b"");
    let owners = of(&layer.index());
    assert!(owners.entries.iter().all(|owner| *owner == Ownership::Application));
}

#[test]
fn alpines_packages_leave_with_what_their_scripts_made() {
    const INSTALLED: &[u8] = b"P:busybox\nV:1.36.1-r29\nt:100\nF:bin\nR:busybox\n\n\
        P:ca-certificates\nV:20240226-r0\nt:100\nF:etc/ssl/certs\nR:ca-certificates.crt\n\
        F:usr/share/ca-certificates/mozilla\nR:a.crt\n\nP:alpine-baselayout\nV:3.6.5-r0\nt:100\nF:etc\nR:motd\n\n";
    let layer = |bundle: &[u8]| {
        Layer::default()
            .at(90)
            .file("bin/busybox", b"x")
            .file("usr/share/ca-certificates/mozilla/a.crt", b"AAAA\n")
            .at(200)
            .file("lib/apk/db/installed", INSTALLED)
            .file("etc/ssl/certs/ca-certificates.crt", bundle)
            .symlink("bin/ls", "/bin/busybox")
            .symlink("opt/ls", "/bin/busybox")
            .symlink("bin/app", "/opt/busybox")
            .file("etc/motd", b"mine")
    };
    check(
        &layer(b"AAAA\n"),
        &[
            ("bin/busybox", "package busybox"),
            ("bin/ls", MADE),
            ("opt/ls", "application"),
            ("bin/app", "application"),
            ("etc/ssl/certs/ca-certificates.crt", MADE),
            ("etc/motd", "changed file of package alpine-baselayout"),
            ("lib/apk/db/installed", "package database"),
        ],
    );
    check(&layer(b"AAAA\nCORP\n"), &[("etc/ssl/certs/ca-certificates.crt", "changed file of package ca-certificates")]);
}
