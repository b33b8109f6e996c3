//! Tests of the whole probe: files made by hand, cut short, changed, and fed in pieces.

use proptest::prelude::*;

use super::testing::{BASE, DYN, EXEC, FORMS, PIE, SONAME, Segment, TestElf, add_build_info_pointers, probe};
use super::{Class, FloatAbi, Linkage, Probe, Program};

fn in_pieces(bytes: &[u8], sizes: &[usize]) -> Program {
    let mut probe = Probe::new(bytes.len() as u64);
    let (mut rest, mut sizes) = (bytes, sizes.iter().cycle());
    while !rest.is_empty() {
        let (piece, after) = rest.split_at((*sizes.next().unwrap()).clamp(1, rest.len()));
        probe.feed(piece);
        rest = after;
    }
    probe.finish()
}

/// The test program itself: a real file of this system.
fn real() -> Vec<u8> {
    std::fs::read(std::env::current_exe().unwrap()).unwrap()
}

#[test]
fn linkage_is_read_in_every_class_and_byte_order() {
    let new = TestElf::new;
    let needs = vec!["libc.so.6", "libm.so.6"];
    let ld = Some("/lib/ld.so");
    for (class, endian) in FORMS {
        for (elf, linkage) in [
            (new(EXEC), Linkage::Static),
            (TestElf { is_dynamic: true, ..new(EXEC) }, Linkage::Static),
            (TestElf { interpreter: ld, ..new(EXEC) }, Linkage::Dynamic),
            (TestElf { needed: needs.clone(), ..new(EXEC) }, Linkage::Dynamic),
            (TestElf { tags: vec![PIE], ..new(DYN) }, Linkage::StaticPie),
            (TestElf { is_dynamic: true, ..new(DYN) }, Linkage::StaticPie),
            (TestElf { interpreter: ld, tags: vec![PIE], ..new(DYN) }, Linkage::Dynamic),
            (TestElf { interpreter: ld, needed: needs.clone(), tags: vec![PIE], ..new(DYN) }, Linkage::Dynamic),
            (TestElf { needed: needs.clone(), tags: vec![SONAME], ..new(DYN) }, Linkage::SharedObject),
            (TestElf { entry: 0, is_dynamic: true, ..new(DYN) }, Linkage::SharedObject),
            (new(1), Linkage::Other),
            (new(4), Linkage::Other),
            (new(0xfe00), Linkage::Other),
        ] {
            let elf = TestElf { class, endian, ..elf };
            let program = probe(&elf.build());
            assert_eq!(program.linkage, linkage, "{elf:?} {:?}", program.notes);
            assert_eq!((program.class, program.endian), (Some(class), Some(endian)));
            if linkage != Linkage::Other {
                assert_eq!(program.interpreter.as_deref(), elf.interpreter);
                assert_eq!(program.needed, elf.needed);
                assert_eq!(program.notes, Vec::<String>::new());
            }
        }
    }
}

#[test]
fn machine_and_float_abi_are_those_of_the_header() {
    let arm = TestElf { class: Class::Bits32, machine: 40, flags: 0x0500_0400, ..TestElf::new(EXEC) };
    let program = probe(&arm.build());
    assert_eq!((program.machine.as_deref(), program.float_abi), (Some("arm"), Some(FloatAbi::Hard)));
}

