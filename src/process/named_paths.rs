//! The paths that the words of a command and the values of variables name.

use crate::layer::{EntryKind, RootPath};
use crate::rootfs::{Access, Credentials, Root};

/// What may stand around a path in a word: `--config=/a`, `@/a`, `/a:/b`, `file:///a`.
const AROUND: [char; 12] = ['=', ',', ':', ';', '@', ' ', '\t', '\'', '"', '(', ')', '|'];

/// The paths in a word, from the root. What only looks like one is none in any root, so it does no harm.
pub fn paths_in<'w>(word: &'w str, working_dir: &RootPath) -> impl Iterator<Item = RootPath> + use<'w> {
    let directory = working_dir.clone();
    let parts = word.split(AROUND).filter(|part| part.len() > 1);
    parts.filter_map(move |part| match part {
        absolute if absolute.starts_with('/') => RootPath::new(absolute).ok(),
        option if option.starts_with('-') => None,
        // A bare word is a subcommand more often than a file.
        relative if relative.contains('/') || relative.contains('.') => directory.join(relative).ok(),
        _ => None,
    })
}

/// What a path of the source is when the result does not have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostPath {
    /// A file that may be executed.
    Program,
    File,
    /// A directory without a file in it, which the user could write to.
    EmptyDirectory,
    Directory,
}

/// Where runtimes mount what every container has, whatever its image.
const MOUNTED: [&str; 6] = ["proc", "sys", "dev", "etc/hosts", "etc/hostname", "etc/resolv.conf"];

fn is_mounted(path: &RootPath) -> bool {
    MOUNTED.iter().any(|mounted| RootPath::new(mounted).is_ok_and(|mounted| path.is_within(&mounted)))
}

/// Whether the source has the path and the result does not, and what it was.
#[must_use]
pub fn lost_path(path: &RootPath, source: &Root<'_>, rebased: &Root<'_>, who: &Credentials) -> Option<LostPath> {
    if path.is_root() || is_mounted(path) {
        return None;
    }
    let found = source.resolve(path).ok()?;
    if rebased.resolve(path).is_ok() {
        return None;
    }
    Some(match found.node.kind() {
        EntryKind::Directory if is_empty(source, &found.path) && found.node.allows(who, Access::Write) => {
            LostPath::EmptyDirectory
        }
        EntryKind::Directory => LostPath::Directory,
        EntryKind::File { .. } if found.node.mode() & 0o111 != 0 => LostPath::Program,
        _ => LostPath::File,
    })
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

    #[test]
    fn paths_are_found_in_words_as_people_write_them() {
        let here = RootPath::new("srv").unwrap();
        for (word, expected) in [
            ("/a/b", vec!["/a/b"]),
            ("--config=/a", vec!["/a"]),
            ("-c/a", vec![]),
            ("@/a", vec!["/a"]),
            ("/a:/b", vec!["/a", "/b"]),
            ("file:///a/b", vec!["/a/b"]),
            ("--x=/a,/b", vec!["/a", "/b"]),
            ("./conf", vec!["/srv/conf"]),
            ("conf/app.yaml", vec!["/srv/conf/app.yaml"]),
            ("app.yaml", vec!["/srv/app.yaml"]),
            ("serve", vec![]),
            ("--serve.x", vec![]),
            ("/", vec![]),
            ("../x", vec![]),
        ] {
            let found: Vec<String> = paths_in(word, &here).map(|path| path.to_string()).collect();
            assert_eq!(found, expected, "{word}");
        }
    }
}
