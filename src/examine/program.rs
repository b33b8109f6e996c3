//! The file that a container's first process is made of, in the root that the image will have.

use serde_json::Value;

use super::account;
use super::container::Container;
use super::subject::PlatformSubject;
use crate::elf::Program;
use crate::layer::RootPath;
use crate::rootfs::{Found, Root, merge};

/// What runtimes search where the image sets no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

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

/// Looks for the program of `container` in the root.
#[must_use]
pub fn start(container: &Container, root: &Root<'_>) -> Start {
    if container.command.shell_form().is_some() {
        return Start::Shell;
    }
    let Some(name) = container.command.program() else { return Start::NoCommand };
    match root.search(&name, &path_variable(container), &working_dir(container)) {
        Ok(found) => Start::Found(Box::new(started(root, &found))),
        Err(lost) => Start::Lost { name, reasons: lost.to_string() },
    }
}

/// Whether the layers of the new base must be known to answer: not when the application's own
/// layers hold the program at its full path, whatever lies below them, and accounts are numbers.
#[must_use]
pub fn needs_new_base(subject: &PlatformSubject) -> bool {
    let container = Container::moved(subject);
    let is_full_path = container.command.program().is_some_and(|program| program.starts_with('/'));
    if !account::named(&container).is_empty() {
        return true;
    }
    match start(&container, &merge(subject.layers.iter().map(AsRef::as_ref))) {
        Start::NoCommand | Start::Shell => false,
        Start::Found(started) => !is_full_path || started.interpreter == Presence::Missing,
        Start::Lost { .. } => true,
    }
}

fn started<'r>(root: &Root<'r>, found: &Found<'r>) -> Started {
    let program = root.program(found.file.node).cloned();
    let interpreter = program.as_ref().and_then(|program| program.script.as_ref());
    let interpreter = match interpreter.map(|script| root.search(&script.interpreter, "", &RootPath::root())) {
        None => Presence::NotNeeded,
        Some(Ok(_)) => Presence::There,
        Some(Err(_)) => Presence::Missing,
    };
    Started { path: found.file.path.to_string(), program, interpreter }
}

fn path_variable(container: &Container) -> String {
    let entries = container.members.get("Env").and_then(Value::as_array).into_iter().flatten();
    let mut paths = entries.filter_map(|entry| entry.as_str()?.strip_prefix("PATH="));
    // Of several, the last counts.
    paths.next_back().unwrap_or(DEFAULT_PATH).to_owned()
}

fn working_dir(container: &Container) -> RootPath {
    let written = container.members.get("WorkingDir").and_then(Value::as_str).unwrap_or_default();
    RootPath::new(written).unwrap_or_else(|_| RootPath::root())
}
