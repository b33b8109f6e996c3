//! What goes with packages of which something is brought: copyright file and metadata, so that scanners still see them;
//! and what stays behind of them.

use super::scene::Wanted;
use super::scene::{BringScene, Carried, Choice};
use super::{BringConflict, BringName, BroughtKind};
use crate::examine::packages::{InstalledPackage, Manager};
use layer::RootPath;

const STATUS_DIRECTORY: &str = "var/lib/dpkg/status.d";
/// The first is where a base without one gets it.
const APK_DATABASES: [&str; 2] = ["lib/apk/db/installed", "usr/lib/apk/db/installed"];

impl BringScene<'_> {
    /// Copyright file and metadata of every package of which something is brought.
    pub(super) fn describe_packages(&self, choice: &mut Choice) {
        for name in choice.packages.clone() {
            let Some(package) = self.packages.find(&name) else { continue };
            if let Ok(path) = RootPath::new(format!("usr/share/doc/{name}/copyright")) {
                self.want(&path, Wanted::Needed, choice);
            }
            self.check_version(package, choice);
            if package.package.manager == Manager::Dpkg {
                self.describe(package, choice);
            }
        }
        let apk = choice.packages.iter().filter_map(|name| self.packages.find(name));
        let apk: Vec<_> = apk.filter(|package| package.package.manager == Manager::Apk).collect();
        let is_new = |package: &&InstalledPackage<'_>| self.packages_there.find(&package.package.name).is_none();
        let apk: Vec<_> = apk.into_iter().filter(is_new).collect();
        if let Some(place) = self.apk_place().filter(|_| !apk.is_empty()) {
            let content = self.apk_database(&place, &apk);
            choice.insert(place, Carried::Content(content));
        }
    }

    /// Where the new base has its database, without links on the way.
    fn apk_place(&self) -> Option<RootPath> {
        let paths = || APK_DATABASES.iter().filter_map(|path| RootPath::new(*path).ok());
        let found = paths().find_map(|path| self.rebased.resolve(&path).ok());
        found.map(|found| found.path).or_else(|| self.place(&paths().next()?))
    }

    /// A root cannot have one package in two versions.
    fn check_version(&self, package: &InstalledPackage<'_>, choice: &mut Choice) {
        let name = &package.package.name;
        let Some(there) = self.packages_there.find(name) else { return };
        if there.package.version != package.package.version {
            let path = package.files.first().cloned().unwrap_or_default();
            let why = format!(
                "the new base has package {name} in version {}, the source in version {}",
                there.package.version, package.package.version
            );
            choice.conflicts.push(BringConflict { path, why });
        }
    }

    /// As distroless images have it: `status.d/NAME`, and the checksums beside it.
    fn describe(&self, package: &InstalledPackage<'_>, choice: &mut Choice) {
        let name = &package.package.name;
        if self.packages_there.find(name).is_some() {
            return;
        }
        let Ok(place) = RootPath::new(format!("{STATUS_DIRECTORY}/{name}")) else { return };
        choice.insert(place, Carried::Content(control(package.stanza)));
        let sums = RootPath::new(format!("{STATUS_DIRECTORY}/{name}.md5sums")).ok();
        if let (Some(place), Some(real)) = (sums, &package.checksums) {
            choice.insert(place, Carried::Copy(real.clone()));
        }
    }

    /// The new base's database, and what is brought. Packages are parted by an empty line.
    fn apk_database(&self, place: &RootPath, packages: &[&InstalledPackage<'_>]) -> Vec<u8> {
        let there = self.rebased.get(place).and_then(|node| self.rebased.content(node)).unwrap_or_default();
        let gap: &[u8] = match there {
            [] | [.., b'\n', b'\n'] => b"",
            [.., b'\n'] => b"\n",
            _ => b"\n\n",
        };
        let new = packages.iter().flat_map(|package| [package.stanza.trim_ascii(), b"\n\n"]);
        [there, gap].into_iter().chain(new).collect::<Vec<_>>().concat()
    }

    /// What belongs to what was named and stays behind.
    pub(super) fn left(&self, name: &BringName, kind: &BroughtKind, choice: &Choice) -> Vec<String> {
        match kind {
            BroughtKind::Package(_) => self.dependencies_left(name, choice),
            BroughtKind::Program | BroughtKind::Path => self.rest_of_packages(name, choice),
        }
    }

    /// Packages that it depends on and of which nothing is there: no script of a package is run, and no package but this
    /// one is installed.
    fn dependencies_left(&self, name: &BringName, choice: &Choice) -> Vec<String> {
        let package = self.packages.find(&name.to_string());
        let names = package.into_iter().flat_map(|package| dependencies(package.stanza));
        let is_file = |path: &&RootPath| self.source.get(path).is_some_and(|node| !node.is_directory());
        let is_absent = |name: &&str| {
            let files = self.packages.find(name).map(|package| package.files.iter().filter(is_file));
            files.is_some_and(|mut files| {
                !files.any(|real| self.place(real).is_some_and(|place| self.is_in_result(&place, choice)))
            })
        };
        let absent: Vec<&str> = names.filter(is_absent).collect();
        if absent.is_empty() { Vec::new() } else { vec![format!("packages that it depends on: {}", absent.join(", "))] }
    }

    /// The other files of the package that a program belongs to, such as plugins.
    fn rest_of_packages(&self, name: &BringName, choice: &Choice) -> Vec<String> {
        let path = match name {
            BringName::Path(path) => self.source.resolve(path).ok().map(|found| found.path),
            BringName::Name(name) => {
                self.source.search(name, &self.paths, &RootPath::root()).ok().map(|found| found.file.path)
            }
        };
        let Some(owner) = path.and_then(|path| self.packages.owner(&path)) else { return Vec::new() };
        let is_left = |path: &&RootPath| {
            let is_file = self.source.get(path).is_some_and(|node| !node.is_directory());
            is_file && self.place(path).is_some_and(|place| !self.is_in_result(&place, choice))
        };
        let count = owner.files.iter().filter(is_left).count();
        let name = &owner.package.name;
        let files = match count {
            0 => return Vec::new(),
            1 => "1 other file".to_owned(),
            count => format!("{count} other files"),
        };
        vec![format!("{files} of package {name}, such as plugins; --bring {name} brings all of it")]
    }
}

