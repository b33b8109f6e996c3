//! As much of CBOR (RFC 8949) as notation's COSE envelopes are written in: definite lengths, no floating point.
//!
//! The rule this file owns: what is read is bounded by the bytes that there are, in memory and in depth.

/// Deeper than any envelope.
const DEEPEST: u8 = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cbor {
    Integer(i128),
    Bytes(Vec<u8>),
    Text(String),
    List(Vec<Cbor>),
    Map(Vec<(Cbor, Cbor)>),
    Tagged(u64, Box<Cbor>),
    /// `false`, `true`, `null`, and what else has no content.
    Simple(u64),
}

impl Cbor {
    /// The one value that the bytes are.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = CborReader { rest: bytes };
        reader.value(0).filter(|_| reader.rest.is_empty())
    }

    /// The member of a map; none of the two where it is there twice.
    pub fn get(&self, key: &Self) -> Option<&Self> {
        let Self::Map(members) = self else { return None };
        let mut found = members.iter().filter(|(name, _)| name == key).map(|(_, value)| value);
        found.next().filter(|_| found.next().is_none())
    }

    pub fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub fn bytes(&self) -> Option<&[u8]> {
        if let Self::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    pub fn list(&self) -> Option<&[Self]> {
        if let Self::List(list) = self { Some(list) } else { None }
    }
}

struct CborReader<'a> {
    rest: &'a [u8],
}

impl CborReader<'_> {
    fn take(&mut self, count: u64) -> Option<&[u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(count).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    /// The kind of a value, and its number: itself, a length, or a tag.
    fn head(&mut self) -> Option<(u8, u64)> {
        let first = *self.take(1)?.first()?;
        let (major, short) = (first >> 5, first & 0x1f);
        let length = match short {
            0..=23 => return Some((major, short.into())),
            24..=27 => 1u64 << (short - 24),
            _ => return None,
        };
        let number = self.take(length)?.iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
        Some((major, number))
    }

    fn value(&mut self, depth: u8) -> Option<Cbor> {
        if depth > DEEPEST {
            return None;
        }
        let (major, number) = self.head()?;
        Some(match major {
            0 => Cbor::Integer(number.into()),
            1 => Cbor::Integer(-1 - i128::from(number)),
            2 => Cbor::Bytes(self.take(number)?.to_vec()),
            3 => Cbor::Text(std::str::from_utf8(self.take(number)?).ok()?.to_owned()),
            4 => Cbor::List((0..number).map(|_| self.value(depth + 1)).collect::<Option<_>>()?),
            5 => {
                let member = |_| Some((self.value(depth + 1)?, self.value(depth + 1)?));
                Cbor::Map((0..number).map(member).collect::<Option<_>>()?)
            }
            6 => Cbor::Tagged(number, Box::new(self.value(depth + 1)?)),
            _ => Cbor::Simple(number),
        })
    }
}

/// What COSE signs (RFC 9052, section 4.4): the protected header and the payload, with nothing from outside.
pub fn signature_structure(protected: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x84];
    for (major, part) in [(3, b"Signature1".as_slice()), (2, protected), (2, b""), (2, payload)] {
        write_head(major, part.len() as u64, &mut bytes);
        bytes.extend_from_slice(part);
    }
    bytes
}

/// The head in its shortest form.
fn write_head(major: u8, number: u64, to: &mut Vec<u8>) {
    let all = number.to_be_bytes();
    let (short, used) = match number {
        0..=23 => (all.last().copied().unwrap_or_default(), 0),
        24..=0xff => (24, 1),
        0x100..=0xffff => (25, 2),
        0x1_0000..=0xffff_ffff => (26, 4),
        _ => (27, 8),
    };
    to.push(major << 5 | short);
    to.extend_from_slice(all.get(all.len() - used..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Examples of RFC 8949, appendix A.
    #[test]
    fn the_examples_of_the_specification_are_read() {
        let text = |text: &str| Cbor::Text(text.to_owned());
        for (bytes, expected) in [
            (&[0x18, 0x64][..], Cbor::Integer(100)),
            (&[0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], Cbor::Integer(18_446_744_073_709_551_615)),
            (&[0x38, 0x63], Cbor::Integer(-100)),
            (&[0xc1, 0x1a, 0x51, 0x4b, 0x67, 0xb0], Cbor::Tagged(1, Box::new(Cbor::Integer(1_363_896_240)))),
            (&[0x44, 1, 2, 3, 4], Cbor::Bytes(vec![1, 2, 3, 4])),
            (&[0x64, 0x49, 0x45, 0x54, 0x46], text("IETF")),
            (
                &[0x82, 0x61, 0x61, 0xa1, 0x61, 0x62, 0x61, 0x63],
                Cbor::List(vec![text("a"), Cbor::Map(vec![(text("b"), text("c"))])]),
            ),
            (&[0xf6], Cbor::Simple(22)),
        ] {
            assert_eq!(Cbor::read(bytes), Some(expected), "{bytes:x?}");
        }
    }

    #[test]
    fn what_is_cut_off_endless_or_too_deep_is_nothing() {
        for bytes in [
            &[][..],
            &[0x18],
            &[0x44, 1, 2, 3],
            &[0x00, 0x00],
            &[0x9f, 0xff],
            &[0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[0x61, 0xff],
            &[0x81; 40],
        ] {
            assert_eq!(Cbor::read(bytes), None, "{bytes:x?}");
        }
        let twice = Cbor::read(&[0xa2, 1, 2, 1, 3]).unwrap();
        assert_eq!(twice.get(&Cbor::Integer(1)), None);
    }
}
