//! The entry point: given the bytes of one file, once and in order, it says what the file is.

use std::ops::Range;
use std::sync::Arc;

use super::audit_scan::AuditScan;
use super::go_facts::GoFacts;
use super::go_scan::{GoScan, has_go_note};
use super::header::is_elf;
use super::linkage::{LinkageReader, SymbolReading};
use super::loader_facts;
use super::packed;
use super::patterns::{FileEnd, PatternMeaning, PatternSearch};
use super::program::{Language, Linkage, Program};
use super::script;
use super::starts::StartEvidence;
use super::strings::{BlockView, StringLanguage, StringScan};
use super::tools;
use super::window::{WantedFor, Window};

/// How many bytes are kept around a possible library name, and how many of them come before it.
const NAME: usize = 144;
const BEFORE: u64 = 112;

/// Inspects the bytes of one file. Holds at most 2 MiB of them, up to 16 MiB of what its strings and
/// references need, and up to 32 MiB of what a loader reads of it; the result does not depend on the sizes in which they are fed.
pub struct Probe {
    size: u64,
    fed: u64,
    window: Window,
    kind: FileKind,
    strings: StringReading,
    symbols: SymbolReading,
}

/// Whether the strings of a program are looked for, which takes most of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StringReading {
    Wanted,
    LeftOut,
}

/// What the beginning of the file says it is.
enum FileKind {
    /// The beginning has not been seen.
    Unknown,
    Elf(Box<ElfProbe>),
    /// Known from its beginning; the rest does not matter.
    Known(Box<Program>),
}

struct ElfProbe {
    reader: LinkageReader,
    go_scan: GoScan,
    audit_scan: AuditScan,
    search: PatternSearch,
    strings: StringScan,
    /// Where the mark of an archive was last seen.
    archive: Option<u64>,
    /// Where glibc says which build of it this is.
    release: Option<u64>,
}

impl Probe {
    /// For a file of `size` bytes.
    #[must_use]
    pub fn new(size: u64) -> Self {
        let (window, kind) = (Window::new(), FileKind::Unknown);
        Self { size, fed: 0, window, kind, strings: StringReading::Wanted, symbols: SymbolReading::Wanted }
    }

    /// For a file of which only the headers and what Go says of itself matter: its strings are not complete.
    #[must_use]
    pub fn without_strings(size: u64) -> Self {
        Self { symbols: SymbolReading::LeftOut, ..Self::for_loader(size) }
    }

    /// For a file of which only the headers and what a loader reads matter: its strings are not complete.
    #[must_use]
    pub fn for_loader(size: u64) -> Self {
        Self { strings: StringReading::LeftOut, ..Self::new(size) }
    }

    /// The next bytes of the file.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.fed = self.fed.saturating_add(bytes.len() as u64);
        let mut rest = bytes;
        while !rest.is_empty() && !matches!(self.kind, FileKind::Known(_)) {
            rest = self.window.take(rest);
            if self.window.block_is_full() {
                self.work(FileEnd::NotYet);
                self.window.next_block();
            }
        }
    }

    /// What the file is. Call it after the last byte.
    #[must_use]
    pub fn finish(mut self) -> Program {
        self.work(FileEnd::Reached);
        let mut program = match self.kind {
            FileKind::Elf(elf) => elf.finish(&self.window),
            FileKind::Known(program) => *program,
            FileKind::Unknown => Program::of(Linkage::Other),
        };
        if self.fed != self.size {
            program.linkage = Linkage::Other;
            program.notes.push(format!("the file has {} bytes, but {} were expected", self.fed, self.size));
        }
        program
    }

    /// Looks at a block.
    fn work(&mut self, rest: FileEnd) {
        self.window.keep_block();
        if matches!(self.kind, FileKind::Unknown) {
            self.kind = FileKind::of(&self.window, self.size, self.symbols);
        }
        if let FileKind::Elf(elf) = &mut self.kind {
            elf.work(&mut self.window, rest, self.strings);
        }
    }
}

impl FileKind {
    fn of(window: &Window, size: u64, symbols: SymbolReading) -> Self {
        let head = window.run(0, usize::MAX);
        if is_elf(head) {
            let (go_scan, search) = (GoScan::default(), PatternSearch::default());
            return Self::Elf(Box::new(ElfProbe {
                reader: LinkageReader::new(size, symbols),
                go_scan,
                audit_scan: AuditScan::default(),
                search,
                strings: StringScan::default(),
                archive: None,
                release: None,
            }));
        }
        Self::Known(Box::new(if script::is_script(head) { script::read(head) } else { foreign(head) }))
    }
}

