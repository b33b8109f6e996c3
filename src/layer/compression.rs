//! How a layer is packed: told by its first bytes, whatever its media type says.

use std::io::{BufRead, Read};

use super::gzip::Members;
use super::limits::Limits;
use super::pipe::{Drain, Feeder, Listener, Stream};
use crate::error::{Error, Result};
use crate::oci::Compression;

/// Names by magic number of what some tools pack layers with and no runtime must accept.
const REFUSED: [(&[u8], &str); 4] =
    [(b"\xfd7zXZ\0", "xz"), (b"BZh", "bzip2"), (b"PK\x03\x04", "zip"), (b"PK\x05\x06", "zip")];

const GZIP: &[u8] = b"\x1f\x8b";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
/// A skippable zstd frame begins with any of 16 bytes, then this.
const ZSTD_SKIPPABLE: &[u8] = b"\x2a\x4d\x18";

/// The packing of a layer that begins with `head`.
pub(super) fn sniff(head: &[u8]) -> Result<Compression> {
    let skippable = |head: &[u8]| matches!(head, [0x50..=0x5f, rest @ ..] if rest.starts_with(ZSTD_SKIPPABLE));
    if let Some((_, name)) = REFUSED.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Err(Error::input(format!("layer is packed with {name}, which container runtimes do not read"))
            .hint("build the image again with gzip or zstd layers"));
    }
    if head.is_empty() {
        Err(Error::input("layer is an empty blob, not even an empty tar"))
    } else if head.starts_with(GZIP) {
        Ok(Compression::Gzip)
    } else if head.starts_with(ZSTD) || skippable(head) {
        Ok(Compression::Zstd)
    } else {
        Ok(Compression::None)
    }
}

/// Inflates `packed`, which has `size` bytes, into `tar`, up to the limits. Errors go down the stream, so that they are met
/// in the order of the bytes. `None` where the packing could not be told.
pub(super) fn unpack(mut packed: Drain, size: u64, tar: Feeder, limits: &Limits) -> Option<Compression> {
    let compression = match packed.fill_buf().map_err(unread).and_then(sniff) {
        Ok(compression) => compression,
        Err(error) => {
            tar.fail(error);
            return None;
        }
    };
    match open(packed, compression, limits) {
        Ok(unpacked) => pump(unpacked, compression, size, tar, limits),
        Err(error) => tar.fail(error),
    }
    Some(compression)
}

fn open(packed: Drain, compression: Compression, limits: &Limits) -> Result<Box<dyn Read>> {
    Ok(match compression {
        Compression::None => Box::new(packed),
        Compression::Gzip => Box::new(Members::new(packed)),
        Compression::Zstd => {
            Box::new(zstd_decoder(packed, limits).map_err(|error| damaged(error, compression, limits))?)
        }
    })
}

fn zstd_decoder(packed: Drain, limits: &Limits) -> std::io::Result<zstd::Decoder<'static, Drain>> {
    let mut decoder = zstd::Decoder::with_buffer(packed)?;
    decoder.window_log_max(limits.zstd_window_log)?;
    Ok(decoder)
}

fn pump(mut unpacked: impl Read, compression: Compression, size: u64, mut tar: Feeder, limits: &Limits) {
    let mut total = 0_u64;
    loop {
        let mut chunk = tar.chunk();
        let outcome = chunk.fill(&mut unpacked);
        total += chunk.bytes().len() as u64;
        if let Err(error) = limits.check_unpacked(total, size) {
            return tar.fail(error);
        }
        if tar.pass(chunk) == Listener::Gone {
            return;
        }
        match outcome {
            Ok(Stream::GoesOn) => {}
            Ok(Stream::Ended) => return,
            Err(error) => return tar.fail(damaged(error, compression, limits)),
        }
    }
}

fn unread(error: std::io::Error) -> Error {
    Error::from_stream(error, "layer could not be read")
}

/// The word for a packing in messages.
pub(super) const fn name(compression: Compression) -> &'static str {
    match compression {
        Compression::None => "tar",
        Compression::Gzip => "gzip",
        Compression::Zstd => "zstd",
    }
}

/// The digest of such bytes may well be right: then they were damaged before they were pushed.
fn damaged(error: std::io::Error, compression: Compression, limits: &Limits) -> Error {
    let error = match error.downcast::<Error>() {
        Ok(own) => return own,
        Err(other) => {
            Error::input(format!("layer is not a {} stream that can be read", name(compression))).cause(other)
        }
    };
    match compression {
        Compression::Zstd => error.fact("window limit", format!("2^{} bytes", limits.zstd_window_log)),
        Compression::Gzip | Compression::None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_is_told_by_the_first_bytes() {
        for (head, compression) in [
            (b"\x1f\x8b\x08".as_slice(), Compression::Gzip),
            (b"\x28\xb5\x2f\xfd\0", Compression::Zstd),
            (b"\x50\x2a\x4d\x18\0", Compression::Zstd),
            (b"\x5f\x2a\x4d\x18\0", Compression::Zstd),
            (b"\x60\x2a\x4d\x18\0", Compression::None),
            (b"etc/passwd", Compression::None),
            (b"\0", Compression::None),
        ] {
            assert_eq!(sniff(head).unwrap(), compression, "{head:?}");
        }
    }

    #[test]
    fn other_packings_are_refused_by_name() {
        for (head, name) in [
            (b"\xfd7zXZ\0\0".as_slice(), "xz"),
            (b"BZh91AY", "bzip2"),
            (b"PK\x03\x04\0", "zip"),
            (b"PK\x05\x06", "zip"),
            (b"", "empty"),
        ] {
            let error = sniff(head).unwrap_err();
            assert!(error.what().contains(name), "{error}");
        }
    }
}
