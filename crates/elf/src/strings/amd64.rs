//! The instructions of amd64 that make addresses and numbers, and the length of all others.
//!
//! Intel's manual, volume 2, chapter 2 and appendix A. Code is read from its beginning to its end; where
//! data is in between, reading falls back into step within a few instructions.

use super::operands::{CodeStep, CodeSteps, MemoryPlace, Register};

/// No instruction is longer, and one byte more is read to be a power of two.
pub(super) const LONGEST: usize = 16;

const MODRM: u8 = 1;
const BYTE: u8 = 2;
const WORD: u8 = 4;
/// Four bytes, or two after an operand-size prefix.
const FULL: u8 = 8;
/// An address of eight bytes.
const ADDRESS: u8 = 16;
/// The immediate is there for the first two of the group only.
const GROUP: u8 = 32;
/// Four bytes, whatever the prefix.
const RELATIVE: u8 = 64;
/// It changes the opcode that follows.
const PREFIX: u8 = 128;

/// What follows each opcode of one byte.
const fn form(opcode: u8) -> u8 {
    match opcode {
        0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3 => PREFIX,
        0x00..=0x3f => match opcode & 7 {
            0..=3 => MODRM,
            4 => BYTE,
            5 => FULL,
            _ => 0,
        },
        0x63 | 0x84..=0x8f | 0xd0..=0xd3 | 0xd8..=0xdf | 0xfe | 0xff => MODRM,
        0x68 | 0xa9 | 0xb8..=0xbf => FULL,
        0x69 | 0x81 | 0xc7 => MODRM | FULL,
        0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 => MODRM | BYTE,
        0x6a | 0x70..=0x7f | 0xa8 | 0xb0..=0xb7 | 0xcd | 0xe0..=0xe7 | 0xeb => BYTE,
        0xa0..=0xa3 => ADDRESS,
        0xc2 | 0xca => WORD,
        0xc8 => WORD | BYTE,
        0xe8 | 0xe9 => RELATIVE,
        0xf6 => MODRM | BYTE | GROUP,
        0xf7 => MODRM | FULL | GROUP,
        _ => 0,
    }
}

/// What follows each opcode after `0f`.
const fn form_of_second(opcode: u8) -> u8 {
    match opcode {
        0x05..=0x0b | 0x30..=0x37 | 0x77 | 0xa0..=0xa2 | 0xa8..=0xaa | 0xc8..=0xcf => 0,
        0x80..=0x8f => RELATIVE,
        0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6 => MODRM | BYTE,
        _ => MODRM,
    }
}

/// How many bytes the operand of each `ModRM` byte has, with that byte: an index, and a distance.
const fn operand_length(modrm: u8) -> u8 {
    let low = modrm & 7;
    match (modrm >> 6, low) {
        (0, 4) => 2,
        (0, 5) => 5,
        (0 | 3, _) => 1,
        (1, 4) => 3,
        (1, _) => 2,
        (_, 4) => 6,
        (_, _) => 5,
    }
}

/// The immediate of each form, in bytes.
const fn number_length(form: u8) -> u8 {
    let small = if form & BYTE != 0 { 1 } else { 0 } + if form & WORD != 0 { 2 } else { 0 };
    let large = if form & (FULL | RELATIVE) != 0 { 4 } else { 0 } + if form & ADDRESS != 0 { 8 } else { 0 };
    small + large
}

/// What is asked of every byte of code is looked up.
#[derive(Clone, Copy)]
struct OpcodeTables {
    forms: [u8; 256],
    forms_of_second: [u8; 256],
    operands: [u8; 256],
    numbers: [u8; 256],
}

#[expect(clippy::indexing_slicing, reason = "at compile time, and a byte is always inside")]
const fn tables() -> OpcodeTables {
    let mut tables = OpcodeTables { forms: [0; 256], forms_of_second: [0; 256], operands: [0; 256], numbers: [0; 256] };
    let mut byte = 0_u8;
    loop {
        let at = byte as usize;
        tables.forms[at] = form(byte);
        tables.forms_of_second[at] = form_of_second(byte);
        tables.operands[at] = operand_length(byte);
        tables.numbers[at] = number_length(byte);
        if byte == 255 {
            return tables;
        }
        byte += 1;
    }
}

