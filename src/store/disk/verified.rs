//! Bytes that are hashed on their way, and compared with what was promised.

use std::io::{self, Read};

use oci::error::{Error, Result};
use oci::{Descriptor, Hashed, Hasher};

const CHUNK: usize = 256 << 10;

/// Passes all bytes of `from` to `to`. Success means that they were exactly those `of` describes.
/// Reads at most one chunk more than promised, so an endless stream ends here.
pub fn copy(from: &mut dyn Read, of: &Descriptor, mut to: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut hasher = Hasher::default();
    each_chunk(from, |chunk| {
        hasher.update(chunk);
        if hasher.len() > of.size {
            return Err(Error::integrity("blob is longer than its descriptor says")
                .fact("digest", of.digest)
                .fact("expected", format_args!("{} bytes", of.size))
                .fact("got", format_args!("{} bytes or more", hasher.len())));
        }
        to(chunk)
    })?;
    check(hasher.finish(), of)
}

/// Hashes everything.
pub fn hash(from: &mut dyn Read) -> Result<Hashed> {
    let mut hasher = Hasher::default();
    each_chunk(from, |chunk| {
        hasher.update(chunk);
        Ok(())
    })?;
    Ok(hasher.finish())
}

/// Compares what was hashed with what was promised.
pub fn check(hashed: Hashed, of: &Descriptor) -> Result<()> {
    if hashed.len != of.size {
        return Err(Error::integrity("blob does not have the size in its descriptor")
            .fact("digest", of.digest)
            .fact("expected", format_args!("{} bytes", of.size))
            .fact("got", format_args!("{} bytes", hashed.len)));
    }
    if hashed.digest != of.digest {
        return Err(Error::integrity("blob does not match its digest")
            .fact("expected", of.digest)
            .fact("got", hashed.digest));
    }
    Ok(())
}

/// Calls `take` with all bytes, piece by piece.
pub fn each_chunk(from: &mut dyn Read, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(got) => take(buffer.get(..got).unwrap_or_default())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::from_stream(error, "could not read the blob")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oci::MediaType;
    use oci::error::Kind;

    #[test]
    fn only_the_promised_bytes_pass() {
        let of = Descriptor::of(MediaType::new("a/b"), b"promised");
        let mut seen = Vec::new();
        let keep = |chunk: &[u8]| {
            seen.extend_from_slice(chunk);
            Ok(())
        };
        copy(&mut &b"promised"[..], &of, keep).unwrap();
        assert_eq!(seen, b"promised");
        for wrong in [&b"promise"[..], b"promised!", b"Promised", b""] {
            let error = copy(&mut &*wrong, &of, |_| Ok(())).unwrap_err();
            assert_eq!(error.kind(), Kind::Integrity, "{error}");
        }
    }

    #[test]
    fn an_endless_stream_ends_after_one_chunk() {
        let of = Descriptor::of(MediaType::new("a/b"), b"promised");
        let mut passed = 0;
        let error = copy(&mut io::repeat(0), &of, |chunk| {
            passed += chunk.len();
            Ok(())
        });
        assert_eq!((error.unwrap_err().kind(), passed), (Kind::Integrity, 0));
    }
}
