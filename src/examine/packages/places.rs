//! The entries of a layer by folder and name, as package lists name them.
//!
//! Lists are hostile and long, so nothing is allocated for a line of theirs, and a folder is looked
//! up once however many files it is said to have. Paths that are not written as package managers
//! write them (`..`, `//`, NUL) are no entry's and are found nowhere.

use std::collections::HashMap;

use super::installed::split;
use layer::{EntryKind, LayerIndex, RootPath};

/// Where a merged system has what lists still name by the old path.
pub const MERGED: [(&[u8], &[u8]); 9] = [
    (b"bin", b"usr/bin"),
    (b"sbin", b"usr/sbin"),
    (b"lib", b"usr/lib"),
    (b"lib32", b"usr/lib32"),
    (b"lib64", b"usr/lib64"),
    (b"libx32", b"usr/libx32"),
    (b"libo32", b"usr/libo32"),
    (b"var/run", b"run"),
    (b"var/lock", b"run/lock"),
];
/// Longer paths have no entry, so they are not put together.
const LONGEST: usize = 4096;

type Names<'a> = HashMap<&'a [u8], usize>;

pub(super) struct Places<'a> {
    folders: HashMap<&'a [u8], Names<'a>>,
    /// The rows of [`MERGED`] that hold here: not those whose old path is a real folder.
    merged: Vec<(&'static [u8], &'static [u8])>,
}

/// The entries of one folder, which may have its real place elsewhere.
#[derive(Clone, Copy)]
pub(super) struct Folder<'p, 'a> {
    listed: Option<&'p Names<'a>>,
    real: Option<&'p Names<'a>>,
}

impl Folder<'_, '_> {
    /// The last entry of this name. What is at the listed path itself comes first.
    pub(super) fn find(&self, name: &[u8]) -> Option<usize> {
        let at = |names: Option<&Names<'_>>| names.and_then(|names| names.get(name)).copied();
        at(self.listed).or_else(|| at(self.real))
    }
}

impl<'a> Places<'a> {
    pub(super) fn of(layer: &'a LayerIndex) -> Self {
        let mut folders: HashMap<&[u8], Names<'_>> = HashMap::new();
        for (at, entry) in layer.entries.iter().enumerate() {
            if !entry.kind.is_marker() && !entry.path.is_root() {
                let (folder, name) = split(entry.path.as_bytes());
                folders.entry(folder).or_default().insert(name, at);
            }
        }
        let is_folder = |path: &[u8]| {
            let (folder, name) = split(path);
            let at = folders.get(folder).and_then(|names| names.get(name));
            at.and_then(|at| layer.entries.get(*at)).is_some_and(|entry| entry.kind == EntryKind::Directory)
        };
        let merged = MERGED.into_iter().filter(|(old, _)| !is_folder(old)).collect();
        Self { folders, merged }
    }

    /// `folder` without slashes at its ends.
    pub(super) fn folder(&self, folder: &[u8]) -> Folder<'_, 'a> {
        let real = self.real(folder).and_then(|real| self.folders.get(real.as_slice()));
        Folder { listed: self.folders.get(folder), real }
    }

    /// The entry at a path without a slash at its start.
    pub(super) fn find(&self, path: &[u8]) -> Option<usize> {
        let (folder, name) = split(path);
        self.folder(folder).find(name)
    }

    fn real(&self, folder: &[u8]) -> Option<Vec<u8>> {
        if folder.len() > LONGEST {
            return None;
        }
        let moved = |(old, new): &(&[u8], &[u8])| {
            let rest = folder.strip_prefix(*old)?;
            (rest.is_empty() || rest.starts_with(b"/")).then(|| [*new, rest].concat())
        };
        self.merged.iter().find_map(moved)
    }
}

/// One file of a database.
pub(super) struct File<'a> {
    pub(super) path: &'a RootPath,
    /// Its name in its folder.
    pub(super) name: &'a [u8],
    /// When it was written.
    pub(super) mtime: i64,
    content: Option<&'a [u8]>,
}

impl<'a> File<'a> {
    /// Empty where it could not be read; [`Files::unreadable`] says so.
    pub(super) fn content(&self) -> &'a [u8] {
        self.content.unwrap_or_default()
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.content().split(|byte| *byte == b'\n')
    }
}

/// All of them, in the order of the layer.
#[derive(Default)]
pub(super) struct Files<'a> {
    pub(super) status: Option<File<'a>>,
    pub(super) diversions: Option<File<'a>>,
    pub(super) lists: Vec<File<'a>>,
    pub(super) status_folder: Vec<File<'a>>,
    pub(super) apk: Vec<File<'a>>,
    /// Known by their paths; what they say is not read.
    rpm: Vec<&'a RootPath>,
}

