//! Our list of a tar beside the list of readers that are not ours: Python's `tarfile`, and tars
//! that GNU tar wrote. Where a tool is missing the test is skipped.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::skip::{Part, need, or_skip};

use super::super::entry::{Entry, EntryKind};
use super::super::testing::{TestMember, scan_blob, tar_of};

/// Prints one line per member: path, type, size, link, mode, owner, time, place of the data.
const LISTER: &str = r"
import sys, tarfile
def path(name):
    raw = name.encode('utf-8', 'surrogateescape')
    return b'/'.join(part for part in raw.split(b'/') if part not in (b'', b'.')).hex()
for file in sys.argv[1:]:
    print('FILE')
    try:
        for m in tarfile.open(file, 'r:', encoding='utf-8', errors='surrogateescape'):
            kind = {b'0': 'f', b'\0': 'f', b'S': 'f', b'1': 'h', b'2': 'l', b'3': 'c', b'4': 'b', b'5': 'd', b'6': 'p'}.get(m.type, '?')
            link = path(m.linkname) if kind == 'h' else m.linkname.encode('utf-8', 'surrogateescape').hex() if kind == 'l' else ''
            size = m.size if kind == 'f' else 0
            data = 'sparse' if m.sparse is not None else m.offset_data
            print(kind, path(m.name) or '-', size, link or '-', '%o' % (m.mode & 0o7777), m.uid, m.gid, int(m.mtime), data)
    except tarfile.TarError as error:
        print('ERROR', error)
";

/// The lists that Python makes of `tars`.
fn python_lists(tars: &[Vec<u8>]) -> Part<Vec<Vec<String>>> {
    need(&["python3"])?;
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new("python3");
    command.arg("-c").arg(LISTER);
    for (number, tar) in tars.iter().enumerate() {
        let file = directory.path().join(number.to_string());
        fs::write(&file, tar).unwrap();
        command.arg(file);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lists = text.split("FILE\n").skip(1);
    Ok(lists.map(|list| list.lines().map(str::to_owned).collect()).collect())
}

fn hex(bytes: &[u8]) -> String {
    let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    });
    if hex.is_empty() { "-".to_owned() } else { hex }
}

/// An entry as the lister prints it.
fn line(entry: &Entry) -> String {
    let (kind, size, link) = match &entry.kind {
        EntryKind::File { size } => ('f', *size, String::from("-")),
        EntryKind::Directory => ('d', 0, String::from("-")),
        EntryKind::Symlink(target) => ('l', 0, hex(target)),
        EntryKind::Hardlink(target) => ('h', 0, hex(target.as_bytes())),
        EntryKind::Character { .. } => ('c', 0, String::from("-")),
        EntryKind::Block { .. } => ('b', 0, String::from("-")),
        EntryKind::Fifo => ('p', 0, String::from("-")),
        EntryKind::Whiteout | EntryKind::Opaque => ('?', 0, String::from("-")),
    };
    let Entry { mode, uid, gid, mtime, .. } = entry;
    let offset = if entry.sparse { "sparse".to_owned() } else { entry.offset.to_string() };
    format!("{kind} {} {size} {link} {mode:o} {uid} {gid} {mtime} {offset}", hex(entry.path.as_bytes()))
}

/// Compares every tar that we accept; returns how many that were.
pub(crate) fn compare(tars: &[Vec<u8>]) -> Part<usize> {
    let mut accepted = 0;
    for (tar, list) in tars.iter().zip(python_lists(tars)?) {
        let Ok(index) = scan_blob(tar) else {
            continue;
        };
        accepted += 1;
        assert_eq!(index.entries.len(), list.len(), "{list:#?}\n{:#?}", index.entries);
        for (entry, beside) in index.entries.iter().zip(&list) {
            assert_eq!(line(entry), *beside);
        }
    }
    Ok(accepted)
}

fn plant(root: &Path) {
    let deep = "deep/".repeat(30);
    fs::create_dir_all(root.join(&deep)).unwrap();
    fs::write(root.join(&deep).join("file"), b"deep").unwrap();
    fs::write(root.join("n".repeat(240)), vec![b'x'; 1000]).unwrap();
    fs::write(root.join("ünïcode"), b"").unwrap();
    fs::write(root.join("big"), vec![7; 700_000]).unwrap();
    symlink("t".repeat(300), root.join("long-link")).unwrap();
    symlink("/etc/passwd", root.join("absolute")).unwrap();
    fs::hard_link(root.join("big"), root.join("zz-hard")).unwrap();
    fs::hard_link(root.join("n".repeat(240)), root.join("zz-hard-long")).unwrap();
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    sparse.set_len(8 << 20).unwrap();
    std::os::unix::fs::FileExt::write_at(&sparse, b"data", 5 << 20).unwrap();
}

#[test]
fn lists_what_gnu_tar_writes_as_python_does() {
    or_skip!(need(&["tar"]));
    let directory = tempfile::tempdir().unwrap();
    plant(directory.path());
    let mut tars = Vec::new();
    for options in [
        ["--format=gnu", "--no-seek"],
        ["--format=posix", "--no-seek"],
        ["--format=oldgnu", "--sparse"],
        ["--format=gnu", "--sparse"],
        ["--sparse-version=0.0", "--sparse"],
        ["--sparse-version=0.1", "--sparse"],
        ["--sparse-version=1.0", "--sparse"],
    ] {
        let pax = options[0].starts_with("--sparse").then_some("--format=posix");
        let output =
            Command::new("tar").args(options).args(pax).args(["-c", "-C"]).arg(directory.path()).arg(".").output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        scan_blob(&output.stdout).unwrap_or_else(|error| panic!("{options:?}: {error}"));
        tars.push(output.stdout);
    }
    assert_eq!(or_skip!(compare(&tars)), tars.len());
}

/// A member list that mixes sizes and names of all kinds of header, and is often ambiguous.
pub(crate) fn mixed(random: &mut fastrand::Rng) -> Vec<TestMember> {
    let mut members = Vec::new();
    for number in 0..random.usize(1..6) {
        let inner = tar_of(&[TestMember::file(format!("smuggled{number}"), b"")]);
        let data = &inner[..random.usize(0..3) * 256];
        let stated = [0, data.len(), 512][random.usize(0..3)].to_string();
        if random.bool() {
            let records: [&[(&str, &[u8])]; 4] = [
                &[("size", stated.as_bytes())],
                &[("path", b"pax/name")],
                &[("uid", b"77"), ("mtime", b"8.5")],
                &[("linkpath", b"pax/link")],
            ];
            members.push(TestMember::pax(records[random.usize(0..4)]));
        }
        if random.u8(0..4) == 0 {
            members.push(TestMember::new([b'L', b'K'][random.usize(0..2)], "././@LongLink", b"gnu/name\0").gnu());
        }
        let typeflag = [b'0', b'0', b'0', 0, b'1', b'2', b'5', b'6'][random.usize(0..8)];
        let mut member = TestMember::new(typeflag, format!("own{number}"), data);
        member.link = b"own/link".to_vec();
        members.push(if random.u8(0..3) == 0 { member.sized(random.usize(0..3) * 512) } else { member });
    }
    members
}

#[test]
fn what_we_accept_of_ambiguous_tars_python_reads_the_same_way() {
    let mut random = fastrand::Rng::with_seed(62518);
    let tars: Vec<Vec<u8>> = (0..600).map(|_| tar_of(&mixed(&mut random))).collect();
    let accepted = or_skip!(compare(&tars));
    assert!((100..600).contains(&accepted), "{accepted} of 600 say little");
}
