//! The file that a container's first process is made of, in the root that the image will have.

use serde_json::Value;

use super::container::Container;
use crate::elf::Program;
use crate::layer::RootPath;
use crate::rootfs::{FoundCommand, Root};

/// What runtimes search where the image sets no `PATH`.
pub(super) const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

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
    pub(super) fn path(&self) -> Option<&str> {
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
    match root.search(name, &path_variable(container), &working_dir(container)) {
        Ok(found) => Start::Found(Box::new(started(root, &found))),
        Err(lost) => Start::Lost { name: name.clone(), reasons: lost.to_string() },
    }
}

/// The file that a word of the command leads to.
pub(super) fn search<'r>(root: &'r Root<'r>, container: &Container, word: &str) -> Option<FoundCommand<'r>> {
    root.search(word, &path_variable(container), &working_dir(container)).ok()
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

pub(super) fn path_variable(container: &Container) -> String {
    let entries = container.members.get("Env").and_then(Value::as_array).into_iter().flatten();
    let mut paths = entries.filter_map(|entry| entry.as_str()?.strip_prefix("PATH="));
    // Of several, the last counts.
    paths.next_back().unwrap_or(DEFAULT_PATH).to_owned()
}

pub(super) fn working_dir(container: &Container) -> RootPath {
    let written = container.members.get("WorkingDir").and_then(Value::as_str).unwrap_or_default();
    RootPath::new(written).unwrap_or_else(|_| RootPath::root())
}
