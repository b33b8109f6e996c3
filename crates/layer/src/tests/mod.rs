//! Tests of reading layers as a whole.

mod corrupt_layer;
mod malformed_tar;
pub(super) mod other_readers;
