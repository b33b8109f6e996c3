//! Programs that unpack another program out of themselves and start that: what is in the file says
//! nothing about it.
//!
//! Recognised are UPX by its mark, `AppImage` by its own, `PyInstaller` by the one of its archive, and
//! whatever has the shape that packers need: no section headers, and room to unpack code into. A stub that
//! keeps its section headers, or that writes the program to a file in memory, is not recognised.

use super::header::ElfHeader;
use super::segments::{LoadedPart, Segments};
use super::window::Window;

/// Room that no program leaves behind its code by accident.
const ROOM: u64 = 64 << 10;
/// How far behind the program headers UPX has its mark.
const MARK_WITHIN: usize = 64;

/// What unpacks the real program, by name.
pub(super) fn packer(
    header: &ElfHeader,
    segments: &Segments,
    archive: Option<u64>,
    window: &Window,
) -> Option<&'static str> {
    let ident = window.run(0, 16);
    if ident.get(8..10) == Some(b"AI") {
        return Some("AppImage");
    }
    // An archive is behind the program; one that is loaded with it is text about archives.
    let is_loaded = |part: &LoadedPart, at: u64| (part.offset..part.offset.saturating_add(part.len)).contains(&at);
    if archive.is_some_and(|at| !segments.loaded().iter().any(|part| is_loaded(part, at))) {
        return Some("PyInstaller");
    }
    let behind = window.run(header.program_headers_end(), MARK_WITHIN);
    if behind.windows(4).any(|mark| mark == b"UPX!") {
        return Some("UPX");
    }
    let is_bare = !header.has_sections() && segments.interpreter.is_none();
    let parts = segments.loaded();
    (is_bare && (parts.iter().any(unpacks) || loads_twice(&parts))).then_some("an unknown packer")
}

/// The beginning of the file is mapped for writing, and again as code: the first is where it unpacks to.
fn loads_twice(parts: &[LoadedPart]) -> bool {
    let is_target = |part: &LoadedPart| part.access.is_writable && part.in_memory.saturating_sub(part.len) > ROOM;
    parts.iter().filter(|part| is_target(part)).any(|target| {
        parts.iter().any(|part| part.access.is_code && part.address != target.address && part.offset == target.offset)
    })
}

/// Code with room behind it that is not in the file.
fn unpacks(part: &LoadedPart) -> bool {
    let room = part.in_memory.saturating_sub(part.len);
    part.access.is_code && room > ROOM && room > part.len / 2
}

#[cfg(test)]
mod tests {
    use crate::testing::{BASE, EXEC, Segment, TestElf, probe};

    fn packer(file: &[u8]) -> Option<String> {
        probe(file).packed
    }

    fn with_tail(tail: &[u8]) -> Vec<u8> {
        TestElf { tail: tail.to_vec(), ..TestElf::new(EXEC) }.build()
    }

    #[test]
    fn packers_are_known_by_their_marks() {
        let mut app_image = with_tail(b"x");
        app_image[8..11].copy_from_slice(b"AI\x02");
        let archive = b"....MEI\x0c\x0b\x0a\x0b\x0e....";
        for (name, file, expected) in [
            ("UPX", with_tail(b"\0\0\0\0UPX!\x0d\x0e"), Some("UPX")),
            ("a text about UPX", with_tail(&[&[0; 80][..], b"UPX!"].concat()), None),
            ("AppImage", app_image, Some("AppImage")),
            ("PyInstaller", [with_tail(b"x"), archive.to_vec()].concat(), Some("PyInstaller")),
            ("a program that knows the mark", with_tail(archive), None),
            ("something else", with_tail(b"....MEI\x0c\x0b...."), None),
        ] {
            assert_eq!(packer(&file).as_deref(), expected, "{name}");
        }
    }

    /// A second segment, which is code as all of these are.
    fn with_segment(in_memory: u64) -> TestElf {
        let more = vec![Segment { kind: 1, offset: 0, address: BASE + (1 << 24), in_file: 16, in_memory }];
        TestElf { more, ..TestElf::new(EXEC) }
    }

    #[test]
    fn code_with_room_behind_it_and_no_sections_is_packed() {
        assert_eq!(packer(&with_segment(1 << 20).build()).as_deref(), Some("an unknown packer"));
        assert_eq!(packer(&with_segment(16).build()), None);
        let mut with_sections = with_segment(1 << 20).build();
        with_sections[40] = 64;
        with_sections[58..62].copy_from_slice(&[64, 0, 1, 0]);
        assert_eq!(packer(&with_sections), None);
        let loaded = TestElf { interpreter: Some("/lib/ld.so"), ..with_segment(1 << 20) };
        assert_eq!(packer(&loaded.build()), None);
    }
}
