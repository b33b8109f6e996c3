//! The way in: fed the bytes of one file, once and in order, it gives what the file is.

use super::go::Trail;
use super::header::is_elf;
use super::memory::{Memory, Reason};
use super::outline::Outline;
use super::program::{Linkage, Program};
use super::script;
use super::search::{Rest, Search};
use super::tools;
use super::words::Meaning;

/// What is remembered around what may be a library's name, and how much of it stands before.
const NAME: usize = 144;
const BEFORE: u64 = 112;

/// Looks at the bytes of one file. Holds at most 2 MiB of them, and what it gives does not depend
/// on the sizes in which they are fed.
pub struct Probe {
    size: u64,
    fed: u64,
    memory: Memory,
    subject: Subject,
}

/// What the beginning of the file says it is.
enum Subject {
    /// The beginning has not been seen.
    Unknown,
    Elf(Box<Elf>),
    /// Known from its beginning; the rest is of no interest.
    Known(Box<Program>),
}

struct Elf {
    outline: Outline,
    trail: Trail,
    search: Search,
}

impl Probe {
    /// For a file of `size` bytes.
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self { size, fed: 0, memory: Memory::new(), subject: Subject::Unknown }
    }

    /// The next bytes of the file.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.fed = self.fed.saturating_add(bytes.len() as u64);
        let mut rest = bytes;
        while !rest.is_empty() && !matches!(self.subject, Subject::Known(_)) {
            rest = self.memory.take(rest);
            if self.memory.block_is_full() {
                self.work(Rest::ToCome);
                self.memory.turn();
            }
        }
    }

    /// What the file is. To be asked after the last byte.
    #[must_use]
    pub fn finish(mut self) -> Program {
        self.work(Rest::Nothing);
        let mut program = match self.subject {
            Subject::Elf(elf) => elf.finish(&self.memory),
            Subject::Known(program) => *program,
            Subject::Unknown => Program::of(Linkage::Other),
        };
        if self.fed != self.size {
            program.linkage = Linkage::Other;
            program.notes.push(format!("the file has {} bytes, though {} were announced", self.fed, self.size));
        }
        program
    }

    /// Looks at a block.
    fn work(&mut self, rest: Rest) {
        self.memory.settle();
        if matches!(self.subject, Subject::Unknown) {
            self.subject = Subject::of(&self.memory, self.size);
        }
        if let Subject::Elf(elf) = &mut self.subject {
            elf.work(&mut self.memory, rest);
        }
    }
}

impl Subject {
    fn of(memory: &Memory, size: u64) -> Self {
        let head = memory.run(0, usize::MAX);
        if is_elf(head) {
            let (trail, search) = (Trail::default(), Search::default());
            return Self::Elf(Box::new(Elf { outline: Outline::new(size), trail, search }));
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

impl Elf {
    fn work(&mut self, memory: &mut Memory, rest: Rest) {
        let (bytes, start, seen) = memory.recent();
        for hit in self.search.look(bytes, start, seen, rest) {
            if hit.meaning == Meaning::LibraryName {
                memory.want(hit.offset.saturating_sub(BEFORE), NAME, Reason::Glimpsed);
            } else {
                self.trail.see(hit, memory);
            }
        }
        self.outline.advance(memory);
        self.trail.advance(memory, self.outline.segments());
    }

    fn finish(self, memory: &Memory) -> Program {
        let (go, note) = self.trail.finish(memory, self.outline.segments(), &self.search);
        let mut program = self.outline.finish(memory);
        program.notes.extend(note);
        program.tools = tools::run_by(&self.search, go.as_ref());
        program.libraries = tools::loaded_by(&self.search, go.as_ref(), &program.needed);
        program.mentions = self.search.found().filter_map(mention).collect();
        program.go = go;
        program
    }
}

fn mention(meaning: Meaning) -> Option<String> {
    match meaning {
        Meaning::Mention(word) => Some(word.to_owned()),
        _ => None,
    }
}
