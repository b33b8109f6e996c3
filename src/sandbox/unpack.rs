//! The files of an image, written into a private directory: the only code that unpacks anything.
//!
//! What is written is the merged root, not one layer after another: each file once, and every parent a real
//! directory. No link is ever followed while writing, so none can lead out: each directory is opened from the
//! root with `openat2`, which refuses symbolic links on the way (`image_root`), and each name is created anew. Devices are left
//! out, and so are attributes that would mean something to the host's file system.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use rustix::fs::{Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, fchmod, fchown, fsetxattr, futimens};
use rustix::io::Errno;

use serde::{Deserialize, Serialize};

use super::SandboxLayer;
use super::image_root::{ImageRoot, Place, with_hint};
use crate::store::Stream;
use layer::{DataRange, Entry, EntryKind, Limits, RootPath, show_ranges};
use oci::Descriptor;
use oci::Digest;
use oci::error::{Error, Kind, Result};
use start::rootfs::{FileNode, Root};

/// Whom the files belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    /// Whom the image says.
    Kept,
    /// The user who runs underpin, until `set_owners`, in a namespace where others may be set.
    Ours,
}

/// What only root, or root of a namespace, can give a file of the image.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct OwnedNode {
    pub(super) path: RootPath,
    pub(super) uid: u64,
    pub(super) gid: u64,
    /// `None` for a symbolic link.
    mode: Option<u32>,
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What became of the files of an image.
#[derive(Debug, Default)]
pub(super) struct Unpacked {
    /// What was not written, and why.
    pub(super) left_out: Vec<String>,
    /// Empty where files have their owners already.
    pub(super) owners: Vec<OwnedNode>,
}

/// Files that other roots of the same run have already.
#[derive(Debug, Default)]
pub(super) struct WrittenFiles {
    roots: Vec<ImageRoot>,
    /// By the entry's layer and its place there: the number of the root, and the path in it.
    files: HashMap<(Digest, usize), (usize, RootPath)>,
}

impl WrittenFiles {
    fn get(&mut self, layer: Option<Digest>, entry: usize) -> Option<(&mut ImageRoot, &RootPath)> {
        let (root, path) = self.files.get(&(layer?, entry))?;
        Some((self.roots.get_mut(*root)?, path))
    }
}

/// Where the bytes of layers come from.
pub type OpenLayer<'a> = &'a dyn Fn(&Descriptor) -> Result<Stream>;

/// What is to be written where.
pub(super) struct Unpacking<'a> {
    pub(super) root: &'a Root<'a>,
    pub(super) layers: &'a [SandboxLayer],
    pub(super) open: OpenLayer<'a>,
    pub(super) into: &'a Path,
    pub(super) ownership: Ownership,
}

/// All names of the files of one layer, by the place of their entry.
type Names<'a> = BTreeMap<(usize, usize), (Vec<RootPath>, &'a Entry)>;

