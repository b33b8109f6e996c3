//! The executables that an application brings beside those of its command.

use elf::{Linkage, Program};
use layer::{Entry, LayerContents, RootPath};
use start::link::{Linker, LoaderEnvironment, Missing};
use start::rootfs::{FileNode, FoundCommand, Root};

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
    /// The first thing that it needs to start and the rebased root lacks.
    pub lacks: Option<Missing>,
    /// Who names it: the command, a variable, or a program or script that is started.
    pub named_by: Option<String>,
}

impl Helper {
    /// Whether the kernel and its loader could start it.
    #[must_use]
    pub fn can_start(&self) -> bool {
        self.lacks.is_none()
    }
}

/// All executables of the application's layers that the root still has, but those of the command
/// itself; sorted by path.
pub(super) fn helpers<'a, 'r>(
    root: &'r Root<'r>,
    own: impl Iterator<Item = LayerContents<'a>>,
    is_of_command: impl Fn(&RootPath) -> bool,
    environment: &LoaderEnvironment,
) -> Vec<Helper> {
    let mut linker = Linker::new(root);
    let programs = own.flat_map(|layer| {
        layer.programs.iter().filter_map(move |found| Some((layer.entries.get(found.entry)?, &found.program)))
    });
    let executable = programs.filter(|(entry, program)| {
        entry.mode & 0o111 != 0 && program.linkage != Linkage::SharedObject && is_seen(root, entry)
    });
    let others = executable.filter(|(entry, _)| !is_of_command(&entry.path));
    let mut helpers: Vec<Helper> = others
        .map(|(Entry { path, .. }, program)| {
            let lacks = lacks_to_start(root, &mut linker, path, Some(program), environment);
            Helper { path: path.clone(), program: program.clone(), lacks, named_by: None }
        })
        .collect();
    helpers.sort_by(|one, other| one.path.cmp(&other.path));
    helpers
}

/// Whether this very entry is what the root has at its path: a later layer may have put another there.
#[must_use]
pub fn is_seen(root: &Root<'_>, entry: &Entry) -> bool {
    root.get(&entry.path).and_then(FileNode::entry).is_some_and(|there| std::ptr::eq(there, entry))
}

/// The first thing that a file needs to start and the root lacks: what its loader would miss, or the interpreter
/// of a script, or what that would miss.
pub(super) fn lacks_to_start<'r>(
    root: &'r Root<'r>,
    linker: &mut Linker<'r>,
    path: &RootPath,
    program: Option<&Program>,
    environment: &LoaderEnvironment,
) -> Option<Missing> {
    let program = program?;
    match (program.linkage, &program.script) {
        (Linkage::Dynamic, _) => linker.closure(path, environment).missing,
        (Linkage::Script, Some(script)) => {
            let missing = || Missing::Interpreter { path: script.interpreter.clone(), asked_by: path.clone() };
            match root.search(&script.interpreter, "", &RootPath::root()) {
                Ok(found) => linker.closure(&found.file.path, environment).missing,
                Err(_) => Some(missing()),
            }
        }
        _ => None,
    }
}

#[must_use]
pub fn is_there(root: &Root<'_>, path: &str) -> bool {
    root.search(path, "", &RootPath::root()).is_ok()
}

/// The directories in which libraries are looked for by the beginning of their names.
#[must_use]
pub fn library_directories(root: &Root<'_>) -> Vec<RootPath> {
    let plain = ["lib", "usr/lib", "lib64", "usr/lib64", "usr/local/lib"].map(|path| RootPath::new(path).ok());
    let plain: Vec<RootPath> = plain.into_iter().flatten().collect();
    let multiarch = plain.iter().flat_map(|directory| {
        let names = root.directory(directory).filter(|(name, _)| name.windows(7).any(|part| part == b"-linux-"));
        names.filter_map(|(name, _)| directory.join(name).ok()).collect::<Vec<_>>()
    });
    plain.iter().cloned().chain(multiarch).collect()
}
