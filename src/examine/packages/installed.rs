//! The packages of a whole root: what the databases say that a container would see.
//!
//! Other than the claims on one layer this does not ask who wrote a file last: whoever asks for a package gets
//! what is at its paths. The rule this file owns: a root has one account of its packages. Whoever lists, compares,
//! brings or attests packages asks here; a package none of whose files is there is not there.

use std::collections::{HashMap, HashSet};

use super::apk;
use super::dpkg::{Diversions, Stanza, plain};
use super::places::RPM;
use super::{Manager, Package};
use layer::{EntryKind, RootPath};
use start::rootfs::{FileNode, Root};

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
        for listed in listed(&mut paths) {
            let ListedPackage { package, also, stanza, checksums, files } = listed;
            let files = files.into_iter().filter_map(|(directory, name)| paths.real_in(directory, name)).collect();
            packages.add(InstalledPackage { package, files, stanza, checksums }, also);
        }
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

/// The packages that a root has, without their files: what a list or a comparison of them needs.
#[derive(Debug, Default)]
pub struct RootPackages<'r> {
    /// Sorted by manager, name and version; each once.
    pub packages: Vec<RootPackage<'r>>,
    /// Databases that are there and were not read: their packages are not in the list.
    pub unread: Vec<RootPath>,
}

/// A package and what its manager knows of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootPackage<'r> {
    pub package: Package,
    pub stanza: &'r [u8],
    /// What its files take, as far as they are there.
    pub bytes: u64,
}

impl<'r> RootPackages<'r> {
    #[must_use]
    pub fn of(root: &Root<'r>) -> Self {
        let mut paths = RealPaths { root, directories: HashMap::new() };
        let listed = listed(&mut paths).into_iter();
        let there = listed.filter_map(|listed| {
            let bytes = listed.is_there(&mut paths).then(|| listed.bytes(&mut paths))?;
            Some(RootPackage { package: listed.package, stanza: listed.stanza, bytes })
        });
        let mut packages: Vec<RootPackage<'r>> = there.collect();
        packages.sort_by(|one, other| one.key().cmp(&other.key()));
        packages.dedup_by(|one, other| one.key() == other.key());
        Self { packages, unread: unread(root) }
    }
}

impl RootPackage<'_> {
    fn key(&self) -> (Manager, &str, &str, &str) {
        let Package { name, version, manager } = &self.package;
        (*manager, name, version, self.architecture())
    }

    /// The architecture as the package manager names it; empty where it does not.
    #[must_use]
    pub fn architecture(&self) -> &str {
        match self.package.manager {
            Manager::Dpkg => self.field("Architecture:"),
            Manager::Apk => self.field("A:"),
        }
        .unwrap_or_default()
    }

    /// The source package that it was built from, with its version where that is another.
    #[must_use]
    pub fn built_from(&self) -> Option<(&str, &str)> {
        let (name, version) = match self.package.manager {
            Manager::Dpkg => {
                let source = self.field("Source:")?;
                let (name, version) = source.split_once(" (").unwrap_or((source, ""));
                (name, version.trim_end_matches(')'))
            }
            Manager::Apk => (self.field("o:")?, ""),
        };
        Some((name, if version.is_empty() { &self.package.version } else { version }))
    }

    /// The licence as the package states it; dpkg's database has none.
    #[must_use]
    pub fn licence(&self) -> Option<&str> {
        self.field("L:").filter(|_| self.package.manager == Manager::Apk)
    }

    fn field(&self, key: &str) -> Option<&str> {
        let value = lines(self.stanza).find_map(|line| line.strip_prefix(key.as_bytes()))?;
        plain(value.trim_ascii()).filter(|value| !value.is_empty())
    }
}

/// Databases that are in the root, and whose content is not known.
fn unread(root: &Root<'_>) -> Vec<RootPath> {
    let known = [STATUS].into_iter().chain(APK).filter_map(|path| RootPath::new(path).ok());
    let known = known.filter(|path| root.get(path).is_some_and(|node| is_file_without_content(root, node)));
    let rpm = RPM.iter().filter_map(|path| RootPath::new(path).ok()).filter(|path| root.get(path).is_some());
    let directory = RootPath::new(STATUS_DIRECTORY).into_iter().flat_map(|directory| {
        let names = root.directory(&directory).filter(|(_, node)| is_file_without_content(root, node));
        names.filter_map(|(name, _)| directory.join(name).ok()).collect::<Vec<_>>()
    });
    known.chain(rpm).chain(directory).collect()
}

fn is_file_without_content(root: &Root<'_>, node: &FileNode<'_>) -> bool {
    matches!(node.kind(), EntryKind::File { size: 1.. }) && root.content(node).is_none()
}

/// A package as its database has it, before its files are looked for.
struct ListedPackage<'r> {
    package: Package,
    /// Another name that it is found by.
    also: Option<String>,
    stanza: &'r [u8],
    checksums: Option<RootPath>,
    /// Directory and name of each of its paths.
    files: Vec<(&'r [u8], &'r [u8])>,
}

