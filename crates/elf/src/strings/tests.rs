//! Tests of the whole scan: files made by hand, with strings side by side and references from before and
//! after them, across blocks and in whatever pieces.

use crate::testing::{BASE, EXEC, Segment, TestElf};
use crate::window::BLOCK;
use crate::{Class, Endian, Probe, Program, ReferredBy, StartsOthers};

/// Go's strings, as its linker puts them: nothing is between them.
const TEXT: &[u8] = b"gitignored/usr/sbin/dnsmasq-notsystemctlMY_HOMEiptables -w is not available";

/// A program under construction: memory is the file, byte for byte.
struct TestProgram {
    elf: TestElf,
    tail: Vec<u8>,
    tail_at: u64,
}

impl TestProgram {
    fn new() -> Self {
        let note = Segment { kind: 4, offset: 0, address: 0, in_file: 16, in_memory: 16 };
        let elf = TestElf { more: vec![note], ..TestElf::new(EXEC) };
        let tail_at = elf.tail_offset();
        Self { elf, tail: Vec::new(), tail_at }
    }

    /// The note by which Go's linker is known.
    fn of_go() -> Self {
        let mut program = Self::new();
        program.add(&[4_u32.to_le_bytes(), 4_u32.to_le_bytes(), 4_u32.to_le_bytes(), *b"Go\0\0"].concat());
        program
    }

    fn here(&self) -> u64 {
        BASE + self.tail_at + self.tail.len() as u64
    }

    fn add(&mut self, bytes: &[u8]) -> u64 {
        let at = self.here();
        self.tail.extend_from_slice(bytes);
        at
    }

    /// Zeros up to this offset in the file.
    fn fill_to(&mut self, offset: usize) {
        let len = offset - usize::try_from(self.tail_at).unwrap();
        assert!(len >= self.tail.len());
        self.tail.resize(len, 0);
    }

    /// `lea rax, [target]`, `mov ebx, length`, and a call.
    fn pass(&mut self, target: u64, length: u32) {
        let distance = i32::try_from(target.cast_signed() - (self.here() + 7).cast_signed()).unwrap();
        let code =
            [&[0x48, 0x8d, 0x05], &distance.to_le_bytes()[..], &[0xbb], &length.to_le_bytes(), &[0xe8, 0, 0, 0, 0]];
        self.add(&code.concat());
    }

    /// A pointer and a length, aligned.
    fn point(&mut self, target: u64, length: u64) {
        while !self.here().is_multiple_of(8) {
            self.tail.push(0);
        }
        let words = [self.elf.word(target), self.elf.word(length)].concat();
        self.add(&words);
    }

    fn file(mut self) -> Vec<u8> {
        self.elf.more[0].offset = self.tail_at;
        self.elf.more[0].address = BASE + self.tail_at;
        self.elf.tail = self.tail;
        self.elf.build()
    }
}

fn probe(file: &[u8], piece: usize) -> Program {
    let mut probe = Probe::new(file.len() as u64);
    file.chunks(piece).for_each(|piece| probe.feed(piece));
    probe.finish()
}

fn texts(program: &Program) -> (Vec<&str>, Vec<(&str, ReferredBy)>) {
    let words = program.strings.words.iter().map(String::as_str).collect();
    let paths = program.strings.paths.iter().map(|path| (path.text.as_str(), path.by)).collect();
    (words, paths)
}

/// Go, with the strings at this offset of the file. Some code refers to each, or data does.
fn go_program(text_at: usize, by: ReferredBy) -> Vec<u8> {
    let mut program = TestProgram::of_go();
    let text = BASE + text_at as u64;
    let references = [(0, 3), (10, 17), (31, 9), (40, 7), (47, 28)];
    if by == ReferredBy::Code {
        for (at, length) in references {
            program.pass(text + at, length);
        }
    }
    program.fill_to(text_at);
    program.add(TEXT);
    // Enough text behind it that it is kept for what refers to it later.
    program.add(&b" and so on".repeat(100));
    if by == ReferredBy::Data {
        program.fill_to(text_at + 3 * BLOCK);
        for (at, length) in references {
            program.point(text + at, u64::from(length));
        }
    }
    program.add(b"\0runtime.goexit\0syscall.forkExec\0");
    program.file()
}

