//! The file that a container's first process is made of, in the root that the image will have.

use super::container::Container;
use crate::elf::Program;
use crate::layer::RootPath;
use crate::rootfs::{FoundCommand, Root};

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
