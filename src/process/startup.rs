//! What happens when a container of the result starts: asked of the rebased root, and of the
//! source's root about what the rebased one lacks.

use serde_json::Value;

use super::absent::{self, Absent};
use super::container::Container;
use super::helper::{Helper, helpers};
use super::program::{Presence, Start, search, start};
use crate::layer::LayerContents;
use crate::rootfs::Root;

/// What would be started.
#[derive(Debug, Clone)]
pub struct Setup<'a> {
    pub container: &'a Container,
    /// Which word of the command is the application's program.
    pub program: usize,
    /// The words before it that are programs themselves: an init, a runner.
    pub wrappers: Vec<usize>,
    /// The command needs a shell that the rebased root lacks.
    pub needs_shell: bool,
    /// The script that the command was made from, which is started no more.
    pub inlined: Option<&'a str>,
}

/// The programs that a container starts, or would start later.
#[derive(Debug, Clone)]
pub struct Startup {
    /// The application's program.
    pub program: Start,
    /// What is started before it: an init, a runner.
    pub wrappers: Vec<Start>,
    /// Where the source has the program that the rebased root lacks.
    pub lost_in: Option<String>,
    pub health: Health,
    pub helpers: Vec<Helper>,
    pub tools: Vec<Absent>,
    pub libraries: Vec<Absent>,
    /// Names of tools and libraries in the program that the rebased root does not answer.
    pub unanswered: Vec<String>,
}

/// Looks at everything that `setup` leads to. `own` are the layers above the new base.
#[must_use]
pub fn look<'l>(
    setup: &Setup<'_>,
    rebased: &Root<'_>,
    source: &Root<'_>,
    own: impl Iterator<Item = LayerContents<'l>>,
) -> Startup {
    let container = setup.container;
    let program = match start(container, setup.program, rebased) {
        Start::Found(started) if started.interpreter == Presence::Missing => Start::Found(started),
        _ if setup.needs_shell => Start::Shell,
        start => start,
    };
    let wrappers: Vec<Start> = setup.wrappers.iter().map(|word| start(container, *word, rebased)).collect();
    // A script that was inlined is no helper of the command that it became.
    let of_command = wrappers.iter().chain([&program]).filter_map(Start::path).chain(setup.inlined);
    let of_command: Vec<&str> = of_command.collect();
    let tools = absent::tools(&program, container, rebased);
    let libraries = absent::libraries(&program, rebased);
    Startup {
        lost_in: match &program {
            Start::Lost { name, .. } => search(source, container, name).map(|found| found.file.path.to_string()),
            _ => None,
        },
        health: look_at_health(container, rebased),
        helpers: helpers(rebased, own, &of_command),
        tools: absent::tools_of_source(&tools, container, source),
        libraries: absent::libraries_of_source(&libraries, source),
        unanswered: tools.into_iter().map(|tool| &tool.name).chain(libraries).cloned().collect(),
        wrappers,
        program,
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// There is none, or what it runs is there, or it is a shell's: see `exec_form`.
    Fine,
    /// Its program is not in the rebased root.
    Lost { name: String, reasons: String },
}

fn look_at_health(container: &Container, root: &Root<'_>) -> Health {
    let test = container.members.get("Healthcheck").and_then(|check| check.get("Test")).and_then(Value::as_array);
    let words: Vec<&str> = test.into_iter().flatten().filter_map(Value::as_str).collect();
    match words.split_first() {
        Some((&"CMD", [name, ..])) => match root.search(name, container.search_path(), &container.working_dir()) {
            Ok(_) => Health::Fine,
            Err(lost) => Health::Lost { name: (*name).to_owned(), reasons: lost.to_string() },
        },
        _ => Health::Fine,
    }
}
