//! Written layers as readers see them that are not ours: Go's `archive/tar`, which every container
//! runtime reads layers with, GNU tar, Python's `tarfile` and gzip.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use super::super::testing::{blob_of, directory, everything_odd, file, options, symlink, tar_of, with, written_as};
use super::super::{EntryData, LayerSpec, SpecEntry, WriteOptions};
use super::golden_digests::prose;
use crate::entry::EntryKind;
use crate::skip::{Part, need, or_skip};
use crate::tests::other_readers::compare;
use oci::Digest;

/// What a program makes of `input`. It must succeed silently.
fn output_of(program: &str, args: &[&str], input: &[u8]) -> Part<Vec<u8>> {
    need(&[program])?;
    let mut command = Command::new(program);
    command.args(args).env("LC_ALL", "C").env("TZ", "UTC").env("GO111MODULE", "off");
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        // A program that stops early closes the pipe; what it says then is looked at below.
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().unwrap()
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{program}: {said}");
    Ok(output.stdout)
}

#[test]
fn gzip_finds_nothing_wrong() {
    let large = vec![file("a", prose(3 << 20)), file("b", vec![0; 2 << 20])];
    for entries in [vec![], everything_odd(), vec![file("a", vec![0; 1 << 20])], large] {
        let blob = blob_of(entries);
        let tar = or_skip!(output_of("gzip", &["-dc"], &blob));
        assert_eq!(tar, tar_of(&blob));
        // The one member that has a length is the only one.
        assert_eq!(blob[blob.len() - 4..], u32::try_from(tar.len()).unwrap().to_le_bytes());
    }
}

/// A name as GNU tar escapes it in the C locale.
fn escaped(name: &[u8]) -> String {
    name.iter().fold(String::new(), |mut text, byte| {
        match byte {
            b'\n' => text.push_str("\\n"),
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => write!(text, "\\{byte:03o}").unwrap(),
        }
        text
    })
}

#[test]
fn gnu_tar_lists_every_name_and_finds_the_attributes() {
    let spec = LayerSpec::new(everything_odd()).unwrap();
    let (blob, _) = written_as(&spec, options(1));
    let names: Vec<String> =
        spec.entries().iter().map(|spec| escaped(&super::super::ustar::tar_name(&spec.entry).unwrap())).collect();
    let list = or_skip!(output_of("tar", &["-tz", "--quoting-style=escape"], &blob));
    assert_eq!(String::from_utf8(list).unwrap().lines().collect::<Vec<_>>(), names);
    let args = ["-tzvv", "--numeric-owner", "--full-time", "--xattrs-include=*", "--quoting-style=escape"];
    let list = or_skip!(output_of("tar", &args, &blob));
    let list = String::from_utf8(list).unwrap();
    for line in [
        "-rwsr-sr-x 65534/2097152         6 1970-01-01 00:00:00 usr/su",
        "---------- 2097151/4294967294      0 1970-01-01 00:00:00 usr/far",
        "drwxrwxrwt 1/2                   0 1970-01-01 00:00:00 usr/",
        "  x: 20 security.capability",
        "brw-r--r-- 0/0   2097151,2097151 1970-01-01 00:00:00 dev/sda",
        "hrw-r--r-- 0/0                 0 1970-01-01 00:00:00 zz/file link to aa-first",
    ] {
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(list.lines().any(|listed| squeezed(listed) == squeezed(line)), "{line} is not in\n{list}");
    }
}

#[test]
fn python_lists_what_we_list() {
    // To Python a marker is a file like others, and is not what we list.
    let entries = everything_odd().into_iter().filter(|spec| !spec.entry.kind.is_marker());
    let tar = tar_of(&blob_of(entries.collect()));
    assert_eq!(or_skip!(compare(&[tar])), 1);
}