impl<'a> Unpacking<'a> {
    /// Writes everything, and says what was left out. Files that `shared` has are linked, where nobody can write to them.
    pub(super) fn run(&self, mut shared: Option<&mut WrittenFiles>) -> Result<Unpacked> {
        let mut tree = ImageRoot::open(self.into)?;
        let mut left_out = Vec::new();
        let mut names: Names<'a> = BTreeMap::new();
        let mut directories: Vec<(RootPath, FileNode<'_>)> = Vec::new();
        directories.extend(self.root.get(&RootPath::root()).map(|node| (RootPath::root(), *node)));
        for (path, node) in self.root.entries() {
            match (node.kind(), node.entry(), node.place()) {
                (EntryKind::Directory, ..) => {
                    tree.make_directory(&path)?;
                    directories.push((path, *node));
                }
                (EntryKind::File { .. }, Some(entry), Some(_)) if entry.sparse => {
                    left_out.push(format!("{path} (sparse file)"));
                }
                (EntryKind::File { .. }, Some(entry), Some(place)) => {
                    names.entry(place).or_insert_with(|| (Vec::new(), entry)).0.push(path);
                }
                (EntryKind::Character { .. } | EntryKind::Block { .. }, ..) => {
                    left_out.push(format!("{path} (device)"));
                }
                (EntryKind::Symlink(target), Some(entry), _) => self.link(&mut tree, &path, target, entry)?,
                (EntryKind::Fifo, Some(entry), _) => self.pipe(&mut tree, &path, entry)?,
                _ => {}
            }
        }
        if let Some(shared) = shared.as_deref_mut() {
            self.link_shared(&mut tree, &mut names, shared)?;
        }
        self.write_files(&mut tree, &names)?;
        if let Some(shared) = shared {
            self.remember(&names, shared)?;
        }
        // Those below first: a directory may forbid to be entered.
        for (path, node) in directories.iter().rev() {
            self.finish_directory(&mut tree, path, node)?;
        }
        Ok(Unpacked { left_out, owners: self.owners() })
    }

    /// Everything that is not simply root's.
    fn owners(&self) -> Vec<OwnedNode> {
        if self.ownership == Ownership::Kept {
            return Vec::new();
        }
        let top = self.root.get(&RootPath::root()).map(|node| (RootPath::root(), node));
        let all = top.into_iter().chain(self.root.entries());
        all.filter_map(|(path, node)| owned_node(path, node)).collect()
    }

    /// Gives a file the names it has here, where another root has it already.
    fn link_shared(&self, tree: &mut ImageRoot, names: &mut Names<'a>, shared: &mut WrittenFiles) -> Result<()> {
        let mut done = Vec::new();
        for (place, (paths, _)) in names.iter() {
            let digest = self.layers.get(place.0).map(|layer| layer.descriptor.digest);
            let Some((root, there)) = shared.get(digest, place.1) else { continue };
            for path in paths {
                tree.link_from(root, there, path)?;
            }
            done.push(*place);
        }
        for place in &done {
            names.remove(place);
        }
        Ok(())
    }

    fn remember(&self, names: &Names<'_>, shared: &mut WrittenFiles) -> Result<()> {
        let root = shared.roots.len();
        shared.roots.push(ImageRoot::open(self.into)?);
        for (place, (paths, _)) in names {
            let digest = self.layers.get(place.0).map(|layer| layer.descriptor.digest);
            if let (Some(digest), Some(path)) = (digest, paths.first()) {
                shared.files.insert((digest, place.1), (root, path.clone()));
            }
        }
        Ok(())
    }

    fn write_files(&self, tree: &mut ImageRoot, names: &Names<'_>) -> Result<()> {
        for (number, layer) in self.layers.iter().enumerate() {
            let of_layer = names.range((number, 0)..=(number, usize::MAX));
            let mut with_data: Vec<(DataRange, &RootPath, &Entry)> = Vec::new();
            for (paths, entry) in of_layer.clone().map(|(_, found)| found) {
                let (Some(path), EntryKind::File { size }) = (paths.first(), &entry.kind) else { continue };
                match size {
                    0 => self.finish_file(&tree.create_file(path)?, entry, path)?,
                    _ => with_data.push((DataRange { offset: entry.offset, size: *size }, path, entry)),
                }
            }
            self.write_data(tree, layer, &mut with_data)?;
            for (paths, _) in of_layer.map(|(_, found)| found) {
                for path in paths.iter().skip(1) {
                    tree.link_within(paths.first().unwrap_or(path), path)?;
                }
            }
        }
        Ok(())
    }

    /// One pass over the layer's bytes.
    fn write_data(
        &self,
        tree: &mut ImageRoot,
        layer: &SandboxLayer,
        files: &mut [(DataRange, &RootPath, &Entry)],
    ) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        files.sort_by_key(|(range, ..)| *range);
        let ranges: Vec<DataRange> = files.iter().map(|(range, ..)| *range).collect();
        let blob = (self.open)(&layer.descriptor)?;
        let mut current: Option<(usize, File)> = None;
        let finish = |current: Option<(usize, File)>| match current {
            Some((number, file)) => match files.get(number) {
                Some((_, path, entry)) => self.finish_file(&file, entry, path),
                None => Ok(()),
            },
            None => Ok(()),
        };
        show_ranges(blob, &layer.descriptor, &ranges, &Limits::default(), |number, bytes| {
            if current.as_ref().is_none_or(|(open, _)| *open != number) {
                finish(current.take())?;
                let Some((_, path, _)) = files.get(number) else { return Ok(()) };
                current = Some((number, tree.create_file(path)?));
            }
            let Some((_, file)) = &mut current else { return Ok(()) };
            file.write_all(bytes).map_err(|error| failed("a file could not be written", &error))
        })?;
        finish(current)
    }

    /// Owner before mode: a change of owner clears set-user-ID. Attributes last: it clears capabilities, too.
    fn finish_file(&self, file: &File, entry: &Entry, path: &RootPath) -> Result<()> {
        let done = || -> std::result::Result<(), Errno> {
            if self.ownership == Ownership::Kept {
                fchown(file, Some(uid(entry.uid)), Some(gid(entry.gid)))?;
            }
            fchmod(file, mode(entry.mode))?;
            self.set_attributes(file.as_fd(), entry)?;
            futimens(file, &times(entry.mtime))
        };
        done().map_err(|error| failed("the attributes of a file could not be set", &error.into()).fact("path", path))
    }

    fn set_attributes(&self, file: BorrowedFd<'_>, entry: &Entry) -> std::result::Result<(), Errno> {
        match self.ownership {
            Ownership::Kept => set_attributes(file, entry.xattrs.iter().map(|(name, value)| (&**name, &**value))),
            Ownership::Ours => Ok(()),
        }
    }

    fn finish_directory(&self, tree: &mut ImageRoot, path: &RootPath, node: &FileNode<'_>) -> Result<()> {
        let readable = tree.readable_directory(path)?;
        let done = || -> std::result::Result<(), Errno> {
            let directory = readable?;
            let own = if self.ownership == Ownership::Ours { 0o700 } else { 0 };
            if self.ownership == Ownership::Kept {
                fchown(&directory, Some(uid(node.uid())), Some(gid(node.gid())))?;
            }
            fchmod(&directory, mode(node.mode() | own))?;
            if let Some(entry) = node.entry() {
                self.set_attributes(directory.as_fd(), entry)?;
            }
            futimens(&directory, &times(node.entry().map_or(0, |entry| entry.mtime)))
        };
        done()
            .map_err(|error| failed("the attributes of a directory could not be set", &error.into()).fact("path", path))
    }

