//! From the headers of an ELF file to its linkage.
//!
//! Header, program headers, dynamic section, names: each says where the next one is. Most often it
//! is near the beginning and still in the window, or is yet to come and can be asked for.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use object::elf::{self, ET_EXEC, FileType};

use super::dynamic::Dynamic;
use super::dynamic_facts::{DynamicFacts, LinkFlags};
use super::header::{Checked, Malformed, require};
use super::header::{ElfHeader, LARGEST, float_abi, machine_name};
use super::loader_facts::{self, NoteFacts};
use super::program::{Linkage, Program};
use super::segments::{FilePart, Segments};
use super::symbols::{SymbolFacts, SymbolSource};
use super::window::{TABLE_BYTES, WantedFor, Window};

/// Names are asked for at this length; near the beginning of the file they can be longer.
const NAME: usize = 256;
/// A loader's own text is within so much of its file.
const LOADER_TEXT: u64 = 2 << 20;

/// What is known of the headers so far.
pub(super) struct LinkageReader {
    size: u64,
    header: Option<ElfHeader>,
    segments: Option<Segments>,
    dynamic: Option<Dynamic>,
    fault: Option<Malformed>,
    symbols: SymbolReading,
}

/// Whether what a loader reads is looked for: symbols, versions, relocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SymbolReading {
    Wanted,
    LeftOut,
}

impl LinkageReader {
    pub fn new(size: u64, symbols: SymbolReading) -> Self {
        Self { size, header: None, segments: None, dynamic: None, fault: None, symbols }
    }

    pub fn segments(&self) -> Option<&Segments> {
        self.segments.as_ref()
    }

    /// The headers, once both are read.
    pub fn headers(&self) -> Option<(&ElfHeader, &Segments)> {
        self.header.as_ref().zip(self.segments.as_ref())
    }

    /// Where in the file there are names for the loader: of symbols and libraries, and of the interpreter.
    pub fn name_tables(&self) -> Vec<Range<u64>> {
        let Some(segments) = &self.segments else { return Vec::new() };
        let interpreter = segments.interpreter.map(|part| part.offset..part.offset + part.len as u64);
        let strings = self.dynamic.as_ref().and_then(|dynamic| {
            let offset = segments.offset_of(dynamic.strings?)?;
            Some(offset..offset.saturating_add(dynamic.strings_len?))
        });
        interpreter.into_iter().chain(strings).collect()
    }

    /// Reads what has arrived.
    pub fn advance(&mut self, window: &mut Window) {
        if self.fault.is_none() {
            self.fault = self.read(window).err();
        }
    }

    fn read(&mut self, window: &mut Window) -> Checked<()> {
        if self.header.is_none() {
            self.header = Some(ElfHeader::read(window.run(0, LARGEST))?);
        }
        let Some(header) = &self.header else { return Ok(()) };
        if self.segments.is_none() {
            self.segments = read_segments(header, self.size, window)?;
            if let (Some(segments), SymbolReading::Wanted) = (&self.segments, self.symbols)
                && segments.dynamic.is_some()
            {
                // Every linker puts what the loader reads into the first segment, and a loader's own text
                // is not much further.
                window.keep_beginning(segments.first_end().max(LOADER_TEXT));
            }
        }
        if let (None, Some(segments)) = (&self.dynamic, &self.segments) {
            self.dynamic = read_dynamic(header, segments, window)?;
            if let (Some(dynamic), SymbolReading::Wanted) = (&self.dynamic, self.symbols) {
                want_tables(dynamic, segments, window);
            }
        }
        Ok(())
    }

    /// What the headers say, after the last byte.
    pub fn finish(self, window: &Window) -> Program {
        let mut program = Program::of(Linkage::Other);
        let outcome = match self.fault.clone() {
            Some(fault) => Err(fault),
            None => self.describe(window, &mut program),
        };
        if let Some(header) = &self.header {
            program.class = Some(header.class);
            program.endian = Some(header.endian);
            program.machine = Some(machine_name(header.machine, header.class, header.endian));
            program.float_abi = float_abi(header.machine, header.flags);
        }
        if let Err(Malformed(why)) = outcome {
            program.linkage = Linkage::Other;
            program.notes.push(why);
        }
        program
    }

    fn describe(&self, window: &Window, program: &mut Program) -> Checked<()> {
        let Some(header) = &self.header else { return Err(Malformed::new("the ELF header cannot be read")) };
        let Some(segments) = &self.segments else { return Err(Malformed::new("the program headers cannot be read")) };
        let empty = Dynamic::default();
        let dynamic = match (&self.dynamic, segments.dynamic) {
            (Some(dynamic), _) => dynamic,
            (None, None) => &empty,
            (None, Some(_)) => return Err(Malformed::new("the dynamic section cannot be read")),
        };
        if let Some(part) = segments.interpreter {
            program.interpreter = interpreter(part, window, &mut program.notes);
        }
        program.needed = needed(dynamic, segments, window, &mut program.notes);
        program.linkage = linkage(LinkageTraits {
            kind: header.kind,
            has_interpreter: segments.interpreter.is_some(),
            needs_libraries: !dynamic.needed.is_empty(),
            has_soname: dynamic.soname.is_some(),
            is_pie: dynamic.is_pie(),
            has_entry: header.entry != 0,
        });
        if self.dynamic.is_some() {
            program.dynamic = Some(Arc::new(self.facts(SymbolSource { header, segments, dynamic, window })));
        }
        // Files of debug information have the headers of a program, and nothing behind them.
        let starts = segments.offset_of(header.entry).is_some();
        require(starts || !program.linkage.is_static(), "its entry point is not in the file")
    }
}

