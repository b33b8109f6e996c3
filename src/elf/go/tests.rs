//! Tests of Go facts through the whole probe: both forms of build info, and neither.

use crate::elf::specimen::{BASE, EXEC, FORMS, Specimen, probe};
use crate::elf::words::{BUILD_INFO, MODULE_INFO};
use crate::elf::{Endian, Linkage};

const MODULES: &str = "path\texample.com/app\nmod\texample.com/app\t(devel)\t\ndep\tk8s.io/klog/v2\tv2.80.1\th1:atnLQ121W371wYYFawwYx1aEY2eUfs4l3J72wtgAwV4=\n";

fn framed() -> Vec<u8> {
    const END: &[u8] = b"\xf9\x32\x43\x31\x86\x18\x20\x72\x00\x82\x42\x10\x41\x16\xd8\xf2";
    [MODULE_INFO, MODULES.as_bytes(), END].concat()
}

/// Where in the tail the parts of the old form stand: strings first, as Go's linker does it.
pub(in crate::elf) fn pointer_form(specimen: &mut Specimen, gap: usize) {
    let base = BASE + specimen.tail_offset();
    let (version, info) = (gap, 2 * gap);
    let mut tail = vec![0; 3 * gap];
    tail[version..version + 8].copy_from_slice(b"go1.17.2");
    let modules = framed();
    tail[version + 64..version + 64 + modules.len()].copy_from_slice(&modules);
    let word = |value: usize| specimen.word(value as u64);
    let address = |at: usize| specimen.word(base + at as u64);
    let size = word(0).len();
    let headers = info + 64;
    let flags = u8::from(specimen.endian == Endian::Big);
    let head =
        [BUILD_INFO, &[u8::try_from(size).unwrap(), flags], &address(headers), &address(headers + 2 * size)].concat();
    tail[info..info + head.len()].copy_from_slice(&head);
    let strings = [address(version), word(8), address(version + 64), word(modules.len())].concat();
    tail[headers..headers + strings.len()].copy_from_slice(&strings);
    specimen.tail = tail;
}

#[test]
fn go_facts_are_read_in_both_forms() {
    let modules = framed();
    let strings =
        [b"\x08go1.19.8".as_slice(), &[u8::try_from(modules.len() & 0x7f).unwrap() | 0x80, 1], &modules].concat();
    assert!((128..256).contains(&modules.len()));
    let inline = [BUILD_INFO, &[8, 2], &[0; 16], &strings, b"\0k8s.io/klog/v2.InitFlags\0", &[0; 32]].concat();
    let mut cases = vec![(Specimen { tail: inline, ..Specimen::new(EXEC) }, "go1.19.8")];
    for (class, endian) in FORMS {
        for gap in [1 << 10, 1 << 20] {
            let mut specimen = Specimen { class, endian, ..Specimen::new(EXEC) };
            pointer_form(&mut specimen, gap);
            cases.push((specimen, "go1.17.2"));
        }
    }
    for (specimen, version) in cases {
        let program = probe(&specimen.build());
        let go = program.go.unwrap();
        assert_eq!(go.version.as_deref(), Some(version), "{:?} {:?}", specimen.class, specimen.endian);
        assert_eq!((go.path.as_deref(), go.module.as_deref()), (Some("example.com/app"), Some("example.com/app")));
        assert_eq!(go.modules, [("k8s.io/klog/v2".to_owned(), "v2.80.1".to_owned())]);
        assert_eq!((program.linkage, program.notes.len()), (Linkage::Static, 0));
    }
}

#[test]
fn the_function_table_speaks_where_build_info_is_silent() {
    let tail = b"\0runtime.goexit\0k8s.io/klog.InitFlags\0github.com/spf13/pflag.Parse\0".to_vec();
    let go = probe(&Specimen { tail, ..Specimen::new(EXEC) }.build()).go.unwrap();
    let packages = ["k8s.io/klog", "k8s.io/klog.InitFlags", "github.com/spf13/pflag"].map(str::to_owned).to_vec();
    assert_eq!((go.version, go.packages), (None, packages));
    // A mark that is no build info is not taken for it.
    let tail = [BUILD_INFO, &[8, 2], &[0xff; 64]].concat();
    assert_eq!(probe(&Specimen { tail, ..Specimen::new(EXEC) }.build()).go, None);
}