    fn link(&self, tree: &mut ImageRoot, path: &RootPath, target: &[u8], entry: &Entry) -> Result<()> {
        let place = tree.place(path)?;
        let done = || -> std::result::Result<(), Errno> {
            place.make_symlink(target)?;
            self.own(&place, entry)?;
            place.set_times(&times(entry.mtime))
        };
        done().map_err(|error| failed("a symbolic link could not be made", &error.into()).fact("path", path))
    }

    fn pipe(&self, tree: &mut ImageRoot, path: &RootPath, entry: &Entry) -> Result<()> {
        let place = tree.place(path)?;
        let made = place.make_pipe(mode(entry.mode & 0o777)).and_then(|()| self.own(&place, entry));
        made.map_err(|error| failed("a pipe could not be made", &error.into()).fact("path", path))
    }

    fn own(&self, place: &Place<'_>, entry: &Entry) -> std::result::Result<(), Errno> {
        match self.ownership {
            Ownership::Kept => place.own(uid(entry.uid), gid(entry.gid)),
            Ownership::Ours => Ok(()),
        }
    }
}

fn set_attributes<'x>(
    file: BorrowedFd<'_>,
    attributes: impl Iterator<Item = (&'x [u8], &'x [u8])>,
) -> std::result::Result<(), Errno> {
    for (name, value) in attributes.filter(|(name, _)| is_carried(name)) {
        match fsetxattr(file, name, value, XattrFlags::empty()) {
            // As containerd does: a file system without them is no reason to fail.
            Ok(()) | Err(Errno::NOTSUP) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn owned_node(path: RootPath, node: &FileNode<'_>) -> Option<OwnedNode> {
    const OPEN: u32 = 0o700;
    let is_written =
        matches!(node.kind(), EntryKind::Directory | EntryKind::File { .. } | EntryKind::Fifo | EntryKind::Symlink(_));
    if !is_written || node.entry().is_some_and(|entry| entry.sparse) {
        return None;
    }
    let is_closed = matches!(node.kind(), EntryKind::Directory) && node.mode() & OPEN != OPEN;
    let attributes = node.entry().into_iter().flat_map(|entry| entry.xattrs.iter());
    let attributes: Vec<_> =
        attributes.filter(|(name, _)| is_carried(name)).map(|(name, value)| (name.clone(), value.clone())).collect();
    let is_plain = node.uid() == 0 && node.gid() == 0 && attributes.is_empty() && !is_closed;
    let mode = (!matches!(node.kind(), EntryKind::Symlink(_))).then(|| node.mode());
    (!is_plain).then(|| OwnedNode { path, uid: node.uid(), gid: node.gid(), mode, attributes })
}

/// Gives files below `root` to whom the image says. Nobody but this process sees the directory.
pub(super) fn set_owners(root: &Path, owners: &[OwnedNode]) -> Result<()> {
    let mut tree = ImageRoot::open(root)?;
    for node in owners {
        let done = node.set(&tree.place(&node.path)?);
        done.map_err(|error| failed("a file could not be given to its owner", &error.into()).fact("path", &node.path))?;
    }
    Ok(())
}

impl OwnedNode {
    fn set(&self, place: &Place<'_>) -> std::result::Result<(), Errno> {
        place.own(uid(self.uid), gid(self.gid))?;
        let Some(bits) = self.mode else { return Ok(()) };
        if !self.attributes.is_empty() {
            let file = place.open_for_attributes()?;
            set_attributes(file.as_fd(), self.attributes.iter().map(|(name, value)| (&**name, &**value)))?;
        }
        place.set_mode(mode(bits))
    }
}

/// Attributes of the image's own: its capabilities and access lists. Those of an overlay and labels of security modules
/// would mean something to the host; an overlay that is mounted without root's rights has its own among the user's.
fn is_carried(name: &[u8]) -> bool {
    let is_users = name.starts_with(b"user.") && !name.starts_with(b"user.overlay.");
    is_users || name == b"security.capability" || name.starts_with(b"system.posix_acl_")
}

fn uid(number: u64) -> Uid {
    Uid::from_raw(u32::try_from(number).unwrap_or(u32::MAX - 1))
}

fn gid(number: u64) -> Gid {
    Gid::from_raw(u32::try_from(number).unwrap_or(u32::MAX - 1))
}

fn mode(bits: u32) -> Mode {
    Mode::from_raw_mode(bits & 0o7777)
}

fn times(seconds: i64) -> Timestamps {
    let at = Timespec { tv_sec: seconds, tv_nsec: 0 };
    Timestamps { last_access: at, last_modification: at }
}

fn failed(what: &str, error: &std::io::Error) -> Error {
    with_hint(Error::new(Kind::Io, what).cause(error), error)
}
