//! What the repositories of a host are known to hold, as the registry has said in this run, and whether it refuses a
//! manifest whose parts it lacks.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use crate::oci::{Digest, RepositoryName};
use crate::store::OfferWish;

/// A registry that never refuses is asked no more often than this.
const PROBES: u32 = 3;
/// After so many repositories in a row that had nothing of an image, the next ones are taken to be new, too.
const IN_VAIN: u32 = 3;

#[derive(Default)]
pub(super) struct Holdings {
    blobs: Mutex<HashMap<String, HashSet<Digest>>>,
    checks: Mutex<HashMap<String, PartsCheck>>,
}

/// What is known about one kind of repository. A host may serve several by the beginning of their names.
#[derive(Debug, Default, Clone, Copy)]
struct PartsCheck {
    published: u32,
    probes: u32,
    in_vain: u32,
    standing: CheckStanding,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum CheckStanding {
    #[default]
    Unknown,
    /// It has named every part that it lacked.
    Proven,
    /// It lacked a part that it did not name.
    Lacking,
}

impl Holdings {
    pub(super) fn has(&self, name: &RepositoryName, digest: Digest) -> bool {
        let blobs = self.blobs.lock().unwrap_or_else(PoisonError::into_inner);
        blobs.get(name.repository()).is_some_and(|held| held.contains(&digest))
    }

    pub(super) fn note(&self, name: &RepositoryName, digests: impl IntoIterator<Item = Digest>) {
        let mut blobs = self.blobs.lock().unwrap_or_else(PoisonError::into_inner);
        blobs.entry(name.repository().to_owned()).or_default().extend(digests);
    }

    /// What to do with the manifests of an image for this repository; each call is for one image. One image alone is
    /// published in fewer steps without, so the first of a run never is offered.
    pub(super) fn wish(&self, name: &RepositoryName) -> OfferWish {
        let is_known = self.blobs.lock().unwrap_or_else(PoisonError::into_inner).contains_key(name.repository());
        self.with_check(name, |check| {
            check.published += 1;
            match check.standing {
                _ if check.published == 1 || is_known => OfferWish::None,
                CheckStanding::Unknown if check.probes < PROBES => {
                    check.probes += 1;
                    OfferWish::Probe
                }
                CheckStanding::Proven if check.in_vain < IN_VAIN => OfferWish::Rely,
                _ => OfferWish::None,
            }
        })
    }

    /// The registry named all that it lacked, or it did not.
    pub(super) fn prove(&self, name: &RepositoryName, names_all: bool) {
        let standing = if names_all { CheckStanding::Proven } else { CheckStanding::Lacking };
        self.with_check(name, |check| {
            // One part that was not named outweighs any number that were.
            if check.standing != CheckStanding::Lacking {
                check.standing = standing;
            }
        });
    }

    /// How many of the parts of an image were found to be there.
    pub(super) fn note_offer(&self, name: &RepositoryName, were_there: usize) {
        self.with_check(name, |check| check.in_vain = if were_there == 0 { check.in_vain + 1 } else { 0 });
    }

    fn with_check<T>(&self, name: &RepositoryName, work: impl FnOnce(&mut PartsCheck) -> T) -> T {
        let kind = name.repository().split('/').next().unwrap_or_default();
        let mut checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        work(checks.entry(kind.to_owned()).or_default())
    }
}