impl ListedPackage<'_> {
    /// Whether something of it is there. One without a list of files is taken at its word.
    fn is_there(&self, paths: &mut RealPaths<'_, '_>) -> bool {
        let mut has_list = false;
        self.files.iter().any(|(directory, name)| {
            has_list |= !name.is_empty() && *name != b".";
            let real = paths.real_in(directory, name);
            real.is_some_and(|path| paths.root.get(&path).is_some_and(|node| !node.is_directory()))
        }) || !has_list
            || self.lists_directories_only(paths)
    }

    fn bytes(&self, paths: &mut RealPaths<'_, '_>) -> u64 {
        let sizes = self.files.iter().filter_map(|(directory, name)| {
            let path = paths.real_in(directory, name)?;
            match paths.root.get(&path)?.kind() {
                EntryKind::File { size } => Some(*size),
                _ => None,
            }
        });
        sizes.fold(0, u64::saturating_add)
    }

    /// Such as packages that only depend on others.
    fn lists_directories_only(&self, paths: &mut RealPaths<'_, '_>) -> bool {
        self.files.iter().all(|(directory, name)| {
            let is_root = name.is_empty() || *name == b".";
            is_root || paths.real_in(directory, name).is_some()
        })
    }
}

/// All that the databases list, in their order; a list that several stanzas lead to once.
fn listed<'r>(paths: &mut RealPaths<'_, 'r>) -> Vec<ListedPackage<'r>> {
    let mut all = Vec::new();
    read_lists(paths, &mut all);
    read_status_directory(paths, &mut all);
    read_apk(paths, &mut all);
    all
}

fn read_lists<'r>(paths: &mut RealPaths<'_, 'r>, all: &mut Vec<ListedPackage<'r>>) {
    let stanzas = apk::stanzas(paths.content(STATUS)).map(|text| (text, Stanza::read(text)));
    let stanzas: Vec<_> = stanzas.filter(|(_, stanza)| stanza.is_installed() && !stanza.name.is_empty()).collect();
    let diversions = Diversions::of(lines(paths.content(DIVERSIONS)));
    let mut used_lists = HashSet::new();
    for (text, stanza) in stanzas {
        let name = stanza.name;
        let suffixed = format!("{name}:{}", stanza.architecture);
        let list = |name: &str| paths.content(&format!("{INFO}/{name}.list"));
        let used = if list(&suffixed).is_empty() { name } else { &suffixed };
        if !used_lists.insert(used.to_owned()) {
            continue;
        }
        let listed = lines(list(used)).filter_map(|line| line.strip_prefix(b"/"));
        let files = listed.map(|path| split(diversions.real(path, name))).collect();
        let checksums = paths.real(format!("{INFO}/{used}.md5sums").as_bytes());
        all.push(ListedPackage { package: stanza.package(), also: Some(suffixed), stanza: text, checksums, files });
    }
}

fn read_status_directory<'r>(paths: &mut RealPaths<'_, 'r>, all: &mut Vec<ListedPackage<'r>>) {
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
        let files = listed.map(split).collect();
        all.push(ListedPackage { package: stanza.package(), also: None, stanza: text, checksums, files });
    }
}

fn read_apk<'r>(paths: &mut RealPaths<'_, 'r>, all: &mut Vec<ListedPackage<'r>>) {
    let [old, new] = APK.map(|path| paths.content(path));
    // Where `/lib` is a link, both paths lead to one file.
    let new = if std::ptr::eq(old, new) { &[] } else { new };
    for text in [old, new].into_iter().flat_map(apk::stanzas) {
        let value = |key: &[u8]| lines(text).find_map(|line| plain(line.strip_prefix(key)?));
        let Some(name) = value(b"P:").filter(|name| !name.is_empty()).map(str::to_owned) else { continue };
        let version = value(b"V:").unwrap_or_default().to_owned();
        let mut files = Vec::new();
        let mut directory: &[u8] = b"";
        for line in lines(text) {
            if let Some(path) = line.strip_prefix(b"F:") {
                directory = path;
                files.push(split(path));
            } else if let Some(name) = line.strip_prefix(b"R:") {
                files.push((directory, name));
            }
        }
        let package = Package { name, version, manager: Manager::Apk };
        all.push(ListedPackage { package, also: None, stanza: text, checksums: None, files });
    }
}

fn lines(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    content.split(|byte| *byte == b'\n')
}

/// The directory of a path, and the name in it.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (path.get(..at).unwrap_or_default(), path.get(at + 1..).unwrap_or_default()),
        None => (b"", path),
    }
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

    /// A path without links on the way, where the root has something there.
    fn real(&mut self, listed: &[u8]) -> Option<RootPath> {
        let (directory, name) = split(listed);
        self.real_in(directory, name)
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
    use start::rootfs::merge;

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
