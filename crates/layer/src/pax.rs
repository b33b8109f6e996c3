//! PAX extended headers: `LENGTH KEY=VALUE` lines that override fields of the next header.
//!
//! Reading is as in Go: the last record of a key counts, an empty value leaves the header's own,
//! unknown keys have no effect. `LIBARCHIVE.xattr.*` is such a key: runtimes read the
//! `SCHILY.xattr.*` twin that libarchive writes beside it.
//!
//! Writing: only what ustar cannot hold, sorted by key. Names that are not UTF-8 are written as they
//! are, without `hdrcharset`, as Go does: GNU tar does not know that record, and warns about it for
//! every entry.

use std::collections::BTreeMap;

use super::entry::Xattrs;
use super::limits::Limits;
use super::path::shown;
use super::sparse::SparseRecords;
use oci::error::{Error, Result};

const XATTR: &[u8] = b"SCHILY.xattr.";
const SPARSE: &[u8] = b"GNU.sparse.";

/// What one `x` header says about the next entry.
#[derive(Debug, Default)]
pub(super) struct PaxRecords {
    pub(super) path: Option<Vec<u8>>,
    pub(super) linkpath: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) uid: Option<u64>,
    pub(super) gid: Option<u64>,
    pub(super) mtime: Option<i64>,
    pub(super) xattrs: Xattrs,
    pub(super) sparse: SparseRecords,
}

impl PaxRecords {
    pub(super) fn read(bytes: &[u8], limits: &Limits) -> Result<Self> {
        let mut records = Self::default();
        for record in lines(bytes) {
            let (key, value) = record?;
            records.take(key, value, limits)?;
        }
        Ok(records)
    }

    fn take(&mut self, key: &[u8], value: &[u8], limits: &Limits) -> Result<()> {
        match key {
            b"path" => self.path = name(key, value)?,
            b"linkpath" => self.linkpath = name(key, value)?,
            b"size" => self.size = number(key, value)?,
            b"uid" => self.uid = number(key, value)?,
            b"gid" => self.gid = number(key, value)?,
            b"mtime" => self.mtime = seconds(key, value)?,
            _ => {
                if let Some(attribute) = key.strip_prefix(XATTR) {
                    if attribute.is_empty() || !value.is_empty() {
                        self.xattrs.insert(attribute, value, limits)?;
                    }
                } else if let Some(key) = key.strip_prefix(SPARSE) {
                    self.sparse.take(key, value)?;
                }
            }
        }
        Ok(())
    }
}

/// Whether a global header says something that Go does not hear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GlobalRecords {
    /// Comments only, as `git archive` writes.
    Harmless,
    Ignored,
}

/// Checks a `g` header. Go, and so every runtime, ignores it; other readers apply it to all
/// entries that follow. Where that would move the borders between entries, the layer is refused.
pub(super) fn check_global(bytes: &[u8]) -> Result<GlobalRecords> {
    let mut global = GlobalRecords::Harmless;
    for record in lines(bytes) {
        let (key, _) = record?;
        if matches!(key, b"path" | b"linkpath" | b"size") || key.starts_with(SPARSE) {
            return Err(
                Error::input("global PAX header sets a record that belongs to one entry").fact("key", shown(key))
            );
        }
        if key != b"comment" {
            global = GlobalRecords::Ignored;
        }
    }
    Ok(global)
}

/// The records of a PAX header, as key and value.
fn lines(bytes: &[u8]) -> impl Iterator<Item = Result<(&[u8], &[u8])>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some((key, value, after)) = record(rest) else {
            rest = &[];
            return Some(Err(Error::input("PAX header has a record that cannot be read")));
        };
        rest = after;
        Some(Ok((key, value)))
    })
}

/// The first record of `bytes`, and what follows it.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = bytes.iter().position(|byte| *byte == b' ')?;
    let len = decimal(bytes.get(..space)?).and_then(|len| usize::try_from(len).ok())?;
    let (line, after) = bytes.split_at_checked(len)?;
    let body = line.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = body.iter().position(|byte| *byte == b'=')?;
    let (key, value) = (body.get(..equals)?, body.get(equals + 1..)?);
    if key.is_empty() || key.contains(&0) { None } else { Some((key, value, after)) }
}

/// Digits only: no sign, no space. As Go, nothing above `i64`.
fn decimal(digits: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok().filter(|value| i64::try_from(*value).is_ok())
}

fn name(key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
    if value.contains(&0) {
        return Err(Error::input("name in a PAX header contains a NUL byte").fact("key", shown(key)));
    }
    Ok(Some(value.to_vec()).filter(|name| !name.is_empty()))
}

pub(super) fn number(key: &[u8], value: &[u8]) -> Result<Option<u64>> {
    if value.is_empty() {
        return Ok(None);
    }
    decimal(value).map(Some).ok_or_else(|| not_a_number(key, value))
}

