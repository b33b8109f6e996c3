//! The packages of a whole root, with their files: what the databases say that a container would see.
//!
//! Other than the claims on one layer this does not ask who wrote a file last: whoever asks for a package gets
//! what is at its paths. A package whose database cannot be read is not there.

use std::collections::HashMap;

use super::apk;
use super::dpkg::{Diversions, Stanza, plain};
use super::{Manager, Package};
use crate::layer::RootPath;
use crate::rootfs::Root;

const STATUS: &str = "var/lib/dpkg/status";
const DIVERSIONS: &str = "var/lib/dpkg/diversions";
const INFO: &str = "var/lib/dpkg/info";
/// Where distroless images have their packages.
const STATUS_DIRECTORY: &str = "var/lib/dpkg/status.d";
const APK: [&str; 2] = ["lib/apk/db/installed", "usr/lib/apk/db/installed"];

/// A package with its files.
#[derive(Debug)]
pub struct InstalledPackage<'r> {
    pub package: Package,
    /// What the root has at its paths, without links on the way; in the order of the list.
    pub files: Vec<RootPath>,
    /// What the package manager knows of it.
    pub stanza: &'r [u8],
    /// The file with the checksums of its files.
    pub checksums: Option<RootPath>,
}

/// All packages of a root.
#[derive(Debug, Default)]
pub struct InstalledPackages<'r> {
    packages: Vec<InstalledPackage<'r>>,
    by_name: HashMap<String, usize>,
    owners: HashMap<RootPath, usize>,
}

impl<'r> InstalledPackages<'r> {
    #[must_use]
    pub fn of(root: &Root<'r>) -> Self {
        let mut packages = Self::default();
        let mut paths = RealPaths { root, directories: HashMap::new() };
        packages.read_lists(&mut paths);
        packages.read_status_directory(&mut paths);
        packages.read_apk(&mut paths);
        packages
    }

    /// By name, or as dpkg writes it for several architectures, `NAME:ARCHITECTURE`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&InstalledPackage<'r>> {
        self.by_name.get(name).and_then(|at| self.packages.get(*at))
    }

    /// The package that has this path, which has no links on its way. Directories belong to many.
    #[must_use]
    pub fn owner(&self, path: &RootPath) -> Option<&InstalledPackage<'r>> {
        self.owners.get(path).and_then(|at| self.packages.get(*at))
    }

    fn read_lists(&mut self, paths: &mut RealPaths<'_, 'r>) {
        let stanzas = apk::stanzas(paths.content(STATUS)).map(|text| (text, Stanza::read(text)));
        let stanzas: Vec<_> = stanzas.filter(|(_, stanza)| stanza.is_installed() && !stanza.name.is_empty()).collect();
        let diversions = Diversions::of(lines(paths.content(DIVERSIONS)));
        for (text, stanza) in stanzas {
            let name = stanza.name;
            let suffixed = format!("{name}:{}", stanza.architecture);
            let list = |name: &str| paths.content(&format!("{INFO}/{name}.list"));
            let used = if list(&suffixed).is_empty() { name } else { &suffixed };
            // A list is read once, however many stanzas lead to it.
            if self.by_name.contains_key(used) {
                continue;
            }
            let listed = lines(list(used)).filter_map(|line| line.strip_prefix(b"/"));
            let listed: Vec<&[u8]> = listed.map(|path| diversions.real(path, name)).collect();
            let checksums = paths.real(format!("{INFO}/{used}.md5sums").as_bytes());
            let files = paths.all(listed);
            self.add(InstalledPackage { package: stanza.package(), files, stanza: text, checksums }, Some(suffixed));
        }
    }

    fn read_status_directory(&mut self, paths: &mut RealPaths<'_, 'r>) {
        let Ok(directory) = RootPath::new(STATUS_DIRECTORY) else { return };
        let root = paths.root;
        let names = root.directory(&directory).filter(|(name, _)| !name.ends_with(b".md5sums"));
        for (name, node) in names {
            let Some(text) = root.content(node) else { continue };
            let stanza = Stanza::read(text);
            if stanza.name.is_empty() {
                continue;
            }
            let checksums = paths.real(&[STATUS_DIRECTORY.as_bytes(), b"/", name, b".md5sums"].concat());
            let sums = checksums.as_ref().and_then(|path| root.content(root.get(path)?)).unwrap_or_default();
            let listed = lines(sums).filter_map(|line| {
                let at = line.iter().position(|byte| *byte == b' ')?;
                line.get(at..).map(<[u8]>::trim_ascii_start)
            });
            let files = paths.all(listed.collect());
            self.add(InstalledPackage { package: stanza.package(), files, stanza: text, checksums }, None);
        }
    }

    fn read_apk(&mut self, paths: &mut RealPaths<'_, 'r>) {
        let contents = APK.map(|path| paths.content(path));
        for text in contents.into_iter().flat_map(apk::stanzas) {
            let value = |key: &[u8]| lines(text).find_map(|line| plain(line.strip_prefix(key)?));
            let Some(name) = value(b"P:").filter(|name| !name.is_empty()).map(str::to_owned) else { continue };
            let version = value(b"V:").unwrap_or_default().to_owned();
            let mut files = Vec::new();
            let mut directory: &[u8] = b"";
            for line in lines(text) {
                if let Some(path) = line.strip_prefix(b"F:") {
                    directory = path;
                    files.extend(paths.real(path));
                } else if let Some(name) = line.strip_prefix(b"R:") {
                    files.extend(paths.real_in(directory, name));
                }
            }
            let package = Package { name, version, manager: Manager::Apk };
            self.add(InstalledPackage { package, files, stanza: text, checksums: None }, None);
        }
    }

    /// Of two packages of a name the first counts, and the last owner of a path.
    fn add(&mut self, package: InstalledPackage<'r>, also: Option<String>) {
        let at = self.packages.len();
        for name in [Some(package.package.name.clone()), also].into_iter().flatten() {
            self.by_name.entry(name).or_insert(at);
        }
        self.owners.extend(package.files.iter().map(|path| (path.clone(), at)));
        self.packages.push(package);
    }
}

