//! Any bytes are a file that the probe has an answer for, the same in whatever pieces they come,
//! and what it calls static asks for nothing.
//!
//! The first two bytes of an input put a gap into the file, so that small inputs reach the places
//! where blocks meet: the rest is the file.

#![no_main]

use elf::{Linkage, Probe, Program};
use libfuzzer_sys::fuzz_target;

/// The end of a block, which is where answers could begin to depend on sizes.
const BLOCK: usize = 64 << 10;

fuzz_target!(|data: &[u8]| {
    let Some((&[at, len], rest)) = data.split_first_chunk::<2>() else { return };
    let file = with_gap(rest, usize::from(at) * 16, usize::from(len));
    let whole = look(&file, file.len());
    assert_eq!(whole, look(&file, 997), "the answer depends on the pieces");
    assert_eq!(whole, look(&file, BLOCK), "the answer depends on the pieces");
    assert!(!whole.linkage.is_static() || (whole.interpreter.is_none() && whole.needed.is_empty()));
    assert!(whole.runs.len() <= 64);
    check_strings(&file, &whole);
    let cut = cut_short(&file);
    assert!(cut.linkage == Linkage::Other || cut.script.is_some());
});

/// A path is in the file where it is said to be.
fn check_strings(file: &[u8], program: &Program) {
    for path in &program.strings.paths {
        let at = usize::try_from(path.offset).unwrap_or(usize::MAX);
        let bytes = file.get(at..).unwrap_or_default();
        assert!(bytes.starts_with(path.text.as_bytes()), "{path:?} is not in the file");
    }
    let strings = &program.strings;
    assert!(strings.words.is_sorted() && strings.command_words.is_sorted() && strings.calls.is_sorted());
}

/// No gap for most values of `len`, else one that ends shortly after a block does.
fn with_gap(rest: &[u8], at: usize, len: usize) -> Vec<u8> {
    let (head, tail) = rest.split_at(at.min(rest.len()));
    let gap = if len < 192 { 0 } else { BLOCK - head.len().min(BLOCK) + len - 224 };
    [head, &vec![b'.'; gap], tail].concat()
}

fn look(file: &[u8], piece: usize) -> Program {
    let mut probe = Probe::new(file.len() as u64);
    file.chunks(piece.max(1)).for_each(|piece| probe.feed(piece));
    probe.finish()
}

/// One byte is missing of what was announced.
fn cut_short(file: &[u8]) -> Program {
    let mut probe = Probe::new(file.len() as u64 + 1);
    probe.feed(file);
    probe.finish()
}
