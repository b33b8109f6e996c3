//! Content digests. A [`Digest`] names bytes as stored, a [`DiffId`] the bytes of a layer
//! once decompressed; they look alike and must never be mixed, so they are two types.

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result, excerpt};

/// `sha256:` and 64 lower-case hex digits. Nothing else can be held.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The 64 hex digits, the file name of a blob.
    #[must_use]
    pub fn hex(&self) -> String {
        use fmt::Write as _;
        self.0.iter().fold(String::with_capacity(64), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }

    /// Enough of the digest for a person to tell two apart.
    #[must_use]
    pub fn short(&self) -> String {
        self.hex()[..12].to_owned()
    }

    /// The digest whose hex digits are `hex`, as in the file name of a blob.
    pub fn from_hex(hex: &str) -> Result<Self> {
        format!("sha256:{hex}").parse()
    }
}

/// More of what is no digest is not repeated in a message.
const SHOWN: usize = 100;

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = |why: &str| Err(Error::input(format!("not a digest: {why}")).fact("digest", excerpt(text, SHOWN)));
        let Some((algorithm, hex)) = text.split_once(':') else {
            return refuse("it has no algorithm, expected sha256:<64 hex digits>");
        };
        if algorithm != "sha256" {
            return refuse("only sha256 is supported");
        }
        if hex.len() != 64 {
            return refuse("sha256 has 64 hex digits");
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            let [Some(high), Some(low)] = [0, 1].map(|at| pair.get(at).copied().and_then(nibble)) else {
                return refuse("only the lower-case hex digits 0-9a-f may follow sha256:");
            };
            *byte = high << 4 | low;
        }
        Ok(Self(bytes))
    }
}

const fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|error: Error| serde::de::Error::custom(error.what()))
    }
}

/// The digest of a layer's tar stream, before compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DiffId(pub Digest);

impl FromStr for DiffId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        text.parse().map(Self)
    }
}

impl fmt::Display for DiffId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Hashes and counts what is written to it.
#[derive(Default)]
pub struct Hasher {
    sha: Sha256,
    len: u64,
}

/// What a [`Hasher`] saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hashed {
    pub digest: Digest,
    pub len: u64,
}

impl Hasher {
    pub fn update(&mut self, bytes: &[u8]) {
        self.sha.update(bytes);
        self.len += bytes.len() as u64;
    }

    /// How many bytes have been hashed.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[must_use]
    pub fn finish(self) -> Hashed {
        Hashed { digest: Digest(self.sha.finalize().into()), len: self.len }
    }
}

impl Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn digest_of_nothing_is_the_well_known_one() {
        assert_eq!(Digest::of(b"").to_string(), EMPTY);
        assert_eq!(EMPTY.parse::<Digest>().unwrap(), Digest::of(b""));
    }

    #[test]
    fn refuses_every_other_spelling() {
        let hex = &EMPTY[7..];
        for bad in [
            "",
            hex,
            "sha256:",
            &format!("sha256:{}", &hex[1..]),
            &format!("sha256:{hex}0"),
            &EMPTY.to_uppercase(),
            &format!("sha256:{}", hex.to_uppercase()),
            &format!("md5:{hex}"),
            &format!("sha512:{hex}{hex}"),
            &format!("sha256:sha256:{hex}"),
            "sha256:../../../../../../../../../../../../../../../../../../etc/passwd0",
            &format!("sha256:{}", "/".repeat(64)),
            &format!(" {EMPTY}"),
            &format!("{EMPTY}\n"),
        ] {
            assert!(bad.parse::<Digest>().is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn hashing_in_pieces_equals_hashing_at_once() {
        let mut hasher = Hasher::default();
        hasher.update(b"under");
        hasher.update(b"pin");
        assert_eq!(hasher.finish(), Hashed { digest: Digest::of(b"underpin"), len: 8 });
    }
}