/// `SECONDS[.FRACTION]`, rounded down to whole seconds.
fn seconds(key: &[u8], value: &[u8]) -> Result<Option<i64>> {
    if value.is_empty() {
        return Ok(None);
    }
    whole_seconds(value).map(Some).ok_or_else(|| not_a_number(key, value))
}

fn whole_seconds(value: &[u8]) -> Option<i64> {
    let (negative, value) = value.strip_prefix(b"-").map_or((false, value), |value| (true, value));
    let mut parts = value.splitn(2, |byte| *byte == b'.');
    let whole = parts.next().and_then(decimal).and_then(|whole| i64::try_from(whole).ok())?;
    let fraction = parts.next().unwrap_or_default();
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let has_fraction = fraction.iter().any(|digit| *digit != b'0');
    Some(if negative { -whole - i64::from(has_fraction) } else { whole })
}

fn not_a_number(key: &[u8], value: &[u8]) -> Error {
    Error::input("PAX header has an invalid number")
        .fact("key", shown(key))
        .fact("value", shown(value.get(..40).unwrap_or(value)))
}

#[derive(Default)]
pub(super) struct PaxWriter(BTreeMap<Vec<u8>, Vec<u8>>);

impl PaxWriter {
    pub(super) fn text(&mut self, key: &'static str, value: &[u8]) {
        self.0.insert(key.as_bytes().to_vec(), value.to_vec());
    }

    pub(super) fn xattr(&mut self, name: &[u8], value: &[u8]) {
        self.0.insert([XATTR, name].concat(), value.to_vec());
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|(key, value)| encode_record(key, value)).collect()
    }
}

/// The length counts its own digits.
fn encode_record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + " =\n".len();
    let mut len = rest + rest.to_string().len();
    if rest + len.to_string().len() > len {
        len += 1;
    }
    [len.to_string().as_bytes(), b" ", key, b"=", value, b"\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pax_record;

    fn read(bytes: &[u8]) -> Result<PaxRecords> {
        PaxRecords::read(bytes, &Limits::default())
    }

    #[test]
    fn records_are_cut_by_their_length() {
        let records = read(b"12 path=a/b\n11 size=17\n").unwrap();
        assert_eq!(records.path.as_deref(), Some(b"a/b".as_slice()));
        assert_eq!(records.size, Some(17));
        let odd = pax_record("path", b"a=b\nc");
        assert_eq!(read(&odd).unwrap().path.as_deref(), Some(b"a=b\nc".as_slice()));
    }

    #[test]
    fn refuses_records_that_cannot_be_read() {
        for bytes in [
            b"path=a\n".as_slice(),
            b"12 path=a/b",
            b"13 path=a/b\n",
            b"11 path=a/b\n",
            b"3 a\n",
            b"7 =val\n",
            b"+12 path=a/\n",
            b"99999999999999999999 path=a\n",
            b"0 path=a\n",
            b"7 path\n",
            b"\0",
        ] {
            assert!(read(bytes).is_err(), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn refuses_numbers_that_are_none() {
        for value in ["-1", "+1", " 1", "0x10", "1.5", "9223372036854775808", "18446744073709551616", "١"] {
            for key in ["size", "uid", "gid", "GNU.sparse.realsize"] {
                assert!(read(&pax_record(key, value.as_bytes())).is_err(), "{key}={value}");
            }
        }
        assert_eq!(read(&pax_record("uid", b"4294967296")).unwrap().uid, Some(1 << 32));
        assert_eq!(read(&pax_record("size", b"")).unwrap().size, None, "empty keeps the header's");
    }

    #[test]
    fn times_round_down() {
        for (value, seconds) in
            [("12", 12), ("12.9", 12), ("0.000000001", 0), ("-1", -1), ("-1.0", -1), ("-1.5", -2), ("-0.5", -1)]
        {
            assert_eq!(read(&pax_record("mtime", value.as_bytes())).unwrap().mtime, Some(seconds), "{value}");
        }
        for value in ["x", "1.x", "1e3", "--1", ".5", "1.-5"] {
            assert!(read(&pax_record("mtime", value.as_bytes())).is_err(), "{value}");
        }
    }

    #[test]
    fn the_length_of_a_record_counts_itself() {
        assert_eq!(encode_record(b"path", b"a/b"), b"12 path=a/b\n");
        for len in (0..1100).chain(9_900..10_100).chain(99_900..100_010) {
            let value = vec![b'v'; len];
            assert_eq!(encode_record(b"key", &value), pax_record("key", &value), "{len}");
        }
    }

    #[test]
    fn records_are_sorted_and_hold_any_bytes() {
        let mut records = PaxWriter::default();
        records.text("path", b"\xff");
        records.text("linkpath", "ü".as_bytes());
        records.xattr(b"user.a", b"=\n");
        assert_eq!(records.to_bytes(), b"26 SCHILY.xattr.user.a==\n\n15 linkpath=\xc3\xbc\n9 path=\xff\n");
    }
}
