//! The invariant on layers, asserted on the final bytes before anything is published.

use crate::error::{Error, Result};
use crate::oci::{DiffId, Image};

/// `image` was read back from the bytes that would be published; `expected` comes from the inputs.
/// A well-known tool silently drops the first application layer when history is missing: this is
/// where we would notice.
pub(super) fn check(image: &Image, expected: &[DiffId]) -> Result<()> {
    if image.diff_ids() == expected {
        return Ok(());
    }
    let at = image.diff_ids().iter().zip(expected).take_while(|(ours, theirs)| ours == theirs).count();
    Err(Error::integrity("the layers of the result are not new base + kept + added; nothing was published")
        .fact("differs at", format!("layer {}", at + 1))
        .fact("expected", format!("{} layers", expected.len()))
        .fact("got", format!("{} layers", image.layers.len()))
        .hint("this is a bug in underpin, please report it with the report of `underpin plan --json`"))
}