impl LinkageReader {
    fn facts(&self, source: SymbolSource<'_>) -> DynamicFacts {
        let SymbolSource { header, segments, dynamic, window } = source;
        let name = |name: Option<u64>| name.map(|name| name_at(dynamic, segments, window, name));
        let names = [dynamic.soname, dynamic.rpath, dynamic.runpath].map(name);
        let is_named = names.iter().flatten().all(Option::is_some);
        let [soname, rpath, runpath] = names.map(Option::flatten);
        let symbols = if self.symbols == SymbolReading::Wanted { source.read() } else { None };
        let complete = symbols.is_some() && is_named;
        let SymbolFacts { version_needs, version_definitions, uses, defines } = symbols.unwrap_or_default();
        let notes = loader_facts::notes(header, segments, window);
        // A loader names no other, and needs nothing.
        let may_load = segments.interpreter.is_none() && dynamic.needed.is_empty() && header.kind != ET_EXEC;
        DynamicFacts {
            soname,
            rpath,
            runpath,
            flags: flags(dynamic, header, &notes),
            version_needs,
            version_definitions,
            uses,
            defines,
            abi: notes.abi,
            isa_needed: notes.isa_needed,
            loader: if may_load { loader_facts::loader(window.run(0, usize::MAX)) } else { None },
            glibc_release: None,
            complete,
        }
    }
}

fn flags(dynamic: &Dynamic, header: &ElfHeader, notes: &NoteFacts) -> LinkFlags {
    let Dynamic { flags, flags_1, .. } = *dynamic;
    let has_now = flags & elf::DF_BIND_NOW.0 != 0 || flags_1 & elf::DF_1_NOW.0 != 0;
    LinkFlags::of(&[
        (LinkFlags::BIND_NOW, has_now),
        (LinkFlags::NO_DEFAULT_DIRECTORIES, flags_1 & elf::DF_1_NODEFLIB.0 != 0),
        (LinkFlags::PIE, dynamic.is_pie()),
        (LinkFlags::STATIC_TLS, flags & elf::DF_STATIC_TLS.0 != 0),
        (LinkFlags::PACKED_RELATIVE, dynamic.tables.has_packed_relative),
        (LinkFlags::VERSIONED, dynamic.tables.symbol_versions.is_some()),
        (LinkFlags::FILTER, dynamic.is_filter),
        (LinkFlags::FIXED, header.kind == ET_EXEC),
        (LinkFlags::ODD_HEADER, !header.is_usual),
        (LinkFlags::NO_COPIES, notes.forbids_copies),
    ])
}

