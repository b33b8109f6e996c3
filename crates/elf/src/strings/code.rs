//! Reads machine code from its beginning to its end, and gives the addresses that it makes, each with
//! the length of the string there, where the code says it.

use super::amd64;
use super::arm64::{self, Arm64Decoder};
use super::calls::{self, NameArgument};
use super::layout::{CodeMachine, LinkedBy, ProgramLayout};
use super::operands::{Around, CodeStep, CodeSteps, NEAR, NEAR_IN_MEMORY, NextRegister, NumberedStep, Register};
use super::scan::BlockView;
use crate::segments::LoadedPart;

/// An address that code makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CodeAddress {
    pub target: u64,
    pub length: Option<u32>,
    /// The function that Go's code calls with it, where it may be the name of a program.
    pub passed_to: Option<(NameArgument, u64)>,
}

#[derive(Debug, Default)]
pub(super) struct CodeReader {
    /// The offset in the file of the next instruction.
    next: u64,
    /// What they do, as far as it is near enough to the end to be needed still.
    steps: CodeSteps,
    /// How many of them have been looked at.
    done: usize,
    arm64: Arm64Decoder,
    /// Whether all code of the part that was read last is done.
    is_at_end: bool,
}

impl CodeReader {
    /// Reads the instructions of `part` that are in sight.
    pub fn read(&mut self, part: &LoadedPart, view: &BlockView<'_>, layout: &ProgramLayout) {
        self.next = self.next.max(part.offset).max(view.start);
        let end = part.offset.saturating_add(part.len).min(view.end());
        match layout.machine {
            CodeMachine::Amd64 => self.read_amd64(part, view, end),
            CodeMachine::Arm64 => self.read_arm64(part, view, end),
            CodeMachine::Unreadable => {}
        }
        self.is_at_end = self.next >= part.offset.saturating_add(part.len);
    }

    fn read_amd64(&mut self, part: &LoadedPart, view: &BlockView<'_>, end: u64) {
        let delta = part.address.wrapping_sub(part.offset);
        let Some(code) = view.at(self.next) else { return };
        let len = usize::try_from(end.saturating_sub(self.next)).unwrap_or(0);
        let mut at = 0;
        while at < len {
            let Some(bytes) = code.get(at..).and_then(|rest| rest.first_chunk()) else { break };
            at += self.add_amd64(bytes, self.next.wrapping_add(delta).wrapping_add(at as u64));
        }
        while view.is_last && at < len {
            let bytes = padded(code.get(at..).unwrap_or_default());
            at += self.add_amd64(&bytes, self.next.wrapping_add(delta).wrapping_add(at as u64));
        }
        self.next += at as u64;
    }

    /// Reads one instruction, and gives its length.
    #[inline]
    fn add_amd64(&mut self, bytes: &[u8; amd64::LONGEST], address: u64) -> usize {
        self.steps.count = self.steps.count.wrapping_add(1);
        amd64::decode(bytes, address, &mut self.steps)
    }

    fn read_arm64(&mut self, part: &LoadedPart, view: &BlockView<'_>, end: u64) {
        self.next = self.next.next_multiple_of(4);
        let Some(code) = view.at(self.next) else { return };
        let len = usize::try_from(end.saturating_sub(self.next)).unwrap_or(0);
        let mut address = self.next.wrapping_add(part.address.wrapping_sub(part.offset));
        for word in code.get(..len).unwrap_or(code).as_chunks::<4>().0 {
            let steps = self.arm64.decode(u32::from_le_bytes(*word), address);
            address = address.wrapping_add(4);
            self.next += 4;
            self.steps.count = self.steps.count.wrapping_add(1);
            for step in steps.into_iter().flatten() {
                self.steps.add(step);
            }
        }
    }

    /// The addresses around which enough code has been read; all of them where it ends.
    pub fn addresses(&mut self, layout: &ProgramLayout, view: &BlockView<'_>) -> Vec<CodeAddress> {
        let next = next_register(layout);
        let mut found = Vec::new();
        while let Some(own) = self.steps.list.get(self.done).copied() {
            if !view.is_last && !self.is_at_end && self.steps.count.wrapping_sub(own.at) <= NEAR {
                break;
            }
            found.extend(self.address(own, layout, next));
            self.done += 1;
        }
        self.forget();
        found
    }

    fn address(&self, own: NumberedStep, layout: &ProgramLayout, next: NextRegister) -> Option<CodeAddress> {
        let is_address = |value: u32| layout.linked_by == LinkedBy::Other && layout.may_have(u64::from(value));
        let (register, target) = match own.step {
            CodeStep::Address { register, target } if layout.may_have(target) => (Some(register), target),
            CodeStep::Number { register, value } if is_address(value) => (Some(register), u64::from(value)),
            CodeStep::StoreNumber { value, .. } if is_address(value) => (None, u64::from(value)),
            _ => return None,
        };
        let (before, after) = (self.steps.list.get(..self.done)?, self.steps.list.get(self.done + 1..)?);
        let around = Around { before, own, after };
        let length = register.and_then(|register| around.length(register, next));
        let may_name = layout.linked_by != LinkedBy::Other && length.is_some_and(calls::is_name_length);
        let passed_to = register.filter(|_| may_name).and_then(|register| passed_to(&around, register, layout.machine));
        Some(CodeAddress { target, length, passed_to })
    }

    /// Leaves what the next addresses may need.
    fn forget(&mut self) {
        let now = self.steps.list.get(self.done).map_or(self.steps.count, |step| step.at);
        let is_old = |step: &NumberedStep| now.wrapping_sub(step.at) > NEAR_IN_MEMORY;
        let old = self.steps.list.iter().take(self.done).take_while(|step| is_old(step)).count();
        self.steps.list.drain(..old);
        self.done -= old;
    }
}

/// The last bytes of a file, and zeros behind them.
fn padded(bytes: &[u8]) -> [u8; amd64::LONGEST] {
    let mut padded = [0; amd64::LONGEST];
    for (to, from) in padded.iter_mut().zip(bytes) {
        *to = *from;
    }
    padded
}

fn passed_to(around: &Around<'_>, register: Register, machine: CodeMachine) -> Option<(NameArgument, u64)> {
    let arguments = match machine {
        CodeMachine::Amd64 => amd64::NAME_IN_GO,
        CodeMachine::Arm64 => arm64::NAME_IN_GO,
        CodeMachine::Unreadable => return None,
    };
    let (at, function) = around.passed_to(register, arguments)?;
    Some((if at == 0 { NameArgument::First } else { NameArgument::Second }, function))
}

fn next_register(layout: &ProgramLayout) -> NextRegister {
    match (layout.machine, layout.linked_by) {
        (CodeMachine::Amd64, LinkedBy::Other) => amd64::next_in_system_v,
        (CodeMachine::Amd64, _) => amd64::next_in_go,
        (CodeMachine::Arm64 | CodeMachine::Unreadable, _) => arm64::next,
    }
}