/// Neither ELF nor script.
fn foreign(head: &[u8]) -> Program {
    const MARKS: [(&[u8], &str); 6] = [
        (b"MZ", "a Windows program"),
        (b"\xcf\xfa\xed\xfe", "a macOS program"),
        (b"\xce\xfa\xed\xfe", "a macOS program"),
        (b"\xfe\xed\xfa\xcf", "a macOS program"),
        (b"\xfe\xed\xfa\xce", "a macOS program"),
        (b"\0asm", "a WebAssembly module"),
    ];
    let note = MARKS.iter().find(|(mark, _)| head.starts_with(mark)).map(|(_, note)| (*note).to_owned());
    Program { notes: note.into_iter().collect(), ..Program::of(Linkage::Other) }
}

impl ElfProbe {
    fn work(&mut self, window: &mut Window, rest: FileEnd, strings: StringReading) {
        let (bytes, start, seen) = window.recent();
        for hit in self.search.look(bytes, start, seen, rest) {
            match hit.meaning {
                PatternMeaning::LibraryName => {
                    window.want(hit.offset.saturating_sub(BEFORE), NAME, WantedFor::Candidate);
                }
                // The name begins after the end of another one.
                PatternMeaning::PackedArchive => self.archive = Some(hit.offset),
                PatternMeaning::GlibcRelease => {
                    window.want(hit.offset.saturating_sub(BEFORE), NAME, WantedFor::Candidate);
                    self.release.get_or_insert(hit.offset);
                }
                PatternMeaning::GoStarter(argument) => self.strings.add_starter(hit.offset + 1, argument),
                _ => self.go_scan.add_hit(hit, window),
            }
        }
        self.reader.advance(window);
        self.go_scan.advance(window, self.reader.segments());
        self.audit_scan.look(window, self.reader.segments(), rest == FileEnd::Reached);
        if strings == StringReading::Wanted {
            self.scan_strings(window, rest);
        }
    }

    /// As soon as it is known what is loaded.
    fn scan_strings(&mut self, window: &Window, rest: FileEnd) {
        let (bytes, start, seen) = window.recent();
        let view = BlockView { bytes, start, seen, is_last: rest == FileEnd::Reached };
        if let (false, Some((header, segments))) = (self.strings.has_layout(), self.reader.headers()) {
            self.strings.set_layout(header, segments, has_go_note(window, Some(segments)), view.fresh());
        }
        self.strings.look(view);
    }

    /// What the program is written in.
    fn language(&self, go: Option<&GoFacts>) -> StringLanguage {
        match go {
            Some(_) if self.strings.has_only_go() => StringLanguage::Go,
            Some(_) => StringLanguage::GoWithC,
            None if self.search.found().any(|meaning| meaning == PatternMeaning::RustSource) => StringLanguage::Rust,
            None => StringLanguage::Other,
        }
    }

    fn finish(self, window: &Window) -> Program {
        let (go, note) = self.go_scan.finish(window, self.reader.segments(), &self.search);
        let (crates, crates_note) = self.audit_scan.finish(window);
        let language = self.language(go.as_ref());
        let tables = self.reader.name_tables();
        let packer =
            self.reader.headers().and_then(|(header, segments)| packed::packer(header, segments, self.archive, window));
        let mut program = self.reader.finish(window);
        program.packed = packer.map(str::to_owned);
        if let (Some(dynamic), Some(at)) = (&mut program.dynamic, self.release) {
            let text = window.run(at.saturating_sub(BEFORE), NAME);
            Arc::make_mut(dynamic).glibc_release = loader_facts::release(text);
        }
        let has_command_flag = self.strings.has_command_flag();
        program.strings = self.strings.finish(language, &tables);
        let names = tables.last().map(|table| window.run(table.start, length(table))).unwrap_or_default();
        let strings = &program.strings;
        let names_many_tools = self.search.found().any(|meaning| meaning == PatternMeaning::ManyTools);
        program.starts =
            StartEvidence { go: go.as_ref(), language, strings, names, has_command_flag, names_many_tools }.starts();
        program.runs = tools::run_by_packages(&self.search, go.as_ref());
        program.crates = crates;
        program.notes.extend(note.into_iter().chain(crates_note));
        program.mentions = self.search.found().filter_map(mention).collect();
        program.language = match language {
            StringLanguage::Go | StringLanguage::GoWithC => Language::Go,
            StringLanguage::Rust => Language::Rust,
            StringLanguage::Other => Language::Other,
        };
        program.go = go;
        program
    }
}

fn length(range: &Range<u64>) -> usize {
    usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX)
}

fn mention(meaning: PatternMeaning) -> Option<String> {
    match meaning {
        PatternMeaning::Mention(word) => Some(word.to_owned()),
        _ => None,
    }
}
