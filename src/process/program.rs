//! The executables that an application brings beside those of its command.

use crate::elf::{Linkage, Program};
use crate::layer::{Entry, LayerContents, RootPath};
use crate::rootfs::{FileNode, FoundCommand, Root};

use super::container::Container;

/// The file that a word of the command leads to.
#[must_use]
pub fn search<'r>(root: &'r Root<'r>, container: &Container, word: &str) -> Option<FoundCommand<'r>> {
    root.search(word, container.search_path(), &container.working_dir()).ok()
}

/// An executable of the application's layers beside those of the command.
#[derive(Debug, Clone)]
pub struct Helper {
    pub path: RootPath,
    pub program: Program,
    /// What it needs to start and the rebased root lacks: an interpreter, libraries.
    pub lacks: Vec<String>,
    /// Who names it: the command, a variable, or a program or script that is started.
    pub named_by: Option<String>,
}

impl Helper {
    /// Whether the kernel and its loader could start it.
    #[must_use]
    pub fn can_start(&self) -> bool {
        match self.program.linkage {
            Linkage::Dynamic | Linkage::Script => self.lacks.is_empty(),
            _ => true,
        }
    }
}

/// All executables of the application's layers that the root still has, but those of the command
/// itself; sorted by path.
pub(super) fn helpers<'a>(
    root: &Root<'_>,
    own: impl Iterator<Item = LayerContents<'a>>,
    is_of_command: impl Fn(&RootPath) -> bool,
) -> Vec<Helper> {
    let directories = library_directories(root);
    let programs = own.flat_map(|layer| {
        layer.programs.iter().filter_map(move |found| Some((layer.entries.get(found.entry)?, &found.program)))
    });
    let executable = programs.filter(|(entry, program)| {
        entry.mode & 0o111 != 0 && program.linkage != Linkage::SharedObject && is_seen(root, entry)
    });
    let others = executable.filter(|(entry, _)| !is_of_command(&entry.path));
    let mut helpers: Vec<Helper> =
        others.map(|(entry, program)| helper(root, &directories, &entry.path, program)).collect();
    helpers.sort_by(|one, other| one.path.cmp(&other.path));
    helpers
}

/// Whether this very entry is what the root has at its path: a later layer may have put another there.
#[must_use]
pub fn is_seen(root: &Root<'_>, entry: &Entry) -> bool {
    root.get(&entry.path).and_then(FileNode::entry).is_some_and(|there| std::ptr::eq(there, entry))
}

fn helper(root: &Root<'_>, directories: &[RootPath], path: &RootPath, program: &Program) -> Helper {
    Helper { path: path.clone(), lacks: lacks(root, directories, program), program: program.clone(), named_by: None }
}

fn lacks(root: &Root<'_>, directories: &[RootPath], program: &Program) -> Vec<String> {
    let script = program.script.as_ref().map(|script| &script.interpreter);
    let interpreter = script.or(program.interpreter.as_ref()).filter(|path| !is_there(root, path));
    let has = |library: &&String| directories.iter().any(|directory| is_in(root, directory, library));
    let libraries = program.needed.iter().filter(|library| !has(library));
    interpreter.into_iter().chain(libraries).cloned().collect()
}

/// What a dynamic program needs to start and the root lacks.
pub(super) fn lacks_to_start(root: &Root<'_>, program: Option<&Program>) -> Vec<String> {
    let dynamic = program.filter(|program| program.linkage == Linkage::Dynamic);
    dynamic.map(|program| lacks(root, &library_directories(root), program)).unwrap_or_default()
}

#[must_use]
pub fn is_there(root: &Root<'_>, path: &str) -> bool {
    root.search(path, "", &RootPath::root()).is_ok()
}

fn is_in(root: &Root<'_>, directory: &RootPath, name: &str) -> bool {
    directory.join(name).is_ok_and(|path| root.resolve(&path).is_ok())
}

/// The directories in which a loader looks for libraries.
pub(super) fn library_directories(root: &Root<'_>) -> Vec<RootPath> {
    let plain = ["lib", "usr/lib", "lib64", "usr/lib64", "usr/local/lib"].map(|path| RootPath::new(path).ok());
    let plain: Vec<RootPath> = plain.into_iter().flatten().collect();
    let multiarch = plain.iter().flat_map(|directory| {
        let names = root.directory(directory).filter(|(name, _)| name.windows(7).any(|part| part == b"-linux-"));
        names.filter_map(|(name, _)| directory.join(name).ok()).collect::<Vec<_>>()
    });
    plain.iter().cloned().chain(multiarch).collect()
}
