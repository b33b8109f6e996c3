//! What dpkg keeps below `/var/lib/dpkg`: `status` with a stanza for each package, `info/*.list` with
//! its files, `diversions`; and the form that distroless images have, `status.d/PACKAGE` with
//! `PACKAGE.md5sums` beside it.
//!
//! A list counts only with a stanza of the same layer that says that the package is installed.

use std::collections::HashMap;

use super::claims::{Age, Claimant, Claims};
use super::places::{File, Files};
use super::{Manager, Package};

pub(super) fn read(files: &Files<'_>, claims: &mut Claims<'_>) {
    read_lists(files, claims);
    read_status_folder(files, claims);
}

fn read_lists(files: &Files<'_>, claims: &mut Claims<'_>) {
    let stanzas = files.status.as_ref().map(stanzas).unwrap_or_default();
    let installed = Installed::of(&stanzas);
    let diversions = Diversions::read(files.diversions.as_ref());
    let mut unknown = 0;
    for list in &files.lists {
        let Some(stanza) = installed.find(list.name) else {
            unknown += usize::from(!list.content().is_empty());
            continue;
        };
        let by = claims.package(stanza.package(), Age::InstalledAt(list.mtime));
        for line in list.lines() {
            let Some(path) = line.strip_prefix(b"/") else { continue };
            claim(claims, diversions.real(path, stanza.name), by);
        }
    }
    if unknown > 0 {
        claims.note(format!("{unknown} lists of dpkg are of packages that are not installed in the same layer"));
    }
}

/// The lists of distroless are checksums: `HASH  PATH`. The folder is written by build tools, with
/// times that say nothing.
fn read_status_folder(files: &Files<'_>, claims: &mut Claims<'_>) {
    let sums = files.status_folder.iter().filter_map(|file| Some((file.name.strip_suffix(b".md5sums")?, file)));
    let sums: HashMap<&[u8], &File<'_>> = sums.collect();
    for file in &files.status_folder {
        let (Some(sums), Some(stanza)) = (sums.get(file.name), stanzas(file).into_iter().next()) else { continue };
        let by = claims.package(stanza.package(), Age::Unknown);
        for line in sums.lines() {
            let Some(at) = line.iter().position(|byte| *byte == b' ') else { continue };
            claim(claims, line.get(at..).unwrap_or_default().trim_ascii_start(), by);
        }
    }
}

fn claim(claims: &mut Claims<'_>, path: &[u8], by: Claimant) {
    if let Some(at) = claims.find(path) {
        claims.claim(at, by);
    }
}

/// One package of a status file.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stanza<'a> {
    pub(super) name: &'a str,
    version: &'a str,
    pub(super) architecture: &'a str,
    state: &'a str,
}

impl<'a> Stanza<'a> {
    /// The text of one package.
    pub(super) fn read(text: &'a [u8]) -> Self {
        let mut stanza = Self::default();
        text.split(|byte| *byte == b'\n').for_each(|line| read_field(line, &mut stanza));
        stanza
    }

    pub(super) fn package(&self) -> Package {
        Package { name: self.name.to_owned(), version: self.version.to_owned(), manager: Manager::Dpkg }
    }

    /// Whether its files are there: `WANT FLAG STATE`, of which the last word says it.
    pub(super) fn is_installed(&self) -> bool {
        const STATES: [&str; 5] = ["installed", "unpacked", "half-configured", "triggers-awaited", "triggers-pending"];
        self.state.split_ascii_whitespace().next_back().is_some_and(|state| STATES.contains(&state))
    }
}

/// The stanzas with a name; those without one are about nothing.
fn stanzas<'a>(file: &File<'a>) -> Vec<Stanza<'a>> {
    let mut stanzas = vec![Stanza::default()];
    for line in file.lines() {
        let is_begun = stanzas.last().is_some_and(|stanza| *stanza != Stanza::default());
        if line.is_empty() && is_begun {
            stanzas.push(Stanza::default());
        } else if let Some(stanza) = stanzas.last_mut() {
            read_field(line, stanza);
        }
    }
    stanzas.retain(|stanza| !stanza.name.is_empty());
    stanzas
}