fn name_at(dynamic: &Dynamic, segments: &Segments, window: &Window, name: u64) -> Option<String> {
    let text = window.text(segments.offset_of(dynamic.address_of(name)?)?)?;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// Asks for the tables that are not at the beginning: tools that rewrite a file put them at its end.
fn want_tables(dynamic: &Dynamic, segments: &Segments, window: &mut Window) {
    let parts: Vec<FilePart> = dynamic
        .tables
        .addresses()
        .chain(dynamic.strings)
        .filter_map(|address| segments.rest_at(address))
        .filter(|part| part.offset >= window.beginning())
        .collect();
    let end = |part: &FilePart| part.offset.saturating_add(part.len as u64);
    let ends: BTreeSet<u64> = parts.iter().map(end).collect();
    for segment in ends {
        let first = parts.iter().filter(|part| end(part) == segment).min_by_key(|part| part.offset);
        if let Some(first) = first {
            window.want(first.offset, first.len.min(TABLE_BYTES / 2), WantedFor::Table);
        }
    }
}

fn read_segments(header: &ElfHeader, size: u64, window: &mut Window) -> Checked<Option<Segments>> {
    let rows = header.program_headers(size)?;
    let Some(bytes) = window.bytes(rows.offset, rows.len) else {
        window.want(rows.offset, rows.len, WantedFor::Header);
        return Ok(None);
    };
    let segments = Segments::read(bytes, rows.count, header, size)?;
    for part in segments.interpreter.iter().chain(&segments.dynamic).chain(segments.notes.iter().take(8)) {
        window.want(part.offset, part.len, WantedFor::Header);
    }
    Ok(Some(segments))
}

fn read_dynamic(header: &ElfHeader, segments: &Segments, window: &mut Window) -> Checked<Option<Dynamic>> {
    let Some(part) = segments.dynamic else { return Ok(None) };
    let Some(bytes) = window.bytes(part.offset, part.len) else { return Ok(None) };
    let dynamic = Dynamic::read(bytes, header)?;
    let others = [dynamic.soname, dynamic.rpath, dynamic.runpath];
    for name in dynamic.needed.iter().chain(others.iter().flatten()) {
        if let Some(offset) = dynamic.address_of(*name).and_then(|address| segments.offset_of(address)) {
            window.want(offset, NAME, WantedFor::Header);
        }
    }
    Ok(Some(dynamic))
}

fn interpreter(part: FilePart, window: &Window, notes: &mut Vec<String>) -> Option<String> {
    let Some(bytes) = window.bytes(part.offset, part.len) else {
        notes.push("the name of the interpreter cannot be read".to_owned());
        return None;
    };
    if bytes.last() != Some(&0) {
        notes.push("the name of the interpreter is not terminated: Linux will not start this".to_owned());
    }
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(String::from_utf8_lossy(name).into_owned())
}

/// That a library is needed is known even where its name is not.
fn needed(dynamic: &Dynamic, segments: &Segments, window: &Window, notes: &mut Vec<String>) -> Vec<String> {
    let name = |name: &u64| name_at(dynamic, segments, window, *name);
    let names: Vec<Option<String>> = dynamic.needed.iter().map(name).collect();
    let unknown = names.iter().filter(|name| name.is_none()).count();
    if unknown > 0 {
        notes.push(format!("the names of {unknown} of {} needed libraries cannot be read", names.len()));
    }
    names.into_iter().map(|name| name.unwrap_or_else(|| "?".to_owned())).collect()
}

/// What the rule looks at.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of the file, and all combinations occur")]
struct LinkageTraits {
    pub kind: FileType,
    pub has_interpreter: bool,
    pub needs_libraries: bool,
    pub has_soname: bool,
    /// The linker marked it as a program (`DF_1_PIE`).
    pub is_pie: bool,
    pub has_entry: bool,
}

/// Static is a program without interpreter and without libraries. A Go program can have the one
/// without the other (1.19, `-buildmode=pie`, no cgo), and starts only where the interpreter is.
fn linkage(traits: LinkageTraits) -> Linkage {
    let LinkageTraits { kind, has_interpreter, needs_libraries, has_soname, is_pie, has_entry } = traits;
    let is_bare = !has_interpreter && !needs_libraries;
    if kind == ET_EXEC {
        return if is_bare { Linkage::Static } else { Linkage::Dynamic };
    }
    // libc.so.6 names an interpreter, too; its own name makes it a library.
    let is_library = !is_pie && (has_soname || (!has_interpreter && (needs_libraries || !has_entry)));
    match (is_library, is_bare) {
        (true, _) => Linkage::SharedObject,
        // Linkers before 2016 did not mark programs: an entry and no name of its own tell.
        (false, true) => Linkage::StaticPie,
        (false, false) => Linkage::Dynamic,
    }
}

#[cfg(test)]
mod tests {
    use object::elf::ET_DYN;

    use super::*;

    /// `i` interpreter, `n` needed, `s` soname, `p` marked as a program, `e` entry.
    fn traits(kind: FileType, letters: &str) -> LinkageTraits {
        let has = |letter| letters.contains(letter);
        LinkageTraits {
            kind,
            has_interpreter: has('i'),
            needs_libraries: has('n'),
            has_soname: has('s'),
            is_pie: has('p'),
            has_entry: has('e'),
        }
    }

    #[test]
    fn linkage_follows_from_the_headers() {
        for (kind, letters, expected) in [
            (ET_EXEC, "e", Linkage::Static),
            (ET_EXEC, "", Linkage::Static),
            (ET_EXEC, "ie", Linkage::Dynamic),
            (ET_EXEC, "ne", Linkage::Dynamic),
            (ET_EXEC, "ine", Linkage::Dynamic),
            (ET_DYN, "pe", Linkage::StaticPie),
            (ET_DYN, "e", Linkage::StaticPie),
            (ET_DYN, "ie", Linkage::Dynamic),
            (ET_DYN, "ipne", Linkage::Dynamic),
            (ET_DYN, "ine", Linkage::Dynamic),
            (ET_DYN, "pne", Linkage::Dynamic),
            (ET_DYN, "", Linkage::SharedObject),
            (ET_DYN, "n", Linkage::SharedObject),
            (ET_DYN, "ne", Linkage::SharedObject),
            (ET_DYN, "ns", Linkage::SharedObject),
            (ET_DYN, "se", Linkage::SharedObject),
            (ET_DYN, "inse", Linkage::SharedObject),
        ] {
            assert_eq!(linkage(traits(kind, letters)), expected, "{kind:?} {letters}");
        }
    }

    #[test]
    fn nothing_with_an_interpreter_or_libraries_is_static() {
        for kind in [ET_EXEC, ET_DYN] {
            for bits in 0..32_u32 {
                let letters: String =
                    "inspe".chars().zip(0..).filter(|(_, bit)| bits >> bit & 1 == 1).map(|(c, _)| c).collect();
                let is_bare = !letters.contains(['i', 'n']);
                assert!(is_bare || !linkage(traits(kind, &letters)).is_static(), "{kind:?} {letters}");
            }
        }
    }
}
