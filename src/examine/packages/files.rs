//! The files of package databases that a layer has.

use std::collections::HashMap;

use crate::layer::{EntryKind, LayerIndex, RootPath};

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
const RPM: [&[u8]; 6] = [
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
