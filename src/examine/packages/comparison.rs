//! The packages of two roots, held against each other: what left, what arrived, what has another version, what
//! stayed. A package is the same where manager and name are; its versions are what is compared, since a root may have
//! one name for several machines.

use std::collections::{BTreeMap, BTreeSet};

use super::{Manager, Package, RootPackages};

/// How the packages of one root became those of another; each list is sorted by manager and name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageChanges {
    pub left: Vec<Package>,
    /// What the files of those that left took.
    pub left_bytes: u64,
    pub arrived: Vec<Package>,
    /// Both have it, in other versions.
    pub changed: Vec<ChangedPackage>,
    pub stayed: Vec<Package>,
    /// Whether a database of either root was not read: then nothing here is whole.
    pub is_partial: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedPackage {
    pub name: String,
    pub manager: Manager,
    pub before: String,
    pub after: String,
}

type Versions<'a> = BTreeMap<(Manager, &'a str), BTreeSet<&'a str>>;

impl PackageChanges {
    #[must_use]
    pub fn between(from: &RootPackages<'_>, to: &RootPackages<'_>) -> Self {
        let (before, after) = (versions(from), versions(to));
        let mut changes = Self { is_partial: !from.unread.is_empty() || !to.unread.is_empty(), ..Self::default() };
        for (key, old) in &before {
            match after.get(key) {
                None => changes.left.push(package(*key, old)),
                Some(new) if new == old => changes.stayed.push(package(*key, old)),
                Some(new) => {
                    let (manager, name) = (key.0, key.1.to_owned());
                    changes.changed.push(ChangedPackage { name, manager, before: joined(old), after: joined(new) });
                }
            }
        }
        let has_left = |package: &Package| !after.contains_key(&(package.manager, package.name.as_str()));
        let left = from.packages.iter().filter(|it| has_left(&it.package));
        changes.left_bytes = left.fold(0, |sum, it| sum.saturating_add(it.bytes));
        let new = after.iter().filter(|(key, _)| !before.contains_key(*key));
        changes.arrived = new.map(|(key, versions)| package(*key, versions)).collect();
        changes
    }

    /// Whether neither root has a package that is known of.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stayed.is_empty() && self.is_same()
    }

    /// Whether both have the same packages: if their bytes differ, it is not by a package's version.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.left.is_empty() && self.arrived.is_empty() && self.changed.is_empty()
    }
}

fn versions<'a>(of: &'a RootPackages<'_>) -> Versions<'a> {
    let mut versions = Versions::new();
    for Package { name, version, manager } in of.packages.iter().map(|package| &package.package) {
        versions.entry((*manager, name)).or_default().insert(version);
    }
    versions
}

fn package((manager, name): (Manager, &str), versions: &BTreeSet<&str>) -> Package {
    Package { name: name.to_owned(), version: joined(versions), manager }
}

