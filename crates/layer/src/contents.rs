//! The content of files of a layer, shown while its bytes go by: a layer is a stream, and reading it ends with the
//! check of its digest and size.

use std::io::{BufRead, Read};

use super::limits::Limits;
use super::pipe::PipeReader;
use super::scan::unpacked;
use oci::Descriptor;
use oci::error::{Error, Result};

/// A file's bytes in the tar of its layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DataRange {
    pub offset: u64,
    pub size: u64,
}

/// Shows what is in `ranges`, which are in the order of the tar, piece by piece with the number of its range.
/// Success means: digest and size of the bytes are those of `of`, and every range was shown whole. What was shown
/// counts only then.
pub fn show_ranges(
    blob: impl Read + Send,
    of: &Descriptor,
    ranges: &[DataRange],
    limits: &Limits,
    look: impl FnMut(usize, &[u8]) -> Result<()>,
) -> Result<()> {
    check_order(ranges).map_err(|error| error.fact("layer", of.digest))?;
    unpacked(blob, of, limits, |tar| pass_ranges(tar, ranges, look)).map(drop)
}

/// No two may overlap, since no two entries of a layer share their data in part.
fn check_order(ranges: &[DataRange]) -> Result<()> {
    let mut end = 0;
    for range in ranges {
        if range.offset < end {
            return Err(
                Error::input("two entries claim the same bytes of their layer").fact("tar offset", range.offset)
            );
        }
        end = range.offset.saturating_add(range.size);
    }
    Ok(())
}

/// Reads no further than the last of them.
fn pass_ranges(
    mut tar: PipeReader,
    ranges: &[DataRange],
    mut look: impl FnMut(usize, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut at = 0;
    for (number, range) in ranges.iter().enumerate() {
        pass(&mut tar, range.offset.saturating_sub(at), |_| Ok(()))?;
        pass(&mut tar, range.size, |bytes| look(number, bytes))?;
        at = range.offset.saturating_add(range.size);
    }
    Ok(())
}

/// Lets `len` bytes go by, showing them.
fn pass(tar: &mut PipeReader, len: u64, mut look: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut missing = len;
    while missing > 0 {
        let bytes = tar.fill_buf().map_err(|error| Error::from_stream(error, "layer could not be read"))?;
        let taken = bytes.len().min(usize::try_from(missing).unwrap_or(usize::MAX));
        let Some(bytes) = bytes.get(..taken).filter(|bytes| !bytes.is_empty()) else {
            return Err(Error::input("layer ends before the content of one of its files"));
        };
        look(bytes)?;
        tar.consume(taken);
        missing -= taken as u64;
    }
    Ok(())
}
