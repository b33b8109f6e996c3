//! Go's build info, as the linker leaves it in a program (`debug/buildinfo`).
//!
//! 16 bytes of header: a mark, the size of a pointer, flags. From Go 1.18 on two strings follow at
//! offset 32, each after its length; before, two pointers to strings followed at offset 16.

use crate::elf::words::BUILD_INFO;

/// The header together with what always follows it.
pub(super) const HEAD: usize = 32;
/// It begins at a multiple of this.
pub(super) const ALIGNMENT: u64 = 16;

const LONGEST_VERSION: usize = 256;

/// The two forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Form {
    /// The strings follow.
    Inline,
    /// Addresses of two string headers, each an address and a length.
    Pointers { version: u64, modules: u64, pointer: Pointer },
}

/// How an address is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pointer {
    pub size: usize,
    is_big: bool,
}

impl Pointer {
    /// The address at the beginning of `bytes`, and what follows it.
    pub fn read(self, bytes: &[u8]) -> Option<(u64, &[u8])> {
        let (address, rest) = bytes.split_at_checked(self.size)?;
        let digit = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        let value = if self.is_big { address.iter().fold(0, digit) } else { address.iter().rev().fold(0, digit) };
        Some((value, rest))
    }
}

impl Form {
    /// The form that the header states, if this is one.
    pub fn read(head: &[u8]) -> Option<Self> {
        let rest = head.strip_prefix(BUILD_INFO)?;
        let (&[size, flags], rest) = rest.split_first_chunk::<2>()?;
        if flags & 2 != 0 {
            return Some(Self::Inline);
        }
        let pointer = Pointer { size: usize::from(size), is_big: flags & 1 != 0 };
        if !matches!(pointer.size, 4 | 8) {
            return None;
        }
        let (version, rest) = pointer.read(rest)?;
        let (modules, _) = pointer.read(rest)?;
        Some(Self::Pointers { version, modules, pointer })
    }
}

/// A string that follows, which may be cut where it is longer than what is remembered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Told<'a> {
    Whole(&'a [u8]),
    Cut,
}

/// Version and module info of the inline form; `bytes` begin with the header.
pub(super) fn inline(bytes: &[u8]) -> Option<(String, Told<'_>)> {
    let (version, rest) = string(bytes.get(HEAD..)?)?;
    let Told::Whole(version) = version else { return None };
    let modules = string(rest).map_or(Told::Cut, |(modules, _)| modules);
    Some((self::version(version)?, modules))
}

/// A string after its length, and what follows it.
fn string(bytes: &[u8]) -> Option<(Told<'_>, &[u8])> {
    let (length, rest) = varint(bytes)?;
    let split = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
    Some(split.map_or((Told::Cut, &[]), |(text, rest)| (Told::Whole(text), rest)))
}

/// Go's `encoding/binary.Uvarint`.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().take(9).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(at + 1..)?));
        }
    }
    None
}

/// A version is one line of text, and begins as all of them do: a program that only knows the mark
/// of build info, as this one does, has other bytes behind it.
pub(super) fn version(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let is_named = text.starts_with("go") || text.starts_with("devel");
    let fits = (1..=LONGEST_VERSION).contains(&text.len()) && !text.chars().any(char::is_control);
    (is_named && fits).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(size: u8, flags: u8, rest: &[u8]) -> Vec<u8> {
        [BUILD_INFO, &[size, flags], rest].concat()
    }

    #[test]
    fn the_header_tells_the_form() {
        let le64 = [0x1000_u64.to_le_bytes(), 0x2000_u64.to_le_bytes()].concat();
        let be32 = [0x1000_u32.to_be_bytes(), 0x2000_u32.to_be_bytes()].concat();
        let pointers =
            |size, is_big| Some(Form::Pointers { version: 0x1000, modules: 0x2000, pointer: Pointer { size, is_big } });
        for (bytes, expected) in [
            (head(8, 2, &[0; 16]), Some(Form::Inline)),
            (head(0, 2, &[]), Some(Form::Inline)),
            (head(8, 0, &le64), pointers(8, false)),
            (head(4, 1, &be32), pointers(4, true)),
            (head(3, 0, &le64), None),
            (head(8, 0, &le64[..15]), None),
            (b"\xff Go buildinf;".to_vec(), None),
            (vec![], None),
        ] {
            assert_eq!(Form::read(&bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn inline_strings_are_whole_or_cut_and_never_wrong() {
        let info = |strings: &[u8]| [head(8, 2, &[0; 16]).as_slice(), strings].concat();
        let go = "go1.19.8".to_owned();
        for (strings, expected) in [
            (b"\x08go1.19.8\x03abc\0\0".as_slice(), Some((go.clone(), Told::Whole(&b"abc"[..])))),
            (b"\x08go1.19.8\0", Some((go.clone(), Told::Whole(&b""[..])))),
            (b"\x08go1.19.8\xff\x01abc", Some((go.clone(), Told::Cut))),
            (b"\x08go1.19.8\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", Some((go, Told::Cut))),
            (b"\x08go1.19", None),
            (b"\x02\xff\xfe\0", None),
            (b"\x02\x1b[\0", None),
            (b"\0\0", None),
            (b"", None),
        ] {
            let bytes = info(strings);
            assert_eq!(inline(&bytes), expected, "{strings:?}");
        }
    }
}
