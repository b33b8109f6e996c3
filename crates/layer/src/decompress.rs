//! How a layer is compressed, by its first bytes whatever its media type says, and its
//! decompression.
//!
//! A gzip stream of a layer is one member or many (pgzip, eStargz), perhaps NUL padding at the end,
//! and nothing else. Every member's checksum and length are checked.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

use super::limits::Limits;
use super::pipe::{PipePeer, PipeReader, PipeWriter, StreamState};
use oci::Compression;
use oci::error::{Error, Result};

/// Names by magic number of what some tools pack layers with and no runtime must accept.
const REFUSED: [(&[u8], &str); 4] =
    [(b"\xfd7zXZ\0", "xz"), (b"BZh", "bzip2"), (b"PK\x03\x04", "zip"), (b"PK\x05\x06", "zip")];

const GZIP: &[u8] = b"\x1f\x8b";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
/// A skippable zstd frame begins with any of 16 bytes, then this.
const ZSTD_SKIPPABLE: &[u8] = b"\x2a\x4d\x18";

/// The compression of a layer that begins with `head`.
pub(super) fn sniff(head: &[u8]) -> Result<Compression> {
    let skippable = |head: &[u8]| matches!(head, [0x50..=0x5f, rest @ ..] if rest.starts_with(ZSTD_SKIPPABLE));
    if let Some((_, name)) = REFUSED.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Err(Error::input(format!("layer is compressed with {name}, which container runtimes do not support"))
            .hint("rebuild the image with gzip or zstd layers"));
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

/// Decompresses `packed`, which has `size` bytes, into `tar`, up to the limits. Errors go down the stream, so that they are met
/// in the order of the bytes. `None` if the compression could not be detected.
pub(super) fn unpack(mut packed: PipeReader, size: u64, tar: PipeWriter, limits: &Limits) -> Option<Compression> {
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

fn open(packed: PipeReader, compression: Compression, limits: &Limits) -> Result<Box<dyn Read>> {
    Ok(match compression {
        Compression::None => Box::new(packed),
        Compression::Gzip => Box::new(GzipMembers::new(packed)),
        Compression::Zstd => {
            Box::new(zstd_decoder(packed, limits).map_err(|error| damaged(error, compression, limits))?)
        }
    })
}

fn zstd_decoder(packed: PipeReader, limits: &Limits) -> std::io::Result<zstd::Decoder<'static, PipeReader>> {
    let mut decoder = zstd::Decoder::with_buffer(packed)?;
    decoder.window_log_max(limits.zstd_window_log)?;
    Ok(decoder)
}

fn pump(mut unpacked: impl Read, compression: Compression, size: u64, mut tar: PipeWriter, limits: &Limits) {
    let mut total = 0_u64;
    loop {
        let mut chunk = tar.chunk();
        let outcome = chunk.fill(&mut unpacked);
        total += chunk.bytes().len() as u64;
        if let Err(error) = limits.check_unpacked(total, size) {
            return tar.fail(error);
        }
        if tar.pass(chunk) == PipePeer::Gone {
            return;
        }
        match outcome {
            Ok(StreamState::GoesOn) => {}
            Ok(StreamState::Ended) => return,
            Err(error) => return tar.fail(damaged(error, compression, limits)),
        }
    }
}

fn unread(error: std::io::Error) -> Error {
    Error::from_stream(error, "layer could not be read")
}

/// The name of a compression in messages.
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
        Err(other) => Error::input(format!("layer is not a valid {} stream", name(compression))).cause(other),
    };
    match compression {
        Compression::Zstd => error.fact("window limit", format!("2^{} bytes", limits.zstd_window_log)),
        Compression::Gzip | Compression::None => error,
    }
}

/// Decompresses all members, one after another.
pub(super) struct GzipMembers<R>(GzipState<R>);

enum GzipState<R> {
    Inside(Box<GzDecoder<R>>),
    Between(R),
    Ended,
}

impl<R: BufRead> GzipMembers<R> {
    pub(super) fn new(source: R) -> Self {
        Self(GzipState::Between(source))
    }
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            self.0 = match std::mem::replace(&mut self.0, GzipState::Ended) {
                GzipState::Inside(mut member) => match member.read(into)? {
                    0 => GzipState::Between(member.into_inner()),
                    read => {
                        self.0 = GzipState::Inside(member);
                        return Ok(read);
                    }
                },
                GzipState::Between(source) => next_member(source)?,
                GzipState::Ended => return Ok(0),
            };
        }
    }
}

/// What follows a member.
fn next_member<R: BufRead>(mut source: R) -> io::Result<GzipState<R>> {
    match source.fill_buf()?.first() {
        None => Ok(GzipState::Ended),
        Some(0) => skip_padding(source),
        Some(0x1f) => Ok(GzipState::Inside(Box::new(GzDecoder::new(source)))),
        Some(_) => Err(garbage()),
    }
}

fn skip_padding<R: BufRead>(mut source: R) -> io::Result<GzipState<R>> {
    loop {
        let padding = source.fill_buf()?;
        if padding.is_empty() {
            return Ok(GzipState::Ended);
        }
        if padding.iter().any(|byte| *byte != 0) {
            return Err(garbage());
        }
        let len = padding.len();
        source.consume(len);
    }
}

fn garbage() -> io::Error {
    Error::input("layer has trailing bytes after its gzip stream").into()
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
