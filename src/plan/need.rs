//! Which further layers must be read before anything can be decided: those of both bases.
//!
//! What a process gets and what a program uses depends on files of the old root and of the new one, so
//! nothing is proven without both. An image that is based on the new base already has only one root.

use super::Need;
use crate::examine::{PlatformSubject, is_on_new_base};

/// The next need; `None` when everything is there.
#[must_use]
pub fn need(subject: &PlatformSubject) -> Option<Need> {
    if subject.base_layers.len() != subject.base.layers.len() {
        return Some(Need::NewBase);
    }
    let has_old = subject.old_layers.len() == subject.old_base.layers;
    (!has_old && !is_on_new_base(subject)).then_some(Need::OldBase)
}
