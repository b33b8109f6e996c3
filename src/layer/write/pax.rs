//! PAX records of one entry: `LENGTH KEY=VALUE` lines for what ustar cannot say, sorted by key.
//! Names that are not UTF-8 stand there as they are, without `hdrcharset`, as Go writes them: GNU
//! tar does not know that record, and says so for every entry.

use std::collections::BTreeMap;

const XATTR: &[u8] = b"SCHILY.xattr.";

#[derive(Default)]
pub(super) struct Records(BTreeMap<Vec<u8>, Vec<u8>>);

impl Records {
    pub(super) fn text(&mut self, key: &'static str, value: &[u8]) {
        self.0.insert(key.as_bytes().to_vec(), value.to_vec());
    }

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
    fn records_are_sorted_and_hold_any_bytes() {
        let mut records = Records::default();
        records.text("path", b"\xff");
        records.text("linkpath", "ü".as_bytes());
        records.xattr(b"user.a", b"=\n");
        assert_eq!(records.to_bytes(), b"26 SCHILY.xattr.user.a==\n\n15 linkpath=\xc3\xbc\n9 path=\xff\n");
    }
}
