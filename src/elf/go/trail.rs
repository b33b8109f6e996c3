//! Follows what a stream shows of Go: marks as they go by, strings that they refer to.
//!
//! In the old form of build info the strings stand before the pointers to them. So every string
//! that could be a version is remembered, and module info is known by the mark around it.

use super::build_info::{self, ALIGNMENT, Form, HEAD, Pointer, Told};
use super::{GoFacts, modules};
use crate::elf::memory::{Memory, Reason};
use crate::elf::search::{Hit, Search};
use crate::elf::segments::Segments;
use crate::elf::words::Meaning;

/// Room for version and modules: Kubernetes takes 30 KiB.
const INFO: usize = 96 << 10;
/// A mark can also stand where a program that reads build info keeps it.
const CANDIDATES: usize = 2;
/// Room for the string of a version.
const VERSION: usize = 48;

/// What has been seen so far.
#[derive(Debug, Default)]
pub(in crate::elf) struct Trail {
    infos: Vec<Info>,
    module_infos: Vec<u64>,
}

/// A place that may be build info.
#[derive(Debug)]
struct Info {
    offset: u64,
    form: Option<Form>,
}

impl Trail {
    pub fn see(&mut self, hit: Hit, memory: &mut Memory) {
        match hit.meaning {
            Meaning::BuildInfo if hit.offset.is_multiple_of(ALIGNMENT) && self.infos.len() < CANDIDATES => {
                memory.want(hit.offset, INFO, Reason::Asked);
                self.infos.push(Info { offset: hit.offset, form: None });
            }
            Meaning::ModuleInfo if self.module_infos.len() < CANDIDATES => {
                memory.want(hit.offset, INFO, Reason::Asked);
                self.module_infos.push(hit.offset);
            }
            Meaning::GoVersion => memory.want(hit.offset, VERSION, Reason::Glimpsed),
            _ => {}
        }
    }

    /// Asks for the string headers that pointers lead to: they come after the pointers.
    pub fn advance(&mut self, memory: &mut Memory, segments: Option<&Segments>) {
        let Some(segments) = segments else { return };
        for info in self.infos.iter_mut().filter(|info| info.form.is_none()) {
            info.form = memory.bytes(info.offset, HEAD).and_then(Form::read);
            if let Some(Form::Pointers { version, pointer, .. }) = info.form
                && let Some(offset) = segments.offset_of(version)
            {
                memory.want(offset, 2 * pointer.size, Reason::Asked);
            }
        }
    }

    /// The facts, and a note where they are not whole. `None` for what is no Go program.
    pub fn finish(
        &self,
        memory: &Memory,
        segments: Option<&Segments>,
        search: &Search,
    ) -> (Option<GoFacts>, Option<String>) {
        let packages = search.found().filter_map(|meaning| match meaning {
            Meaning::Package(name) => Some(name.to_owned()),
            _ => None,
        });
        let packages = packages.collect();
        let told = self.infos.iter().find_map(|info| self.told(info, memory, segments));
        if let Some((facts, note)) = told {
            return (Some(GoFacts { packages, ..facts }), note);
        }
        let is_go = search.found().any(|meaning| meaning == Meaning::GoRuntime) || has_go_note(memory, segments);
        (is_go.then(|| GoFacts { packages, ..GoFacts::default() }), None)
    }

    /// What one piece of build info tells.
    fn told(&self, info: &Info, memory: &Memory, segments: Option<&Segments>) -> Option<(GoFacts, Option<String>)> {
        match info.form.as_ref()? {
            Form::Inline => inline(memory.run(info.offset, INFO)),
            Form::Pointers { version, modules, pointer } => {
                let version = string(*version, *pointer, memory, segments?);
                let mut facts = GoFacts { version, ..GoFacts::default() };
                let has_modules = *modules != 0 && self.read_module_info(memory, &mut facts);
                let missing = facts.version.is_none();
                let note = missing.then(|| "the version of Go cannot be read".to_owned());
                // Without both, the mark alone proves nothing.
                (!missing || has_modules).then_some((facts, note))
            }
        }
    }

    fn read_module_info(&self, memory: &Memory, facts: &mut GoFacts) -> bool {
        let text = self.module_infos.iter().find_map(|offset| framed(memory.run(*offset, INFO)));
        text.map(|text| modules::read(text, facts)).is_some()
    }
}

fn inline(bytes: &[u8]) -> Option<(GoFacts, Option<String>)> {
    let (version, info) = build_info::inline(bytes)?;
    let mut facts = GoFacts { version: Some(version), ..GoFacts::default() };
    let note = match info {
        Told::Cut => Some("the list of Go modules is too long to be read".to_owned()),
        Told::Whole(info) => {
            if let Some(text) = modules::between_marks(info) {
                modules::read(text, &mut facts);
            }
            None
        }
    };
    Some((facts, note))
}

/// The text of module info whose length is not known, only its second mark.
fn framed(bytes: &[u8]) -> Option<&str> {
    const END: &[u8] = b"\xf9\x32\x43\x31\x86\x18\x20\x72\x00\x82\x42\x10\x41\x16\xd8\xf2";
    let end = bytes.windows(END.len()).position(|window| window == END)?;
    modules::between_marks(bytes.get(..end + END.len())?)
}

/// The version that a string header at `address` stands for.
fn string(address: u64, pointer: Pointer, memory: &Memory, segments: &Segments) -> Option<String> {
    let header = memory.bytes(segments.offset_of(address)?, 2 * pointer.size)?;
    let (data, rest) = pointer.read(header)?;
    let (length, _) = pointer.read(rest)?;
    let text = memory.bytes(segments.offset_of(data)?, usize::try_from(length).ok()?)?;
    build_info::version(text)
}

/// The linker's note: a name of four bytes, `Go`, and type 4.
fn has_go_note(memory: &Memory, segments: Option<&Segments>) -> bool {
    let notes = segments.map(|segments| segments.notes.as_slice()).unwrap_or_default();
    notes.iter().any(|note| {
        let name = memory.bytes(note.offset, note.len).and_then(|bytes| bytes.get(12..16));
        name == Some(b"Go\0\0")
    })
}
