//! From a few instructions to a string: the address that one of them makes, and the length that another
//! one puts where the length of that string must be.
//!
//! A string is passed in two registers, or stored in two words, so its length is found by where its
//! address goes: into the register after it in the order of arguments, or into memory eight bytes
//! before it. Compilers put both within a few instructions, in either order.

/// How far apart, in instructions, the address and the length of a string may be.
pub(super) const NEAR: u32 = 16;
/// The same where both are stored: what a garbage collector needs to know may be told in between.
pub(super) const NEAR_IN_MEMORY: u32 = 48;
/// Registers of any machine that is read here.
pub(super) type Register = u8;

/// A word of memory as instructions name it: relative to a register, or to two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemoryPlace {
    pub base: Register,
    /// The other register, and the binary logarithm of its factor.
    pub index: Option<(Register, u8)>,
    pub offset: i64,
}

impl MemoryPlace {
    /// Whether this step makes the same name mean another place.
    fn is_moved_by(self, step: CodeStep) -> bool {
        step.writes(self.base) || self.index.is_some_and(|(index, _)| step.writes(index))
    }
}

/// What one instruction does, as far as it matters for strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CodeStep {
    /// Makes an address.
    Address {
        register: Register,
        target: u64,
    },
    Number {
        register: Register,
        value: u32,
    },
    Move {
        to: Register,
        from: Register,
    },
    /// Puts something else into a register.
    Overwrite {
        register: Register,
    },
    Store {
        register: Register,
        place: MemoryPlace,
    },
    StoreNumber {
        value: u32,
        place: MemoryPlace,
    },
    /// Leaves one of two values in the first register.
    Choose {
        first: Register,
        second: Register,
    },
    /// Calls the function that begins there.
    Call {
        function: u64,
    },
    /// Goes on elsewhere: other calls, jumps, returns.
    Away,
}

/// A step and the number of its instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NumberedStep {
    pub at: u32,
    pub step: CodeStep,
}

/// The steps of the instructions that were read, in order.
#[derive(Debug, Default)]
pub(super) struct CodeSteps {
    pub list: Vec<NumberedStep>,
    /// How many instructions were read.
    pub count: u32,
}

impl CodeSteps {
    /// A step of the instruction that is being read.
    pub fn add(&mut self, step: CodeStep) {
        self.list.push(NumberedStep { at: self.count, step });
    }
}

/// Which register follows another one in the order of arguments.
pub(super) type NextRegister = fn(Register) -> Option<Register>;

use CodeStep::{Address, Away, Call, Choose, Move, Number, Overwrite, Store, StoreNumber};

impl CodeStep {
    /// The register that has another value after this step.
    const fn written(self) -> Option<Register> {
        match self {
            Address { register, .. } | Number { register, .. } | Overwrite { register } => Some(register),
            Move { to, .. } => Some(to),
            Store { .. } | StoreNumber { .. } | Choose { .. } | Call { .. } | Away => None,
        }
    }

    /// Whether what comes next is elsewhere.
    const fn is_away(self) -> bool {
        matches!(self, Call { .. } | Away)
    }

    fn writes(self, register: Register) -> bool {
        self.written() == Some(register)
    }

    /// What this step stores at `wanted`, where it does: a number, or what `number_of` knows of a register.
    fn value_at(self, wanted: MemoryPlace, number_of: impl Fn(Register) -> Option<u32>) -> Option<StoredNumber> {
        match self {
            StoreNumber { value, place } if place == wanted => Some(StoredNumber(Some(value))),
            Store { register, place } if place == wanted => Some(StoredNumber(number_of(register))),
            _ => None,
        }
    }
}

/// What is stored at a place; a number only where that is known.
struct StoredNumber(Option<u32>);

/// The steps around one that makes an address.
pub(super) struct Around<'a> {
    /// Nearest last.
    pub before: &'a [NumberedStep],
    pub own: NumberedStep,
    pub after: &'a [NumberedStep],
}

