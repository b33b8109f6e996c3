//! What can be seen of a file, on disk and in the virtual root, in the same terms.

use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use layer::EntryKind;
use start::rootfs::{FileNode, Root};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    kind: Kind,
    /// None for a symbolic link, whose mode nobody can set.
    mode: Option<u32>,
    uid: u64,
    gid: u64,
    /// None for a folder: making a folder in it changes its time.
    mtime: Option<i64>,
    /// The first path that is the same file.
    same_as: Option<Vec<u8>>,
    /// Those of users; others are the system's.
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    File(u64),
    Folder,
    Link(Vec<u8>),
    Character(u32, u32),
    Block(u32, u32),
    Fifo,
}

/// The virtual root, the root folder itself under the empty path.
pub fn expected(root: &Root<'_>) -> BTreeMap<Vec<u8>, Seen> {
    let mut firsts = HashMap::new();
    let top = layer::RootPath::root();
    let all = root.get(&top).map(|node| (top, node)).into_iter().chain(root.entries());
    all.map(|(path, node)| {
        let path = path.as_bytes().to_vec();
        let same_as = node.entry().filter(|_| !node.is_directory()).map(|entry| {
            // One entry is one file; it is borrowed from the layer's index, so it has one address.
            firsts.entry(std::ptr::from_ref(entry)).or_insert_with(|| path.clone()).clone()
        });
        (path, seen(node, same_as))
    })
    .collect()
}

fn seen(node: &FileNode<'_>, same_as: Option<Vec<u8>>) -> Seen {
    let kind = match node.kind() {
        EntryKind::File { size } => Kind::File(*size),
        EntryKind::Directory => Kind::Folder,
        EntryKind::Symlink(target) => Kind::Link(target.clone()),
        EntryKind::Character { major, minor } => Kind::Character(*major, *minor),
        EntryKind::Block { major, minor } => Kind::Block(*major, *minor),
        EntryKind::Fifo => Kind::Fifo,
        other => panic!("no node is {other:?}"),
    };
    let xattrs = node.entry().map(|entry| entry.xattrs.clone()).unwrap_or_default();
    Seen {
        mode: (!matches!(kind, Kind::Link(_))).then_some(node.mode()),
        kind,
        uid: node.uid(),
        gid: node.gid(),
        mtime: node.entry().filter(|_| !node.is_directory()).map(|entry| entry.mtime),
        same_as,
        xattrs: xattrs.into_iter().filter(|(name, _)| is_users(name)).collect(),
    }
}

/// What is on disk below `top`.
pub fn unpacked(top: &Path) -> BTreeMap<Vec<u8>, Seen> {
    let mut all = BTreeMap::new();
    let mut open = vec![top.to_owned()];
    while let Some(file) = open.pop() {
        let metadata = file.symlink_metadata().unwrap();
        if metadata.is_dir() {
            open.extend(std::fs::read_dir(&file).unwrap().map(|entry| entry.unwrap().path()));
        }
        let path = file.strip_prefix(top).unwrap().as_os_str().as_bytes().to_vec();
        all.insert(path, (file, metadata));
    }
    let mut firsts = HashMap::new();
    let seen = all.into_iter().map(|(path, (file, metadata))| {
        let first = firsts.entry(metadata.ino()).or_insert_with(|| path.clone()).clone();
        (path, on_disk(&file, &metadata, first))
    });
    seen.collect()
}

fn on_disk(file: &Path, metadata: &std::fs::Metadata, first: Vec<u8>) -> Seen {
    let device = (libc::major(metadata.rdev()), libc::minor(metadata.rdev()));
    let kind = match metadata.file_type() {
        kind if kind.is_file() => Kind::File(metadata.len()),
        kind if kind.is_dir() => Kind::Folder,
        kind if kind.is_symlink() => Kind::Link(file.read_link().unwrap().as_os_str().as_bytes().to_vec()),
        kind if kind.is_char_device() => Kind::Character(device.0, device.1),
        kind if kind.is_block_device() => Kind::Block(device.0, device.1),
        kind if kind.is_fifo() => Kind::Fifo,
        other => panic!("{} is {other:?}", file.display()),
    };
    Seen {
        mode: (!matches!(kind, Kind::Link(_))).then_some(metadata.mode() & 0o7777),
        uid: metadata.uid().into(),
        gid: metadata.gid().into(),
        mtime: (kind != Kind::Folder).then_some(metadata.mtime()),
        same_as: (kind != Kind::Folder).then_some(first),
        xattrs: xattrs(file),
        kind,
    }
}

fn is_users(name: &[u8]) -> bool {
    name.starts_with(b"user.")
}

fn xattrs(file: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let path = CString::new(file.as_os_str().as_bytes()).unwrap();
    // A file system without attributes has none.
    let names = read(|buffer| {
        #[allow(unsafe_code)]
        // SAFETY: the path ends in NUL, and the buffer is as long as is said.
        unsafe {
            libc::llistxattr(path.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len())
        }
    });
    let mut all: Vec<_> = names
        .split(|byte| *byte == 0)
        .filter(|name| is_users(name))
        .map(|name| (name.to_vec(), xattr(&path, name)))
        .collect();
    all.sort();
    all
}

fn xattr(path: &CString, name: &[u8]) -> Vec<u8> {
    let name = CString::new(name).unwrap();
    read(|buffer| {
        #[allow(unsafe_code)]
        // SAFETY: path and name end in NUL, and the buffer is as long as is said.
        unsafe {
            libc::lgetxattr(path.as_ptr(), name.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len())
        }
    })
}

fn read(call: impl FnOnce(&mut [u8]) -> isize) -> Vec<u8> {
    let mut buffer = vec![0; 64 << 10];
    let length = usize::try_from(call(&mut buffer)).unwrap_or(0);
    buffer.truncate(length);
    buffer
}
