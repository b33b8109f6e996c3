//! The paths that the words of a command, the values of variables and the strings of programs name, and
//! what becomes of them in the move: gone, or closed to the user.

use layer::{EntryKind, RootPath};
use start::rootfs::{Access, Credentials, NotFoundReason, Resolved, Root};

/// What may stand around a path in a word: `--config=/a`, `@/a`, `/a:/b`, `file:///a`.
const AROUND: [char; 12] = ['=', ',', ':', ';', '@', ' ', '\t', '\'', '"', '(', ')', '|'];

/// The parts of a word that could be names.
pub fn parts_of(word: &str) -> impl Iterator<Item = &str> {
    word.split(AROUND).filter(|part| part.len() > 1 && !part.starts_with('-'))
}

/// One side of the move, as the process sees it.
#[derive(Debug, Clone)]
pub struct ProcessView<'a> {
    pub root: &'a Root<'a>,
    pub working_dir: RootPath,
    pub who: Credentials,
}

impl ProcessView<'_> {
    fn resolve(&self, path: &str) -> Result<Resolved<'_>, NotFoundReason> {
        let lost = self.root.resolve_as(path, &self.working_dir, &self.who);
        lost.map_err(|lost| lost.candidates.into_iter().next().map_or(NotFoundReason::Loop, |tried| tried.reason))
    }
}

/// Both sides.
#[derive(Debug, Clone)]
pub struct MoveView<'a> {
    pub before: ProcessView<'a>,
    pub after: ProcessView<'a>,
}

/// What a path of the source is when the process of the result cannot use it as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostPath {
    /// A file that may be executed, gone.
    Program,
    /// Any other file, gone.
    File,
    /// A directory without a file in it, which the user could write to, gone.
    EmptyDirectory,
    /// A directory with files, gone.
    Directory,
    /// It is there, and the user may no longer reach or read it.
    Closed,
    /// A directory that is there, and that the user may no longer write to.
    NotWritable,
}

impl LostPath {
    /// Whether the result does not have it at all.
    #[must_use]
    pub const fn is_gone(self) -> bool {
        !matches!(self, Self::Closed | Self::NotWritable)
    }
}

/// Where runtimes mount what every container has, whatever its image.
const MOUNTED: [&str; 6] = ["proc", "sys", "dev", "etc/hosts", "etc/hostname", "etc/resolv.conf"];

fn is_mounted(path: &RootPath) -> bool {
    MOUNTED.iter().any(|mounted| RootPath::new(mounted).is_ok_and(|mounted| path.is_within(&mounted)))
}

impl MoveView<'_> {
    /// What becomes of a path as it is written: absolute, or seen from the working directory. A bare word
    /// counts only where it is a file: it is a subcommand more often.
    #[must_use]
    pub fn lost(&self, path: &str) -> Option<LostPath> {
        let found = self.before.resolve(path).ok()?;
        let is_file = matches!(found.node.kind(), EntryKind::File { .. });
        let is_bare = !path.contains('/') && !path.contains('.');
        if found.path.is_root() || is_mounted(&found.path) || (is_bare && !is_file) {
            return None;
        }
        match self.after.resolve(path) {
            Ok(now) => self.closed(&found, &now),
            Err(NotFoundReason::NotEnterable(_)) => Some(LostPath::Closed),
            Err(_) => Some(self.gone(&found)),
        }
    }

    /// Where the source has it.
    #[must_use]
    pub fn place(&self, path: &str) -> Option<RootPath> {
        self.before.resolve(path).ok().map(|found| found.path)
    }

    fn gone(&self, found: &Resolved<'_>) -> LostPath {
        match found.node.kind() {
            EntryKind::Directory => {
                let can_write = found.node.allows(&self.after.who, Access::Write);
                let is_empty = can_write && is_empty(self.before.root, &found.path);
                if is_empty { LostPath::EmptyDirectory } else { LostPath::Directory }
            }
            EntryKind::File { .. } if found.node.mode() & 0o111 != 0 => LostPath::Program,
            _ => LostPath::File,
        }
    }

    fn closed(&self, found: &Resolved<'_>, now: &Resolved<'_>) -> Option<LostPath> {
        let loses =
            |access: Access| found.node.allows(&self.before.who, access) && !now.node.allows(&self.after.who, access);
        let is_directory = found.node.is_directory() && now.node.is_directory();
        if loses(Access::Read) || (is_directory && loses(Access::Execute)) {
            return Some(LostPath::Closed);
        }
        (is_directory && loses(Access::Write)).then_some(LostPath::NotWritable)
    }
}