/// A static program with one thing wrong is never static, and a note says what.
#[test]
fn what_does_not_fit_together_is_not_a_program() {
    let good = TestElf::new(EXEC).build();
    assert_eq!(probe(&good).linkage, Linkage::Static);
    let patched = |at: usize, bytes: &[u8]| {
        let mut file = good.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    let far = u64::MAX.to_le_bytes();
    let load = |address, in_file, in_memory| Segment { kind: 1, offset: 0, address, in_file, in_memory };
    let with = |segment| TestElf { more: vec![segment], ..TestElf::new(EXEC) }.build();
    for (name, file) in [
        ("class 0", patched(4, &[0])),
        ("class 3", patched(4, &[3])),
        ("class of 32 bits in a file of 64", patched(4, &[1])),
        ("byte order 0", patched(5, &[0])),
        ("the other byte order", patched(5, &[2])),
        ("version 0", patched(6, &[0])),
        ("phoff beyond all", patched(32, &far)),
        ("phoff at the end", patched(32, &(good.len() as u64).to_le_bytes())),
        ("phentsize 0", patched(54, &[0, 0])),
        ("phentsize 32", patched(54, &[32, 0])),
        ("phnum 0", patched(56, &[0, 0])),
        ("phnum PN_XNUM", patched(56, &[0xff, 0xff])),
        ("phnum 0xfffe", patched(56, &[0xfe, 0xff])),
        ("phnum 2", patched(56, &[9, 0])),
        ("shoff beyond all", patched(40, &far)),
        (
            "shoff in the file, shnum not",
            [patched(40, &[64]), vec![]].concat().tap(|file| {
                file[58..62].copy_from_slice(&[64, 0, 0xff, 0xff]);
            }),
        ),
        ("nothing loaded", patched(64, &[6])),
        ("segment beyond all", patched(72, &far)),
        ("segment longer than the file", patched(96, &[0xff, 0xff, 0xff])),
        ("segment larger in the file than in memory", patched(104, &[1, 0])),
        ("segment that ends beyond all addresses", patched(80, &far)),
        ("overlapping segments", with(load(BASE + 8, 16, 16))),
        ("the same segment twice", with(load(BASE, 16, 16))),
        ("dynamic section without end", with(Segment { kind: 2, ..load(BASE, 16, 16) })),
        ("dynamic section outside", with(Segment { kind: 2, ..load(BASE, 1 << 40, 16) })),
        ("dynamic section elsewhere in memory", with(Segment { kind: 2, ..load(BASE + 32, 16, 16) })),
        ("interpreter outside", with(Segment { kind: 3, offset: 1 << 40, ..load(BASE, 16, 16) })),
        ("interpreter without a name", with(Segment { kind: 3, ..load(BASE, 0, 0) })),
        ("interpreter of 1 MiB", with(Segment { kind: 3, ..load(BASE, 1 << 20, 0) })),
        ("entry that is not in the file", TestElf { entry: BASE + 0x1000, ..TestElf::new(EXEC) }.build()),
        ("no entry", TestElf { entry: 0, ..TestElf::new(EXEC) }.build()),
        ("note outside", with(Segment { kind: 4, offset: 1 << 40, ..load(BASE, 16, 16) })),
    ] {
        let program = probe(&file);
        assert_eq!(program.linkage, Linkage::Other, "{name}");
        assert_eq!(program.notes.len(), 1, "{name}: {:?}", program.notes);
    }
    let twice = TestElf { interpreter: Some("/lib/ld.so"), needed: vec!["a"], ..TestElf::new(EXEC) };
    for kind in [2, 3] {
        let second = Segment { kind, ..load(BASE, 16, 16) };
        assert_eq!(probe(&TestElf { more: vec![second], ..twice.clone() }.build()).linkage, Linkage::Other);
    }
}

/// Changes a value in the middle of an expression.
trait Tap: Sized {
    fn tap(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl Tap for Vec<u8> {}

#[test]
fn a_library_without_a_readable_name_is_still_needed() {
    for tags in [vec![(1, 1 << 40)], vec![(5, 7)], vec![(1, u64::MAX), (5, u64::MAX)]] {
        let program = probe(&TestElf { needed: vec!["libc.so.6"], tags: tags.clone(), ..TestElf::new(EXEC) }.build());
        assert_eq!(program.linkage, Linkage::Dynamic, "{tags:?}");
        assert!(program.needed.contains(&"?".to_owned()), "{tags:?} {:?}", program.needed);
        assert!(program.notes[0].contains("cannot be read"), "{:?}", program.notes);
    }
}

#[test]
fn absurd_dynamic_sections_are_not_followed() {
    let many = TestElf { tags: vec![(1, 0); 300], ..TestElf::new(EXEC) };
    assert_eq!(probe(&many.build()).linkage, Linkage::Other);
    let huge = TestElf { tags: vec![(99, 0); 5000], ..TestElf::new(EXEC) };
    assert_eq!(probe(&huge.build()).linkage, Linkage::Other);
}

/// A library's name and the dynamic section that refers to it, both behind what is kept whole.
fn far_away(table_at: u64, dynamic_at: u64) -> Vec<u8> {
    let mut elf = TestElf::new(DYN);
    elf.more = vec![Segment { kind: 2, offset: 0, address: 0, in_file: 64, in_memory: 64 }];
    let tail = elf.tail_offset();
    let strings = b"\0liblate.so.1\0".as_slice();
    let tags = [(1, 1), (5, BASE + tail + table_at), (10, strings.len() as u64), (0, 0)];
    let dynamic: Vec<u8> = tags.iter().flat_map(|(tag, value)| [elf.word(*tag), elf.word(*value)].concat()).collect();
    elf.tail = vec![0; 4 << 20];
    for (at, bytes) in [(table_at, strings), (dynamic_at, &dynamic)] {
        elf.tail[usize::try_from(at).unwrap()..][..bytes.len()].copy_from_slice(bytes);
    }
    elf.more[0].offset = tail + dynamic_at;
    elf.more[0].address = BASE + tail + dynamic_at;
    elf.build()
}

#[test]
fn names_far_behind_are_found_before_and_after_the_dynamic_section() {
    for (table_at, dynamic_at) in [(2 << 20, 3 << 20), (3 << 20, 2 << 20), ((2 << 20) - 15, 2 << 20)] {
        let program = probe(&far_away(table_at, dynamic_at));
        assert_eq!(program.needed, ["liblate.so.1"], "{:?}", program.notes);
        assert_eq!(program.linkage, Linkage::SharedObject);
    }
}

#[test]
fn a_file_cut_anywhere_is_never_static() {
    let elf = TestElf { tags: vec![PIE], ..TestElf::new(DYN) };
    for file in [TestElf::new(EXEC).build(), elf.build()] {
        assert!(probe(&file).linkage.is_static());
        for cut in 0..file.len() {
            assert_eq!(probe(&file[..cut]).linkage, Linkage::Other, "cut at {cut}");
        }
    }
    let real = real();
    assert_ne!(probe(&real).linkage, Linkage::Other);
    for cut in 0..4096.min(real.len()) {
        assert_eq!(probe(&real[..cut]).linkage, Linkage::Other, "cut at {cut}");
    }
}

#[test]
fn a_file_of_another_length_than_announced_is_not_a_program() {
    let file = TestElf::new(EXEC).build();
    for size in [0, file.len() as u64 - 1, file.len() as u64 + 1, u64::MAX] {
        let mut probe = Probe::new(size);
        probe.feed(&file);
        assert_eq!(probe.finish().linkage, Linkage::Other, "{size}");
    }
}

#[test]
fn files_of_other_kinds_are_other() {
    for (bytes, note) in [
        (b"".as_slice(), None),
        (b"\x7fEL", None),
        (b"plain text\n", None),
        (b"MZ\x90\0", Some("a Windows program")),
        (b"\xcf\xfa\xed\xfe\x07", Some("a macOS program")),
        (b"\x7fELF", Some("the file ends inside the ELF header")),
    ] {
        let program = probe(bytes);
        assert_eq!((program.linkage, program.notes.first().map(String::as_str)), (Linkage::Other, note), "{bytes:?}");
    }
}

#[test]
fn a_program_comes_back_from_an_index_as_it_was() {
    let mut elf = TestElf { needed: vec!["libc.so.6"], ..TestElf::new(EXEC) };
    add_build_info_pointers(&mut elf, 1 << 10);
    let program = probe(&elf.build());
    assert!(program.go.is_some());
    let bytes = postcard::to_stdvec(&program).unwrap();
    assert_eq!(postcard::from_bytes::<Program>(&bytes).unwrap(), program);
}

proptest! {
    // A case is up to four megabytes, and nothing is optimised here.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_answer_does_not_depend_on_how_bytes_arrive(
        sizes in proptest::collection::vec(1_usize..200_000, 1..8),
        gap in prop_oneof![Just(1_usize << 10), Just((64 << 10) - 16), Just(700 << 10)],
    ) {
        let mut elf = TestElf { needed: vec!["libc.so.6"], interpreter: Some("/lib/ld.so"), ..TestElf::new(DYN) };
        add_build_info_pointers(&mut elf, gap);
        let file = elf.build();
        prop_assert_eq!(in_pieces(&file, &sizes), probe(&file));
    }
}

proptest! {
    #[test]
    fn changed_headers_never_panic(
        changes in proptest::collection::vec((0_usize..600, any::<u8>()), 1..6),
        form in 0_usize..4,
    ) {
        let (class, endian) = FORMS[form];
        let elf = TestElf {
            class, endian, needed: vec!["libc.so.6"], interpreter: Some("/lib/ld.so"), ..TestElf::new(DYN)
        };
        let mut file = elf.build();
        for (at, byte) in changes {
            let len = file.len();
            file[at % len] = byte;
        }
        let program = probe(&file);
        prop_assert_eq!(in_pieces(&file, &[1, 7]), program);
    }

    #[test]
    fn noise_behind_a_mark_never_panics(
        head in prop_oneof![Just(b"\x7fELF\x02\x01\x01".to_vec()), Just(b"\x7fELF\x01\x02\x01".to_vec()), Just(b"#!".to_vec())],
        noise in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        prop_assert!(!probe(&[head, noise].concat()).linkage.is_static());
    }
}

#[test]
fn a_real_file_with_changed_bytes_never_panics() {
    let mut head = real();
    head.truncate(1 << 16);
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..3000 {
        let mut file = head.clone();
        for _ in 0..random.usize(1..8) {
            file[random.usize(..1024)] = random.u8(..);
        }
        let _ = probe(&file);
    }
}
