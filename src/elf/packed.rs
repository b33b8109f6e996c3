//! Programs that unpack another program out of themselves and start that: what is in the file says
//! nothing about it.
//!
//! Recognised are UPX by its mark, `AppImage` by its own, `PyInstaller` by the one of its archive, and
//! whatever has the shape that packers need: no section headers, and code with room to unpack into. A
//! stub that keeps its section headers and writes the program to a file in memory is not recognised.

use super::header::ElfHeader;
use super::patterns::{PatternMeaning, PatternSearch};
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
    search: &PatternSearch,
    window: &Window,
) -> Option<&'static str> {
    let ident = window.run(0, 16);
    if ident.get(8..10) == Some(b"AI") {
        return Some("AppImage");
    }
    if search.found().any(|meaning| meaning == PatternMeaning::PackedArchive) {
        return Some("PyInstaller");
    }
    let behind = window.run(header.program_headers_end(), MARK_WITHIN);
    if behind.windows(4).any(|mark| mark == b"UPX!") {
        return Some("UPX");
    }
    let is_bare = !header.has_sections() && segments.interpreter.is_none();
    (is_bare && segments.loaded().iter().any(unpacks)).then_some("an unknown packer")
}

/// Code with room behind it that is not in the file.
fn unpacks(part: &LoadedPart) -> bool {
    let room = part.in_memory.saturating_sub(part.len);
    part.access.is_code && room > ROOM && room > part.len / 2
}
