//! The file that a container's first process is made of, in the root that the image will have.

use super::container::Container;
use crate::elf::{Linkage, Program};
use crate::layer::{Entry, LayerContents, RootPath};
use crate::rootfs::{FileNode, FoundCommand, Root};

/// What happens when a container is started.
#[derive(Debug, Clone)]
pub enum Start {
    /// The image has no command: whoever runs it must give one.
    NoCommand,
    /// A shell interprets the command; there is a rule for that.
    Shell,
    /// The first word leads to no program. The reasons, one for each path that was tried.
    Lost {
        name: String,
        reasons: String,
    },
    Found(Box<Started>),
}

impl Start {
    /// Where the program is.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Found(started) => Some(&started.path),
            Self::NoCommand | Self::Shell | Self::Lost { .. } => None,
        }
    }
}

/// A program that was found.
#[derive(Debug, Clone)]
pub struct Started {
    /// Where it is, after all links.
    pub path: String,
    /// `None` for a file that is neither ELF nor script.
    pub program: Option<Program>,
    /// Whether the interpreter that a script names is there.
    pub interpreter: Presence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    NotNeeded,
    There,
    Missing,
}

/// Looks for the program that stands at word number `at` of the command.
#[must_use]
pub fn start(container: &Container, at: usize, root: &Root<'_>) -> Start {
    let argv = container.command.argv();
    let Some(name) = argv.get(at) else { return Start::NoCommand };
    match root.search(name, container.search_path(), &container.working_dir()) {
        Ok(found) => Start::Found(Box::new(started(root, &found))),
        Err(lost) => Start::Lost { name: name.clone(), reasons: lost.to_string() },
    }
}

/// The file that a word of the command leads to.
#[must_use]
pub fn search<'r>(root: &'r Root<'r>, container: &Container, word: &str) -> Option<FoundCommand<'r>> {
    root.search(word, container.search_path(), &container.working_dir()).ok()
}

fn started<'r>(root: &Root<'r>, found: &FoundCommand<'r>) -> Started {
    let program = root.program(found.file.node).cloned();
    let interpreter = program.as_ref().and_then(|program| program.script.as_ref());
    let interpreter = match interpreter.map(|script| root.search(&script.interpreter, "", &RootPath::root())) {
        None => Presence::NotNeeded,
        Some(Ok(_)) => Presence::There,
        Some(Err(_)) => Presence::Missing,
    };
    Started { path: found.file.path.to_string(), program, interpreter }
}

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