/// Names looked at in a directory before it counts as one with files.
const MOST_NAMES: usize = 64;

/// Whether nothing but directories is below.
fn is_empty(root: &Root<'_>, directory: &RootPath) -> bool {
    let mut open = vec![directory.clone()];
    let mut seen = 0;
    while let Some(directory) = open.pop() {
        for (name, node) in root.directory(&directory) {
            seen += 1;
            if !node.is_directory() || seen > MOST_NAMES {
                return false;
            }
            open.extend(directory.join(name));
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use layer::{Entry, LayerIndex};
    use start::rootfs::merge;

    #[test]
    fn names_are_found_in_words_as_people_write_them() {
        for (word, expected) in [
            ("/a/b", vec!["/a/b"]),
            ("--config=/a", vec!["/a"]),
            ("-c/a", vec![]),
            ("@/a", vec!["/a"]),
            ("/a:/b", vec!["/a", "/b"]),
            ("file:///a/b", vec!["file", "///a/b"]),
            ("--x=/a,/b", vec!["/a", "/b"]),
            ("conf/app.yaml", vec!["conf/app.yaml"]),
            ("--serve.x", vec![]),
        ] {
            assert_eq!(parts_of(word).collect::<Vec<_>>(), expected, "{word}");
        }
    }

    fn layer(entries: &[(&str, u32, u64)]) -> LayerIndex {
        let mut index = crate::examine::testing::layer("x");
        index.entries = entries
            .iter()
            .map(|(path, mode, uid)| Entry { mode: *mode, uid: *uid, ..crate::examine::testing::entry(path) })
            .collect();
        index
    }

    #[test]
    fn a_path_is_gone_or_closed_or_as_before() {
        let old = layer(&[
            ("etc/base.conf", 0o644, 0),
            ("bin/tool", 0o755, 0),
            ("var/data/", 0o755, 7),
            ("full/", 0o755, 7),
            ("full/x", 0o644, 7),
            ("tmp/", 0o1777, 0),
            ("home/", 0o755, 0),
            ("home/x", 0o644, 0),
        ]);
        let new = layer(&[("tmp/", 0o755, 0), ("home/", 0o700, 0), ("home/x", 0o644, 0)]);
        let (old, new) = ([old], [new]);
        let (old, new) = (merge(&old), merge(&new));
        let view = |root| ProcessView {
            root,
            working_dir: RootPath::new("etc").unwrap(),
            who: Credentials { uid: 7, gid: 7, groups: vec![] },
        };
        let both = MoveView { before: view(&old), after: view(&new) };
        for (path, expected) in [
            ("/etc/base.conf", Some(LostPath::File)),
            ("/etc/../etc/./base.conf", Some(LostPath::File)),
            ("base.conf", Some(LostPath::File)),
            ("/bin/tool", Some(LostPath::Program)),
            ("../bin/tool", Some(LostPath::Program)),
            ("/var/data", Some(LostPath::EmptyDirectory)),
            ("/full", Some(LostPath::Directory)),
            ("/tmp", Some(LostPath::NotWritable)),
            ("/home/x", Some(LostPath::Closed)),
            ("/never", None),
            ("/", None),
            ("/proc/x", None),
        ] {
            assert_eq!(both.lost(path), expected, "{path}");
        }
    }
}
