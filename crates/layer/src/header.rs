//! One header block of a tar: fields as Go's `archive/tar` reads them.
//!
//! Numbers are octal or base-256, the checksum may be summed signed or unsigned, and the name may
//! have a prefix. A field that cannot be read makes the layer unreadable, as it does there.

use std::ops::Range;

use super::blocks::BLOCK;
use oci::error::{Error, Result};

const CHECKSUM: Range<usize> = 148..156;
const MAGIC: Range<usize> = 257..263;
const MAGIC_AND_VERSION: Range<usize> = 257..265;
const MAJOR: Range<usize> = 329..337;
const MINOR: Range<usize> = 337..345;
const USTAR_PREFIX: Range<usize> = 345..500;
const STAR_PREFIX: Range<usize> = 345..476;
const STAR_TRAILER: Range<usize> = 508..512;
const GNU_TIMES: [Range<usize>; 2] = [345..357, 357..369];

/// The dialects that place fields differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TarFormat {
    V7,
    Ustar,
    Star,
    Gnu,
}

/// The fields of a header, before extended headers have their say. Numbers may be negative.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TarHeader {
    pub(super) format: TarFormat,
    pub(super) typeflag: u8,
    pub(super) name: Vec<u8>,
    pub(super) link: Vec<u8>,
    pub(super) size: i64,
    pub(super) mode: i64,
    pub(super) uid: i64,
    pub(super) gid: i64,
    pub(super) mtime: i64,
    pub(super) major: i64,
    pub(super) minor: i64,
}

impl TarHeader {
    pub(super) fn read(block: &[u8; BLOCK]) -> Result<Self> {
        if !checksum_fits(block) {
            return Err(Error::input("tar header has a wrong checksum: this is not a tar, or it is damaged"));
        }
        let v7 = tar::Header::from_byte_slice(block).as_old();
        let format = TarFormat::of(block);
        let device = |field: Range<usize>| match format {
            TarFormat::V7 => Ok(0),
            _ => number(block.get(field).unwrap_or_default(), "device number"),
        };
        Ok(Self {
            format,
            typeflag: v7.linkflag[0],
            name: full_name(block, format, text(&v7.name)),
            link: text(&v7.linkname).to_vec(),
            size: number(&v7.size, "size")?,
            mode: number(&v7.mode, "mode")?,
            uid: number(&v7.uid, "user id")?,
            gid: number(&v7.gid, "group id")?,
            mtime: number(&v7.mtime, "time")?,
            major: device(MAJOR)?,
            minor: device(MINOR)?,
        })
    }
}

impl TarFormat {
    fn of(block: &[u8; BLOCK]) -> Self {
        match &block[MAGIC] {
            b"ustar\0" if &block[STAR_TRAILER] == b"tar\0" => Self::Star,
            b"ustar\0" => Self::Ustar,
            _ if &block[MAGIC_AND_VERSION] == b"ustar  \0" => Self::Gnu,
            _ => Self::V7,
        }
    }
}

fn full_name(block: &[u8; BLOCK], format: TarFormat, name: &[u8]) -> Vec<u8> {
    let prefix = match format {
        TarFormat::V7 => b"",
        TarFormat::Ustar => text(&block[USTAR_PREFIX]),
        TarFormat::Star => text(&block[STAR_PREFIX]),
        TarFormat::Gnu => prefix_of_early_go(block),
    };
    if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
}

/// GNU headers have no prefix, but Go before 1.8 wrote one there, over the access and change
/// times. Images of that age exist; what cannot be a time and is ASCII is a prefix.
fn prefix_of_early_go(block: &[u8; BLOCK]) -> &[u8] {
    let is_time = |field: Range<usize>| {
        let time = block.get(field).unwrap_or_default();
        time.first() == Some(&0) || parse(time).is_some()
    };
    let prefix = text(&block[USTAR_PREFIX]);
    if GNU_TIMES.into_iter().all(is_time) || !prefix.is_ascii() { b"" } else { prefix }
}

/// Old tars summed signed bytes; both sums are accepted.
fn checksum_fits(block: &[u8; BLOCK]) -> bool {
    let Some(written) = octal(&block[CHECKSUM]) else {
        return false;
    };
    let as_summed = |(at, byte): (usize, &u8)| if CHECKSUM.contains(&at) { b' ' } else { *byte };
    let unsigned: i64 = block.iter().enumerate().map(as_summed).map(i64::from).sum();
    let signed: i64 = block.iter().enumerate().map(as_summed).map(|byte| i64::from(byte.cast_signed())).sum();
    written == unsigned || written == signed
}