fn joined(versions: &BTreeSet<&str>) -> String {
    versions.iter().copied().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::testing::Layer;
    use super::*;
    use start::rootfs::merge;

    fn changes(from: &Layer, to: &Layer) -> PackageChanges {
        let (from, to) = ([from.index()], [to.index()]);
        let (from, to) = (merge(&from), merge(&to));
        PackageChanges::between(&RootPackages::of(&from), &RootPackages::of(&to))
    }

    fn words(packages: &[Package]) -> Vec<String> {
        packages.iter().map(|package| format!("{} {}", package.name, package.version)).collect()
    }

    /// Packages of one file each, as dpkg has them.
    fn dpkg(packages: &[(&str, &str)]) -> Layer {
        let lists: Vec<(&str, &str, String)> =
            packages.iter().map(|(name, version)| (*name, *version, format!("/usr/lib/{name}\n"))).collect();
        let rows: Vec<(&str, &str, &str)> = lists.iter().map(|(a, b, list)| (*a, *b, list.as_str())).collect();
        packages
            .iter()
            .fold(Layer::default().dpkg(&rows), |layer, (name, _)| layer.file(&format!("usr/lib/{name}"), b"x"))
    }

    #[test]
    fn packages_leave_arrive_change_and_stay() {
        let from = dpkg(&[("bash", "5.2"), ("libc6", "2.36-9"), ("tzdata", "2024a")]);
        let to = Layer::default()
            .file("var/lib/dpkg/status.d/libc6", b"Package: libc6\nVersion: 2.36-10\n")
            .file("var/lib/dpkg/status.d/tzdata", b"Package: tzdata\nVersion: 2024a\n")
            .file("var/lib/dpkg/status.d/netbase", b"Package: netbase\nVersion: 6.4\n");
        let found = changes(&from, &to);
        assert_eq!(words(&found.left), ["bash 5.2"]);
        assert_eq!(words(&found.arrived), ["netbase 6.4"]);
        assert_eq!(found.left_bytes, 1, "the one file of bash");
        assert_eq!(words(&found.stayed), ["tzdata 2024a"]);
        let [ChangedPackage { name, before, after, .. }] = &found.changed[..] else { panic!("{found:?}") };
        assert_eq!((name.as_str(), before.as_str(), after.as_str()), ("libc6", "2.36-9", "2.36-10"));
        assert!(!found.is_same() && !found.is_empty());
        let back = changes(&to, &from);
        assert_eq!((words(&back.left), words(&back.arrived)), (words(&found.arrived), words(&found.left)));
        assert!(changes(&from, &from).is_same());
        assert!(changes(&Layer::default(), &Layer::default()).is_empty());
    }

    #[test]
    fn one_name_for_two_machines_or_in_two_databases_is_one_package() {
        let two = |other: &str| {
            let status = format!(
                "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2\n\n\
                 Package: libc6\nStatus: install ok installed\nArchitecture: i386\nVersion: {other}\n"
            );
            Layer::default()
                .file("var/lib/dpkg/status", status.as_bytes())
                .file("var/lib/dpkg/info/libc6:amd64.list", b"/lib/a\n")
                .file("var/lib/dpkg/info/libc6:i386.list", b"/lib/b\n")
                .file("lib/a", b"")
                .file("lib/b", b"")
        };
        assert_eq!(words(&changes(&two("2"), &two("2")).stayed), ["libc6 2"]);
        let [ChangedPackage { before, after, .. }] = &changes(&two("2"), &two("3")).changed[..] else { panic!() };
        assert_eq!((before.as_str(), after.as_str()), ("2", "2, 3"));
        let twice = dpkg(&[("libc6", "2")]).file("var/lib/dpkg/status.d/libc6", b"Package: libc6\nVersion: 2\n");
        assert_eq!(words(&changes(&twice, &twice).stayed), ["libc6 2"]);
    }

    #[test]
    fn a_package_none_of_whose_files_is_there_is_not_there() {
        let stale =
            Layer::default().dpkg(&[("gone", "1", "/.\n/usr/bin/gone\n"), ("meta", "1", "/.\n"), ("bare", "1", "")]);
        assert_eq!(words(&changes(&stale, &stale).stayed), ["bare 1", "meta 1"]);
        let sums = Layer::default()
            .file("var/lib/dpkg/status.d/gone", b"Package: gone\nVersion: 1\n")
            .file("var/lib/dpkg/status.d/gone.md5sums", b"00  usr/bin/gone\n");
        assert!(changes(&sums, &sums).is_empty());
    }

    #[test]
    fn a_database_that_was_not_read_is_named() {
        for path in
            ["var/lib/rpm/rpmdb.sqlite", "var/lib/dpkg/status", "lib/apk/db/installed", "var/lib/dpkg/status.d/x"]
        {
            let index = [Layer::default().unread(path).index()];
            let root = merge(&index);
            let unread: Vec<String> = RootPackages::of(&root).unread.iter().map(ToString::to_string).collect();
            assert_eq!(unread, [format!("/{path}")]);
            assert!(changes(&Layer::default(), &Layer::default().unread(path)).is_partial);
        }
        assert!(!changes(&dpkg(&[("a", "1")]), &Layer::default()).is_partial);
    }

    #[test]
    fn apk_packages_are_read_once_where_two_paths_lead_to_one_database() {
        let layer = Layer::default()
            .symlink("lib", "usr/lib")
            .file("usr/lib/apk/db/installed", b"P:musl\nV:1.2.5-r0\nA:x86_64\nL:MIT\no:musl\nF:usr/lib\nR:ld.so\n\n")
            .file("usr/lib/ld.so", b"x");
        let index = [layer.index()];
        let root = merge(&index);
        let packages = RootPackages::of(&root).packages;
        let [musl] = &packages[..] else { panic!("{packages:?}") };
        assert_eq!(
            (musl.architecture(), musl.licence(), musl.built_from()),
            ("x86_64", Some("MIT"), Some(("musl", "1.2.5-r0")))
        );
    }

    #[test]
    fn hostile_databases_give_names_that_can_be_written() {
        let long =
            [b"Package: a\nStatus: install ok installed\nVersion: ".as_slice(), &vec![b'9'; 7 << 20], b"\n"].concat();
        let odd = b"Package: a\nb\nStatus: install ok installed\n\nPackage: \xff\xfe\nStatus: install ok installed\n\n\
            Package: \x1b[31m\nStatus: install ok installed\n\nPackage: ok\nStatus: install ok installed\nVersion: \xff\n"
            .to_vec();
        let many = b"Package: a\nStatus: install ok installed\nVersion: 1\n\n".repeat(100_000);
        for (content, expected) in [(long, vec!["a "]), (odd, vec!["a ", "ok "]), (many, vec!["a 1"])] {
            let layer = Layer::default().file("var/lib/dpkg/status", &content);
            assert_eq!(words(&changes(&layer, &layer).stayed), expected);
        }
    }
}