/// The databases of rpm, newest format first.
pub(super) const RPM: [&[u8]; 6] = [
    b"var/lib/rpm/rpmdb.sqlite",
    b"usr/lib/sysimage/rpm/rpmdb.sqlite",
    b"var/lib/rpm/Packages.db",
    b"usr/lib/sysimage/rpm/Packages.db",
    b"var/lib/rpm/Packages",
    b"usr/lib/sysimage/rpm/Packages",
];

impl<'a> Files<'a> {
    pub(super) fn of(layer: &'a LayerIndex) -> Self {
        let contents: HashMap<usize, &[u8]> =
            layer.captured.iter().map(|captured| (captured.entry, captured.content.as_slice())).collect();
        let mut files = Self::default();
        for (at, entry) in layer.entries.iter().enumerate() {
            if !matches!(entry.kind, EntryKind::File { .. } | EntryKind::Hardlink(_)) {
                continue;
            }
            let name = entry.path.name().unwrap_or_default();
            files.add(File { path: &entry.path, name, mtime: entry.mtime, content: contents.get(&at).copied() });
        }
        files
    }

    /// Of a file that is there twice, the last counts for a single one; lists are all read.
    fn add(&mut self, file: File<'a>) {
        let inside = |folder: &[u8]| file.path.as_bytes().strip_prefix(folder) == Some(file.name);
        match file.path.as_bytes() {
            b"var/lib/dpkg/status" => self.status = Some(file),
            b"var/lib/dpkg/diversions" => self.diversions = Some(file),
            b"lib/apk/db/installed" | b"usr/lib/apk/db/installed" => self.apk.push(file),
            path if RPM.contains(&path) => self.rpm.push(file.path),
            _ if inside(b"var/lib/dpkg/status.d/") => self.status_folder.push(file),
            _ if inside(b"var/lib/dpkg/info/") && file.name.ends_with(b".list") => self.lists.push(file),
            _ => {}
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        let files = [&self.lists, &self.status_folder, &self.apk];
        self.status.is_none() && self.rpm.is_empty() && files.iter().all(|files| files.is_empty())
    }

    /// The files that are there, but with a content that is not known.
    pub(super) fn unreadable(&self) -> impl Iterator<Item = &'a RootPath> {
        let single = self.status.iter().chain(&self.diversions);
        let all = single.chain(&self.lists).chain(&self.status_folder).chain(&self.apk);
        all.filter(|file| file.content.is_none()).map(|file| file.path).chain(self.rpm.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Layer;
    use super::*;

    #[test]
    fn lists_lead_to_entries_across_the_usr_merge() {
        let merged = Layer::default().file("usr/bin/x", b"").file("usr/lib/a/b", b"").file("usr/lib64/ld.so", b"");
        let own = Layer::default().file("usr/bin/x", b"").file("bin/x", b"");
        let unmerged = Layer::default().file("usr/bin/x", b"").folder("bin");
        for (layer, listed, found) in [
            (&merged, "usr/bin/x", Some("usr/bin/x")),
            (&merged, "bin/x", Some("usr/bin/x")),
            (&merged, "lib/a/b", Some("usr/lib/a/b")),
            (&merged, "lib64/ld.so", Some("usr/lib64/ld.so")),
            (&merged, "sbin/x", None),
            (&merged, "binary/x", None),
            (&merged, "opt/bin/x", None),
            (&own, "bin/x", Some("bin/x")),
            (&unmerged, "bin/x", None),
        ] {
            let index = layer.index();
            let at = Places::of(&index).find(listed.as_bytes());
            let path = at.map(|at| String::from_utf8_lossy(index.entries[at].path.as_bytes()).into_owned());
            assert_eq!(path.as_deref(), found, "{listed}");
        }
    }

    #[test]
    fn paths_that_no_manager_writes_are_found_nowhere() {
        let index = Layer::default().file("usr/bin/x", b"").index();
        for listed in ["usr/bin/../bin/x", "usr//bin/x", "./usr/bin/x", "usr/bin/x/", "usr/bin/x\0", "", "/", ".."] {
            assert_eq!(Places::of(&index).find(listed.as_bytes()), None, "{listed:?}");
        }
        assert_eq!(Places::of(&index).find(&vec![b'a'; 4 << 20]), None);
    }
}