static TABLES: OpcodeTables = tables();

fn looked_up(table: &[u8; 256], byte: u8) -> u8 {
    table.get(usize::from(byte)).copied().unwrap_or(0)
}

/// The bytes of an instruction, and zeros where they end.
#[derive(Clone, Copy)]
struct InstructionBytes<'a>(&'a [u8; LONGEST]);

impl InstructionBytes<'_> {
    fn byte(self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    fn four(self, at: usize) -> u32 {
        let four = self.0.get(at..).and_then(|bytes| bytes.first_chunk());
        four.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    /// The memory that `operand` names, in an instruction before `next`; `None` where no register is in its name.
    fn place(self, operand: Operand, next: u64) -> Option<MemoryPlace> {
        let Operand { modrm, at, rex, .. } = operand;
        let (mode, low) = (modrm >> 6, modrm & 7);
        let (base, index, after) = if low == 4 {
            let sib = self.byte(at + 1);
            let index = extended(sib >> 3, rex, INDEX);
            (sib & 7, (index != STACK).then_some((index, sib >> 6)), at + 2)
        } else {
            (low, None, at + 1)
        };
        let offset = match mode {
            0 if low == 5 => {
                let offset = next.wrapping_add_signed(i64::from(self.four(after).cast_signed()));
                return Some(MemoryPlace { base: ANYWHERE, index: None, offset: offset.cast_signed() });
            }
            0 if low == 4 && base == 5 => return None,
            0 => 0,
            1 => i64::from(self.byte(after).cast_signed()),
            _ => i64::from(self.four(after).cast_signed()),
        };
        Some(MemoryPlace { base: extended(base, rex, BASE), index, offset })
    }
}

/// What is before the opcode.
#[derive(Clone, Copy, Default)]
struct Prefixes {
    length: usize,
    rex: u8,
    is_short: bool,
}

/// The bits of the REX prefix.
const WIDE: u8 = 8;
const REGISTER: u8 = 4;
const INDEX: u8 = 2;
const BASE: u8 = 1;

/// A register number of three bits, with the fourth from the prefix.
fn extended(bits: u8, rex: u8, extension: u8) -> Register {
    bits & 7 | if rex & extension == 0 { 0 } else { 8 }
}

/// As an index, it stands for none.
const STACK: Register = 4;
/// The base of places that instructions name by their distance: then the offset is the address.
const ANYWHERE: Register = 16;

/// The `ModRM` byte, and where it is.
#[derive(Clone, Copy)]
struct Operand {
    modrm: u8,
    at: usize,
    rex: u8,
    /// How many bytes it takes with what belongs to it.
    length: usize,
}

impl Operand {
    fn read(bytes: InstructionBytes<'_>, at: usize, rex: u8) -> Self {
        let modrm = bytes.byte(at);
        // An index without a base has a distance instead.
        let has_distance = modrm & 0xc7 == 4 && bytes.byte(at + 1) & 7 == 5;
        let length = looked_up(&TABLES.operands, modrm) + if has_distance { 4 } else { 0 };
        Self { modrm, at, rex, length: usize::from(length) }
    }

    fn is_register(self) -> bool {
        self.modrm >= 0xc0
    }

    /// The register that it is, where it is one.
    fn own_register(self) -> Register {
        extended(self.modrm, self.rex, BASE)
    }

    fn is_wide(self) -> bool {
        self.rex & WIDE != 0
    }

    fn end(self) -> usize {
        self.at + self.length
    }

    fn register(self) -> Register {
        extended(self.modrm >> 3, self.rex, REGISTER)
    }
}

/// Reads the instruction at the beginning of `bytes`, which is at `address` in memory, and gives its length.
#[inline]
pub(super) fn decode(bytes: &[u8; LONGEST], address: u64, steps: &mut CodeSteps) -> usize {
    let bytes = InstructionBytes(bytes);
    let prefixes = read_prefixes(bytes);
    match bytes.byte(prefixes.length) {
        0x0f => second(bytes, prefixes, steps),
        prefix @ (0xc4 | 0xc5 | 0x62) => vector(bytes, prefixes.length, prefix),
        opcode => first(bytes, prefixes, opcode, address, steps),
    }
}

fn read_prefixes(bytes: InstructionBytes<'_>) -> Prefixes {
    let first = bytes.byte(0);
    match looked_up(&TABLES.forms, first) & PREFIX != 0 {
        false => Prefixes::default(),
        true if first & 0xf0 == 0x40 => Prefixes { rex: first, length: 1, is_short: false },
        true => read_old_prefixes(bytes),
    }
}

/// Those before REX.
fn read_old_prefixes(bytes: InstructionBytes<'_>) -> Prefixes {
    let mut prefixes = Prefixes::default();
    while prefixes.length < 8 {
        let byte = bytes.byte(prefixes.length);
        if looked_up(&TABLES.forms, byte) & PREFIX == 0 {
            break;
        }
        prefixes.length += 1;
        if byte & 0xf0 == 0x40 {
            return Prefixes { rex: byte, ..prefixes };
        }
        prefixes.is_short |= byte == 0x66;
    }
    prefixes
}

/// After `0f`: of all these only the conditional moves matter.
fn second(bytes: InstructionBytes<'_>, prefixes: Prefixes, steps: &mut CodeSteps) -> usize {
    let opcode = bytes.byte(prefixes.length + 1);
    let at = prefixes.length + 2;
    match opcode {
        0x38 => unread(bytes, at + 1, MODRM),
        0x3a => unread(bytes, at + 1, MODRM | BYTE),
        0x40..=0x4f => {
            let operand = Operand::read(bytes, at, prefixes.rex);
            let first = operand.register();
            steps.add(if operand.is_register() {
                CodeStep::Choose { first, second: operand.own_register() }
            } else {
                CodeStep::Overwrite { register: first }
            });
            operand.end()
        }
        _ => unread(bytes, at, looked_up(&TABLES.forms_of_second, opcode)),
    }
}

/// VEX and EVEX: the prefix holds what other prefixes and `0f` would say.
fn vector(bytes: InstructionBytes<'_>, at: usize, prefix: u8) -> usize {
    let (map, at) = match prefix {
        0xc5 => (1, at + 2),
        0xc4 => (bytes.byte(at + 1) & 7, at + 3),
        _ => (bytes.byte(at + 1) & 7, at + 4),
    };
    let form = match map {
        1 => looked_up(&TABLES.forms_of_second, bytes.byte(at)),
        3 => MODRM | BYTE,
        _ => MODRM,
    };
    unread(bytes, at + 1, form)
}

/// The length of an instruction that does not matter, whose operands are at `at`.
fn unread(bytes: InstructionBytes<'_>, at: usize, form: u8) -> usize {
    let operand = if form & MODRM == 0 { 0 } else { Operand::read(bytes, at, 0).length };
    at + operand + usize::from(looked_up(&TABLES.numbers, form))
}

/// How many bytes the immediate has.
fn immediate(form: u8, is_short: bool, modrm: u8) -> usize {
    if form & GROUP != 0 && modrm >> 3 & 7 > 1 {
        return 0;
    }
    let length = usize::from(looked_up(&TABLES.numbers, form & !GROUP));
    if is_short && form & FULL != 0 { length - 2 } else { length }
}

fn first(bytes: InstructionBytes<'_>, prefixes: Prefixes, opcode: u8, address: u64, steps: &mut CodeSteps) -> usize {
    let form = looked_up(&TABLES.forms, opcode);
    if form & MODRM == 0 {
        return without_operand(bytes, prefixes, opcode, (form, address), steps);
    }
    let operand = Operand::read(bytes, prefixes.length + 1, prefixes.rex);
    let length = operand.end() + immediate(form, prefixes.is_short, operand.modrm);
    let next = address.wrapping_add(length as u64);
    match opcode {
        0x8b | 0x8d => load(bytes, operand, opcode, next, steps),
        0x89 => store(bytes, operand, next, steps),
        0xc7 => set(bytes, operand, next, steps),
        0x31 if operand.is_register() && operand.own_register() == operand.register() => {
            steps.add(CodeStep::Number { register: operand.register(), value: 0 });
        }
        0xff if matches!(operand.modrm >> 3 & 7, 2 | 4) => steps.add(CodeStep::Away),
        _ => {}
    }
    length
}

/// Into a register: another one, memory, or an address.
fn load(bytes: InstructionBytes<'_>, operand: Operand, opcode: u8, next: u64, steps: &mut CodeSteps) {
    let register = operand.register();
    if opcode == 0x8b && operand.is_register() {
        steps.add(CodeStep::Move { to: register, from: operand.own_register() });
    } else if opcode == 0x8d && operand.modrm & 0xc7 == 5 && operand.is_wide() {
        let distance = bytes.four(operand.at + 1).cast_signed();
        steps.add(CodeStep::Address { register, target: next.wrapping_add_signed(i64::from(distance)) });
    } else {
        steps.add(CodeStep::Overwrite { register });
    }
}

/// A register, into another one or into memory.
fn store(bytes: InstructionBytes<'_>, operand: Operand, next: u64, steps: &mut CodeSteps) {
    let register = operand.register();
    if operand.is_register() {
        steps.add(CodeStep::Move { to: operand.own_register(), from: register });
    } else if let Some(place) = bytes.place(operand, next).filter(|_| operand.is_wide()) {
        steps.add(CodeStep::Store { register, place });
    }
}

/// A number, into a register or into memory.
fn set(bytes: InstructionBytes<'_>, operand: Operand, next: u64, steps: &mut CodeSteps) {
    let value = bytes.four(operand.end());
    if operand.is_register() {
        steps.add(CodeStep::Number { register: operand.own_register(), value });
    } else if let Some(place) = bytes.place(operand, next).filter(|_| operand.is_wide()) {
        steps.add(CodeStep::StoreNumber { value, place });
    }
}

fn without_operand(
    bytes: InstructionBytes<'_>,
    prefixes: Prefixes,
    opcode: u8,
    (form, address): (u8, u64),
    steps: &mut CodeSteps,
) -> usize {
    let at = prefixes.length + 1;
    let is_wide = prefixes.rex & WIDE != 0;
    let length = at + immediate(form, prefixes.is_short && !is_wide, 0);
    match opcode {
        0xb8..=0xbf => {
            let register = extended(opcode, prefixes.rex, BASE);
            steps.add(match (is_wide, prefixes.is_short) {
                (false, false) => CodeStep::Number { register, value: bytes.four(at) },
                _ => CodeStep::Overwrite { register },
            });
            length + if is_wide { 4 } else { 0 }
        }
        0xe8 => {
            let next = address.wrapping_add(length as u64);
            steps.add(CodeStep::Call { function: next.wrapping_add_signed(i64::from(bytes.four(at).cast_signed())) });
            length
        }
        0xe9 | 0xeb | 0xc3 => {
            steps.add(CodeStep::Away);
            length
        }
        _ => length,
    }
}

/// Go's order of arguments, then System V's.
const GO: [Register; 9] = [0, 3, 1, 7, 6, 8, 9, 10, 11];
const SYSTEM_V: [Register; 6] = [7, 6, 2, 1, 8, 9];

fn after(order: &[Register], register: Register) -> Option<Register> {
    let at = order.iter().position(|other| *other == register)?;
    order.get(at + 1).copied()
}

/// Where Go has the beginning of a string that is the first argument, and of one after a context.
pub(super) const NAME_IN_GO: [Register; 2] = [0, 1];

/// Where Go has the length of a string whose address is in `register`.
pub(super) fn next_in_go(register: Register) -> Option<Register> {
    after(&GO, register)
}

/// Where Rust has it; results are in AX and DX.
pub(super) fn next_in_system_v(register: Register) -> Option<Register> {
    after(&SYSTEM_V, register).or((register == 0).then_some(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS_OF: u64 = 0x40_1000;

    /// How many bytes there are, how many of them are taken, and what they do.
    fn read(hex: &str) -> (usize, usize, Vec<CodeStep>) {
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        // What follows must not matter.
        let mut padded = [0xe8; LONGEST];
        padded[..bytes.len()].copy_from_slice(&bytes);
        let mut steps = CodeSteps::default();
        let length = decode(&padded, ADDRESS_OF, &mut steps);
        (bytes.len(), length, steps.list.iter().map(|step| step.step).collect())
    }

    fn memory(base: Register, offset: i64) -> MemoryPlace {
        MemoryPlace { base, index: None, offset }
    }

    /// As objdump shows them in Go's and gcc's programs.
    #[test]
    fn instructions_that_make_strings_are_understood() {
        let indexed = MemoryPlace { base: 2, index: Some((8, 0)), offset: 8 };
        for (hex, step) in [
            ("488d0d6a160000", CodeStep::Address { register: 1, target: ADDRESS_OF + 7 + 0x166a }),
            ("4c8d05f9ffffff", CodeStep::Address { register: 8, target: ADDRESS_OF }),
            ("488d8c2450020000", CodeStep::Overwrite { register: 1 }),
            ("8d72bf", CodeStep::Overwrite { register: 6 }),
            ("bb03000000", CodeStep::Number { register: 3, value: 3 }),
            ("41b80a000000", CodeStep::Number { register: 8, value: 10 }),
            ("48c7c003000000", CodeStep::Number { register: 0, value: 3 }),
            ("48b80102030405060708", CodeStep::Overwrite { register: 0 }),
            ("31c0", CodeStep::Number { register: 0, value: 0 }),
            ("89fe", CodeStep::Move { to: 6, from: 7 }),
            ("4989d1", CodeStep::Move { to: 9, from: 2 }),
            ("488bc1", CodeStep::Move { to: 0, from: 1 }),
            ("488908", CodeStep::Store { register: 1, place: memory(0, 0) }),
            ("48895010", CodeStep::Store { register: 2, place: memory(0, 16) }),
            ("4889942450020000", CodeStep::Store { register: 2, place: memory(4, 0x250) }),
            ("49895308", CodeStep::Store { register: 2, place: memory(11, 8) }),
            ("4889153a9e1000", CodeStep::Store { register: 2, place: memory(16, 0x40_1007 + 0x10_9e3a) }),
            ("48c7400807000000", CodeStep::StoreNumber { value: 7, place: memory(0, 8) }),
            ("48c784245802000006000000", CodeStep::StoreNumber { value: 6, place: memory(4, 0x258) }),
            ("4ac744020806000000", CodeStep::StoreNumber { value: 6, place: indexed }),
            ("490f4fd0", CodeStep::Choose { first: 2, second: 8 }),
            ("488b442408", CodeStep::Overwrite { register: 0 }),
            ("e808c2ffff", CodeStep::Call { function: ADDRESS_OF + 5 - 0x3df8 }),
            ("e908c2ffff", CodeStep::Away),
            ("ffd0", CodeStep::Away),
            ("eba2", CodeStep::Away),
            ("c3", CodeStep::Away),
        ] {
            let (len, length, steps) = read(hex);
            assert_eq!((length, steps), (len, vec![step]), "{hex}");
        }
    }

    #[test]
    fn every_other_instruction_has_its_length() {
        for hex in [
            "90",
            "55",
            "0f1f440000",
            "660f1f440000",
            "0f86ad0a0000",
            "7647",
            "493b6610",
            "833d37a8120000",
            "4883ec58",
            "4881ec68020000",
            "48ffcb",
            "f7c600000100",
            "f6c101",
            "f7d8",
            "6690",
            "440f1179f8",
            "f30f6f06",
            "66480f6ec0",
            "0fb61401",
            "c5fa6f06",
            "c4e27d5806",
            "62f17c481006",
            "660f3a0fc108",
            "0f3800c1",
            "f0480fb10f",
            "69c0e8030000",
            "6bc00a",
            "a900010000",
            "66c704240000",
        ] {
            let (len, length, steps) = read(hex);
            assert_eq!((length, steps), (len, vec![]), "{hex}");
        }
    }

    #[test]
    fn registers_follow_each_other_as_arguments_do() {
        assert_eq!([0, 3, 1, 7, 11, 2].map(next_in_go), [Some(3), Some(1), Some(7), Some(6), None, None]);
        assert_eq!([7, 6, 2, 0, 9, 3].map(next_in_system_v), [Some(6), Some(2), Some(1), Some(2), None, None]);
    }
}
