//! Programs, libraries and loaders for tests, without any bytes.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use elf::{
    BoundWhen, DynamicFacts, LinkFlags, Linkage, LoaderFacts, LoaderKind, NameHash, NeededVersion, Program,
    SymbolDefinitions, SymbolKind, SymbolUse, VersionDefinition, VersionNeed,
};

/// The path of the loader of all of these.
pub const LOADER: &str = "/lib/ld.so";

/// A library or a program whose tables were read; `change` says what is in them.
pub fn linked(linkage: Linkage, change: impl FnOnce(&mut Program, &mut DynamicFacts)) -> Program {
    let mut program = Program { machine: Some("arm".to_owned()), ..Program::of(linkage) };
    program.strings.complete = true;
    let mut facts = DynamicFacts { complete: true, ..DynamicFacts::default() };
    if linkage == Linkage::Dynamic {
        program.interpreter = Some(LOADER.to_owned());
    }
    change(&mut program, &mut facts);
    program.dynamic = Some(Arc::new(facts));
    program
}

/// A program that needs these libraries.
pub fn needing(libraries: &[&str]) -> Program {
    linked(Linkage::Dynamic, |program, _| program.needed = owned(libraries))
}

/// A library that is called so and needs these.
pub fn library(soname: &str, libraries: &[&str]) -> Program {
    linked(Linkage::SharedObject, |program, facts| {
        program.needed = owned(libraries);
        facts.soname = Some(soname.to_owned());
    })
}

/// A loader with these directories.
pub fn loader(kind: LoaderKind, directories: &[&str]) -> Program {
    linked(Linkage::SharedObject, |_, facts| {
        facts.soname = Some("ld.so".to_owned());
        facts.loader = Some(LoaderFacts { kind, directories: owned(directories) });
    })
}

/// glibc's, which searches `/lib` and `/usr/lib`.
pub fn glibc() -> Program {
    loader(LoaderKind::Glibc, &["/lib/", "/usr/lib/"])
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Symbols that a file has: `name`, `name@version` hidden, `name@@version` by default.
pub fn defining(mut program: Program, symbols: &[&str]) -> Program {
    let mut facts = program.dynamic.as_deref().cloned().unwrap_or_default();
    let mut rows = Vec::new();
    for symbol in symbols {
        let (name, version) = symbol.split_once('@').unwrap_or((symbol, ""));
        let is_default = version.starts_with('@');
        let index = match version.trim_start_matches('@') {
            "" => 1,
            version => definition(&mut facts, version),
        };
        let hidden = if version.is_empty() || is_default { 0 } else { 0x8000 };
        rows.push((NameHash::of(name.as_bytes()), index | hidden));
    }
    facts.defines = SymbolDefinitions::new(rows.into_iter());
    program.dynamic = Some(Arc::new(facts));
    program
}

fn definition(facts: &mut DynamicFacts, version: &str) -> u16 {
    facts.flags = LinkFlags::VERSIONED;
    if let Some(known) = facts.version_definitions.iter().find(|known| known.name == version) {
        return known.index;
    }
    let index = u16::try_from(facts.version_definitions.len()).unwrap() + 2;
    facts.version_definitions.push(VersionDefinition { name: version.to_owned(), index, is_base: false });
    index
}

/// Symbols that a file uses: `name`, or `name@version:file`.
pub fn using(mut program: Program, symbols: &[&str]) -> Program {
    let mut facts = program.dynamic.as_deref().cloned().unwrap_or_default();
    for symbol in symbols {
        let (name, version) = symbol.split_once('@').unwrap_or((symbol, ""));
        let index = version.split_once(':').map_or(0, |(version, file)| {
            let index = 100 + u16::try_from(facts.version_needs.len()).unwrap();
            let versions = vec![NeededVersion { name: version.to_owned(), index, is_weak: false }];
            facts.version_needs.push(VersionNeed { file: file.to_owned(), versions });
            index
        });
        let (name, bound) = (name.to_owned(), BoundWhen::Started);
        facts.uses.push(SymbolUse { name, version: index, bound, is_copied: false, kind: SymbolKind::Any });
    }
    program.dynamic = Some(Arc::new(facts));
    program
}