/// Prints every header as Go reads it, one field behind the other, names in hex.
const GO: &str = r#"package main
import ("archive/tar"; "compress/gzip"; "crypto/sha256"; "fmt"; "io"; "os"; "sort")
func check(err error) { if err != nil { panic(err) } }
func main() {
	unzipped, err := gzip.NewReader(os.Stdin)
	check(err)
	if unzipped.Name != "" || !unzipped.ModTime.IsZero() || unzipped.OS != 255 { panic("gzip header") }
	reader := tar.NewReader(unzipped)
	for {
		h, err := reader.Next()
		if err == io.EOF { break }
		check(err)
		hash := sha256.New()
		size, err := io.Copy(hash, reader)
		check(err)
		if h.Uname != "" || h.Gname != "" { panic("named owner") }
		fmt.Printf("%c %x %x %d %o %d %d %d %d,%d %x", h.Typeflag, h.Name, h.Linkname, size, h.Mode, h.Uid, h.Gid, h.ModTime.Unix(), h.Devmajor, h.Devminor, hash.Sum(nil))
		var keys []string
		for key := range h.PAXRecords { if len(key) > 13 && key[:13] == "SCHILY.xattr." { keys = append(keys, key) } }
		sort.Strings(keys)
		for _, key := range keys { fmt.Printf(" %x=%x", key[13:], h.PAXRecords[key]) }
		fmt.Println()
	}
	rest, err := io.Copy(io.Discard, unzipped)
	check(err)
	if rest != 0 { panic("padding") }
}
"#;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

/// An entry as the Go program prints it.
fn line(spec: &SpecEntry, mtime: i64) -> String {
    let SpecEntry { entry, data } = spec;
    let (typeflag, link, device) = match &entry.kind {
        EntryKind::File { .. } | EntryKind::Whiteout | EntryKind::Opaque => ('0', b"".as_slice(), (0, 0)),
        EntryKind::Hardlink(target) => ('1', target.as_bytes(), (0, 0)),
        EntryKind::Symlink(target) => ('2', target.as_slice(), (0, 0)),
        EntryKind::Character { major, minor } => ('3', b"".as_slice(), (*major, *minor)),
        EntryKind::Block { major, minor } => ('4', b"".as_slice(), (*major, *minor)),
        EntryKind::Directory => ('5', b"".as_slice(), (0, 0)),
        EntryKind::Fifo => ('6', b"".as_slice(), (0, 0)),
    };
    let content: &[u8] = if let EntryData::Bytes(bytes) = data { bytes } else { b"" };
    let name = hex(&super::super::ustar::tar_name(entry).unwrap());
    let mut text = format!("{typeflag} {name} {} {} {:o}", hex(link), content.len(), entry.mode);
    let (uid, gid, hash) = (entry.uid, entry.gid, Digest::of(content).hex());
    write!(text, " {uid} {gid} {mtime} {},{} {hash}", device.0, device.1).unwrap();
    for (name, value) in &entry.xattrs {
        write!(text, " {}={}", hex(name), hex(value)).unwrap();
    }
    text
}

#[test]
fn go_reads_what_was_meant() {
    let program = tempfile::tempdir().unwrap();
    let source = program.path().join("main.go");
    fs::write(&source, GO).unwrap();
    let built = program.path().join("reader");
    let args = ["build", "-o", built.to_str().unwrap(), source.to_str().unwrap()];
    or_skip!(output_of("go", &args, b""));
    let strange = |spec| with(spec, |entry| (entry.uid, entry.mode) = (i64::MAX.cast_unsigned(), 0o7777));
    let large = vec![strange(directory("a")), file("a/b", prose(4 << 20)), symlink("c", [0xff; 4096])];
    for entries in [vec![], everything_odd(), large] {
        let spec = LayerSpec::new(entries).unwrap();
        for mtime in [0, 1_700_000_000, -1, 1 << 40] {
            let (blob, _) = written_as(&spec, WriteOptions { mtime, ..options(2) });
            let read = output_of(built.to_str().unwrap(), &[], &blob).unwrap();
            let expected: Vec<String> = spec.entries().iter().map(|spec| line(spec, mtime)).collect();
            assert_eq!(String::from_utf8(read).unwrap().lines().collect::<Vec<_>>(), expected);
        }
    }
}
