//! ELF files made by hand for tests: every class and byte order, with whatever parts are wanted.

use super::patterns::{BUILD_INFO, MODULE_INFO};
use super::{Class, Endian, Probe, Program};

pub const FORMS: [(Class, Endian); 4] = [
    (Class::Bits32, Endian::Little),
    (Class::Bits32, Endian::Big),
    (Class::Bits64, Endian::Little),
    (Class::Bits64, Endian::Big),
];

/// What a file with these bytes is.
pub fn probe(bytes: &[u8]) -> Program {
    let mut probe = Probe::new(bytes.len() as u64);
    probe.feed(bytes);
    probe.finish()
}

/// One program header; offsets are filled in by hand.
#[derive(Debug, Clone, Copy)]
pub struct Segment {
    pub kind: u32,
    pub offset: u64,
    pub address: u64,
    pub in_file: u64,
    pub in_memory: u64,
}

/// A file to be made. Memory begins at [`BASE`] and is the file byte for byte.
#[derive(Debug, Clone)]
pub struct TestElf {
    pub class: Class,
    pub endian: Endian,
    pub kind: u16,
    pub machine: u16,
    pub flags: u32,
    pub entry: u64,
    pub interpreter: Option<&'static str>,
    /// Libraries, as tag 1 of the dynamic section.
    pub needed: Vec<&'static str>,
    /// Other tags of the dynamic section.
    pub tags: Vec<(u64, u64)>,
    /// Whether there is a dynamic section even where nothing is in it.
    pub is_dynamic: bool,
    /// More headers, put behind the others.
    pub more: Vec<Segment>,
    /// The end of the file, at a multiple of 16.
    pub tail: Vec<u8>,
}

pub const BASE: u64 = 0x40_0000;
pub const EXEC: u16 = 2;
pub const DYN: u16 = 3;
pub const SONAME: (u64, u64) = (14, 0);
pub const PIE: (u64, u64) = (0x6fff_fffb, 0x0800_0000);

impl TestElf {
    /// A static program for amd64.
    pub fn new(kind: u16) -> Self {
        Self {
            class: Class::Bits64,
            endian: Endian::Little,
            kind,
            machine: 62,
            flags: 0,
            entry: BASE + 0x40,
            interpreter: None,
            needed: Vec::new(),
            tags: Vec::new(),
            is_dynamic: false,
            more: Vec::new(),
            tail: vec![0x90; 64],
        }
    }

    fn is_wide(&self) -> bool {
        self.class == Class::Bits64
    }

    fn number(&self, value: u64, len: usize) -> Vec<u8> {
        match self.endian {
            Endian::Little => value.to_le_bytes()[..len].to_vec(),
            Endian::Big => value.to_be_bytes()[8 - len..].to_vec(),
        }
    }

    pub fn word(&self, value: u64) -> Vec<u8> {
        self.number(value, if self.is_wide() { 8 } else { 4 })
    }

    fn header_len(&self) -> u64 {
        if self.is_wide() { 64 } else { 52 }
    }

    fn row_len(&self) -> u64 {
        if self.is_wide() { 56 } else { 32 }
    }

    fn rows(&self) -> u64 {
        let parts = [true, self.interpreter.is_some(), self.has_dynamic()];
        parts.iter().filter(|part| **part).count() as u64 + self.more.len() as u64
    }

    fn has_dynamic(&self) -> bool {
        self.is_dynamic || !self.needed.is_empty() || !self.tags.is_empty()
    }

    /// Where in the file the tail begins.
    pub fn tail_offset(&self) -> u64 {
        (self.build().len() - self.tail.len()) as u64
    }

    pub fn build(&self) -> Vec<u8> {
        let body_at = self.header_len() + self.row_len() * self.rows();
        let mut body = Vec::new();
        let mut rows = Vec::new();
        if let Some(name) = self.interpreter {
            body.extend([name.as_bytes(), b"\0"].concat());
            rows.push(self.part(3, body_at, body.len() as u64));
        }
        if self.has_dynamic() {
            let (strings, dynamic) = self.dynamic(body_at + body.len() as u64);
            body.extend(strings);
            rows.push(self.part(2, body_at + body.len() as u64, dynamic.len() as u64));
            body.extend(dynamic);
        }
        while !(body_at + body.len() as u64).is_multiple_of(16) {
            body.push(0);
        }
        body.extend(&self.tail);
        let size = body_at + body.len() as u64;
        rows.insert(0, self.part(1, 0, size));
        rows.extend(self.more.iter().map(|segment| self.row(*segment)));
        [self.header(), rows.concat(), body].concat()
    }

