//! Passes in code, for tests of the stages from `plan` on.

use super::{Pass, RebaseOptions};
use crate::examine::Fetched;

/// The one platform of `fetched`, drafted with the layers that have been read.
pub fn pass(fetched: Fetched, options: &RebaseOptions) -> Pass {
    let Fetched { mut platforms, .. } = fetched;
    super::pass(platforms.remove(0), options)
}