impl Around<'_> {
    /// The length of the string whose address `register` has, where the code says it.
    pub fn length(&self, register: Register, next: NextRegister) -> Option<u32> {
        let length = match self.fate(register) {
            AddressFate::Stored(place, at) => self.stored(place, at).or_else(|| self.passed_or_beside(register, next)),
            AddressFate::Chosen(side) => self.chosen_before(side).or_else(|| self.chosen_later(side)),
            AddressFate::Kept => self.passed_or_beside(register, next),
        };
        length.filter(|length| *length > 0)
    }

    fn passed_or_beside(&self, register: Register, next: NextRegister) -> Option<u32> {
        let passed = next(register).and_then(|next| self.passed(register, next));
        passed.or_else(|| self.beside(register))
    }

    fn following(&self) -> impl Iterator<Item = (usize, CodeStep)> {
        let last = self.own.at.saturating_add(NEAR);
        self.after.iter().take_while(move |step| step.at <= last).map(|step| step.step).enumerate()
    }

    fn preceding(&self) -> impl Iterator<Item = (usize, CodeStep)> {
        let first = self.own.at.saturating_sub(NEAR_IN_MEMORY);
        let near = self.before.iter().enumerate().rev().take_while(move |(_, step)| step.at >= first);
        near.map(|(at, step)| (at, step.step))
    }

    /// What happens to the address first.
    fn fate(&self, register: Register) -> AddressFate {
        for (at, step) in self.following() {
            match step {
                Store { register: stored, place } if stored == register => return AddressFate::Stored(place, at),
                Choose { first, .. } if first == register => return AddressFate::Chosen(ChoiceSide::First),
                Choose { second, .. } if second == register => return AddressFate::Chosen(ChoiceSide::Second),
                step if step.is_away() || step.writes(register) => break,
                _ => {}
            }
        }
        AddressFate::Kept
    }

    /// The step `at` stores the address, and another one the length eight bytes after it, as long as the base
    /// stays the same.
    fn stored(&self, place: MemoryPlace, at: usize) -> Option<u32> {
        let beside = MemoryPlace { offset: place.offset.checked_add(8)?, ..place };
        let mut later =
            self.following().skip(at + 1).take_while(|(_, step)| !step.is_away() && !place.is_moved_by(*step));
        let later = later.find_map(|(at, step)| step.value_at(beside, |register| self.number_after(at, register)));
        later.or_else(|| self.stored_earlier(place, beside, at)).and_then(|StoredNumber(number)| number)
    }

    /// The same, looking back from the step `at`. A barrier for the garbage collector may be called in between,
    /// and keeps all registers.
    fn stored_earlier(&self, place: MemoryPlace, beside: MemoryPlace, at: usize) -> Option<StoredNumber> {
        for (at, step) in self.following().take(at).collect::<Vec<_>>().into_iter().rev() {
            if place.is_moved_by(step) {
                return None;
            }
            if let Some(value) = step.value_at(beside, |register| self.number_after(at, register)) {
                return Some(value);
            }
        }
        let mut before = self.preceding().take_while(|(_, step)| !place.is_moved_by(*step));
        before.find_map(|(at, step)| step.value_at(beside, |register| number_in(self.before.get(..at)?, register)))
    }

    /// The number that `register` has at the step `at` of those after this one.
    fn number_after(&self, at: usize, register: Register) -> Option<u32> {
        let here = self.after.get(..at)?;
        let is_written = here.iter().any(|step| step.step.writes(register));
        number_in(if is_written { here } else { self.before }, register)
    }

    /// The length is in the register `next`, put there after the address or before it.
    fn passed(&self, register: Register, next: Register) -> Option<u32> {
        for (at, step) in self.following() {
            match step {
                Number { register, value } if register == next => return Some(value),
                Move { to, from } if to == next => return self.number_after(at, from),
                step if step.is_away() => break,
                step if step.writes(next) => return None,
                step if step.writes(register) => break,
                _ => {}
            }
        }
        number_in(self.before, next)
    }

    /// One of two lengths was chosen before one of two strings: this one is on the same side.
    fn chosen_before(&self, side: ChoiceSide) -> Option<u32> {
        let (at, register) = self.preceding().find_map(|(at, step)| Some((at, side.of(step)?)))?;
        number_in(self.before.get(..at)?, register)
    }

    /// The same, and the lengths come later.
    fn chosen_later(&self, side: ChoiceSide) -> Option<u32> {
        let mut choices = self.following().filter_map(|(at, step)| Some((at, side.of(step)?)));
        let (at, register) = choices.nth(1)?;
        self.number_after(at, register)
    }

    /// The function that is called with the address, and which of `arguments` has it then.
    pub fn passed_to(&self, register: Register, arguments: [Register; 2]) -> Option<(usize, u64)> {
        let argument = |register: Register| arguments.iter().position(|argument| *argument == register);
        let mut holder = register;
        for (_, step) in self.following() {
            match step {
                Call { function } => return Some((argument(holder)?, function)),
                Move { to, from } if from == holder && argument(holder).is_none() => holder = to,
                step if step == Away || step.writes(holder) => return None,
                _ => {}
            }
        }
        None
    }

    /// A number right beside the address: both go into registers that nothing is known of.
    fn beside(&self, register: Register) -> Option<u32> {
        let is_near = |step: &&NumberedStep| step.at.abs_diff(self.own.at) <= 2;
        let number = |step: &NumberedStep| match step.step {
            Number { register: other, value } if other != register => Some(value),
            _ => None,
        };
        let after = self.after.first().filter(is_near).and_then(number);
        let before = || self.before.last().filter(is_near).and_then(number);
        after.or_else(before)
    }
}

