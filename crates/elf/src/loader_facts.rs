//! What notes say of a file, and what a dynamic loader says of itself: its kind, and the directories that it
//! was built to search, which no other file has.

use object::elf;

use super::dynamic_facts::{AbiNote, LoaderFacts, LoaderKind};
use super::header::ElfHeader;
use super::program::Endian;
use super::segments::Segments;
use super::window::Window;

const ABI_TAG: u32 = 1;
const PROPERTIES: u32 = 5;
const X86_ISA_NEEDED: u32 = 0xc000_8002;
const NEEDED: u32 = 0xb000_8000;
/// Of [`NEEDED`]: data and functions are reached through a table alone.
const INDIRECT_ACCESS: u32 = 1;

#[derive(Debug, Default)]
pub(super) struct NoteFacts {
    pub abi: Option<AbiNote>,
    pub isa_needed: u32,
    pub forbids_copies: bool,
}

pub(super) fn notes(header: &ElfHeader, segments: &Segments, window: &Window) -> NoteFacts {
    let mut facts = NoteFacts::default();
    for part in &segments.notes {
        if let Some(bytes) = window.bytes(part.offset, part.len) {
            read_notes(bytes, header, &mut facts);
        }
    }
    facts
}

fn read_notes(bytes: &[u8], header: &ElfHeader, facts: &mut NoteFacts) {
    let mut rest = bytes;
    while let Some(([name_len, len, kind], body)) = words::<3>(rest, header.endian) {
        let (name_len, len) = (padded(name_len, 4), padded(len, 4));
        let Some((name, body)) = body.split_at_checked(name_len) else { return };
        let Some((text, next)) = body.split_at_checked(len) else { return };
        if name.starts_with(b"GNU\0") {
            match (kind, words::<4>(text, header.endian)) {
                (ABI_TAG, Some(([system, major, minor, patch], _))) => {
                    facts.abi = Some(AbiNote { system, kernel: [major, minor, patch] });
                }
                (PROPERTIES, _) if header.machine == elf::EM_X86_64 => read_properties(text, header, facts),
                _ => {}
            }
        }
        rest = next;
    }
}

fn read_properties(properties: &[u8], header: &ElfHeader, facts: &mut NoteFacts) {
    let mut rest = properties;
    while let Some(([kind, len], body)) = words::<2>(rest, header.endian) {
        match (kind, words::<1>(body, header.endian)) {
            (X86_ISA_NEEDED, Some(([bits], _))) => facts.isa_needed |= bits,
            (NEEDED, Some(([bits], _))) => facts.forbids_copies |= bits & INDIRECT_ACCESS != 0,
            _ => {}
        }
        let Some(next) = body.get(padded(len, 8)..) else { return };
        rest = next;
    }
}

fn padded(len: u32, to: usize) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX).checked_next_multiple_of(to).unwrap_or(usize::MAX)
}

fn words<const N: usize>(bytes: &[u8], endian: Endian) -> Option<([u32; N], &[u8])> {
    let (chunks, _) = bytes.as_chunks::<4>();
    let mut words = [0; N];
    let read = |chunk: [u8; 4]| match endian {
        Endian::Little => u32::from_le_bytes(chunk),
        Endian::Big => u32::from_be_bytes(chunk),
    };
    for (at, word) in words.iter_mut().enumerate() {
        *word = read(*chunks.get(at)?);
    }
    Some((words, bytes.get(4 * N..)?))
}

/// What the beginning of a file that needs nothing says if it is a loader. musl's is its C library.
pub(super) fn loader(head: &[u8]) -> Option<LoaderFacts> {
    if memchr::memmem::find(head, b"\0/etc/ld.so.cache\0").is_some() {
        let directories = system_directories(head);
        return (!directories.is_empty()).then_some(LoaderFacts { kind: LoaderKind::Glibc, directories });
    }
    let name = text_after(head, b"/etc/ld-musl-")?.strip_suffix(".path")?;
    let path = memchr::memmem::find(head, b"\0/lib:/").and_then(|at| text_after(head.get(at..)?, b"\0"));
    let directories = path?.split(':').map(str::to_owned).collect();
    Some(LoaderFacts { kind: LoaderKind::Musl(name.to_owned()), directories })
}

