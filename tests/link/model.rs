//! The same directory as `link` sees it.

use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{LazyLock, Mutex};

use elf::{Linkage, Probe, Program};
use layer::{Captured, Entry, EntryKind, IndexedProgram, LayerIndex, RootPath};
use oci::{Compression, DiffId, Digest};
use start::link::{Linked, Linker, LoaderEnvironment};
use start::rootfs::{Credentials, Root, merge};

/// A file by its inode, the time of its last change, and its size.
type Stamp = (u64, i64, u64);

/// Files that were read before: most roots are nearly the same.
static KNOWN: LazyLock<Mutex<HashMap<Stamp, Option<Program>>>> = LazyLock::new(Mutex::default);

/// What a file is, read as a layer's files are.
pub fn probe(path: &Path) -> Option<Program> {
    let data = fs::metadata(path).unwrap();
    let key = (data.ino(), data.ctime_nsec() ^ data.ctime(), data.len());
    if let Some(known) = KNOWN.lock().unwrap().get(&key) {
        return known.clone();
    }
    let mut file = fs::File::open(path).unwrap();
    let mut probe = Probe::for_loader(data.len());
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).unwrap() {
            0 => break,
            len => probe.feed(&buffer[..len]),
        }
    }
    let program = Some(probe.finish()).filter(|program| program.linkage != Linkage::Other || !program.notes.is_empty());
    KNOWN.lock().unwrap().insert(key, program.clone());
    program
}

/// One layer with all that a directory has.
pub fn layer(directory: &Path) -> LayerIndex {
    let (mut entries, mut captured, mut programs) = (Vec::new(), Vec::new(), Vec::new());
    for found in walkdir::WalkDir::new(directory).min_depth(1).sort_by_file_name() {
        let found = found.unwrap();
        let path = found.path();
        let data = path.symlink_metadata().unwrap();
        let inside = path.strip_prefix(directory).unwrap();
        let kind = if data.is_dir() {
            EntryKind::Directory
        } else if data.is_symlink() {
            EntryKind::Symlink(fs::read_link(path).unwrap().as_os_str().as_bytes().to_vec())
        } else {
            EntryKind::File { size: data.len() }
        };
        if let EntryKind::File { .. } = kind {
            if inside.starts_with("etc") {
                captured.push(Captured { entry: entries.len(), content: fs::read(path).unwrap() });
            } else if let Some(program) = probe(path) {
                programs.push(IndexedProgram { entry: entries.len(), program });
            }
        }
        entries.push(Entry {
            path: RootPath::new(inside.as_os_str().as_bytes()).unwrap(),
            kind,
            mode: data.mode() & 0o7777,
            uid: data.uid().into(),
            gid: data.gid().into(),
            mtime: 0,
            xattrs: Vec::new(),
            offset: 0,
            sparse: false,
        });
    }
    let digest = Digest::of(b"");
    LayerIndex {
        digest,
        size: 0,
        diff_id: DiffId(digest),
        unpacked: 0,
        compression: Compression::None,
        entries,
        captured,
        programs,
        digests: None,
        notes: Vec::new(),
    }
}

/// The process that [`crate::chroot`] starts: nobody, with everything bound at once.
pub fn nobody(variables: &[(&str, &str)]) -> LoaderEnvironment {
    let variables: Vec<(String, String)> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    // No new privileges: what a file would give, it does not get.
    let who = Credentials { uid: 65534, gid: 65534, groups: Vec::new() };
    LoaderEnvironment::new(&variables, RootPath::root(), who)
}

/// The answers for several programs of one root.
pub fn answers(layer: &LayerIndex, programs: &[String], variables: &[(&str, &str)]) -> Vec<Linked> {
    let layers = [layer];
    let root: Root<'_> = merge(layers);
    let mut linker = Linker::new(&root);
    let environment = nobody(variables);
    let answer = |program: &String| {
        let path = root.resolve(&RootPath::new(program).unwrap()).unwrap().path;
        linker.closure(&path, &environment)
    };
    programs.iter().map(answer).collect()
}
