//! The words for machines, as OCI platforms and Go spell them.

use object::elf;

use super::program::{Class, Endian, FloatAbi};

/// The word for the machine with this number, class and byte order.
pub(super) fn word(machine: elf::Machine, class: Class, endian: Endian) -> String {
    use Class::{Bits32, Bits64};
    use Endian::{Big, Little};
    let word = match (machine, class, endian) {
        (elf::EM_X86_64, ..) => "amd64",
        (elf::EM_AARCH64, ..) => "arm64",
        (elf::EM_ARM, ..) => "arm",
        (elf::EM_386, ..) => "386",
        (elf::EM_PPC64, _, Little) => "ppc64le",
        (elf::EM_PPC64, _, Big) => "ppc64",
        (elf::EM_S390, Bits64, _) => "s390x",
        (elf::EM_RISCV, Bits64, _) => "riscv64",
        (elf::EM_LOONGARCH, Bits64, _) => "loong64",
        (elf::EM_MIPS, Bits64, Little) => "mips64le",
        (elf::EM_MIPS, Bits64, Big) => "mips64",
        (elf::EM_MIPS, Bits32, Little) => "mipsle",
        (elf::EM_MIPS, Bits32, Big) => "mips",
        _ => return format!("unknown({})", machine.0),
    };
    word.to_owned()
}

/// What the flags of an ARM file say. Go's linker says nothing there: its programs call nobody.
/// `.ARM.attributes` would tell more, but where it is stands behind everything else.
pub(super) fn float_abi(machine: elf::Machine, flags: u32) -> Option<FloatAbi> {
    match flags & (elf::EF_ARM_ABI_FLOAT_HARD | elf::EF_ARM_ABI_FLOAT_SOFT) {
        _ if machine != elf::EM_ARM => None,
        elf::EF_ARM_ABI_FLOAT_HARD => Some(FloatAbi::Hard),
        elf::EF_ARM_ABI_FLOAT_SOFT => Some(FloatAbi::Soft),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_have_the_words_of_platforms() {
        use Class::{Bits32, Bits64};
        use Endian::{Big, Little};
        for (number, class, endian, expected) in [
            (62, Bits64, Little, "amd64"),
            (62, Bits32, Little, "amd64"),
            (183, Bits64, Little, "arm64"),
            (40, Bits32, Little, "arm"),
            (3, Bits32, Little, "386"),
            (21, Bits64, Little, "ppc64le"),
            (21, Bits64, Big, "ppc64"),
            (22, Bits64, Big, "s390x"),
            (22, Bits32, Big, "unknown(22)"),
            (243, Bits64, Little, "riscv64"),
            (243, Bits32, Little, "unknown(243)"),
            (258, Bits64, Little, "loong64"),
            (8, Bits64, Little, "mips64le"),
            (8, Bits64, Big, "mips64"),
            (8, Bits32, Little, "mipsle"),
            (8, Bits32, Big, "mips"),
            (20, Bits32, Big, "unknown(20)"),
            (0xffff, Bits64, Little, "unknown(65535)"),
        ] {
            assert_eq!(word(elf::Machine(number), class, endian), expected);
        }
    }

    #[test]
    fn only_arm_has_a_float_abi_and_only_where_the_flags_agree() {
        for (machine, flags, expected) in [
            (elf::EM_ARM, 0x0500_0400, Some(FloatAbi::Hard)),
            (elf::EM_ARM, 0x0500_0202, Some(FloatAbi::Soft)),
            (elf::EM_ARM, 0x0500_0000, None),
            (elf::EM_ARM, 0x0500_0600, None),
            (elf::EM_X86_64, 0x400, None),
        ] {
            assert_eq!(float_abi(machine, flags), expected, "{flags:#x}");
        }
    }
}
