//! What happens when a container of the result starts: asked of the rebased root, and of the
//! source's root about what the rebased one lacks.

use serde_json::Value;

use super::container::{Container, DEFAULT_PATH};
use super::program::{Helper, Presence, Start, helpers, library_folders, search, start};
use crate::elf::{ShownBy, Tool};
use crate::layer::{LayerContents, RootPath};
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
    let tools = tools(&program, container, rebased);
    let libraries = libraries(&program, rebased);
    Startup {
        lost_in: match &program {
            Start::Lost { name, .. } => search(source, container, name).map(|found| found.file.path.to_string()),
            _ => None,
        },
        health: look_at_health(container, rebased),
        helpers: helpers(rebased, own, &of_command),
        tools: tools_of_source(&tools, container, source),
        libraries: libraries_of_source(&libraries, source),
        unanswered: tools.into_iter().map(|tool| &tool.name).chain(libraries).cloned().collect(),
        wrappers,
        program,
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// There is none, or what it runs is there, or it is a shell's: see `plan::command`.
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

/// What goes missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// As the program has it.
    pub name: String,
    /// What shows that the program uses it.
    pub shown_by: ShownBy,
    /// Where the source has it.
    pub path: String,
}

/// Names in the program that the rebased root does not answer. Whether the source did is to be
/// asked of the source.
pub(super) fn tools<'a>(start: &'a Start, container: &Container, rebased: &Root<'_>) -> Vec<&'a Tool> {
    let Start::Found(started) = start else { return Vec::new() };
    let tools = started.program.iter().flat_map(|program| &program.tools);
    tools.filter(|tool| find_tool(&tool.name, container, rebased).is_none()).collect()
}

pub(super) fn libraries<'a>(start: &'a Start, rebased: &Root<'_>) -> Vec<&'a String> {
    let Start::Found(started) = start else { return Vec::new() };
    let names = started.program.iter().flat_map(|program| &program.libraries);
    names.filter(|name| find_library(name, rebased).is_none()).collect()
}

/// Those of the tools that the source has.
pub(super) fn tools_of_source(tools: &[&Tool], container: &Container, source: &Root<'_>) -> Vec<Absent> {
    let absent = |tool: &&Tool| {
        let path = find_tool(&tool.name, container, source)?;
        Some(Absent { name: tool.name.clone(), shown_by: tool.shown_by.clone(), path })
    };
    tools.iter().filter_map(absent).collect()
}

pub(super) fn libraries_of_source(names: &[&String], source: &Root<'_>) -> Vec<Absent> {
    let absent = |name: &&String| {
        Some(Absent { name: (*name).clone(), shown_by: ShownBy::Word, path: find_library(name, source)? })
    };
    names.iter().filter_map(absent).collect()
}

fn find_tool(name: &str, container: &Container, root: &Root<'_>) -> Option<String> {
    let paths = format!("{}:{}", container.search_path(), DEFAULT_PATH);
    root.search(name, &paths, &RootPath::root()).ok().map(|found| found.file.path.to_string())
}

/// A library by the beginning of its name: `libsystemd.so` is there as `libsystemd.so.0`.
fn find_library(name: &str, root: &Root<'_>) -> Option<String> {
    library_folders(root).iter().find_map(|folder| {
        let mut files = root.directory(folder).filter(|(file, _)| file.starts_with(name.as_bytes()));
        let file = files.next().and_then(|(file, _)| folder.join(file).ok());
        file.map(|path| path.to_string())
    })
}