/// The text that follows a mark, up to the next NUL.
fn text_after<'a>(head: &'a [u8], mark: &[u8]) -> Option<&'a str> {
    let at = memchr::memmem::find(head, mark)?.checked_add(mark.len())?;
    let text = head.get(at..)?.split(|byte| *byte == 0).next()?;
    std::str::from_utf8(text).ok().filter(|text| text.len() < 256)
}

/// glibc has its directories one behind the other, each with a slash and a NUL at its end. What is before the
/// first need not end, so that the longest of several such lists is the whole one.
fn system_directories(head: &[u8]) -> Vec<String> {
    let (mut longest, mut list) = (Vec::new(), Vec::new());
    for text in head.split(|byte| *byte == 0).map(directory) {
        match text {
            Some(text) if list.len() < MOST_DIRECTORIES => list.push(text),
            _ => list.clear(),
        }
        if list.len() > longest.len() && list.iter().any(|text| text.contains("/lib")) {
            longest.clone_from(&list);
        }
    }
    longest
}

/// No loader is built with as many.
const MOST_DIRECTORIES: usize = 16;

/// The directory that a text is, or that is at its end.
fn directory(text: &[u8]) -> Option<String> {
    let printed = text.rsplit(|byte| !byte.is_ascii_graphic()).next()?;
    let path = printed.get(memchr::memchr(b'/', printed)?..)?;
    let is_directory = (5..256).contains(&path.len()) && path.ends_with(b"/");
    is_directory.then(|| String::from_utf8_lossy(path).into_owned())
}

/// The build that a line such as `ld.so (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36.` names.
pub(super) fn release(text: &[u8]) -> Option<String> {
    let mark = memchr::memmem::rfind(text, b" release version 2.")?;
    let from = memchr::memrchr(b'(', text.get(..mark)?)?;
    let version = text.get(mark..)?.split(|byte| matches!(byte, b'\n' | 0)).next()?;
    let line = text.get(from..mark.checked_add(version.len())?)?;
    let is_glibc = line.starts_with(b"(GNU libc)") || memchr::memmem::find(line, b"GLIBC").is_some();
    is_glibc.then(|| String::from_utf8_lossy(line).trim_end_matches('.').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loaders_say_which_directories_they_search() {
        let debian = b"x\0\0/lib/a-b/\0/usr/lib/a-b/\0/lib/\0/usr/lib/\0\0\0/etc/ld.so.cache\0/x/\0";
        let fedora = b"\0/etc/ld.so.cache\0/tmp/\0\0/lib64/\0/usr/lib64/\0oops";
        let unended = b"\0/etc/ld.so.cache\0\0/usr/x/\0\0abc\xff/lib/a-b/\0/lib/\0/usr/lib/\0";
        let musl = b"\0/lib:/usr/local/lib:/usr/lib\0%.*s/etc/ld-musl-x86_64.path\0";
        let glibc = LoaderKind::Glibc;
        for (text, kind, directories) in [
            (&debian[..], &glibc, "/lib/a-b/ /usr/lib/a-b/ /lib/ /usr/lib/"),
            (fedora, &glibc, "/lib64/ /usr/lib64/"),
            (unended, &glibc, "/lib/a-b/ /lib/ /usr/lib/"),
            (musl, &LoaderKind::Musl("x86_64".to_owned()), "/lib /usr/local/lib /usr/lib"),
        ] {
            let found = loader(text).unwrap();
            assert_eq!((&found.kind, found.directories.join(" ").as_str()), (kind, directories));
        }
        for other in [&b"\0/lib/\0/usr/lib/\0"[..], b"\0/etc/ld.so.cache\0", b"\0/etc/ld-musl-x.path\0", b""] {
            assert_eq!(loader(other), None, "{other:?}");
        }
    }

    #[test]
    fn the_build_of_glibc_is_read_from_its_library_and_its_loader() {
        for (line, expected) in [
            (
                "GNU C Library (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36.\nCopyright",
                Some("(Debian GLIBC 2.36-9+deb12u14) stable release version 2.36"),
            ),
            ("ld.so (GNU libc) stable release version 2.40.\n", Some("(GNU libc) stable release version 2.40")),
            ("(another) stable release version 2.1", None),
            ("GLIBC release version 2.1", None),
        ] {
            assert_eq!(release(line.as_bytes()).as_deref(), expected, "{line}");
        }
    }
}
