//! By what two builds of a base differ: their packages, and where these are the same, their files.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::packages::{PackageChanges, RootPackages};
use layer::{Entry, EntryKind, LayerIndex, RootPath};
use start::rootfs::{FileNode, Root, merge};

/// What differs between two bases.
#[derive(Debug)]
pub struct BaseChange {
    pub packages: PackageChanges,
    /// `None` where the packages say enough.
    pub files: Option<FileChanges>,
}

/// Files that only one of two roots has, or that are not the same. Times are not compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileChanges {
    pub count: usize,
    /// The first of them by name.
    pub paths: Vec<RootPath>,
}

/// Paths that are named.
const SHOWN: usize = 20;

impl BaseChange {
    /// Compares packages. Where they do not explain the difference, `read_files` brings the layers with the digests of
    /// their files.
    pub fn between<E>(
        (from, to): (&[Arc<LayerIndex>], &[Arc<LayerIndex>]),
        read_files: impl FnOnce() -> Result<[Vec<Arc<LayerIndex>>; 2], E>,
    ) -> Result<Self, E> {
        let packages = PackageChanges::between(&RootPackages::of(&root(from)), &RootPackages::of(&root(to)));
        if !packages.is_same() && !packages.is_partial {
            return Ok(Self { packages, files: None });
        }
        let [from, to] = read_files()?;
        Ok(Self { packages, files: Some(FileChanges::between(&root(&from), &root(&to))) })
    }
}

fn root(layers: &[Arc<LayerIndex>]) -> Root<'_> {
    merge(layers.iter().map(AsRef::as_ref))
}

impl FileChanges {
    fn between(from: &Root<'_>, to: &Root<'_>) -> Self {
        let mut changes = Self::default();
        let mut arrived: BTreeMap<RootPath, &FileNode<'_>> = to.entries().collect();
        for (path, old) in from.entries() {
            let is_same = match arrived.remove(&path) {
                Some(new) => is_same((from, old), (to, new)),
                None => is_implied(old),
            };
            changes.add((!is_same).then_some(path));
        }
        for (path, new) in arrived {
            changes.add((!is_implied(new)).then_some(path));
        }
        changes.paths.sort();
        changes
    }

    fn add(&mut self, path: Option<RootPath>) {
        let Some(path) = path else { return };
        self.count += 1;
        if self.paths.len() < SHOWN {
            self.paths.push(path);
        }
    }
}

/// A directory that is only there because of what is in it, which is counted.
fn is_implied(node: &FileNode<'_>) -> bool {
    node.entry().is_none()
}

/// Whether a program would notice a difference. A file whose content is not known is not the same.
fn is_same((from, old): (&Root<'_>, &FileNode<'_>), (to, new): (&Root<'_>, &FileNode<'_>)) -> bool {
    let attributes = |node: &FileNode<'_>| {
        let of = |entry: &Entry| (entry.mode, entry.uid, entry.gid, entry.xattrs.clone());
        node.entry().map_or((0o755, 0, 0, Vec::new()), of)
    };
    let has_content = matches!(old.kind(), EntryKind::File { size: 1.. });
    let content = || from.file_digest(old).is_some_and(|digest| to.file_digest(new) == Some(digest));
    old.kind() == new.kind() && attributes(old) == attributes(new) && (!has_content || content())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::super::packages::testing::Layer;
    use super::*;

    fn change(from: &Layer, to: &Layer) -> BaseChange {
        let [from, to] = [vec![Arc::new(from.index())], vec![Arc::new(to.index())]];
        BaseChange::between((&from, &to), || Ok::<_, Infallible>([from.clone(), to.clone()])).unwrap()
    }

    fn package(version: &str) -> Layer {
        let stanza = format!("Package: libc6\nVersion: {version}\n");
        Layer::default().file("var/lib/dpkg/status.d/libc6", stanza.as_bytes())
    }

    #[test]
    fn packages_are_compared_before_files() {
        let found = change(&package("1"), &package("2").file("etc/x", b"x"));
        assert_eq!((found.packages.changed.len(), found.files), (1, None));
        let found = change(&package("1").file("etc/x", b"x"), &package("1").file("etc/x", b"y").file("etc/z", b""));
        let files = found.files.unwrap();
        let paths: Vec<String> = files.paths.iter().map(ToString::to_string).collect();
        assert_eq!((found.packages.is_same(), files.count, paths), (true, 2, vec!["/etc/x".into(), "/etc/z".into()]));
    }

    #[test]
    fn the_same_files_are_the_same_and_a_link_is_not_a_file() {
        let same = change(&package("1").file("etc/x", b"x"), &package("1").file("etc/x", b"x"));
        assert_eq!(same.files, Some(FileChanges::default()));
        let link = change(&package("1").file("etc/x", b"x"), &package("1").symlink("etc/x", "y"));
        assert_eq!(link.files.unwrap().count, 1);
    }

    #[test]
    fn only_the_first_paths_are_named() {
        let many = (0..100).fold(package("1"), |layer, at| layer.file(&format!("etc/{at}"), b"x"));
        let files = change(&package("1"), &many).files.unwrap();
        assert_eq!((files.count, files.paths.len()), (100, SHOWN));
    }
}