/// What becomes of an address that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressFate {
    /// Where, and by which of the steps that follow.
    Stored(MemoryPlace, usize),
    /// It is one of two.
    Chosen(ChoiceSide),
    /// It stays in its register.
    Kept,
}

/// The number that `register` has after these steps. Nothing is known of registers that come from elsewhere.
fn number_in(steps: &[NumberedStep], register: Register) -> Option<u32> {
    let last = steps.last()?.at;
    let mut wanted = register;
    for step in steps.iter().rev().take_while(|step| last.saturating_sub(step.at) <= NEAR) {
        match step.step {
            Number { register, value } if register == wanted => return Some(value),
            Move { to, from } if to == wanted => wanted = from,
            step if step.is_away() || step.writes(wanted) => return None,
            _ => {}
        }
    }
    None
}

/// Which of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChoiceSide {
    First,
    Second,
}

impl ChoiceSide {
    /// The register that is on this side of a choice.
    const fn of(self, step: CodeStep) -> Option<Register> {
        match (self, step) {
            (Self::First, Choose { first, .. }) => Some(first),
            (Self::Second, Choose { second, .. }) => Some(second),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Registers 0 to 3 are those of arguments, in this order.
    fn next(register: Register) -> Option<Register> {
        (register < 3).then_some(register + 1)
    }

    fn at(base: Register, offset: i64) -> MemoryPlace {
        MemoryPlace { base, index: None, offset }
    }

    const OWN: CodeStep = Address { register: 0, target: 0x1000 };

    /// The length of the string that [`OWN`] makes the address of.
    fn length(steps: &[CodeStep]) -> Option<u32> {
        around(steps, |around| around.length(0, next))
    }

    fn around<T>(steps: &[CodeStep], look: impl FnOnce(Around<'_>) -> T) -> T {
        let steps: Vec<NumberedStep> =
            steps.iter().zip(100..).map(|(step, at)| NumberedStep { at, step: *step }).collect();
        let own = steps.iter().position(|step| step.step == OWN).unwrap();
        look(Around { before: &steps[..own], own: steps[own], after: &steps[own + 1..] })
    }

    fn number(register: Register, value: u32) -> CodeStep {
        Number { register, value }
    }

    fn store(register: Register, place: MemoryPlace) -> CodeStep {
        Store { register, place }
    }

    #[test]
    fn the_length_is_where_the_address_goes() {
        let other = Address { register: 1, target: 0x2000 };
        let late = [vec![number(1, 3)], vec![Overwrite { register: 9 }; 20], vec![OWN]].concat();
        for (name, steps, expected) in [
            ("in the next register", vec![OWN, number(1, 3), Away], Some(3)),
            ("in the next register, before", vec![number(1, 3), OWN, Away], Some(3)),
            ("the nearest of two", vec![number(1, 9), OWN, number(1, 3), Away], Some(3)),
            ("of another string", vec![OWN, number(2, 7), number(1, 3), Away], Some(3)),
            ("by way of another register", vec![OWN, number(9, 3), Move { to: 1, from: 9 }, Away], Some(3)),
            ("not across a call", vec![number(1, 3), Away, OWN, Overwrite { register: 9 }, Away], None),
            ("not after a call", vec![OWN, Overwrite { register: 9 }, Away, number(1, 3)], None),
            ("not where something else is in it", vec![number(1, 3), Overwrite { register: 1 }, OWN, Away], None),
            ("not from far away", late, None),
            ("stored behind it", vec![OWN, store(0, at(4, 16)), StoreNumber { value: 5, place: at(4, 24) }], Some(5)),
            ("stored before", vec![StoreNumber { value: 5, place: at(4, 24) }, OWN, store(0, at(4, 16))], Some(5)),
            ("stored from a register", vec![OWN, store(0, at(4, 16)), number(0, 5), store(0, at(4, 24))], Some(5)),
            (
                "stored, whatever is passed",
                vec![StoreNumber { value: 5, place: at(4, 24) }, OWN, store(0, at(4, 16)), other, number(1, 3)],
                Some(5),
            ),
            (
                "not stored elsewhere later",
                vec![
                    StoreNumber { value: 5, place: at(4, 24) },
                    OWN,
                    store(0, at(4, 16)),
                    Away,
                    StoreNumber { value: 9, place: at(4, 24) },
                ],
                Some(5),
            ),
            (
                "stored by a base that was just made",
                vec![
                    store(7, at(4, 8)),
                    OWN,
                    number(8, 12),
                    Overwrite { register: 4 },
                    store(0, at(4, 0)),
                    store(8, at(4, 8)),
                ],
                Some(12),
            ),
            (
                "not where the base has moved",
                vec![
                    StoreNumber { value: 5, place: at(4, 24) },
                    Overwrite { register: 4 },
                    OWN,
                    Overwrite { register: 9 },
                    store(0, at(4, 16)),
                ],
                None,
            ),
            ("a number right beside it", vec![OWN, number(8, 3), Away], Some(3)),
            ("no number, no length", vec![OWN, Away], None),
            ("nothing has no length", vec![OWN, number(1, 0), Away], None),
        ] {
            assert_eq!(length(&steps), expected, "{name}");
        }
    }

    #[test]
    fn an_address_is_passed_in_the_register_that_has_it_when_a_function_is_called() {
        let call = Call { function: 0x7000 };
        for (name, steps, expected) in [
            ("at once", vec![OWN, number(1, 3), call], Some((0, 0x7000))),
            ("as another argument", vec![OWN, Move { to: 2, from: 0 }, call], Some((0, 0x7000))),
            ("not where something else is in it", vec![OWN, Overwrite { register: 0 }, call], None),
            ("not to the function after it", vec![OWN, Away, call], None),
            ("not where no function is called", vec![OWN, number(1, 3)], None),
        ] {
            assert_eq!(around(&steps, |around| around.passed_to(0, [0, 2])), expected, "{name}");
        }
        let moved = [OWN, Move { to: 2, from: 0 }, call];
        assert_eq!(around(&moved, |around| around.passed_to(0, [1, 2])), Some((1, 0x7000)));
        assert_eq!(around(&[OWN, call], |around| around.passed_to(0, [1, 2])), None);
    }

    #[test]
    fn of_two_strings_each_has_the_length_on_its_side() {
        let other = Address { register: 5, target: 0x2000 };
        let lengths = [number(7, 10), number(8, 20)];
        for (own_is_first, expected) in [(true, 10), (false, 20)] {
            let (first, second) = if own_is_first { (0, 5) } else { (5, 0) };
            let choice = Choose { first, second };
            let before = [&lengths[..], &[Choose { first: 7, second: 8 }, OWN, other, choice, Away]].concat();
            assert_eq!(length(&before), Some(expected));
            let after = [&[OWN, other, choice], &lengths[..], &[Choose { first: 7, second: 8 }, Away]].concat();
            assert_eq!(length(&after), Some(expected));
        }
    }
}
