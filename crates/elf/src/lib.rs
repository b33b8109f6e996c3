//! From the bytes of a file to what it takes to start it: linkage, machine, Go facts.
//!
//! [`Probe`] is the entry point, for files on disk and for files inside a layer alike: it is fed the
//! bytes once, in order, keeps at most 50 MiB of them, and gives a [`Program`]. The rule it owns:
//! a file is static because that was seen, never because something could not be read. Whatever
//! does not fit together is [`Linkage::Other`] with a note.
//!
//! ```
//! use elf::{Linkage, Probe};
//!
//! let bytes = b"#!/bin/sh -e\nexec /app\n";
//! let mut probe = Probe::new(bytes.len() as u64);
//! probe.feed(bytes);
//! let program = probe.finish();
//! assert_eq!(program.linkage, Linkage::Script);
//! assert_eq!(program.script.unwrap().interpreter, "/bin/sh");
//! ```
//!
//! Formats: System V ABI (ELF header, program headers, dynamic section), `#!` lines as Linux reads
//! them, Go's build info (`debug/buildinfo`), the list of crates of `cargo auditable`.

// Tests put files where they like, and tables of cases are long.
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::too_many_lines))]

mod audit_scan;
mod dynamic;
mod dynamic_facts;
mod go_facts;
mod go_scan;
mod header;
mod linkage;
mod loader_facts;
mod packed;
mod patterns;
mod probe;
mod program;
mod script;
mod segments;
mod starts;
mod strings;
mod symbols;
mod tools;
mod versions;
mod window;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use audit_scan::RustCrate;
pub use dynamic_facts::{
    AbiNote, BoundWhen, DynamicFacts, LinkFlags, LoaderFacts, LoaderKind, NameHash, NeededVersion, SymbolDefinitions,
    SymbolKind, SymbolUse, VersionDefinition, VersionNeed,
};
pub use go_facts::GoFacts;
pub use probe::Probe;
pub use program::{
    Class, Endian, FloatAbi, Language, Linkage, Program, ProgramString, ProgramStrings, ReferredBy, Script,
    StartsOthers, Tool,
};