#[test]
fn a_string_is_what_is_referred_to_wherever_it_is() {
    for by in [ReferredBy::Code, ReferredBy::Data] {
        for text_at in [4096, BLOCK - 80, BLOCK - 20, BLOCK - 1, BLOCK, 2 * BLOCK - 35, 3 * BLOCK - 256] {
            let file = go_program(text_at, by);
            let program = probe(&file, file.len());
            let expected = (vec!["MY_HOME", "git", "systemctl"], vec![("/usr/sbin/dnsmasq", by)]);
            assert_eq!(texts(&program), expected, "{by:?} at {text_at}");
            assert_eq!(program.strings.paths[0].offset, text_at as u64 + 10);
            assert_eq!(program.strings.command_words, ["iptables"]);
            assert!(program.strings.complete);
            assert_eq!(program.starts, StartsOthers::Able);
            for piece in [1, 997, BLOCK - 1, BLOCK + 1] {
                assert_eq!(probe(&file, piece), program, "in pieces of {piece}");
            }
        }
    }
}

#[test]
fn without_a_reference_there_is_no_string() {
    let mut program = TestProgram::of_go();
    program.fill_to(4096);
    program.add(TEXT);
    program.add(b"\0runtime.goexit\0");
    let file = program.file();
    let program = probe(&file, file.len());
    assert_eq!(texts(&program), (vec![], vec![]));
}

/// A program with a NUL after each string.
fn c_program(pointer_to: &[usize]) -> Program {
    let mut program = TestProgram::new();
    program.fill_to(4096);
    let text = program.add(b"\0git\0/sbin/ip -6\0not-systemctl\0/etc/passwd\0iptables is missing\0-c\0sh\0/bin/sh\0");
    program.fill_to(4 * BLOCK);
    for at in pointer_to {
        program.point(text + *at as u64, 5);
    }
    let file = program.file();
    probe(&file, file.len())
}

#[test]
fn in_c_a_string_ends_with_its_nul_and_begins_anywhere() {
    let program = c_program(&[]);
    let paths = ["/bin/sh", "/etc/passwd", "/sbin/ip"].map(|path| (path, ReferredBy::Terminated));
    // Among instructions, two or three letters between zeros may be anything.
    assert_eq!(texts(&program), (vec!["not-systemctl"], paths.to_vec()));
    assert_eq!(program.strings.command_words, ["iptables"]);
    let program = c_program(&[1, 21, 66]);
    assert_eq!(texts(&program).0, ["git", "not-systemctl", "sh", "systemctl"]);
    assert_eq!(program.starts, StartsOthers::Able, "nothing points to -c");
}

#[test]
fn a_machine_that_cannot_be_read_shows_what_data_points_to_and_paths_that_begin() {
    for (class, endian, machine) in
        [(Class::Bits32, Endian::Little, 40), (Class::Bits64, Endian::Big, 22), (Class::Bits64, Endian::Little, 243)]
    {
        let mut program = TestProgram::new();
        program.elf = TestElf { class, endian, machine, ..program.elf };
        program.tail_at = program.elf.tail_offset();
        program.fill_to(4096);
        let text = program.add(TEXT);
        program.add(&b"; and so on".repeat(100));
        program.fill_to(3 * BLOCK);
        program.point(text + 31, 9);
        program.add(b"\0runtime.goexit\0");
        let file = program.file();
        let program = probe(&file, file.len());
        assert!(!program.strings.complete, "{machine}");
        // One path may be the end of another, or both may be one: it begins at both places.
        let begins = ["/sbin/dnsmasq-notsystemctlMY_HOMEiptables", "/usr/sbin/dnsmasq-notsystemctlMY_HOMEiptables"];
        let paths = begins.map(|path| (path, ReferredBy::Loose)).to_vec();
        assert_eq!(texts(&program), (vec!["systemctl"], paths), "{machine}");
    }
}

#[test]
fn a_pointer_to_pointers_is_no_string() {
    let mut program = TestProgram::of_go();
    program.fill_to(0x3130);
    // The address of these words, read as text, is `01A`.
    let list = program.add(&[0x41_3130_u64.to_le_bytes(), 0x41_3230_u64.to_le_bytes()].concat());
    program.point(list, 3);
    program.add(b"\0runtime.goexit\0");
    program.fill_to(0x2_0000);
    let file = program.file();
    assert_eq!(texts(&probe(&file, file.len())), (vec![], vec![]));
}

/// Program headers at the end: what is loaded is known when it has gone by.
#[test]
fn headers_that_come_too_late_leave_the_answer_open() {
    let mut file = go_program(4096, ReferredBy::Code);
    file.resize(3 * BLOCK, 0);
    let headers = file[64..64 + 2 * 56].to_vec();
    let at = file.len() as u64;
    file.extend(headers);
    file[32..40].copy_from_slice(&at.to_le_bytes());
    let program = probe(&file, file.len());
    assert!(!program.strings.complete);
}
