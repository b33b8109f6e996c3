//! Reads the headers of an ELF file as its bytes go by, each as soon as it is there.
//!
//! Header, program headers, dynamic section, names: each says where the next one is. Most often it
//! stands at the beginning and is remembered, or is still to come and can be asked for.

use super::dynamic::Dynamic;
use super::fault::{Fault, Sound, require};
use super::header::{Header, LARGEST};
use super::linkage::{self, Traits};
use super::machine;
use super::memory::{Memory, Reason};
use super::program::{Linkage, Program};
use super::segments::{Part, Segments};

/// Names are asked for at this length; where they stand at the beginning they can be longer.
const NAME: usize = 256;

/// What is known of the headers so far.
pub(super) struct Outline {
    size: u64,
    header: Option<Header>,
    segments: Option<Segments>,
    dynamic: Option<Dynamic>,
    fault: Option<Fault>,
}

impl Outline {
    pub fn new(size: u64) -> Self {
        Self { size, header: None, segments: None, dynamic: None, fault: None }
    }

    pub fn segments(&self) -> Option<&Segments> {
        self.segments.as_ref()
    }

    /// Reads what has become readable.
    pub fn advance(&mut self, memory: &mut Memory) {
        if self.fault.is_none() {
            self.fault = self.read(memory).err();
        }
    }

    fn read(&mut self, memory: &mut Memory) -> Sound<()> {
        if self.header.is_none() {
            self.header = Some(Header::read(memory.run(0, LARGEST))?);
        }
        let Some(header) = &self.header else { return Ok(()) };
        if self.segments.is_none() {
            self.segments = read_segments(header, self.size, memory)?;
        }
        if let (None, Some(segments)) = (&self.dynamic, &self.segments) {
            self.dynamic = read_dynamic(header, segments, memory)?;
        }
        Ok(())
    }

    /// What the headers say, after the last byte.
    pub fn finish(self, memory: &Memory) -> Program {
        let mut program = Program::of(Linkage::Other);
        let outcome = match self.fault.clone() {
            Some(fault) => Err(fault),
            None => self.describe(memory, &mut program),
        };
        if let Some(header) = &self.header {
            program.class = Some(header.class);
            program.endian = Some(header.endian);
            program.machine = Some(machine::word(header.machine, header.class, header.endian));
            program.float_abi = machine::float_abi(header.machine, header.flags);
        }
        if let Err(Fault(why)) = outcome {
            program.linkage = Linkage::Other;
            program.notes.push(why);
        }
        program
    }

    fn describe(&self, memory: &Memory, program: &mut Program) -> Sound<()> {
        let Some(header) = &self.header else { return Err(Fault::new("the ELF header cannot be read")) };
        let Some(segments) = &self.segments else { return Err(Fault::new("the program headers cannot be read")) };
        let empty = Dynamic::default();
        let dynamic = match (&self.dynamic, segments.dynamic) {
            (Some(dynamic), _) => dynamic,
            (None, None) => &empty,
            (None, Some(_)) => return Err(Fault::new("the dynamic section cannot be read")),
        };
        if let Some(part) = segments.interpreter {
            program.interpreter = interpreter(part, memory, &mut program.notes);
        }
        program.needed = needed(dynamic, segments, memory, &mut program.notes);
        program.linkage = linkage::of(Traits {
            kind: header.kind,
            has_interpreter: segments.interpreter.is_some(),
            needs_libraries: !dynamic.needed.is_empty(),
            has_soname: dynamic.has_soname,
            is_pie: dynamic.is_pie,
            has_entry: header.entry != 0,
        });
        // Files of debug information have the headers of a program, and nothing behind them.
        let starts = segments.offset_of(header.entry).is_some();
        require(starts || !program.linkage.is_static(), "its first instruction is not in the file")
    }
}

fn read_segments(header: &Header, size: u64, memory: &mut Memory) -> Sound<Option<Segments>> {
    let rows = header.program_headers(size)?;
    let Some(bytes) = memory.bytes(rows.offset, rows.len) else {
        memory.want(rows.offset, rows.len, Reason::Asked);
        return Ok(None);
    };
    let segments = Segments::read(bytes, rows.count, header, size)?;
    for part in segments.interpreter.iter().chain(&segments.dynamic).chain(segments.notes.iter().take(8)) {
        memory.want(part.offset, part.len, Reason::Asked);
    }
    Ok(Some(segments))
}

fn read_dynamic(header: &Header, segments: &Segments, memory: &mut Memory) -> Sound<Option<Dynamic>> {
    let Some(part) = segments.dynamic else { return Ok(None) };
    let Some(bytes) = memory.bytes(part.offset, part.len) else { return Ok(None) };
    let dynamic = Dynamic::read(bytes, header)?;
    for name in &dynamic.needed {
        if let Some(offset) = dynamic.address_of(*name).and_then(|address| segments.offset_of(address)) {
            memory.want(offset, NAME, Reason::Asked);
        }
    }
    Ok(Some(dynamic))
}

fn interpreter(part: Part, memory: &Memory, notes: &mut Vec<String>) -> Option<String> {
    let Some(bytes) = memory.bytes(part.offset, part.len) else {
        notes.push("the name of the interpreter cannot be read".to_owned());
        return None;
    };
    if bytes.last() != Some(&0) {
        notes.push("the name of the interpreter has no end: Linux will not start this".to_owned());
    }
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(String::from_utf8_lossy(name).into_owned())
}

/// That a library is needed is known even where its name is not.
fn needed(dynamic: &Dynamic, segments: &Segments, memory: &Memory, notes: &mut Vec<String>) -> Vec<String> {
    let name = |name: &u64| {
        let text = memory.text(segments.offset_of(dynamic.address_of(*name)?)?)?;
        Some(String::from_utf8_lossy(text).into_owned())
    };
    let names: Vec<Option<String>> = dynamic.needed.iter().map(name).collect();
    let unknown = names.iter().filter(|name| name.is_none()).count();
    if unknown > 0 {
        notes.push(format!("the names of {unknown} of {} needed libraries cannot be read", names.len()));
    }
    names.into_iter().map(|name| name.unwrap_or_else(|| "?".to_owned())).collect()
}
