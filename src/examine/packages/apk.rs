//! What apk keeps in `/lib/apk/db/installed`: a stanza for each package, with `P:` its name, `V:` its
//! version, `t:` when it was made, `F:` a folder and `R:` a file in the folder before it.
//!
//! apk writes this file whole whenever it installs anything, so it also lists packages of lower
//! layers. That a file came with its package shows by its time: apk gives it the package's.

use super::claims::{Age, Claims};
use super::dpkg::plain;
use super::places::{File, Files};
use super::{Manager, Package};

pub(super) fn read(files: &Files<'_>, claims: &mut Claims<'_>) {
    for file in &files.apk {
        for stanza in stanzas(file.content()) {
            read_stanza(stanza, file, claims);
        }
    }
}

/// The text of each package: they are parted by empty lines.
pub(super) fn stanzas(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(content);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text.windows(2).position(|pair| pair == b"\n\n");
        rest = end.and_then(|end| text.get(end + 2..));
        end.map_or(Some(text), |end| text.get(..end))
    })
}

fn read_stanza(text: &[u8], file: &File<'_>, claims: &mut Claims<'_>) {
    let lines = || text.split(|byte| *byte == b'\n');
    let value = |key: &[u8]| lines().find_map(|line| plain(line.strip_prefix(key)?));
    let Some(name) = value(b"P:").filter(|name| !name.is_empty()) else { return };
    let found = entries(lines(), claims);
    if found.is_empty() {
        return;
    }
    let age = match value(b"t:").and_then(|made| made.parse().ok()) {
        Some(made) => Age::MadeAt(made),
        None => Age::InstalledAt(file.mtime),
    };
    let version = value(b"V:").unwrap_or_default().to_owned();
    let by = claims.package(Package { name: name.to_owned(), version, manager: Manager::Apk }, age);
    for at in found {
        claims.claim(at, by);
    }
}

/// The entries of the layer that the lines name.
fn entries<'l>(lines: impl Iterator<Item = &'l [u8]>, claims: &Claims<'_>) -> Vec<usize> {
    let mut found = Vec::new();
    let mut folder = None;
    for line in lines {
        if let Some(path) = line.strip_prefix(b"F:") {
            folder = Some(claims.folder(path));
            found.extend(claims.find(path));
        } else if let (Some(name), Some(folder)) = (line.strip_prefix(b"R:"), folder) {
            found.extend(folder.find(name));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Layer, path};
    use super::super::{Claim, of};

    /// As apk-tools 2.14 writes it.
    const INSTALLED: &[u8] = b"C:Q1qKcZ+j23xssAXmgQhkOO8dHnbWw=
P:musl
V:1.2.5-r0
A:x86_64
S:383459
t:1714513500
c:e11e8b9e8b1a2b3a
F:lib
R:ld-musl-x86_64.so.1
a:0:0:755
Z:Q1RIOTt0hRk3JWPZ0aRX3G+0/N3hI=
R:libc.musl-x86_64.so.1
a:0:0:777

C:Q1wm1ELkHX9F6bbY+NJ9PTbHpyWpY=
P:curl
V:8.7.1-r0
t:1714600000
F:usr
F:usr/bin
R:curl
a:0:0:755
Z:Q1hs6AhZT8dBqKqzYQCyVWXfHu7RA=
F:etc
R:curlrc

";

    #[test]
    fn files_belong_to_the_package_that_names_them() {
        let layer = Layer::default()
            .at(1_714_513_500)
            .file("lib/apk/db/installed", INSTALLED)
            .file("lib/ld-musl-x86_64.so.1", b"")
            .file("usr/bin/curl", b"")
            .file("usr/bin/app", b"")
            .file("curl", b"")
            .at(1_714_600_001)
            .file("etc/curlrc", b"")
            .folder("usr/bin");
        let packages = of(&layer.index());
        let names: Vec<_> = packages.packages.iter().map(|p| (p.name.as_str(), p.version.as_str())).collect();
        assert_eq!(names, [("musl", "1.2.5-r0"), ("curl", "8.7.1-r0")]);
        for (at, claim) in [
            ("lib/ld-musl-x86_64.so.1", Some(Claim::Owned(0))),
            ("usr/bin/curl", Some(Claim::Owned(1))),
            ("usr/bin", Some(Claim::Owned(1))),
            ("etc/curlrc", Some(Claim::Changed(1))),
            ("usr/bin/app", None),
            ("curl", None),
        ] {
            assert_eq!(packages.claim(&path(at)), claim, "{at}");
        }
    }

    #[test]
    fn packages_without_a_file_in_the_layer_are_not_listed() {
        let layer = Layer::default().file("lib/apk/db/installed", INSTALLED).file("app", b"");
        assert!(of(&layer.index()).packages.is_empty());
    }

    #[test]
    fn without_a_time_of_making_the_database_itself_is_the_measure() {
        for (mtime, claim) in [(900, Claim::Owned(0)), (1001, Claim::Changed(0))] {
            let layer = Layer::default()
                .at(1000)
                .file("usr/lib/apk/db/installed", b"P:p\nF:etc\nR:p.conf\n")
                .at(mtime)
                .file("etc/p.conf", b"");
            assert_eq!(of(&layer.index()).claim(&path("etc/p.conf")), Some(claim), "{mtime}");
        }
    }

    #[test]
    fn times_that_are_all_the_same_say_nothing() {
        for (other, claim) in [(2000, Claim::Owned(0)), (1000, Claim::Changed(0))] {
            let layer = Layer::default()
                .at(2000)
                .file("lib/apk/db/installed", b"P:p\nt:1000\nF:etc\nR:p.conf\n")
                .file("etc/p.conf", b"")
                .at(other)
                .file("app", b"");
            let packages = of(&layer.index());
            assert_eq!(packages.claim(&path("etc/p.conf")), Some(claim), "{other}");
            assert_eq!(packages.changes_unseen, other == 2000);
        }
    }

    #[test]
    fn hostile_databases_are_read_to_their_end() {
        let deep = [b"P:p\nF:".as_slice(), &vec![b'a'; 4 << 20], &b"\nR:a".repeat(500_000)].concat();
        let many = b"P:p\nF:..\nR:..\nR:/\nF:\nR:\n\n\n".repeat(100_000);
        for content in [deep, many, b"R:x\nF:x\nP:\n".to_vec()] {
            let layer = Layer::default().file("x", b"").file("lib/apk/db/installed", &content);
            assert_eq!(of(&layer.index()).claim(&path("x")), None);
        }
    }
}