    fn part(&self, kind: u32, offset: u64, len: u64) -> Vec<u8> {
        self.row(Segment { kind, offset, address: BASE + offset, in_file: len, in_memory: len })
    }

    fn row(&self, segment: Segment) -> Vec<u8> {
        let Segment { kind, offset, address, in_file, in_memory } = segment;
        let kind = self.number(u64::from(kind), 4);
        let flags = self.number(5, 4);
        let words = [offset, address, address, in_file, in_memory].map(|value| self.word(value)).concat();
        let align = self.word(0x1000);
        if self.is_wide() { [kind, flags, words, align].concat() } else { [kind, words, flags, align].concat() }
    }

    fn dynamic(&self, at: u64) -> (Vec<u8>, Vec<u8>) {
        let mut strings = vec![0];
        let mut tags = Vec::new();
        for name in &self.needed {
            tags.push((1, strings.len() as u64));
            strings.extend([name.as_bytes(), b"\0"].concat());
        }
        tags.extend([(5, BASE + at), (10, strings.len() as u64)]);
        tags.extend(&self.tags);
        tags.push((0, 0));
        let dynamic = tags.iter().flat_map(|(tag, value)| [self.word(*tag), self.word(*value)].concat()).collect();
        (strings, dynamic)
    }

    fn header(&self) -> Vec<u8> {
        let class = if self.is_wide() { 2 } else { 1 };
        let data = if self.endian == Endian::Big { 2 } else { 1 };
        let mut out = vec![0x7f, b'E', b'L', b'F', class, data, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        out.extend([u64::from(self.kind), u64::from(self.machine)].map(|value| self.number(value, 2)).concat());
        out.extend(self.number(1, 4));
        out.extend([self.entry, self.header_len(), 0].map(|value| self.word(value)).concat());
        out.extend(self.number(u64::from(self.flags), 4));
        let halves = [self.header_len(), self.row_len(), self.rows(), 0, 0, 0];
        out.extend(halves.map(|value| self.number(value, 2)).concat());
        out
    }
}

const MODULES: &str = "path\texample.com/app\nmod\texample.com/app\t(devel)\t\ndep\tk8s.io/klog/v2\tv2.80.1\th1:atnLQ121W371wYYFawwYx1aEY2eUfs4l3J72wtgAwV4=\n";

/// Go's module info with its markers.
pub fn module_info() -> Vec<u8> {
    const END: &[u8] = b"\xf9\x32\x43\x31\x86\x18\x20\x72\x00\x82\x42\x10\x41\x16\xd8\xf2";
    [MODULE_INFO, MODULES.as_bytes(), END].concat()
}

/// Puts build info in its old form into the tail: strings first, as Go's linker does.
pub fn add_build_info_pointers(file: &mut TestElf, gap: usize) {
    let base = BASE + file.tail_offset();
    let (version, info) = (gap, 2 * gap);
    let mut tail = vec![0; 3 * gap];
    tail[version..version + 8].copy_from_slice(b"go1.17.2");
    let modules = module_info();
    tail[version + 64..version + 64 + modules.len()].copy_from_slice(&modules);
    let word = |value: usize| file.word(value as u64);
    let address = |at: usize| file.word(base + at as u64);
    let size = word(0).len();
    let headers = info + 64;
    let flags = u8::from(file.endian == Endian::Big);
    let head =
        [BUILD_INFO, &[u8::try_from(size).unwrap(), flags], &address(headers), &address(headers + 2 * size)].concat();
    tail[info..info + head.len()].copy_from_slice(&head);
    let strings = [address(version), word(8), address(version + 64), word(modules.len())].concat();
    tail[headers..headers + strings.len()].copy_from_slice(&strings);
    file.tail = tail;
}