fn read_field<'a>(line: &'a [u8], stanza: &mut Stanza<'a>) {
    // Continued lines begin with a blank, and so with no name of a field.
    let fields: [(&[u8], &mut &'a str); 4] = [
        (b"Package:", &mut stanza.name),
        (b"Version:", &mut stanza.version),
        (b"Architecture:", &mut stanza.architecture),
        (b"Status:", &mut stanza.state),
    ];
    for (name, field) in fields {
        if let Some(value) = line.strip_prefix(name) {
            *field = plain(value.trim_ascii()).unwrap_or_default();
        }
    }
}

/// A value that can stand in a report.
pub(super) fn plain(value: &[u8]) -> Option<&str> {
    const LONGEST: usize = 256;
    let is_plain = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    std::str::from_utf8(value).ok().filter(|value| value.len() <= LONGEST && value.bytes().all(|byte| is_plain(&byte)))
}

/// The installed packages by the names of their lists.
struct Installed<'a>(HashMap<(&'a str, &'a str), Stanza<'a>>);

impl<'a> Installed<'a> {
    fn of(stanzas: &[Stanza<'a>]) -> Self {
        let installed = stanzas.iter().filter(|stanza| stanza.is_installed());
        let names = |stanza: &Stanza<'a>| [((stanza.name, stanza.architecture), *stanza), ((stanza.name, ""), *stanza)];
        Self(installed.flat_map(names).collect())
    }

    /// `NAME.list`, or `NAME:ARCHITECTURE.list` where several may be installed.
    fn find(&self, list: &'a [u8]) -> Option<&Stanza<'a>> {
        let name = std::str::from_utf8(list.strip_suffix(b".list")?).ok()?;
        self.0.get(&name.split_once(':').unwrap_or((name, "")))
    }
}

/// Where files go that would have stood in the way of another package's.
pub(super) struct Diversions<'a>(HashMap<&'a [u8], (&'a [u8], &'a [u8])>);

impl<'a> Diversions<'a> {
    /// Three lines each: from, to, and the package that asked for it, or `:` for a person.
    fn read(file: Option<&File<'a>>) -> Self {
        Self::of(file.into_iter().flat_map(File::lines))
    }

    pub(super) fn of(mut lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut all = HashMap::new();
        while let (Some(from), Some(to), Some(by)) = (lines.next(), lines.next(), lines.next()) {
            if let (Some(from), Some(to)) = (from.strip_prefix(b"/"), to.strip_prefix(b"/")) {
                all.insert(from, (to, by));
            }
        }
        Self(all)
    }

    /// Where dpkg puts the file that `package` has at `path`: elsewhere, unless the package is the
    /// one that keeps the others away. Diversions are followed once, so they cannot go in circles.
    pub(super) fn real(&self, path: &'a [u8], package: &str) -> &'a [u8] {
        match self.0.get(path) {
            Some((to, by)) if *by != package.as_bytes() => to,
            _ => path,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Layer, path};
    use super::super::{Claim, LayerPackages, of};

    fn owner<'a>(packages: &'a LayerPackages, at: &str) -> Option<&'a str> {
        packages.owner(&path(at)).map(|package| package.name.as_str())
    }

    #[test]
    fn files_belong_to_the_package_whose_list_was_written_in_the_layer() {
        let layer = Layer::default()
            .dpkg(&[("curl", "7.88.1-10+deb12u15", "/.\n/usr\n/usr/bin\n/usr/bin/curl\n/bin/also\n")])
            .file("usr/bin/curl", b"x")
            .file("usr/bin/also", b"x")
            .file("usr/bin/app", b"x")
            .folder("usr/bin");
        let packages = of(&layer.index());
        for (at, name) in [
            ("usr/bin/curl", Some("curl")),
            ("usr/bin/also", Some("curl")),
            ("usr/bin", Some("curl")),
            ("usr/bin/app", None),
            ("usr/bin/absent", None),
        ] {
            assert_eq!(owner(&packages, at), name, "{at}");
        }
        assert_eq!(packages.packages[0].version, "7.88.1-10+deb12u15");
    }

