//! Receives a blob into the cache, verified, without reading what is in it.

use std::fs::File;
use std::io::Read;

use super::disk::{Partial, Receiving};
use super::{Notices, Source, StoreAccess, Stream};
use crate::error::{Error, Result};
use crate::oci::{Descriptor, Hashed, Hasher};

/// A blob that comes wrong is fetched again this often.
pub(super) const REFETCHES: u32 = 2;

/// An inherited blob: out of the cache, where it is put first if it is not there. What is sent on
/// from there has been verified, so a damaged download never reaches a target.
pub(super) fn inherited(of: &Descriptor, place: &dyn Source, tools: &StoreAccess) -> Result<Stream> {
    let kept = match tools.cache.receive(of)? {
        Receiving::Present(file) => Some(file),
        Receiving::Nothing => None,
        Receiving::Partial(partial) => blob(of, place, partial, &tools.notices)?,
    };
    match kept {
        Some(file) => Ok(Box::new(file)),
        None => place.open(of, 0),
    }
}

/// Receives the whole blob, verified; `None` where the cache could not keep it.
fn blob(of: &Descriptor, place: &dyn Source, mut partial: Partial, notices: &Notices) -> Result<Option<File>> {
    for _ in 0..REFETCHES {
        let hashed = once(of, place, &mut partial)?;
        if is_right(of, hashed) {
            return partial.commit(hashed);
        }
        notices.warn(format!("blob {}: digest mismatch, fetching again", of.digest));
        partial.restart();
    }
    let hashed = once(of, place, &mut partial)?;
    if is_right(of, hashed) {
        return partial.commit(hashed);
    }
    partial.restart();
    Err(Error::integrity("blob does not match its digest").fact("expected", of.digest).fact("got", hashed.digest))
}

fn is_right(of: &Descriptor, hashed: Hashed) -> bool {
    hashed == Hashed { digest: of.digest, len: of.size }
}

fn once(of: &Descriptor, place: &dyn Source, partial: &mut Partial) -> Result<Hashed> {
    let failed = |error| Error::from_stream(error, "blob could not be read").fact("digest", of.digest);
    let mut hasher = Hasher::default();
    std::io::copy(&mut partial.prefix()?, &mut hasher).map_err(failed)?;
    let mut stream = place.open(of, hasher.len().min(of.size))?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        match stream.read(&mut buffer).map_err(failed)? {
            0 => return Ok(hasher.finish()),
            read => {
                let bytes = buffer.get(..read).unwrap_or_default();
                hasher.update(bytes);
                partial.append(bytes);
            }
        }
    }
}