/// A string field: up to the first NUL, if there is one.
pub(super) fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// A numeric field; `what` names it.
pub(super) fn number(field: &[u8], what: &str) -> Result<i64> {
    parse(field).ok_or_else(|| {
        Error::input(format!("tar header has a {what} that is not a number"))
            .fact("field", format!("\"{}\"", field.escape_ascii()))
    })
}

fn parse(field: &[u8]) -> Option<i64> {
    match field.first() {
        Some(first) if first & 0x80 != 0 => base_256(field),
        _ => octal(field),
    }
}

fn octal(field: &[u8]) -> Option<i64> {
    let is_padding = |byte: &u8| matches!(byte, b' ' | 0);
    let start = field.iter().position(|byte| !is_padding(byte)).unwrap_or(field.len());
    let end = field.iter().rposition(|byte| !is_padding(byte)).map_or(start, |last| last + 1);
    text(field.get(start..end)?).iter().try_fold(0_i64, |value, digit| match digit {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(i64::from(digit - b'0')),
        _ => None,
    })
}

/// Two's complement, most significant byte first; the topmost bit only marks the encoding.
fn base_256(field: &[u8]) -> Option<i64> {
    let (first, rest) = field.split_first()?;
    let negative = first & 0x40 != 0;
    let start = if negative { i64::from(first | 0x80).wrapping_sub(0x100) } else { i64::from(first & 0x7f) };
    rest.iter().try_fold(start, |value, byte| value.checked_mul(256)?.checked_add(i64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestMember, sealed};

    #[test]
    fn numbers_are_read_as_go_reads_them() {
        for (field, value) in [
            (b"0000644\0".as_slice(), Some(0o644)),
            (b"   644 \0", Some(0o644)),
            (b"\0\0\0\x30\x31\x30\0 ", Some(8)),
            (b"\0\0\0\0\0\0\0\0", Some(0)),
            (b"        ", Some(0)),
            (b"77777777", Some(0o7777_7777)),
            (b"0000649\0", None),
            (b"-000001\0", None),
            (b"0x12\0\0\0\0", None),
            (b"12 34\0\0\0", None),
            (b"\x80\0\0\0\0\0\0\0\0\x01\0\0", Some(65536)),
            (b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", Some(i64::MAX)),
            (b"\x80\0\0\0\x80\0\0\0\0\0\0\0", None),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", Some(-1)),
            (b"\xff\xff\xff\xff\x80\0\0\0\0\0\0\0", Some(i64::MIN)),
            (b"\xff\xff\xff\xff\x7f\xff\xff\xff\xff\xff\xff\xff", None),
            (b"\x80\x80\0\0\0\0\0\0\0\0\0\0", None),
        ] {
            assert_eq!(parse(field), value, "{}", field.escape_ascii());
        }
    }

    #[test]
    fn both_checksums_are_accepted_and_no_other() {
        let mut block = TestMember::file("ünïcode", b"").header();
        assert!(TarHeader::read(&block).is_ok());
        let sum: i32 = block
            .iter()
            .enumerate()
            .filter(|(at, _)| !CHECKSUM.contains(at))
            .map(|(_, b)| i32::from(b.cast_signed()))
            .sum();
        block[CHECKSUM].copy_from_slice(format!("{:06o}\0 ", sum + 8 * 32).as_bytes());
        assert!(TarHeader::read(&block).is_ok(), "signed sum");
        block[0] ^= 1;
        assert!(TarHeader::read(&block).is_err());
    }

    #[test]
    fn prefix_stands_where_the_dialect_has_it() {
        let with = |magic: &[u8; 8], trailer: &[u8; 4], prefix: &[u8]| {
            let mut block = TestMember::file("name", b"").header();
            block[MAGIC_AND_VERSION].copy_from_slice(magic);
            block[345..345 + prefix.len()].copy_from_slice(prefix);
            block[STAR_TRAILER].copy_from_slice(trailer);
            TarHeader::read(&sealed(block)).unwrap().name
        };
        let long = [b'p'; 155];
        assert_eq!(with(b"ustar\x0000", b"\0\0\0\0", b"a/b"), b"a/b/name");
        assert_eq!(with(b"ustar\x0000", b"\0\0\0\0", &long).len(), 155 + 1 + 4);
        assert_eq!(with(b"ustar\x0000", b"tar\0", &long).len(), 131 + 1 + 4);
        assert_eq!(with(b"ustar  \0", b"\0\0\0\0", b"00000000000\0"), b"name", "an access time");
        assert_eq!(with(b"ustar  \0", b"\0\0\0\0", b"usr/share"), b"usr/share/name", "written by Go before 1.8");
        assert_eq!(with(b"\0\0\0\0\0\0\0\0", b"\0\0\0\0", b"a/b"), b"name");
    }
}