fn lines(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    content.split(|byte| *byte == b'\n')
}

/// Where listed paths are in the root. A directory is resolved once, however many files it is said to have.
struct RealPaths<'a, 'r> {
    root: &'a Root<'r>,
    directories: HashMap<Vec<u8>, Option<RootPath>>,
}

impl<'r> RealPaths<'_, 'r> {
    /// The content of a file; nothing where there is none, or it was not captured.
    fn content(&self, path: &str) -> &'r [u8] {
        let found = RootPath::new(path).ok().and_then(|path| self.root.content(self.root.get(&path)?));
        found.unwrap_or_default()
    }

    fn all(&mut self, listed: Vec<&[u8]>) -> Vec<RootPath> {
        listed.into_iter().filter_map(|path| self.real(path)).collect()
    }

    /// A path without links on the way, where the root has something there.
    fn real(&mut self, listed: &[u8]) -> Option<RootPath> {
        match listed.iter().rposition(|byte| *byte == b'/') {
            Some(at) => self.real_in(listed.get(..at)?, listed.get(at + 1..)?),
            None => self.real_in(b"", listed),
        }
    }

    fn real_in(&mut self, directory: &[u8], name: &[u8]) -> Option<RootPath> {
        if name.is_empty() || matches!(name, b"." | b"..") {
            return None;
        }
        if !self.directories.contains_key(directory) {
            let resolved = RootPath::new(directory).ok().and_then(|path| self.root.resolve(&path).ok());
            self.directories.insert(directory.to_vec(), resolved.map(|resolved| resolved.path));
        }
        let path = self.directories.get(directory)?.as_ref()?.join(name).ok()?;
        self.root.get(&path).map(|_| path)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Layer, path};
    use super::*;
    use crate::rootfs::merge;

    const APK_STANZA: &[u8] = b"P:curl\nV:8.7.1-r0\nF:usr/bin\nR:curl\n\nP:gone\nV:1\nF:opt\nR:x\n";

    fn names(package: &InstalledPackage<'_>) -> Vec<String> {
        package.files.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_package_is_found_by_name_with_its_files_across_the_usr_merge() {
        let list = "/.\n/usr\n/usr/sbin\n/usr/sbin/iptables-nft\n/lib/x/libfoo.so\n/usr/share/doc/gone\n";
        let lower = Layer::default()
            .dpkg(&[("iptables", "1.8.9-2", list)])
            .symlink("lib", "usr/lib")
            .file("usr/sbin/iptables-nft", b"x");
        let upper = Layer::default().file("usr/lib/x/libfoo.so", b"y");
        let layers = [lower.index(), upper.index()];
        let root = merge(&layers);
        let packages = InstalledPackages::of(&root);
        let found = packages.find("iptables").unwrap();
        assert_eq!(names(found), ["/usr", "/usr/sbin", "/usr/sbin/iptables-nft", "/usr/lib/x/libfoo.so"]);
        assert_eq!(found.package.version, "1.8.9-2");
        assert!(found.stanza.starts_with(b"Package: iptables\n"));
        assert!(packages.find("iptables:amd64").is_some() && packages.find("ipset").is_none());
        let owner = packages.owner(&path("usr/lib/x/libfoo.so")).map(|owner| owner.package.name.as_str());
        assert_eq!(owner, Some("iptables"));
        assert!(packages.owner(&path("lib")).is_none());
    }

    #[test]
    fn packages_of_distroless_and_of_apk_are_found_too() {
        let layer = Layer::default()
            .file("var/lib/dpkg/status.d/libc6", b"Package: libc6\nVersion: 2.36\n")
            .file("var/lib/dpkg/status.d/libc6.md5sums", b"0123  lib/libc.so.6\n0123  lib/gone\n")
            .file("lib/libc.so.6", b"x")
            .file("lib/apk/db/installed", APK_STANZA)
            .file("usr/bin/curl", b"x");
        let layers = [layer.index()];
        let root = merge(&layers);
        let packages = InstalledPackages::of(&root);
        assert_eq!(names(packages.find("libc6").unwrap()), ["/lib/libc.so.6"]);
        assert_eq!(names(packages.find("curl").unwrap()), ["/usr/bin", "/usr/bin/curl"]);
        assert_eq!(packages.find("curl").unwrap().package.manager, Manager::Apk);
        assert_eq!(packages.find("gone").unwrap().files, []);
    }

    #[test]
    fn a_package_that_was_removed_or_says_nonsense_has_no_files() {
        let status =
            b"Package: a\nStatus: deinstall ok config-files\nVersion: 1\n\nPackage: b\nStatus: install ok installed\n";
        let layer = Layer::default()
            .file("var/lib/dpkg/status", status)
            .file("var/lib/dpkg/info/a.list", b"/x\n")
            .file("var/lib/dpkg/info/b.list", b"/../x\n//\n/\nx\n/x/../x\n")
            .file("x", b"");
        let layers = [layer.index()];
        let root = merge(&layers);
        let packages = InstalledPackages::of(&root);
        assert!(packages.find("a").is_none());
        assert_eq!(packages.find("b").unwrap().files, []);
    }
}