    #[test]
    fn a_list_counts_only_for_an_installed_package_of_the_same_layer() {
        let list =
            |name: &str| Layer::default().file("x", b"").at(1).file(&format!("var/lib/dpkg/info/{name}.list"), b"/x\n");
        let status = |layer: Layer, text: &str| layer.file("var/lib/dpkg/status", text.as_bytes());
        let stanza = |state: &str| format!("Package: p\nStatus: {state}\nArchitecture: amd64\nVersion: 1\n");
        for (layer, owned) in [
            (status(list("p"), &stanza("install ok installed")), true),
            (status(list("p:amd64"), &stanza("hold ok installed")), true),
            (status(list("p"), &stanza("install ok triggers-pending")), true),
            (status(list("p"), &format!("Package: q\n a\n\n\n{}", stanza("install ok installed"))), true),
            (status(list("p:arm64"), &stanza("install ok installed")), false),
            (status(list("p"), &stanza("deinstall ok config-files")), false),
            (status(list("q"), &stanza("install ok installed")), false),
            (status(list("p"), ""), false),
            (list("p"), false),
        ] {
            let packages = of(&layer.index());
            assert_eq!(owner(&packages, "x").is_some(), owned);
            assert_eq!(packages.notes.is_empty(), owned, "{:?}", packages.notes);
        }
    }

    #[test]
    fn a_diverted_file_is_the_other_packages() {
        let layer = Layer::default()
            .dpkg(&[("dash", "1", "/bin/sh\n/bin/dash\n"), ("other", "1", "/bin/sh\n/bin/local\n")])
            .file("var/lib/dpkg/diversions", b"/bin/sh\n/bin/sh.distrib\ndash\n/bin/local\n/bin/local.away\n:\n/cut\n")
            .file("bin/sh", b"")
            .file("bin/sh.distrib", b"")
            .file("bin/local", b"")
            .file("bin/local.away", b"");
        let packages = of(&layer.index());
        assert_eq!(owner(&packages, "bin/sh"), Some("dash"));
        assert_eq!(owner(&packages, "bin/sh.distrib"), Some("other"));
        assert_eq!(owner(&packages, "bin/local"), None);
        assert_eq!(owner(&packages, "bin/local.away"), Some("other"));
    }

    #[test]
    fn distroless_has_a_stanza_and_checksums_for_each_package() {
        let layer = Layer::default()
            .file("var/lib/dpkg/status.d/tzdata", b"Package: tzdata\nVersion: 2024b\nArchitecture: all\n")
            .file("var/lib/dpkg/status.d/tzdata.md5sums", b"0123  usr/share/zoneinfo/UTC\nno-blank\n")
            .file("usr/share/zoneinfo/UTC", b"")
            .file("usr/share/zoneinfo/Mine", b"");
        let packages = of(&layer.index());
        assert_eq!(owner(&packages, "usr/share/zoneinfo/UTC"), Some("tzdata"));
        assert_eq!(owner(&packages, "usr/share/zoneinfo/Mine"), None);
    }

    #[test]
    fn a_file_that_is_newer_than_the_installation_was_changed() {
        // The list was written at 1000; the newest file of the layer is of 2000.
        for (mtime, newest, claim) in [
            (900, 2000, Claim::Owned(0)),
            (1001, 2000, Claim::Changed(0)),
            (1000, 2000, Claim::Changed(0)),
            (1000, 1000, Claim::Owned(0)),
        ] {
            let layer = Layer::default()
                .at(1000)
                .dpkg(&[("nginx", "1", "/etc/nginx.conf\n/etc\n")])
                .at(newest)
                .file("var/log/dpkg.log", b"")
                .folder("etc")
                .at(mtime)
                .file("etc/nginx.conf", b"")
                .at(1)
                .file("old", b"");
            let packages = of(&layer.index());
            assert_eq!(packages.claim(&path("etc/nginx.conf")), Some(claim), "{mtime} {newest}");
            assert_eq!(packages.claim(&path("etc")), Some(Claim::Owned(0)), "folders change with what is put in them");
        }
    }

    #[test]
    fn hostile_files_are_read_to_their_end() {
        let long = vec![b'a'; 4 << 20];
        let lines = b"/..\n\0\n//\n/x\n".repeat(100_000);
        let stanzas = b"Package: p\nPackage: \xff\n\nStatus:\n".repeat(100_000);
        for (status, list) in [(&long, &long), (&lines, &lines), (&stanzas, &lines), (&lines, &stanzas)] {
            let layer = Layer::default()
                .file("x", b"")
                .file("var/lib/dpkg/status", status)
                .file("var/lib/dpkg/info/p.list", list)
                .file("var/lib/dpkg/diversions", list)
                .file("var/lib/dpkg/status.d/p", status)
                .file("var/lib/dpkg/status.d/p.md5sums", list)
                .file("lib/apk/db/installed", list);
            assert_eq!(owner(&of(&layer.index()), "x"), None);
        }
    }
}
