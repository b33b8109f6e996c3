//! The rule: which linkage follows from what the headers say.

use object::elf::{ET_EXEC, FileType};

use super::program::Linkage;

/// What the rule looks at.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of the file, and all combinations occur")]
pub(super) struct Traits {
    pub kind: FileType,
    pub has_interpreter: bool,
    pub needs_libraries: bool,
    pub has_soname: bool,
    /// The linker marked it as a program (`DF_1_PIE`).
    pub is_pie: bool,
    pub has_entry: bool,
}

/// Static is a program without interpreter and without libraries. A Go program can have the one
/// without the other (1.19, `-buildmode=pie`, no cgo), and starts only where the interpreter is.
pub(super) fn of(traits: Traits) -> Linkage {
    let Traits { kind, has_interpreter, needs_libraries, has_soname, is_pie, has_entry } = traits;
    let is_bare = !has_interpreter && !needs_libraries;
    if kind == ET_EXEC {
        return if is_bare { Linkage::Static } else { Linkage::Dynamic };
    }
    // libc.so.6 names an interpreter, too; its own name makes it a library.
    let is_library = !is_pie && (has_soname || (!has_interpreter && (needs_libraries || !has_entry)));
    match (is_library, is_bare) {
        (true, _) => Linkage::SharedObject,
        // Linkers before 2016 did not mark programs: an entry and no name of its own tell.
        (false, true) => Linkage::StaticPie,
        (false, false) => Linkage::Dynamic,
    }
}

#[cfg(test)]
mod tests {
    use object::elf::ET_DYN;

    use super::*;

    /// `i` interpreter, `n` needed, `s` soname, `p` marked as a program, `e` entry.
    fn traits(kind: FileType, letters: &str) -> Traits {
        let has = |letter| letters.contains(letter);
        Traits {
            kind,
            has_interpreter: has('i'),
            needs_libraries: has('n'),
            has_soname: has('s'),
            is_pie: has('p'),
            has_entry: has('e'),
        }
    }

    #[test]
    fn linkage_follows_from_the_headers() {
        for (kind, letters, expected) in [
            (ET_EXEC, "e", Linkage::Static),
            (ET_EXEC, "", Linkage::Static),
            (ET_EXEC, "ie", Linkage::Dynamic),
            (ET_EXEC, "ne", Linkage::Dynamic),
            (ET_EXEC, "ine", Linkage::Dynamic),
            (ET_DYN, "pe", Linkage::StaticPie),
            (ET_DYN, "e", Linkage::StaticPie),
            (ET_DYN, "ie", Linkage::Dynamic),
            (ET_DYN, "ipne", Linkage::Dynamic),
            (ET_DYN, "ine", Linkage::Dynamic),
            (ET_DYN, "pne", Linkage::Dynamic),
            (ET_DYN, "", Linkage::SharedObject),
            (ET_DYN, "n", Linkage::SharedObject),
            (ET_DYN, "ne", Linkage::SharedObject),
            (ET_DYN, "ns", Linkage::SharedObject),
            (ET_DYN, "se", Linkage::SharedObject),
            (ET_DYN, "inse", Linkage::SharedObject),
        ] {
            assert_eq!(of(traits(kind, letters)), expected, "{kind:?} {letters}");
        }
    }

    #[test]
    fn nothing_with_an_interpreter_or_libraries_is_static() {
        for kind in [ET_EXEC, ET_DYN] {
            for bits in 0..32_u32 {
                let letters: String =
                    "inspe".chars().zip(0..).filter(|(_, bit)| bits >> bit & 1 == 1).map(|(c, _)| c).collect();
                let is_bare = !letters.contains(['i', 'n']);
                assert!(is_bare || !of(traits(kind, &letters)).is_static(), "{kind:?} {letters}");
            }
        }
    }
}
