//! What this process has published, for the signal that ends it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use oci::error::Result;

/// What a run has published so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Targets by digest that name the result.
    pub published: Vec<String>,
    /// Targets whose last request has been made, and not been answered.
    pub under_way: Vec<String>,
}

static STANDING: Mutex<Standing> = Mutex::new(Standing { published: Vec::new(), under_way: Vec::new() });

fn standing() -> MutexGuard<'static, Standing> {
    STANDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes `target` visible with `put`, unless that turns out not to. Once [`stop`] was called, it is not begun any more.
pub(super) fn published<T>(
    target: &str,
    put: impl FnOnce() -> Result<T>,
    is_visible: impl FnOnce(&T) -> bool,
) -> Result<T> {
    standing().under_way.push(target.to_owned());
    let outcome = put();
    let mut standing = standing();
    standing.under_way.retain(|it| it != target);
    if outcome.as_ref().is_ok_and(is_visible) {
        standing.published.push(target.to_owned());
    }
    outcome
}

/// What was published; from now on nothing is: this process is about to end.
#[must_use]
pub fn stop() -> Standing {
    let standing = standing();
    let found = standing.clone();
    // Never given back.
    std::mem::forget(standing);
    found
}
