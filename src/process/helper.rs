//! The other programs of the application: each must be able to start on the new base, too.

use crate::elf::{Linkage, Program};
use crate::layer::{Entry, LayerContents, RootPath};
use crate::rootfs::{FileNode, Root};

/// An executable of the application's layers beside the one that is started.
#[derive(Debug, Clone)]
pub struct Helper {
    pub path: String,
    pub linkage: Linkage,
    pub machine: Option<String>,
    pub needed: Vec<String>,
    /// What it needs to start and the rebased root lacks: an interpreter, libraries.
    pub lacks: Vec<String>,
}

/// All executables of the application's layers that the root still has, but those of the command
/// itself; sorted by path.
pub(super) fn helpers<'a>(
    root: &Root<'_>,
    own: impl Iterator<Item = LayerContents<'a>>,
    command: &[&str],
) -> Vec<Helper> {
    let folders = library_folders(root);
    let programs = own.flat_map(|layer| {
        layer.programs.iter().filter_map(move |found| Some((layer.entries.get(found.entry)?, &found.program)))
    });
    let executable = programs.filter(|(entry, program)| {
        entry.mode & 0o111 != 0 && program.linkage != Linkage::SharedObject && is_seen(root, entry)
    });
    let others = executable.map(|(entry, program)| (entry.path.to_string(), program));
    let others = others.filter(|(path, _)| !command.contains(&path.as_str()));
    let mut helpers: Vec<Helper> = others.map(|(path, program)| helper(root, &folders, path, program)).collect();
    helpers.sort_by(|one, other| one.path.cmp(&other.path));
    helpers
}

/// Whether this very entry is what the root has at its path: a later layer may have put another there.
#[must_use]
pub fn is_seen(root: &Root<'_>, entry: &Entry) -> bool {
    root.get(&entry.path).and_then(FileNode::entry).is_some_and(|there| std::ptr::eq(there, entry))
}

fn helper(root: &Root<'_>, folders: &[RootPath], path: String, program: &Program) -> Helper {
    let script = program.script.as_ref().map(|script| &script.interpreter);
    let interpreter = script.or(program.interpreter.as_ref()).filter(|path| !is_there(root, path));
    let has = |library: &&String| folders.iter().any(|folder| is_in(root, folder, library));
    let libraries = program.needed.iter().filter(|library| !has(library));
    Helper {
        path,
        linkage: program.linkage,
        machine: program.machine.clone(),
        needed: program.needed.clone(),
        lacks: interpreter.into_iter().chain(libraries).cloned().collect(),
    }
}

#[must_use]
pub fn is_there(root: &Root<'_>, path: &str) -> bool {
    root.search(path, "", &RootPath::root()).is_ok()
}

fn is_in(root: &Root<'_>, folder: &RootPath, name: &str) -> bool {
    folder.join(name).is_ok_and(|path| root.resolve(&path).is_ok())
}

/// The folders in which a loader looks for libraries.
pub(super) fn library_folders(root: &Root<'_>) -> Vec<RootPath> {
    let plain = ["lib", "usr/lib", "lib64", "usr/lib64", "usr/local/lib"].map(|path| RootPath::new(path).ok());
    let plain: Vec<RootPath> = plain.into_iter().flatten().collect();
    let multiarch = plain.iter().flat_map(|folder| {
        let names = root.directory(folder).filter(|(name, _)| name.windows(7).any(|part| part == b"-linux-"));
        names.filter_map(|(name, _)| folder.join(name).ok()).collect::<Vec<_>>()
    });
    plain.iter().cloned().chain(multiarch).collect()
}
