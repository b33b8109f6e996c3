//! What is done to a library of a root: it goes, it is another one, it lost a symbol or a version.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// One kind of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    Removed,
    LinkRemoved,
    Swapped,
    Truncated,
    Emptied,
    Text,
    Closed,
    Directory,
    LinkLoop,
    OtherMachine,
    OtherClass,
    OtherByteOrder,
    SymbolRenamed,
    VersionRenamed,
    MovedAway,
    MovedToSearched,
    NoCache,
    StaleCache,
}

pub const ALL: [Damage; 18] = [
    Damage::Removed,
    Damage::LinkRemoved,
    Damage::Swapped,
    Damage::Truncated,
    Damage::Emptied,
    Damage::Text,
    Damage::Closed,
    Damage::Directory,
    Damage::LinkLoop,
    Damage::OtherMachine,
    Damage::OtherClass,
    Damage::OtherByteOrder,
    Damage::SymbolRenamed,
    Damage::VersionRenamed,
    Damage::MovedAway,
    Damage::MovedToSearched,
    Damage::NoCache,
    Damage::StaleCache,
];

/// The library that is damaged.
pub struct Target<'a> {
    pub root: &'a Path,
    /// The file itself.
    pub file: PathBuf,
    /// The path by which it is opened.
    pub written: PathBuf,
    /// Another library, to be put in its place.
    pub other: PathBuf,
    /// A symbol that it has and a program uses.
    pub symbol: String,
    /// A version that it has and a program needs.
    pub version: String,
}

/// What brings a root back to what it was. The files are links to those of the machine, so none is ever written to.
#[derive(Default)]
pub struct Undo(Vec<(PathBuf, PathBuf)>, Vec<PathBuf>);

impl Undo {
    /// Takes a file away.
    fn take(&mut self, root: &Path, path: &Path) {
        let kept = root.join(format!("kept-{}", self.0.len()));
        fs::rename(path, &kept).unwrap();
        self.0.push((kept, path.to_owned()));
    }

    /// Puts other bytes in the place of a file.
    fn write(&mut self, root: &Path, path: &Path, bytes: &[u8]) {
        let mode = path.metadata().unwrap().permissions();
        self.take(root, path);
        fs::write(path, bytes).unwrap();
        fs::set_permissions(path, mode).unwrap();
        self.1.push(path.to_owned());
    }

    pub fn undo(self) {
        for made in self.1.iter().rev() {
            if made.is_dir() && !made.is_symlink() {
                fs::remove_dir(made).unwrap();
            } else {
                fs::remove_file(made).unwrap();
            }
        }
        for (kept, path) in self.0.iter().rev() {
            fs::rename(kept, path).unwrap();
        }
    }
}

impl Damage {
    pub fn apply(self, target: &Target<'_>, undo: &mut Undo) {
        let Target { root, file, written, other, symbol, version } = target;
        let bytes = || fs::read(file).unwrap();
        let patched = |at: usize, byte: u8| {
            let mut bytes = bytes();
            bytes[at] = byte;
            bytes
        };
        match self {
            Self::Removed => undo.take(root, file),
            Self::LinkRemoved => undo.take(root, written),
            Self::Swapped => undo.write(root, file, &fs::read(other).unwrap()),
            Self::Truncated => undo.write(root, file, &bytes()[..bytes().len() / 2]),
            Self::Emptied => undo.write(root, file, b""),
            Self::Text => undo.write(root, file, b"INPUT(other.so)\n"),
            Self::Closed => {
                undo.write(root, file, &bytes());
                fs::set_permissions(file, fs::Permissions::from_mode(0o700)).unwrap();
            }
            Self::Directory => {
                undo.take(root, file);
                fs::create_dir(file).unwrap();
                undo.1.push(file.clone());
            }
            Self::LinkLoop => {
                undo.take(root, file);
                symlink(file.file_name().unwrap(), file).unwrap();
                undo.1.push(file.clone());
            }
            Self::OtherMachine => undo.write(root, file, &patched(18, 183)),
            Self::OtherClass => undo.write(root, file, &patched(4, 1)),
            Self::OtherByteOrder => undo.write(root, file, &patched(5, 2)),
            Self::SymbolRenamed => undo.write(root, file, &renamed(&bytes(), symbol)),
            Self::VersionRenamed => undo.write(root, file, &renamed(&bytes(), version)),
            Self::MovedAway => move_to(target, "usr/local/lib", undo),
            Self::MovedToSearched => move_to(target, "usr/lib", undo),
            Self::NoCache => undo.take(root, &root.join("etc/ld.so.cache")),
            Self::StaleCache => {
                move_to(target, "usr/lib", undo);
            }
        }
    }
}

fn move_to(target: &Target<'_>, directory: &str, undo: &mut Undo) {
    let to = target.root.join(directory).join(target.written.file_name().unwrap());
    if to.symlink_metadata().is_ok() {
        return undo.take(target.root, &target.file);
    }
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    let bytes = fs::read(&target.file).unwrap();
    undo.take(target.root, &target.file);
    fs::write(&to, bytes).unwrap();
    undo.1.push(to);
}

/// The file with another last letter of a name in the table of names, which is in the first segment.
fn renamed(bytes: &[u8], name: &str) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mark = [b"\0", name.as_bytes(), b"\0"].concat();
    let first = bytes[..first_segment(&bytes)].windows(mark.len()).position(|window| window == mark);
    if let Some(at) = first {
        let last = &mut bytes[at + name.len()];
        *last = if *last == b'Q' { b'R' } else { b'Q' };
    }
    bytes
}

/// Where the first segment ends that is loaded.
fn first_segment(bytes: &[u8]) -> usize {
    let (is_wide, is_big) = (bytes[4] == 2, bytes[5] == 2);
    let number = |at: usize, len: usize| -> usize {
        let part = bytes[at..at + len].iter();
        let digits: Vec<usize> = if is_big {
            part.map(|byte| usize::from(*byte)).collect()
        } else {
            part.rev().map(|byte| usize::from(*byte)).collect()
        };
        digits.into_iter().fold(0, |number, digit| number << 8 | digit)
    };
    let (word, table, row, size_at) = if is_wide { (8, 32, 56, 32) } else { (4, 28, 32, 16) };
    let mut headers = (0..64).map(|at| number(table, word) + at * row);
    let load = headers.find(|at| number(*at, 4) == 1).unwrap();
    number(load + size_at, word)
}
