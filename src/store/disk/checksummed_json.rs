//! JSON that ends with a digest of itself, so that a damaged file is noticed and never taken for a
//! shorter one.

use serde::Serialize;
use serde::de::DeserializeOwned;

use oci::Hasher;
use oci::error::{Error, Result};

/// The hex digits of the digest.
const LENGTH: usize = 64;

/// What the digest begins with: the kind of the file and the number of its format.
#[derive(Debug, Clone, Copy)]
pub struct ChecksummedJson(pub &'static str);

impl ChecksummedJson {
    pub fn encode(self, value: &impl Serialize) -> Result<Vec<u8>> {
        let json = serde_json::to_vec(value)
            .map_err(|error| Error::input("a record cannot be written as JSON").cause(error))?;
        Ok([json.as_slice(), self.digest(&json).as_bytes()].concat())
    }

    /// The value, or `None` where the file is damaged.
    pub fn decode<T: DeserializeOwned>(self, bytes: &[u8]) -> Option<T> {
        let (json, checksum) = bytes.split_at_checked(bytes.len().checked_sub(LENGTH)?)?;
        if checksum != self.digest(json).as_bytes() {
            return None;
        }
        serde_json::from_slice(json).ok()
    }

    fn digest(self, json: &[u8]) -> String {
        let mut hasher = Hasher::default();
        hasher.update(self.0.as_bytes());
        hasher.update(json);
        hasher.finish().digest.hex()
    }
}
