//! The invariant on layers, asserted on the final bytes before anything is published.

use crate::error::{Error, Result};
use crate::oci::{DiffId, Image};

/// `image` was read back from the bytes that would be published; `expected` comes from the inputs,
/// `written` from the layers that were made. A well-known tool silently drops the first application
/// layer when history is missing: this is where we would notice.
pub(super) fn check(image: &Image, expected: &[Option<DiffId>], written: &[DiffId]) -> Result<()> {
    let mut written = written.iter().copied();
    let whole: Vec<Option<DiffId>> = expected.iter().map(|id| id.or_else(|| written.next())).collect();
    let got: Vec<Option<DiffId>> = image.diff_ids().iter().copied().map(Some).collect();
    if got == whole && written.next().is_none() {
        return Ok(());
    }
    let at = got.iter().zip(&whole).take_while(|(ours, theirs)| ours == theirs).count();
    Err(Error::integrity("the layers of the result are not new base + kept + added; nothing was published")
        .fact("differs at", format!("layer {}", at + 1))
        .fact("expected", format!("{} layers", expected.len()))
        .fact("got", format!("{} layers", image.layers.len()))
        .hint("this is a bug in underpin, please report it with the report of `underpin plan --json`"))
}
