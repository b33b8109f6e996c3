//! PAX records of one entry: `LENGTH KEY=VALUE` lines for what ustar cannot say, sorted by key.

use std::collections::BTreeMap;

const XATTR: &[u8] = b"SCHILY.xattr.";

/// Tells readers that convert names not to: these are not UTF-8.
const BINARY: (&[u8], &[u8]) = (b"hdrcharset", b"BINARY");

#[derive(Default)]
pub(super) struct Records(BTreeMap<Vec<u8>, Vec<u8>>);

impl Records {
    pub(super) fn text(&mut self, key: &'static str, value: &[u8]) {
        self.0.insert(key.as_bytes().to_vec(), value.to_vec());
        if std::str::from_utf8(value).is_err() {
            self.0.insert(BINARY.0.to_vec(), BINARY.1.to_vec());
        }
    }

    /// Attributes are bytes for every reader, so they say nothing about the names.
    pub(super) fn xattr(&mut self, name: &[u8], value: &[u8]) {
        self.0.insert([XATTR, name].concat(), value.to_vec());
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|(key, value)| record(key, value)).collect()
    }
}

/// The length counts its own digits.
fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
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
    use crate::layer::specimen::pax_record;

    #[test]
    fn the_length_of_a_record_counts_itself() {
        assert_eq!(record(b"path", b"a/b"), b"12 path=a/b\n");
        for len in (0..1100).chain(9_900..10_100).chain(99_900..100_010) {
            let value = vec![b'v'; len];
            assert_eq!(record(b"key", &value), pax_record("key", &value), "{len}");
        }
    }

    #[test]
    fn only_names_that_are_not_utf_8_are_marked_as_bytes() {
        let mut records = Records::default();
        records.text("path", "ü".as_bytes());
        records.xattr(b"user.a", b"\xff");
        assert_eq!(records.to_bytes(), b"25 SCHILY.xattr.user.a=\xff\n11 path=\xc3\xbc\n");
        records.text("linkpath", b"\xff");
        assert!(records.to_bytes().windows(17).any(|part| part == b"hdrcharset=BINARY"));
    }
}
