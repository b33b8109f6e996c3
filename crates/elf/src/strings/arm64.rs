//! The instructions of arm64 that make addresses and numbers.
//!
//! Arm's Architecture Reference Manual for A-profile, chapter C4: every instruction is four bytes.

use super::operands::{CodeStep, MemoryPlace, Register};

/// The stack pointer, or zero: which of the two depends on the instruction.
const LAST: Register = 31;
/// The base of places whose address is known: then the offset is the address.
const ANYWHERE: Register = 32;

/// Reads instructions one after the other: an address is made by two of them.
#[derive(Debug, Default)]
pub(super) struct Arm64Decoder {
    /// The address, of a page or in it, that each register has.
    known: [Option<u64>; 32],
}

/// What one instruction does: a pair is stored in two steps.
pub(super) type Arm64Steps = [Option<CodeStep>; 2];

impl Arm64Decoder {
    /// The steps of the instruction `word` at `address`.
    #[inline]
    pub fn decode(&mut self, word: u32, address: u64) -> Arm64Steps {
        let to = register(word, 0);
        match word >> 24 {
            0x90 | 0xb0 | 0xd0 | 0xf0 => {
                self.set(to, Some((address & !0xfff).wrapping_add_signed(distance(word) << 12)));
                [None, None]
            }
            0x10 | 0x30 | 0x50 | 0x70 => {
                let target = address.wrapping_add_signed(distance(word));
                self.set(to, Some(target));
                [Some(CodeStep::Address { register: to, target }), None]
            }
            0x91 => [Some(self.add(word, to)), None],
            0xa9 | 0xf8 | 0xf9 => self.store(word).unwrap_or_else(|| self.other(word, to, address)),
            0x14..=0x17 | 0x1a | 0x2a | 0x32 | 0x52 | 0x94..=0x97 | 0x9a | 0xaa | 0xb2 | 0xb9 | 0xd2 | 0xd6 => {
                self.other(word, to, address)
            }
            _ => [None, None],
        }
    }

    /// Instructions that make no address; most of them write a register.
    fn other(&mut self, word: u32, to: Register, address: u64) -> Arm64Steps {
        if word >> 26 == 0x25 {
            let distance = (i64::from(word & 0x3ff_ffff) << 38) >> 36;
            return [Some(CodeStep::Call { function: address.wrapping_add_signed(distance) }), None];
        }
        let step = register_step(word, to);
        if !matches!(step, None | Some(CodeStep::Away)) {
            self.set(to, None);
        }
        [step, None]
    }

    /// A sum of a page and an offset in it is an address.
    fn add(&mut self, word: u32, to: Register) -> CodeStep {
        let amount = u64::from(word >> 10 & 0xfff) << if word & 1 << 22 == 0 { 0 } else { 12 };
        let target = self.get(register(word, 5)).map(|page| page.wrapping_add(amount));
        self.set(to, target);
        match target {
            Some(target) => CodeStep::Address { register: to, target },
            None => CodeStep::Overwrite { register: to },
        }
    }

    fn get(&self, of: Register) -> Option<u64> {
        self.known.get(usize::from(of)).copied().flatten()
    }

    fn set(&mut self, of: Register, address: Option<u64>) {
        if let Some(slot) = self.known.get_mut(usize::from(of)) {
            *slot = address;
        }
    }

    /// Instructions that store registers, as far as they store whole words.
    fn store(&self, word: u32) -> Option<Arm64Steps> {
        let base = register(word, 5);
        let place = |offset: i64| match self.get(base) {
            Some(address) => {
                MemoryPlace { base: ANYWHERE, index: None, offset: address.wrapping_add_signed(offset).cast_signed() }
            }
            None => MemoryPlace { base, index: None, offset },
        };
        let stored = |at, offset| Some(CodeStep::Store { register: register(word, at), place: place(offset) });
        if word & 0xffc0_0000 == 0xf900_0000 {
            return Some([stored(0, i64::from(word >> 10 & 0xfff) * 8), None]);
        }
        if word & 0xffe0_0c00 == 0xf800_0000 {
            return Some([stored(0, (i64::from(word >> 12 & 0x1ff) << 55) >> 55), None]);
        }
        if word & 0xffc0_0000 == 0xa900_0000 {
            let offset = ((i64::from(word >> 15 & 0x7f) << 57) >> 57) * 8;
            return Some([stored(0, offset), stored(10, offset + 8)]);
        }
        None
    }
}

fn register(word: u32, at: u32) -> Register {
    let [byte, ..] = (word >> at & 31).to_le_bytes();
    byte
}

/// The signed 21 bits of ADR and ADRP.
fn distance(word: u32) -> i64 {
    let value = word >> 5 & 0x7_ffff;
    let value = i64::from(value << 2 | word >> 29 & 3);
    (value << 43) >> 43
}

