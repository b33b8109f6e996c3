//! What the repositories of a host are known to hold, as the registry has said in this run, and whether it refuses a
//! manifest whose parts it lacks.

use std::collections::{HashMap, HashSet};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::store::OfferWish;
use oci::{Digest, RepositoryName};

/// A registry that never refuses is asked no more often than this.
const PROBES: u32 = 3;
/// After so many repositories in a row that had nothing of an image, the next ones are taken to be new, too.
const IN_VAIN: u32 = 3;
/// Longer than that nobody waits for what another image finds out.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct Holdings {
    blobs: Mutex<HashMap<String, HashSet<Digest>>>,
    checks: Mutex<HashMap<String, PartsCheck>>,
    probe_ended: Condvar,
}

/// What is known about one kind of repository. A host may serve several by the beginning of their names.
#[derive(Debug, Default, Clone, Copy)]
struct PartsCheck {
    published: u32,
    probes: u32,
    is_probing: bool,
    /// Whether any repository had something, and how many have not since. Until then a question counts when it is asked.
    had_something: bool,
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
    /// published in fewer steps without, so the first of a run never is offered. Those that come while another one finds
    /// out about the registry wait for it: that is one request, and saves one for each layer.
    pub(super) fn wish(&self, name: &RepositoryName) -> OfferWish {
        let is_known = self.blobs.lock().unwrap_or_else(PoisonError::into_inner).contains_key(name.repository());
        let (kind, mut checks) = (kind(name), self.checks.lock().unwrap_or_else(PoisonError::into_inner));
        let check = checks.entry(kind.to_owned()).or_default();
        check.published += 1;
        if check.published == 1 || is_known {
            return OfferWish::None;
        }
        let is_probing = |checks: &mut HashMap<String, PartsCheck>| checks.get(kind).is_some_and(|it| it.is_probing);
        let waited = self.probe_ended.wait_timeout_while(checks, PATIENCE, is_probing);
        let (mut checks, _) = waited.unwrap_or_else(PoisonError::into_inner);
        checks.entry(kind.to_owned()).or_default().wish()
    }

    /// Whatever it found out: the next one may probe.
    pub(super) fn end_probe(&self, name: &RepositoryName) {
        self.with_check(name, |check| check.is_probing = false);
        self.probe_ended.notify_all();
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
        self.with_check(name, |check| match were_there {
            0 if check.had_something => check.note_in_vain(),
            0 => {}
            _ => (check.had_something, check.in_vain) = (true, 0),
        });
    }

    fn with_check<T>(&self, name: &RepositoryName, work: impl FnOnce(&mut PartsCheck) -> T) -> T {
        let mut checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        work(checks.entry(kind(name).to_owned()).or_default())
    }
}

impl PartsCheck {
    fn wish(&mut self) -> OfferWish {
        let wish = match self.standing {
            CheckStanding::Unknown if self.probes < PROBES && !self.is_probing => OfferWish::Probe,
            CheckStanding::Proven if self.in_vain < IN_VAIN => OfferWish::Rely,
            _ => OfferWish::None,
        };
        if wish == OfferWish::Probe {
            self.probes += 1;
            self.is_probing = true;
        }
        if wish != OfferWish::None && !self.had_something {
            self.note_in_vain();
        }
        wish
    }

    fn note_in_vain(&mut self) {
        self.in_vain += 1;
        self.had_something &= self.in_vain < IN_VAIN;
    }
}

fn kind(name: &RepositoryName) -> &str {
    name.repository().split('/').next().unwrap_or_default()
}