/// What the package itself says: the stanza without what dpkg noted of its installation.
fn control(stanza: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut is_noted = false;
    for line in stanza.trim_ascii().split(|byte| *byte == b'\n') {
        if !line.starts_with(b" ") {
            is_noted = [&b"Status:"[..], b"Conffiles:", b"Config-Version:"].iter().any(|name| line.starts_with(name));
        }
        if !is_noted {
            out.extend_from_slice(line);
            out.push(b'\n');
        }
    }
    out
}

/// The first choice of each dependency.
fn dependencies(stanza: &[u8]) -> Vec<&str> {
    let lines = stanza.split(|byte| *byte == b'\n');
    let listed = lines.filter_map(|line| line.strip_prefix(b"Depends:").or_else(|| line.strip_prefix(b"Pre-Depends:")));
    let listed = listed.filter_map(|line| std::str::from_utf8(line).ok()).flat_map(|line| line.split(','));
    let name = |text: &'_ str| text.split(['|', '(', ':', ' ']).find(|part| !part.is_empty()).map(str::len);
    listed
        .filter_map(|text| {
            let text = text.trim();
            text.get(..name(text)?)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_what_the_package_says_of_itself() {
        let stanza = b"Package: a\nStatus: install ok installed\nConffiles:\n /etc/a 0\n /etc/b 0\nVersion: 1\nDescription: x\n y\n";
        assert_eq!(control(stanza), b"Package: a\nVersion: 1\nDescription: x\n y\n");
        assert_eq!(control(b""), b"\n");
    }

    #[test]
    fn of_each_dependency_the_first_choice_counts() {
        let stanza = b"Depends: libc6 (>= 2.34), a:any | b , c\nPre-Depends: d\nRecommends: e\n";
        assert_eq!(dependencies(stanza), ["libc6", "a", "c", "d"]);
        assert_eq!(dependencies(b"Depends: ,, (\n"), Vec::<&str>::new());
    }
}
