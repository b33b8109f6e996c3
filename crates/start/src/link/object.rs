//! A file that a loader opens: whether it can use it, and what it is then known by.

use std::collections::HashMap;

use crate::rootfs::{Access, Credentials, Resolved, Root};
use elf::{DynamicFacts, FloatAbi, LinkFlags, Linkage, Program, VersionNeed};
use layer::{EntryKind, RootPath};

/// A file that is mapped into the process.
#[derive(Debug, Clone)]
pub(super) struct LoadedObject<'r> {
    /// Where it is, without any link.
    pub path: RootPath,
    /// The path by which it was opened.
    pub written: String,
    /// The name that was asked for.
    pub name: String,
    /// Its loader in the list of objects: who asked for it first.
    pub asked_by: Option<usize>,
    /// What tells one file from another, as its inode does.
    pub place: (usize, usize),
    pub program: &'r Program,
    pub facts: &'r DynamicFacts,
    /// What the indexes of versions are called.
    pub versions: HashMap<u16, &'r str>,
    /// Which file a version is needed from.
    pub version_files: HashMap<u16, &'r str>,
}

impl<'r> LoadedObject<'r> {
    pub fn new(file: OpenedFile<'r>, name: &str, asked_by: Option<usize>) -> Self {
        let OpenedFile { path, written, place, program, facts } = file;
        let needed = || {
            let of = |need: &'r VersionNeed| need.versions.iter().map(move |version| (need, version));
            facts.version_needs.iter().flat_map(of)
        };
        // The name of the file itself is no version of a symbol.
        let defined = facts.version_definitions.iter().filter(|version| !version.is_base);
        let defined = defined.map(|version| (version.index, version.name.as_str()));
        let versions = needed().map(|(_, version)| (version.index, version.name.as_str())).chain(defined).collect();
        let version_files = needed().map(|(need, version)| (version.index, need.file.as_str())).collect();
        let name = name.to_owned();
        Self { path, written, name, asked_by, place, program, facts, versions, version_files }
    }
}

impl LoadedObject<'_> {
    /// What `$ORIGIN` stands for: the directory of the program where it really is, and of a library where it
    /// was opened.
    pub fn origin(&self) -> String {
        let path = if self.asked_by.is_none() { self.path.to_string() } else { self.written.clone() };
        match path.rsplit_once('/') {
            Some(("", _)) => "/".to_owned(),
            Some((directory, _)) => directory.to_owned(),
            None => ".".to_owned(),
        }
    }

    pub fn has(&self, flag: LinkFlags) -> bool {
        self.facts.flags.has(flag)
    }
}

/// What came of opening a path.
pub(super) enum Opened<'r> {
    /// Nothing is there, or the user may not read it: the search goes on.
    Absent,
    /// A library of another machine: the search goes on.
    OtherMachine,
    /// The loader gives up.
    Unusable(String),
    File(OpenedFile<'r>),
}

#[derive(Debug, Clone)]
pub(super) struct OpenedFile<'r> {
    pub path: RootPath,
    pub written: String,
    pub place: (usize, usize),
    pub program: &'r Program,
    pub facts: &'r DynamicFacts,
}

/// Opens files of a root for a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opener<'a, 'r> {
    pub root: &'r Root<'r>,
    pub working_dir: &'a RootPath,
    pub who: &'a Credentials,
}

impl<'r> Opener<'_, 'r> {
    pub fn resolve(&self, written: &str) -> Option<Resolved<'r>> {
        self.root.resolve_as(written, self.working_dir, self.who).ok()
    }

    /// Opens a library for `program`, as both loaders do before they map it.
    pub fn open(&self, written: &str, program: &Program) -> Opened<'r> {
        let Some(found) = self.resolve(written) else { return Opened::Absent };
        let is_file = matches!(found.node.kind(), EntryKind::File { .. });
        if is_file && !found.node.allows(self.who, Access::Read) {
            return Opened::Absent;
        }
        let known = self.root.program(found.node).zip(found.node.place()).filter(|_| is_file);
        let Some((library, place)) = known else {
            return Opened::Unusable("is not a library".to_owned());
        };
        if library.machine.is_some() && !is_same_machine(library, program) {
            return Opened::OtherMachine;
        }
        let Some(facts) = library.dynamic.as_deref().filter(|_| library.linkage != Linkage::Other) else {
            let why = library.notes.first().map_or("has no dynamic section", String::as_str);
            return Opened::Unusable(format!("cannot be loaded: {why}"));
        };
        if facts.flags.has(LinkFlags::FIXED) || facts.flags.has(LinkFlags::PIE) {
            return Opened::Unusable("is a program, which cannot be loaded".to_owned());
        }
        // A library for another system is passed over as one of another machine is.
        if facts.abi.is_some_and(|abi| abi.system != 0) {
            return Opened::OtherMachine;
        }
        Opened::File(OpenedFile { path: found.path, written: written.to_owned(), place, program: library, facts })
    }
}

pub(super) fn is_same_machine(one: &Program, other: &Program) -> bool {
    let floats = |program: &Program| program.float_abi;
    let is_same_float = match (floats(one), floats(other)) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    };
    one.machine == other.machine && one.class == other.class && one.endian == other.endian && is_same_float
}

/// Whether floating-point arguments are passed in registers, where there is a choice.
pub(super) fn is_hard_float(program: &Program) -> bool {
    program.float_abi == Some(FloatAbi::Hard)
}