/// Instructions that only write one register.
fn register_step(word: u32, to: Register) -> Option<CodeStep> {
    if word & 0x7f80_0000 == 0x5280_0000 {
        let is_low = word & 0x0060_0000 == 0;
        let value = word >> 5 & 0xffff;
        return Some(if is_low {
            CodeStep::Number { register: to, value }
        } else {
            CodeStep::Overwrite { register: to }
        });
    }
    if word & 0x7f80_0000 == 0x3200_0000 && register(word, 5) == LAST {
        return Some(match bit_pattern(word) {
            Some(value) => CodeStep::Number { register: to, value },
            None => CodeStep::Overwrite { register: to },
        });
    }
    if word & 0x7fe0_ffe0 == 0x2a00_03e0 {
        return Some(CodeStep::Move { to, from: register(word, 16) });
    }
    if word >> 26 == 0x05 || word & 0xff9f_fc1f == 0xd61f_0000 {
        return Some(CodeStep::Away);
    }
    if word & 0x7fe0_0c00 == 0x1a80_0000 {
        return Some(CodeStep::Choose { first: register(word, 5), second: register(word, 16) });
    }
    // A load of a register.
    (word & 0xbfc0_0000 == 0xb940_0000).then_some(CodeStep::Overwrite { register: to })
}

/// The number that a logical immediate stands for (`DecodeBitMasks`), where it is one run of bits.
fn bit_pattern(word: u32) -> Option<u32> {
    let (is_wide, is_whole) = (word >> 31 == 1, word >> 22 & 1 == 1);
    let (rotate, ones) = (word >> 16 & 63, word >> 10 & 63);
    let run = 1_u64.checked_shl(ones + 1)?.checked_sub(1)?;
    match (is_wide, is_whole) {
        (true, true) => u32::try_from(run.rotate_right(rotate)).ok(),
        (false, false) if ones < 32 => Some(u32::try_from(run).ok()?.rotate_right(rotate & 31)),
        _ => None,
    }
}

/// Where Go has the beginning of a string that is the first argument, and of one after a context.
pub(super) const NAME_IN_GO: [Register; 2] = [0, 2];

/// Go and System V alike: the next register.
pub(super) fn next(register: Register) -> Option<Register> {
    (register < 30).then_some(register + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(words: &[u32]) -> Vec<CodeStep> {
        let mut decoder = Arm64Decoder::default();
        let steps = words.iter().zip(0..).map(|(word, at)| decoder.decode(*word, 0xc_7000 + 4 * at));
        steps.flatten().flatten().collect()
    }

    fn memory(base: Register, offset: i64) -> MemoryPlace {
        MemoryPlace { base, index: None, offset }
    }

    /// As objdump shows them in Go's programs.
    #[test]
    fn instructions_that_make_strings_are_understood() {
        for (words, expected) in [
            (&[0xb000_0041, 0x9112_8c21][..], vec![CodeStep::Address { register: 1, target: 0xd_04a3 }]),
            (&[0x1000_00e1], vec![CodeStep::Address { register: 1, target: 0xc_701c }]),
            (&[0x9109_43fb], vec![CodeStep::Overwrite { register: 27 }]),
            (&[0xd280_01a2], vec![CodeStep::Number { register: 2, value: 13 }]),
            (&[0xb240_07e1], vec![CodeStep::Number { register: 1, value: 3 }]),
            (&[0xb27f_07e6], vec![CodeStep::Number { register: 6, value: 6 }]),
            (&[0xb27d_03e2], vec![CodeStep::Number { register: 2, value: 8 }]),
            (&[0x3200_07e1], vec![CodeStep::Number { register: 1, value: 3 }]),
            (&[0xaa03_03e4], vec![CodeStep::Move { to: 4, from: 3 }]),
            (&[0xf900_0401], vec![CodeStep::Store { register: 1, place: memory(0, 8) }]),
            (&[0xf81f_83fd], vec![CodeStep::Store { register: 29, place: memory(31, -8) }]),
            (
                &[0xa901_0801],
                vec![
                    CodeStep::Store { register: 1, place: memory(0, 16) },
                    CodeStep::Store { register: 2, place: memory(0, 24) },
                ],
            ),
            // Into a variable, by its address.
            (&[0xb000_08bb, 0xf900_0761], vec![CodeStep::Store { register: 1, place: memory(32, 0x1d_c008) }]),
            (&[0x9a86_c0a1], vec![CodeStep::Choose { first: 5, second: 6 }]),
            (&[0xf940_0001], vec![CodeStep::Overwrite { register: 1 }]),
            (&[0x97ff_f2c1], vec![CodeStep::Call { function: 0xc_7000 - 0x34fc }]),
            (&[0x1400_0005], vec![CodeStep::Away]),
            (&[0xd65f_03c0], vec![CodeStep::Away]),
            (&[0xd503_201f, 0xeb30_63ff, 0], vec![]),
        ] {
            assert_eq!(steps(words), expected, "{words:x?}");
        }
    }

    #[test]
    fn a_page_is_forgotten_when_something_else_is_in_its_register() {
        let words = [0xb000_0041, 0xd280_01a1, 0x9112_8c21];
        assert_eq!(steps(&words)[1], CodeStep::Overwrite { register: 1 });
    }
}
