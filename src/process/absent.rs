//! Tools and libraries that the program was seen to use and that only the old base had.
//!
//! Two pieces of evidence, always: the name in the program, and the file in the removed root. Either
//! alone proves nothing.

use super::container::{Container, DEFAULT_PATH};
use super::helper::library_folders;
use super::program::Start;
use crate::elf::{ShownBy, Tool};
use crate::layer::RootPath;
use crate::rootfs::Root;

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
